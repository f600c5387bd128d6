"""`gold_latest` and `gold_latest_by_stream`: merged with each publish, or rebuilt from all of `gold_records`.

Within a stream the sequence orders a key's records; between streams the timestamp does. The orders may disagree, so
`gold_latest_by_stream` keeps the last record of each stream for keys in several streams (decision 0043).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from gold import rows as gold_rows
from lakehouse.contracts.silver import STREAM
from lakehouse.delta import small_tables, tables
from lakehouse.protocol import cutover_fence
from lakehouse.run.context import Run
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import frames
from lakehouse.table import GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_RECORDS

_MOST_KEYS = 200_000
"""Limit on the keys that are collected to the driver."""
_INCREMENT = "tidemark_increment"


def is_by_current_rule(spark: SparkSession, run: Run) -> bool:
    """Whether `gold_latest`, if it exists, follows the current rule. Tidemark 0.1 kept the record that arrived last."""
    return tables.exists(spark, run.table(GOLD_LATEST_BY_STREAM)) or not tables.exists(spark, run.table(GOLD_LATEST))


class Keys(NamedTuple):
    """The keys of new records that occur in several streams, including known rows, or None; and both tables' rows, pinned."""

    in_several: DataFrame | None
    known: list[DataFrame]


def find_keys(spark: SparkSession, run: Run, records: DataFrame) -> Keys:
    """Find the keys of published records that `merge` has to compare between streams. Commits nothing."""
    known = [_at_latest_version(spark, run, GOLD_LATEST)]
    if small_tables.highest(spark, run.table(GOLD_LATEST_BY_STREAM), "load_seq"):
        known.append(_at_latest_version(spark, run, GOLD_LATEST_BY_STREAM))
    streams, keys = records.select(*STREAM, "key"), records.select("topic", "key").distinct()
    for each in known:
        streams = streams.unionByName(gold_rows.of_keys(each.select(*STREAM, "key"), keys))
    shared = gold_rows.shared(streams)
    found = shared.limit(_MOST_KEYS + 1).toArrow()
    if not len(found):
        return Keys(None, known)
    return Keys(shared if len(found) > _MOST_KEYS else frames.of_arrow(spark, found), known)


def merge(spark: SparkSession, run: Run, records: DataFrame, keys: Keys, *, up_to: int) -> None:
    """Merge the latest of some published records into both tables. A repeat, even over more records, gives the same rows.

    Commits to gold_latest_by_stream if a key is in several streams, then to gold_latest. Raises an `UndoneError` if a restore
    or rebuild came after load `up_to`.
    """
    newest, shared = gold_rows.by_stream(records), keys.in_several
    merge_latest = partial(gold_rows.merge_latest, up_to=up_to)
    merge_into = partial(_merge, spark, run, up_to)
    if shared is None:
        merge_into(GOLD_LATEST, merge_latest, newest)
        return
    rows = gold_rows.of_keys(newest, shared)
    for each in keys.known:
        rows = rows.unionByName(gold_rows.of_keys(each, shared))
    merge_into(GOLD_LATEST_BY_STREAM, gold_rows.merge_by_stream, gold_rows.by_stream(rows))
    crash_point("gold.by_stream")
    chosen = gold_rows.among_streams(gold_rows.of_keys(_at_latest_version(spark, run, GOLD_LATEST_BY_STREAM), shared))
    others = gold_rows.of_keys(newest, shared, how="left_anti")
    merge_into(GOLD_LATEST, merge_latest, others.unionByName(chosen))


def rebuild(spark: SparkSession, run: Run, *, up_to: int) -> None:
    """Rebuild both tables from `gold_records`, in one commit each, gold_latest first. Raises as `merge`."""
    records = _at_latest_version(spark, run, GOLD_RECORDS)
    newest = gold_rows.by_stream(records)
    tables.overwrite(cutover_fence.guarded(gold_rows.among_streams(newest), run, up_to), run.table(GOLD_LATEST))
    crash_point("gold.latest_anew")
    in_several = gold_rows.of_keys(newest, gold_rows.shared(records))
    tables.overwrite(cutover_fence.guarded(in_several, run, up_to), run.table(GOLD_LATEST_BY_STREAM))
    run.report.event("gold.latest_made_anew")


def _at_latest_version(spark: SparkSession, run: Run, name: str) -> DataFrame:
    table = run.table(name)
    return tables.read(spark, table, version=tables.version(spark, table))


def _merge(  # noqa: PLR0913, PLR0917 -- the parts of a MERGE; partial binds the first three
    spark: SparkSession, run: Run, up_to: int, name: str, statement: Callable[[str, str], str], rows: DataFrame
) -> None:
    cutover_fence.guarded(rows, run, up_to).createOrReplaceTempView(_INCREMENT)
    try:
        tables.merge(spark, statement(run.table(name).sql, _INCREMENT), run.table(name))
    finally:
        spark.catalog.dropTempView(_INCREMENT)
