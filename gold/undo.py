"""Remove rows from Gold: rows of rolled-back loads, of a rejected range, of an erased key, or of an undone decision."""

from dataclasses import astuple, dataclass

from pyspark.sql import SparkSession

from gold.latest import is_by_current_rule, rebuild
from lakehouse.contracts.silver import DISCARDED, HELD
from lakehouse.delta import tables
from lakehouse.run.context import Run
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import frames
from lakehouse.table import GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_RECORDS, GOLD_REJECTS, GOLD_STREAM_HEALTH, SILVER_RECORDS


def withdraw(spark: SparkSession, run: Run, *, keep_to: int, undo_to: int, by_load_seq: int) -> None:
    """Remove the rows of the loads after `keep_to` up to `undo_to`. A repeat changes nothing.

    A key that loses its latest record gets the latest remaining one. Commits to gold_records, gold_latest,
    gold_latest_by_stream and gold_stream_health, in this order; the last commit changes what is published.

    Raises:
        AnotherWriterError: Another run publishes at the same time.
        UndoneError: Another restore or rebuild was claimed after `by_load_seq`, the load that rolls them back.
    """
    health = run.table(GOLD_STREAM_HEALTH)
    if not tables.exists(spark, health):
        return
    undone = f"load_seq > {keep_to} AND load_seq <= {undo_to}"
    tables.delete(spark, run.table(GOLD_RECORDS), undone)
    crash_point("gold.withdrawn")
    if not is_by_current_rule(spark, run) or any(
        not spark.read.table(run.table(name).sql).where(undone).isEmpty() for name in (GOLD_LATEST, GOLD_LATEST_BY_STREAM)
    ):
        rebuild(spark, run, up_to=by_load_seq)
    tables.delete(spark, health, undone)
    run.report.event("gold.withdrawn", keep_to=keep_to, undo_to=undo_to)


_KEY_VIEW = "tidemark_amended"


@dataclass(frozen=True)
class ErasedKey:
    """A key that load `before_load_seq` erased from earlier loads: SHA-256 of the salt and the key, all hexadecimal."""

    topic: str
    key_sha256: str
    salt: str
    is_of_all_incarnations: bool
    before_load_seq: int


def remove_key(spark: SparkSession, run: Run, key: ErasedKey) -> None:
    """Delete an erased key's records, with one MERGE per table that holds any, then discard its held rejects."""
    columns = "topic string, key_sha256 string, salt string, is_of_all_incarnations boolean, before_load_seq bigint"
    erase = frames.of_tuples(spark, [astuple(key)], columns)
    erase.createOrReplaceTempView(_KEY_VIEW)
    is_of_topic = (
        "(record.topic = erase.topic OR (erase.is_of_all_incarnations AND startswith(record.topic, concat(erase.topic, '@'))))"
    )
    is_meant = (
        f"{is_of_topic} AND sha2(concat(unhex(erase.salt), record.key), 256) = erase.key_sha256 "
        "AND record.load_seq < erase.before_load_seq"
    )
    try:
        for name in (GOLD_LATEST_BY_STREAM, GOLD_LATEST, GOLD_RECORDS):
            table = run.table(name)
            found = f"SELECT 1 FROM {table.sql} AS record JOIN {_KEY_VIEW} AS erase ON {is_meant} LIMIT 1"  # noqa: S608 -- names of ours
            if tables.exists(spark, table) and spark.sql(found).collect():
                tables.merge(
                    spark,
                    f"MERGE INTO {table.sql} AS record USING {_KEY_VIEW} AS erase ON {is_meant} WHEN MATCHED THEN DELETE",
                    table,
                )
                run.report.event("gold.erased", table=name, load_seq=key.before_load_seq)
            crash_point(f"erase.{name}")
    finally:
        spark.catalog.dropTempView(_KEY_VIEW)
    _discard_rejects(spark, run, key.before_load_seq)


def _discard_rejects(spark: SparkSession, run: Run, load_seq: int) -> None:
    """Discard the held rejects of erased records. Their rows stay, because they hold no record content."""
    rejects = run.table(GOLD_REJECTS)
    if not tables.exists(spark, rejects):
        return
    tables.merge(
        spark,
        f"""
        MERGE INTO {rejects.sql} AS reject
        USING (SELECT topic, partition, offset FROM {run.table(SILVER_RECORDS).sql} WHERE erased.load_seq = {load_seq}) AS gone
        ON reject.topic = gone.topic AND reject.partition = gone.partition AND reject.offset = gone.offset
          AND reject.state = '{HELD}'
        WHEN MATCHED THEN UPDATE SET state = '{DISCARDED}', settled_load_seq = {load_seq}
        """,  # noqa: S608 -- names of ours, a number
        rejects,
    )
    crash_point("erase.gold_rejects")


def undo_decisions(spark: SparkSession, run: Run, *, keep_to: int, undo_to: int) -> None:
    """Set rejects that rolled-back loads settled back to held, and delete the rejects of those loads."""
    rejects = run.table(GOLD_REJECTS)
    if not tables.exists(spark, rejects):
        return
    tables.delete(spark, rejects, f"load_seq > {keep_to} AND load_seq <= {undo_to}")
    undone = f"settled_load_seq > {keep_to} AND settled_load_seq <= {undo_to}"
    again = f"UPDATE {rejects.sql} SET state = '{HELD}', settled_load_seq = NULL WHERE {undone}"  # noqa: S608 -- as above
    tables.merge(spark, again, rejects)
