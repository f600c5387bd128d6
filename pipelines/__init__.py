"""Pipelines: stages put together. Composition only."""
