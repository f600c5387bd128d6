"""What Gold's tables hold, as pure functions of Silver, the ledger and the gate run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import CLASSES, STREAM
from lakehouse.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEQUENCE = ("epoch", "sequence")
"""What makes a record the latest of its key within a stream."""

_TIME = ("timestamp", "partition", "offset")
"""And which of several streams' it is: Kafka's time of the record, its place where they are equal. No time comes before any."""


def published(silver: DataFrame, gate_run_id: str) -> DataFrame:
    """Silver's rows as `gold_records` keeps them.

    Grain: a record. Columns: Silver's, and gate_run_id (string).
    """
    return silver.withColumn("gate_run_id", F.lit(gate_run_id))


def latest(records: DataFrame) -> DataFrame:
    """The latest record of each topic and key: of each stream the highest by sequence, of several streams' the last by time.

    Grain: a topic and key; records without a key are left out, a tombstone is not. Columns: those given.

    Args:
        records: Rows as `published` gives them, whole or only what order and key are in.
    """
    return among_streams(by_stream(records))


def by_stream(records: DataFrame) -> DataFrame:
    """The record of each topic, key and stream with the highest (epoch, sequence). Columns: those given."""
    newest = F.max_by(F.struct(*records.columns), F.struct(*_SEQUENCE)).alias("newest")
    keyed = records.where(F.col("key").isNotNull())
    return keyed.groupBy(*STREAM, "key").agg(newest).select("newest.*")


def among_streams(of_streams: DataFrame) -> DataFrame:
    """The latest record of each topic and key. Takes rows as `by_stream` gives them, one of each stream that has the key."""
    newest = F.max_by(F.struct(*of_streams.columns), F.struct(*_TIME)).alias("newest")
    return of_streams.groupBy("topic", "key").agg(newest).select("newest.*")


def shared(of_streams: DataFrame) -> DataFrame:
    """The keys that more than one stream has.

    Grain: a topic and key.

    Args:
        of_streams: Rows with topic, partition, producer and key, as often as may be.
    """
    streams = of_streams.where(F.col("key").isNotNull()).select(*STREAM, "key").distinct()
    return streams.groupBy("topic", "key").count().where("count > 1").select("topic", "key")


def of_keys(rows: DataFrame, keys: DataFrame, *, how: str = "left_semi") -> DataFrame:
    """The rows that have one of some topics and keys; with `how="left_anti"` those that have none."""
    return rows.join(keys, on=["topic", "key"], how=how)


def candidates(records: DataFrame) -> DataFrame:
    """Which records can be the latest of their key, by keys and numbers alone: no whole row is read, sorted or shuffled.

    Grain: a stream, key and epoch. Columns: topic, partition, producer, key, epoch, and its highest sequence.

    Args:
        records: Rows as `published` gives them.
    """
    return records.where(F.col("key").isNotNull()).groupBy(*STREAM, "key", "epoch").agg(F.max("sequence").alias("sequence"))


def among(records: DataFrame, found: DataFrame) -> DataFrame:
    """The records that `candidates` has found, which are few."""
    return records.join(F.broadcast(found), on=frames.same_stream(records, found, *_SEQUENCE), how="left_semi")


def merge_by_stream(target: str, source: str) -> str:
    """The MERGE that puts records into `gold_latest_by_stream`. Only a higher one of the same stream replaces another.

    Args:
        target: The table, as SQL.
        source: A view of rows as `by_stream` gives them.
    """
    return f"""
        MERGE INTO {target} AS old USING {source} AS new
        ON old.topic = new.topic AND old.key = new.key AND {_IS_SAME_STREAM}
        WHEN MATCHED AND {_is_higher()} THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """


def merge_latest(target: str, source: str, *, up_to: int) -> str:
    """The MERGE that puts the latest records into `gold_latest`.

    Of the same stream only a higher one replaces another. One of another stream was chosen among all streams that have the key;
    what a later load brought was not known to who comes too late, and stays.

    Args:
        target: The table, as SQL.
        source: A view of rows: of a key that one stream has its highest record, of another the latest of all streams.
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
        silver: Rows of `silver_records` of the same loads. Where there is a payload, `value` is looked at for being null.
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


def model_query(text: str) -> str:
    r"""An operator's query as something that can only be a query: a statement that writes is a syntax error in brackets.

    >>> print(model_query("SELECT 1 -- one\n;\n"))
    SELECT * FROM (
    SELECT 1 -- one
    )
    """
    return f"SELECT * FROM (\n{text.strip().rstrip(';').rstrip()}\n)"  # noqa: S608 -- the operator's own file
