"""Pipelines: the stages put together; composition only. The entry is `medallion`, whose functions take a `job.Job`."""
