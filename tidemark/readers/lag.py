"""How far Silver is behind Kafka, per partition. Queries the brokers without Spark, unless librdkafka lacks the login."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bronze.kafka import metadata
from lakehouse.contracts.bronze import of_last_incarnations
from lakehouse.errors import ToolError
from tidemark.process import output
from tidemark.process.context import job_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings.pipeline import Kafka, Settings
    from pipelines.job import Job

    Row = Mapping[str, Any]

_SHOWN = 5


def partitions_in_kafka(partitions: Iterable[Row]) -> dict[tuple[str, int], Row]:
    """Return Silver's positions in the partitions that Kafka has now, by topic and partition as Kafka names them."""
    return of_last_incarnations({(row["topic"], row["partition"]): row for row in partitions})


def lags(kafka: Kafka, partitions: Iterable[Row], spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """Return the fields of `tidemark.answers.Lag` of each partition that Kafka has; `partitions` are those of a status.

    Transaction markers take up offsets too, so a partition that is read to its end may keep a lag of one.

    Raises:
        LoginError: librdkafka lacks the login, and no session is given.
        LookError: No broker can be queried, or a partition has no leader.
    """
    decided, rows = partitions_in_kafka(partitions), []
    for topic, seen in sorted(metadata.describe_topics(kafka, kafka.topics, spark).items()):
        stable_bounds = metadata.bounds(kafka, topic, seen.partitions, spark, is_committed=True)
        for partition, (earliest, end) in sorted(metadata.bounds(kafka, topic, seen.partitions, spark).items()):
            stable = min(end, stable_bounds[partition][1])
            last = decided[topic, partition]["last_offset"] if (topic, partition) in decided else None
            lag = max(0, stable - max(earliest, -1 if last is None else last + 1))
            row = {"topic": topic, "partition": partition, "last_offset": last, "end_offset": end, "lag": lag}
            rows.append({**row, "open_transaction": stable if stable < end else None})
    return rows


def with_lag(found: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Add to a status `lag`, see `lags`, or None and `lag_unknown` if no broker could be queried; and `topics_not_found`.

    Starts a session if librdkafka lacks the login.
    """
    try:
        with job_of(settings) as job:
            rows = lags_of(job, found["partitions"])
    except (metadata.LookError, ToolError) as error:
        return {**found, "lag": None, "lag_unknown": str(error), "topics_not_found": []}
    missing = sorted(set(settings.kafka.topics) - {row["topic"] for row in rows})
    return {**found, "lag": rows, "lag_unknown": None, "topics_not_found": missing}


def lags_of(job: Job, partitions: Iterable[Row]) -> list[dict[str, Any]]:
    """Return `lags`, with the job's session if librdkafka lacks the login."""
    try:
        return lags(job.settings.kafka, partitions)
    except metadata.LoginError:
        return lags(job.settings.kafka, partitions, job.spark)


def lag_sentence(found: dict[str, Any]) -> str:
    """Return the total lag in words.

    >>> held = {"topic": "t", "partition": 3, "lag": 0, "open_transaction": 17}
    >>> for rows in [{"lag": 1500, "open_transaction": None}, {"lag": 0, "open_transaction": None}], [held]:
    ...     lag_sentence({"lag": rows, "lag_unknown": None, "topics_not_found": []})
    'Lag: 1,500 offsets behind Kafka in 2 partitions.'
    'Lag: 0 offsets behind Kafka in 1 partitions. An open transaction holds back t/3 at offset 17.'
    >>> lag_sentence({"lag": None, "lag_unknown": "no answer"})
    'Lag: unknown; Kafka cannot be asked (no answer).'
    >>> lag_sentence({"lag": [], "lag_unknown": None, "topics_not_found": ["ordrs"]})
    'Lag: unknown; Kafka has no topic ordrs, or this login may not see it.'
    """
    if found["lag"] is None:
        return f"Lag: unknown; Kafka cannot be asked ({found['lag_unknown']})."
    lost = ", ".join(found["topics_not_found"])
    not_found = f"Kafka has no topic {lost}, or this login may not see it."
    if not found["lag"]:
        return f"Lag: unknown; {not_found}"
    behind = sum(row["lag"] for row in found["lag"])
    sentence = f"Lag: {behind:,} offsets behind Kafka in {len(found['lag']):,} partitions."
    held = [row for row in found["lag"] if row["open_transaction"] is not None]
    if held:
        listed = ", ".join(f"{row['topic']}/{row['partition']} at offset {row['open_transaction']}" for row in held[:_SHOWN])
        more = f" and {len(held) - _SHOWN:,} other partitions" if len(held) > _SHOWN else ""
        sentence += f" An open transaction holds back {listed}{more}."
    return f"{sentence} {not_found}" if lost else sentence


def write_lag(found: dict[str, Any]) -> None:
    """Print the lag of each partition as a table, and the total, on stdout."""
    if found["lag"]:
        output.write_rows(found["lag"], ("topic", "partition", "last_offset", "end_offset", "lag"), title="Behind Kafka")
    output.write(lag_sentence(found))
