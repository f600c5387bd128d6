"""The contents of Gold's tables, as pure functions of Silver, the ledger and the gate run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import CLASSES, STREAM
from lakehouse.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEQUENCE = ("epoch", "sequence")
"""What decides the latest record of a key within a stream."""

_TIME = ("timestamp", "partition", "offset")
"""What decides between several streams: Kafka's timestamp, then the place. A null timestamp is the earliest."""


def published(silver: DataFrame, gate_run_id: str) -> DataFrame:
    """Silver's rows as `gold_records` keeps them.

    Grain: a record. Columns: Silver's, and gate_run_id (string).
    """
    return silver.withColumn("gate_run_id", F.lit(gate_run_id))


def latest(records: DataFrame) -> DataFrame:
    """The latest record of each topic and key: within a stream the highest by sequence, between streams the last by time.

    Grain: a topic and key; records without a key are left out, tombstones are not. Columns: those given.

    Args:
        records: Rows as `published` returns them, whole or only the columns of order and key.
    """
    return among_streams(by_stream(records))


def by_stream(records: DataFrame) -> DataFrame:
    """The record of each topic, key and stream with the highest (epoch, sequence). Columns: those given."""
    newest = F.max_by(F.struct(*records.columns), F.struct(*_SEQUENCE)).alias("newest")
    keyed = records.where(F.col("key").isNotNull())
    return keyed.groupBy(*STREAM, "key").agg(newest).select("newest.*")


def among_streams(of_streams: DataFrame) -> DataFrame:
    """The latest record of each topic and key, from the rows of `by_stream`: one for each stream that has the key."""
    newest = F.max_by(F.struct(*of_streams.columns), F.struct(*_TIME)).alias("newest")
    return of_streams.groupBy("topic", "key").agg(newest).select("newest.*")


def shared(of_streams: DataFrame) -> DataFrame:
    """The keys that are in more than one stream.

    Grain: a topic and key.

    Args:
        of_streams: Rows with topic, partition, producer and key, possibly repeated.
    """
    streams = of_streams.where(F.col("key").isNotNull()).select(*STREAM, "key").distinct()
    return streams.groupBy("topic", "key").count().where("count > 1").select("topic", "key")


def of_keys(rows: DataFrame, keys: DataFrame, *, how: str = "left_semi") -> DataFrame:
    """The rows whose topic and key are among those given; with `how="left_anti"`, those whose are not."""
    return rows.join(keys, on=["topic", "key"], how=how)


def candidates(records: DataFrame) -> DataFrame:
    """Which records can be the latest of their key, from keys and numbers alone: no whole row is read, sorted or shuffled.

    Grain: a stream, key and epoch. Columns: topic, partition, producer, key, epoch, and its highest sequence.

    Args:
        records: Rows as `published` returns them.
    """
    return records.where(F.col("key").isNotNull()).groupBy(*STREAM, "key", "epoch").agg(F.max("sequence").alias("sequence"))


def among(records: DataFrame, found: DataFrame) -> DataFrame:
    """The records that `candidates` found; there must be few, since they are broadcast."""
    return records.join(F.broadcast(found), on=frames.same_stream(records, found, *_SEQUENCE), how="left_semi")


def merge_by_stream(target: str, source: str) -> str:
    """The MERGE into `gold_latest_by_stream`. A record is replaced only by a higher one of the same stream.

    Args:
        target: The table, as SQL.
        source: A view of rows as `by_stream` returns them.
    """
    return f"""
        MERGE INTO {target} AS old USING {source} AS new
        ON old.topic = new.topic AND old.key = new.key AND {_IS_SAME_STREAM}
        WHEN MATCHED AND {_is_higher()} THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """


def merge_latest(target: str, source: str, *, up_to: int) -> str:
    """The MERGE into `gold_latest`.

    A record is replaced by a higher one of the same stream. One of another stream was chosen among all streams that have the
    key, so it replaces too, unless the old record came with a load after `up_to`: a slow publisher did not know of that one.

    Args:
        target: The table, as SQL.
        source: A view of rows: for a key in one stream its highest record, for other keys the latest of all streams.
        up_to: The last load that is published.
    """
    return f"""
        MERGE INTO {target} AS old USING {source} AS new
        ON old.topic = new.topic AND old.key = new.key
        WHEN MATCHED AND ({_is_higher()} OR NOT ({_IS_SAME_STREAM}) AND old.load_seq <= {up_to}) THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """


_IS_SAME_STREAM = "old.partition = new.partition AND old.producer <=> new.producer"


def _is_higher() -> str:
    new, old = (f"struct({', '.join(f'{side}.{name}' for name in _SEQUENCE)})" for side in ("new", "old"))
    return f"{new} > {old}"


def stream_health(ledger: DataFrame, silver: DataFrame, gate_run_id: str) -> DataFrame:
    """What happened to each stream in each load, for dashboards.

    Grain: a stream and load of the ledger.

    Args:
        ledger: Rows of `silver_loads`.
        silver: Rows of `silver_records` of the same loads. If there is a payload, `value` is only tested for null.
        gate_run_id: The gate run that let the loads out.

    Returns:
        The columns of `lakehouse.contracts.gold.STREAM_HEALTH`. undecodable and newest_record_at come from Silver's rows, the
        rest from the ledger.
    """
    undecodable = F.lit(False)
    if "payload" in silver.columns:
        undecodable = F.col("payload").isNull() & F.col("value").isNotNull()
    found = silver.groupBy(*STREAM, "load_seq").agg(
        F.count_if(undecodable).alias("undecodable"), F.max("timestamp").alias("newest_record_at")
    )
    counts = ("records", *CLASSES, "missing", "jumps_forward", "jumps_backward")
    return ledger.join(found, on=frames.same_stream(ledger, found, "load_seq"), how="left").select(
        *(ledger[name] for name in (*STREAM, "load_seq", *counts, "last_offset", "claimed_at")),
        ledger["epoch_after"].alias("epoch"),
        ledger["high_watermark_after"].alias("high_watermark"),
        F.coalesce(found["undecodable"], F.lit(0).cast("bigint")).alias("undecodable"),
        found["newest_record_at"],
        F.lit(gate_run_id).alias("gate_run_id"),
        F.current_timestamp().alias("published_at"),
    )
