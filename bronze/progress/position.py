"""Where Bronze stands before a run: its version, its topics, its checkpoint."""

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
    """Where Bronze stands.

    Attributes:
        version: The Delta version of `bronze_records`.
        streamed: The last micro-batch in it; None where there is none.
        topics: What is known of the topics, by their names in Kafka.
        checkpoint: The checkpoint to go on with.
    """

    version: int
    streamed: Streamed | None
    topics: Mapping[str, Topic]
    checkpoint: Checkpoint

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever committed to the table. Every micro-batch commits, that of an empty topic too."""
        return self.version == 0

    @property
    def renamed(self) -> dict[str, str]:
        """The name in the tables of each topic that has another one than in Kafka."""
        return {name: topic.stored_as for name, topic in self.topics.items() if topic.stored_as != name}


def read(spark: SparkSession, run: Run, *, is_dry_run: bool = False) -> Standing:
    """Read where Bronze stands. Creates `bronze_topics` where it is not there yet, unless nothing may be written.

    Raises:
        TableMissingError: `bronze_records` is not there; or `bronze_topics`, and nothing may be written.
    """
    version, streamed = tables.streamed(spark, run.table(BRONZE_RECORDS))
    try:
        known = topic_registry.read(spark, run)
    except TableMissingError:
        if is_dry_run:
            raise
        known = topic_registry.create(spark, run, is_new=version == 0)
    first = max((topic.checkpoint for topic in known.values()), default=1)
    chosen = checkpoints.choose(spark, run, first=first, streamed=streamed, is_new=version == 0)
    if streamed is None and chosen.query_id is not None and version:
        streamed = tables.last_batch(spark, run.table(BRONZE_RECORDS), chosen.query_id)
    return Standing(version, streamed, known, chosen)
