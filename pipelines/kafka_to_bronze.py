"""Kafka to Bronze: every record as it was read, and its producer, epoch and sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bronze.ingest import ingest
from lakehouse.extract.sources import Sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def run(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Ingest what Kafka has; see `bronze.ingest.ingest` for what is committed and raised."""
    return vars(ingest(spark, run, settings.kafka, Sources.of(settings)))
