"""Kafka to Bronze: every record as it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bronze.ingest import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def run(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Ingest what Kafka has; see `bronze.ingest.ingest` for what is committed and raised."""
    return vars(ingest(spark, run, settings.kafka))
