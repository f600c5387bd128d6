"""The fence between a swap and what was claimed before it: who wakes up after a restore or rebuild writes nothing any more.

A swap undoes loads that somebody may still be carrying out. Three things together keep that from doing harm, and none of them
is a look before a commit:

- The swap commits to Silver's records and rejects under its own number. Delta takes a load's append only under a number above
  all that the table has seen, so one of an undone load is skipped, or conflicts.
- A MERGE, and what is published, cannot carry a number. Its rows are `guarded`: the statement itself reads the ledger, inside
  its transaction, and fails where a swap is claimed above the load.
- Between that look and the commit the swap may be claimed. So, after its claim and before it changes anything, the swap changes
  a property of each table: a transaction that began before conflicts with that, one that begins later sees the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.silver import SWAPS
from lakehouse.delta import tables
from lakehouse.delta.errors import OVERTAKEN, UNDONE
from lakehouse.delta.tables import Transaction
from lakehouse.errors import UndoneError
from lakehouse.table import (
    BRONZE_RECORDS,
    GOLD_LATEST,
    GOLD_LATEST_BY_STREAM,
    GOLD_RECORDS,
    GOLD_REJECTS,
    GOLD_STREAM_HEALTH,
    SILVER_LOADS,
    SILVER_RECORDS,
    SILVER_REJECTS,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run

_APPENDED_TO = (SILVER_RECORDS, SILVER_REJECTS)
_MERGED_INTO = (*_APPENDED_TO, GOLD_RECORDS, GOLD_REJECTS, GOLD_LATEST, GOLD_LATEST_BY_STREAM, GOLD_STREAM_HEALTH)
_PROPERTY = "tidemark.swap"


def guarded(rows: DataFrame, run: Run, load_seq: int) -> DataFrame:
    """The same rows, which may be written only where no restore or rebuild was claimed above a load.

    Not looked at now: the statement that writes them looks, in its own transaction. It fails with `UndoneError`.

    Args:
        rows: What is written, or the source of a MERGE.
        run: The run.
        load_seq: The load; of what is published the last one.
    """
    swaps = f"SELECT count(*) FROM {run.table(SILVER_LOADS).sql} WHERE {_swaps_above(load_seq)}"  # noqa: S608 -- a name of ours and a number
    return rows.where(f"assert_true(({swaps}) = 0, '{UNDONE}') IS NULL")


def unclaimed(rows: DataFrame, run: Run, load_seq: int) -> DataFrame:
    """The same rows of the ledger, which may be written only where no load above one was claimed; see `guarded`."""
    later = f"SELECT count(*) FROM {run.table(SILVER_LOADS).sql} WHERE load_seq > {load_seq}"  # noqa: S608 -- a name of ours and a number
    return rows.where(f"assert_true(({later}) = 0, '{OVERTAKEN}') IS NULL")


def close(spark: SparkSession, run: Run, load_seq: int, *, is_noted: bool, with_bronze: bool) -> None:
    """Let nothing through that was claimed before a swap. Commits to every table that a load writes, or that is published.

    Args:
        spark: The session.
        run: The run.
        load_seq: The swap's number; its claim must stand.
        is_noted: Whether records and rejects are to know the number from here on: where what the swap writes there has none.
        with_bronze: Whether somebody may be erasing: nothing else that is claimed changes Bronze.
    """
    for name in _APPENDED_TO if is_noted else ():
        tables.note(spark, run.table(name), Transaction(run.app_id(name), load_seq))
    for name in (*_MERGED_INTO, *((BRONZE_RECORDS,) if with_bronze else ())):
        if tables.exists(spark, run.table(name)):
            tables.set_property(spark, run.table(name), _PROPERTY, str(load_seq))


def require_standing(spark: SparkSession, run: Run, load_seq: int) -> None:
    """Raise where a restore or rebuild was claimed above a load: so that nobody tells of a load that is not there.

    Raises:
        UndoneError: It was.
    """
    table = run.table(SILVER_LOADS)
    if spark.read.table(table.sql).where(_swaps_above(load_seq)).limit(1).count():
        raise UndoneError.of(str(table))


def _swaps_above(load_seq: int) -> str:
    kinds = ", ".join(f"'{kind}'" for kind in SWAPS)
    return f"load_seq > {load_seq} AND kind IN ({kinds})"
