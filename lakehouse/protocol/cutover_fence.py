"""Fence between a cutover (a restore or rebuild) and earlier claims. A stale process that resumes later writes nothing.

Another process may still execute loads that a cutover rolls back. A check before a commit would not stop it; these do:

- The cutover commits to Silver's records and rejects under its own number. Delta accepts an append only under a number
  above all earlier ones. So an append of a rolled-back load is skipped, or conflicts.
- A MERGE, or a write to Gold, cannot carry the load's number. Its rows are `guarded`: the statement itself reads the ledger
  in its transaction, and fails if a cutover is claimed above the load.
- The cutover may be claimed between that read and the commit. So after its claim, and before it changes anything, it changes
  a property of each table. A transaction that began earlier conflicts with that; a later one sees the claim.
"""

from pyspark.sql import DataFrame, SparkSession

from lakehouse.contracts.silver import CUTOVERS
from lakehouse.delta import tables
from lakehouse.delta.errors import OVERTAKEN, UNDONE
from lakehouse.delta.tables import Transaction
from lakehouse.errors import UndoneError
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS, TABLE_NAMES

_APPENDED_TO = (SILVER_RECORDS, SILVER_REJECTS)
_MERGED_INTO = (*_APPENDED_TO, *(name for name in TABLE_NAMES if name.startswith("gold_")))
_PROPERTY = "tidemark.swap"


def guarded(rows: DataFrame, run: Run, load_seq: int) -> DataFrame:
    """Return rows that cannot be written once a cutover is claimed above a load: their statement raises an `UndoneError`."""
    cutovers = f"SELECT count(*) FROM {run.table(SILVER_LOADS).sql} WHERE {_cutovers_above(load_seq)}"  # noqa: S608 -- a name of ours and a number
    return rows.where(f"assert_true(({cutovers}) = 0, '{UNDONE}') IS NULL")


def unclaimed(rows: DataFrame, run: Run, load_seq: int) -> DataFrame:
    """Return ledger rows that can be written only if no load above this one was claimed; see `guarded`."""
    later = f"SELECT count(*) FROM {run.table(SILVER_LOADS).sql} WHERE load_seq > {load_seq}"  # noqa: S608 -- a name of ours and a number
    return rows.where(f"assert_true(({later}) = 0, '{OVERTAKEN}') IS NULL")


def close(spark: SparkSession, run: Run, load_seq: int, *, write_marker: bool, with_bronze: bool) -> None:
    """Block the loads claimed before a claimed cutover. Commits to every table that a load or a publish writes.

    `write_marker` records the cutover's number in records and rejects, if its own writes there carry none. `with_bronze` is
    needed if an erasure may be running: no other claimed load changes Bronze.
    """
    for name in _APPENDED_TO if write_marker else ():
        tables.commit_transaction_only(spark, run.table(name), Transaction(run.app_id(name), load_seq))
    for name in (*_MERGED_INTO, *((BRONZE_RECORDS,) if with_bronze else ())):
        if tables.exists(spark, run.table(name)):
            tables.set_properties(spark, run.table(name), {_PROPERTY: str(load_seq)})


def require_not_rolled_back(spark: SparkSession, run: Run, load_seq: int) -> None:
    """Raise an `UndoneError` if a restore or rebuild was claimed above a load, so that no run reports the load as done."""
    table = run.table(SILVER_LOADS)
    if spark.read.table(table.sql).where(_cutovers_above(load_seq)).limit(1).count():
        raise UndoneError.of(str(table))


def _cutovers_above(load_seq: int) -> str:
    kinds = ", ".join(f"'{kind}'" for kind in CUTOVERS)
    return f"load_seq > {load_seq} AND kind IN ({kinds})"
