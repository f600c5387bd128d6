"""Kafka to Bronze: every record unchanged, with its producer, epoch and sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bronze import ingest
from lakehouse.extract.sources import Sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def run(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Ingest the available records; see `bronze.ingest.ingest` for commits and errors."""
    return vars(ingest.ingest(spark, run, settings.kafka, Sources.of(settings)))


def require_bronze(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Raise the errors that `run` would raise before it reads; see `bronze.ingest.require_readable_topics`."""
    ingest.require_readable_topics(spark, run, settings.kafka)
