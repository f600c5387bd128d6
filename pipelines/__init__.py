"""Pipelines compose the stages. The entry is `medallion`, whose functions take a `job.Job`."""
