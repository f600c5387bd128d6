"""Bronze's position before a run: its version, its topics, its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bronze.progress import checkpoint as checkpoints
from bronze.progress import topic_registry
from lakehouse.delta import tables
from lakehouse.errors import TableMissingError
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from bronze.progress.checkpoint import Checkpoint
    from bronze.progress.topic_registry import Topic
    from lakehouse.delta.tables import Streamed
    from lakehouse.run.context import Run


@dataclass(frozen=True)
class Standing:
    """Bronze's position; `streamed` is the last micro-batch in the table, and `topics` are by name in Kafka."""

    version: int
    streamed: Streamed | None
    topics: Mapping[str, Topic]
    checkpoint: Checkpoint

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever committed to the table. Every micro-batch commits, even that of an empty topic."""
        return self.version == 0

    @property
    def renamed(self) -> dict[str, str]:
        """Map Kafka's name to the name in the tables, for topics whose names differ."""
        return {name: topic.stored_as for name, topic in self.topics.items() if topic.stored_as != name}


def read(spark: SparkSession, run: Run, *, is_dry_run: bool = False) -> Standing:
    """Read Bronze's position. Creates `bronze_topics` if it does not exist, unless this is a dry run.

    A `bronze_records` that does not exist raises a `TableMissingError`; in a dry run it counts as one without a commit.
    """
    bronze = run.table(BRONZE_RECORDS)
    is_there = not is_dry_run or tables.exists(spark, bronze)
    version, streamed = tables.streamed(spark, bronze) if is_there else (0, None)
    try:
        known = topic_registry.read(spark, run)
    except TableMissingError:
        if not is_dry_run:
            topic_registry.create(spark, run)
        known = topic_registry.of_records(spark, run) if version else {}
    return _at(spark, run, version, streamed, known)


def with_topics(spark: SparkSession, run: Run, standing: Standing, topics: Mapping[str, Topic]) -> Standing:
    """Return the position with these topics in `bronze_topics` as well."""
    return _at(spark, run, standing.version, standing.streamed, {**standing.topics, **topics})


def _at(spark: SparkSession, run: Run, version: int, streamed: Streamed | None, known: Mapping[str, Topic]) -> Standing:
    first = max((topic.checkpoint for topic in known.values()), default=1)
    chosen = checkpoints.choose(spark, run, first=first, streamed=streamed, is_new=version == 0)
    if streamed is None and chosen.query_id is not None and version:
        streamed = tables.last_batch(spark, run.table(BRONZE_RECORDS), chosen.query_id)
    return Standing(version, streamed, known, chosen)
