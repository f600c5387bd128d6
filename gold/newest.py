"""The latest record of each key among many, sought by keys and numbers first, so that no whole row is sorted: decision 0034."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gold import models
from lakehouse import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_KEYS = 200_000
"""More of them are not handed to the driver: nearly every record is the latest of its key then."""


def newest(spark: SparkSession, records: DataFrame) -> DataFrame:
    """The rows of `gold.models.latest`, by a job of its own first and then, where keys are few, over few rows.

    Args:
        spark: The session.
        records: Rows as `gold.models.published` gives them, pinned: they are read twice.
    """
    found = models.candidates(records).limit(_MOST_KEYS + 1).toArrow()
    if len(found) > _MOST_KEYS:
        return models.latest(records)
    return models.latest(models.among(records, frames.of_arrow(spark, found)))
