"""What Gold's tables hold, as pure functions of Silver, the ledger and the gate run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse import frames
from lakehouse.contracts.silver import CLASSES, STREAM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEQUENCE = ("epoch", "sequence")
"""What makes a record the latest of its key within a stream."""

_ARRIVAL = ("load_seq", "offset", "partition")
"""And between streams: the later load, in it the higher offset. The partition only settles a tie."""


def published(silver: DataFrame, gate_run_id: str) -> DataFrame:
    """Silver's rows as `gold_records` keeps them.

    Grain: a record. Columns: Silver's, and gate_run_id (string).
    """
    return silver.withColumn("gate_run_id", F.lit(gate_run_id))


def latest(records: DataFrame) -> DataFrame:
    """The latest record of each topic and key: of a stream the highest by sequence, of several streams the last to arrive.

    Grain: a topic and key; records without a key are left out, a tombstone is not. Columns: those given.

    Args:
        records: Rows as `published` gives them.
    """
    row = F.struct(*records.columns)
    keyed = records.where(F.col("key").isNotNull())
    of_stream = keyed.groupBy(*STREAM, "key").agg(F.max_by(row, F.struct(*_SEQUENCE)).alias("newest"))
    arrived = F.struct(*(F.col(f"newest.{name}") for name in _ARRIVAL))
    return of_stream.groupBy("topic", "key").agg(F.max_by("newest", arrived).alias("newest")).select("newest.*")


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


def merge_latest(target: str, source: str) -> str:
    """The MERGE that puts the latest records into `gold_latest`. Only a later record replaces another.

    A late record arrives after those that follow it in its stream, so within a stream the sequence decides.

    Args:
        target: The table, as SQL.
        source: A view of rows as `latest` gives them.
    """
    return f"""
        MERGE INTO {target} AS old USING {source} AS new
        ON old.topic = new.topic AND old.key = new.key
        WHEN MATCHED AND CASE WHEN old.partition = new.partition AND old.producer <=> new.producer
          THEN {_is_after(_SEQUENCE)} ELSE {_is_after(_ARRIVAL)} END THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """


def _is_after(columns: tuple[str, ...]) -> str:
    new, old = (f"struct({', '.join(f'{side}.{name}' for name in columns)})" for side in ("new", "old"))
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
