"""Silver's last offsets, committed as a consumer group's, so that Kafka's own tools show the pipeline's lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bronze.kafka import consumer_group
from lakehouse.contracts.bronze import of_last_incarnations
from silver.state import watermarks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def commit(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Commit the offset after the last decided one of every partition, if `kafka.commit_group` names a group.

    All partitions are committed each time, so that the next run makes up for a failed commit, and a restore shows. A failure
    does not fail the run: the outcome is reported as silver.group_committed or silver.group_commit_failed.
    """
    group, topics = settings.kafka.commit_group, settings.kafka.topics
    if group is None:
        return
    stands = of_last_incarnations(watermarks.read(spark, run).last_offsets())
    next_offsets = {(topic, partition): last + 1 for (topic, partition), last in stands.items() if topic in topics}
    if not next_offsets:
        return
    try:
        consumer_group.commit(settings.kafka, group, next_offsets)
    except consumer_group.CommitError as error:
        run.report.event("silver.group_commit_failed", group=group, why=str(error))
    else:
        run.report.event("silver.group_committed", group=group, partitions=len(next_offsets))
