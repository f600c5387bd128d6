"""Topics that a run skips because they cannot be read, where `kafka.on_unreadable_topic` is skip.

A topic of the last micro-batch is assumed to be readable: if it is not, the query fails, names it, and runs again without it.
Any other topic is checked first. So a topic that stays unreadable does not fail a query in each run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bronze.kafka.errors import CORRUPT, MISSING, NO_RIGHT, failure, malformed_timestamp, refusal
from bronze.kafka.metadata import LookError
from bronze.kafka.source import reader_options
from bronze.progress import corrupt_batches, topic_breaks, topic_registry
from bronze.progress.start_offsets import restrict_to_topics
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import BatchCorruptError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from bronze.kafka.metadata import Seen
    from bronze.progress.position import Standing
    from lakehouse.contracts.bronze import LostRange
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Kafka


def find(spark: SparkSession, run: Run, kafka: Kafka, standing: Standing, seen: Mapping[str, Seen]) -> dict[str, SourceError]:
    """Return the topics that certainly cannot be read, each with its error. Commits nothing. `seen`: see `start_offsets`.

    Raises:
        SourceError: Kafka itself cannot be read.
    """
    planned = standing.checkpoint.planned
    found: dict[str, SourceError] = {}
    for name in kafka.topics:
        alone = restrict_to_topics(kafka, (name,))
        known = {name: standing.topics[name]} if name in standing.topics else {}
        try:
            topic_breaks.require_same(known, seen, where=kafka.bootstrap_servers)
            if seen and name not in seen:
                require_record(spark, alone)
            skipped = known[name].skipped if known else None
            if skipped is not None or (planned is not None and name not in planned):
                with suppress(LookError):  # then a read reports the error
                    topic_breaks.require_unbroken(spark, run, restrict_to_topics(kafka, tuple(known)), standing)
                require_record(spark, alone)
                _require_whole(spark, alone, skipped or ())
        except SourceError as error:
            if not error.topics:
                raise
            found[name] = error
    return found


def named(spark: SparkSession, kafka: Kafka, error: SourceError) -> dict[str, SourceError]:
    """Return the topics that a read error concerns, each with its error. Spark does not name every forbidden topic."""
    if error.topics or error.what not in (MISSING.what, NO_RIGHT.what):
        return dict.fromkeys(error.topics, error)
    found: dict[str, SourceError] = {}
    for name in kafka.topics:
        try:
            require_record(spark, restrict_to_topics(kafka, (name,)))
        except SourceError as of_topic:
            if of_topic.topics:
                found[name] = of_topic
    return found


def write(spark: SparkSession, run: Run, standing: Standing, found: Mapping[str, SourceError]) -> None:
    """Report each skipped topic, and record it in `bronze_topics`, see `topic_registry.write_skipped`."""
    for name, error in found.items():
        run.report.event("bronze.topic_failed", topic=name, why=error.what, observed=error.observed, next=error.next_step)
    topic_registry.write_skipped(spark, run, standing.topics, found)


def require_record(spark: SparkSession, kafka: Kafka) -> None:
    """Read one record with Spark's own client, whose properties and rights differ from those of the metadata client.

    Raises:
        SourceError: The topics cannot be read.
    """
    options = {**reader_options(kafka), "groupIdPrefix": "spark-kafka-source"}
    options.pop("maxOffsetsPerTrigger", None)
    try:
        spark.read.format("kafka").options(**options).load().select("offset").limit(1).collect()
    except SPARK_ERRORS as error:
        if malformed_timestamp(error) is not None:  # such a record is read outside Spark
            return
        refused = failure(error, kafka, "")
        if not isinstance(refused, BatchCorruptError):  # the earliest batch: Bronze may have read it long ago
            raise refused from None


def _require_whole(spark: SparkSession, kafka: Kafka, noted: Iterable[LostRange]) -> None:
    for batch in noted:
        (name,) = kafka.topics
        span = (batch.first_offset, batch.last_offset + 1)
        if (left := corrupt_batches.first(spark, kafka, (name, batch.partition), span)) is not None:
            raise topic_breaks.named_batch(refusal(CORRUPT, "", kafka, ""), name, left)
