"""The settings as typed models. The entry is `pipeline.Settings`. Nothing here imports Spark."""
