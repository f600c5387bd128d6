"""The contents of Gold's tables, as pure functions of Silver, the ledger and the gate run."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts.silver import CLASSES, STREAM
from lakehouse.spark import frames

_SEQUENCE = ("epoch", "sequence")
_TIME = ("timestamp", "partition", "offset")
"""The order between streams: Kafka's timestamp, then the place. A null timestamp is the earliest."""


def published(silver: DataFrame, gate_run_id: str) -> DataFrame:
    """Return Silver's rows in the columns of `gold_records`, with gate_run_id (string). Grain: a record."""
    return silver.withColumn("gate_run_id", F.lit(gate_run_id))


def by_stream(records: DataFrame) -> DataFrame:
    """Return the record of each topic, key and stream with the highest (epoch, sequence).

    Drops records without a key; keeps tombstones. Columns: those given.
    """
    newest = F.max_by(F.struct(*records.columns), F.struct(*_SEQUENCE)).alias("newest")
    keyed = records.where(F.col("key").isNotNull())
    return keyed.groupBy(*STREAM, "key").agg(newest).select("newest.*")


def among_streams(of_streams: DataFrame) -> DataFrame:
    """Return the latest record by time of each topic and key, from the rows of `by_stream`."""
    newest = F.max_by(F.struct(*of_streams.columns), F.struct(*_TIME)).alias("newest")
    return of_streams.groupBy("topic", "key").agg(newest).select("newest.*")


def shared(of_streams: DataFrame) -> DataFrame:
    """Return the topics and keys that are in more than one stream."""
    streams = of_streams.where(F.col("key").isNotNull()).select(*STREAM, "key").distinct()
    return streams.groupBy("topic", "key").count().where("count > 1").select("topic", "key")


def of_keys(rows: DataFrame, keys: DataFrame, *, how: str = "left_semi") -> DataFrame:
    """Return the rows whose topic and key are in `keys`; with `how="left_anti"`, the others."""
    return rows.join(keys, on=["topic", "key"], how=how)


def merge_by_stream(target: str, source: str) -> str:
    """Build the MERGE of `by_stream` rows into `gold_latest_by_stream`. Only a higher record of the stream replaces a row."""
    return _merge_where(target, source, f"{_IS_SAME_KEY} AND {_IS_SAME_STREAM}", _is_higher())


def merge_latest(target: str, source: str, *, up_to: int) -> str:
    """Build the MERGE into `gold_latest`: a record replaces a lower one of its stream.

    It also replaces a record of another stream: `among_streams` has already compared all streams of the key. A record of a load
    after `up_to` stays, because a slow publisher does not know it.
    """
    is_replaced = f"({_is_higher()} OR NOT ({_IS_SAME_STREAM}) AND old.load_seq <= {up_to})"
    return _merge_where(target, source, _IS_SAME_KEY, is_replaced)


def _merge_where(target: str, source: str, is_same: str, is_replaced: str) -> str:
    return f"""
        MERGE INTO {target} AS old USING {source} AS new ON {is_same}
        WHEN MATCHED AND {is_replaced} THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """


_IS_SAME_KEY = "old.topic = new.topic AND old.key = new.key"
_IS_SAME_STREAM = "old.partition = new.partition AND old.producer <=> new.producer"


def _is_higher() -> str:
    new, old = (f"struct({', '.join(f'{side}.{name}' for name in _SEQUENCE)})" for side in ("new", "old"))
    return f"{new} > {old}"


def stream_counts(silver: DataFrame) -> DataFrame:
    """Count Silver's undecodable rows (bigint), and find the newest_record_at (timestamp). Grain: a stream and load."""
    undecodable = F.lit(False)
    if "payload" in silver.columns:
        undecodable = F.col("payload").isNull() & F.col("value").isNotNull()
    return silver.groupBy(*STREAM, "load_seq").agg(
        F.count_if(undecodable).alias("undecodable"), F.max("timestamp").alias("newest_record_at")
    )


def stream_health(ledger: DataFrame, found: DataFrame, gate_run_id: str) -> DataFrame:
    """Return the outcome of each stream in each load. Grain: a stream and load of the ledger.

    The columns are `lakehouse.contracts.gold.STREAM_HEALTH`: those of `stream_counts`, `found`, and the rest from the ledger.
    """
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
