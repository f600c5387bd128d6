"""Contracts, settings and engine code that all layers share. Imports no layer."""

__version__ = "0.1.0"
