"""Recovery: read from the tables where the last run stopped, and stop if the tables contradict each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.silver import KEPT, LOADS, STREAM, is_retired, stream_of
from lakehouse.delta import log_files, small_tables, tables
from lakehouse.errors import TableStateError
from lakehouse.protocol import bronze_owner
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from silver.model import tuples_of
from silver.state import watermarks
from silver.state.ledger import open_cutover
from silver.state.request import Cutover, Request
from silver.state.tables import rules_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.watermarks import Watermarks

WATERMARK_AFTER = ("epoch_after", "high_watermark_after", "last_offset", "declared_epoch")
_LAST = (*STREAM, *("load_seq", "kind", "bronze_to_version", "rules"), *WATERMARK_AFTER)

RESTORE_OR_REBUILD = (
    "One table was restored, emptied or written alone. `tidemark restore --to LOAD` takes all of them to the same load; "
    "`tidemark rebuild` rebuilds them from Bronze."
)


@dataclass(frozen=True)
class Recovered:
    """The state after the last run: `last` has the columns `_LAST` of the last finished load's ledger rows.

    `open_claim` are the rows of a claimed, unfinished load, or None. For a cutover `watermarks` is unchecked, and `last` empty.
    """

    watermarks: Watermarks
    last: list[small_tables.Row]
    open_claim: list[small_tables.Row] | None

    @property
    def cutover(self) -> Cutover | None:
        """The open claim's cutover, or None."""
        request = self.open_claim[0]["request"] if self.open_claim else None
        return Request.from_json(request).cutover if request else None

    @property
    def bronze_version(self) -> int:
        """The Bronze version that the last finished load ended with; -1 before the first."""
        return self.last[0]["bronze_to_version"] if self.last else -1

    @property
    def decided_topics(self) -> tuple[str, ...] | None:
        """The topics that the last finished load decided or carried over; None for all, or if there was no load."""
        return self.rules.decided_topics if self.rules is not None and self.bronze_version >= 0 else None

    @cached_property
    def rules(self) -> Rules | None:
        """The rules of the last finished load; None before the first."""
        return rules_of(self.last)


def recover(spark: SparkSession, run: Run, rules: Rules) -> Recovered:
    """Step 1. Read where the last run stopped. A table that does not exist counts as one without rows.

    TableStateError if watermarks, ledger and Silver do not belong to the same load, or the ledger is another pipeline's.
    RulesChangedError if the watermarks were made with other extractors.
    """
    known = watermarks.read(spark, run)
    try:
        return _recovered(spark, run, rules, known)
    except TableStateError:
        again = watermarks.read(spark, run)
        if again.load_seq == known.load_seq:
            raise
        return _recovered(spark, run, rules, again)  # another run finished a load between two reads


def _recovered(spark: SparkSession, run: Run, rules: Rules, known: Watermarks) -> Recovered:
    finished = known.load_seq
    start = ("load_seq", finished)
    ledger = small_tables.read_arrow(spark, run.table(SILVER_LOADS), LOADS.names, start=start, contract=LOADS)
    loads = ledger.group_by(["load_seq", "pipeline", "rules"]).aggregate([]).to_pylist()
    bronze_owner.require_own(run, {load["pipeline"] for load in loads}, where=run.table(SILVER_LOADS))
    unfinished = ledger.filter(pc.greater(ledger["load_seq"], finished)).to_pylist()
    if cutover := open_cutover(unfinished, finished):
        return Recovered(known, [], cutover)
    before = rules_of(loads)
    known.require_same_extractors(rules.keeping(before), before, where=str(run.table(SILVER_LOADS)))
    numbers = {load["load_seq"] for load in loads}
    claimed = max(numbers, default=0)
    if claimed not in (finished, finished + 1) or (finished and finished not in numbers):
        claimed = small_tables.highest(spark, run.table(SILVER_LOADS), "load_seq")  # the rows of earlier loads were not read
        lacking = f", no rows of load {finished}" if finished and finished not in numbers else ""
        raise TableStateError(
            "The ledger and the watermarks contradict each other.",
            where=f"{run.table(SILVER_LOADS)} and {run.table(SILVER_WATERMARKS)}",
            observed=f"last claimed load {claimed}{lacking}, last finished load {finished}",
            expected=f"last claimed load {finished} or {finished + 1}",
            next_step=RESTORE_OR_REBUILD,
        )
    last = ledger.filter(pc.equal(ledger["load_seq"], finished)).select(_LAST).to_pylist()
    _require_silver(spark, run, finished, ledger)
    _require_marks(run, known, last)
    return Recovered(known, last, unfinished or None)


def _require_silver(spark: SparkSession, run: Run, finished: int, ledger: pa.Table) -> None:
    """Require in Silver all rows of the last finished load, all or none of an open claim's, and none of later loads."""
    table = run.table(SILVER_RECORDS)
    summed = ledger.group_by("load_seq").aggregate([(name, "sum") for name in KEPT])
    kept_of = {load_seq: sum(kept) for load_seq, *kept in tuples_of(summed, summed.column_names)}
    expected = {load_seq: kept for load_seq, kept in kept_of.items() if kept}
    last = log_files.last_append(table.local_folder, run.app_id(SILVER_RECORDS), finished)
    if last is not None and last.rows == expected.get(finished):
        return  # and nothing was committed after it
    observed: dict[int, int] = {}
    if (rows := tables.open_if_exists(spark, table)) is not None:
        silver = rows.where(F.col("load_seq") >= max(finished, 1))
        observed = {row["load_seq"]: row["count"] for row in silver.groupBy("load_seq").count().collect()}
    if observed.get(finished + 1, 0) == 0:
        expected.pop(finished + 1, None)
    if observed != expected:
        raise TableStateError(
            "The rows of the last loads in Silver are not those of the ledger.",
            where=str(table),
            observed=f"rows by load: {observed}",
            expected=f"rows by load: {expected}",
            next_step=RESTORE_OR_REBUILD,
        )


def _require_marks(run: Run, known: Watermarks, last: Iterable[small_tables.Row]) -> None:
    """Require the ledger's watermark for each stream of the last finished load, and none for streams that it retired."""
    after = itemgetter(*WATERMARK_AFTER)
    for row in last:
        mark = known.rows.get(stream_of(row))
        observed = (mark.epoch, mark.high_watermark, mark.last_offset, mark.declared_epoch) if mark else None
        expected = None if is_retired(row) else after(row)
        if observed != expected:
            raise TableStateError(
                "A watermark is not where the last finished load left it.",
                where=f"{run.table(SILVER_WATERMARKS)}: topic {row['topic']}, partition {row['partition']}, "
                f"producer {row['producer']}",
                observed=f"(epoch, high_watermark, last_offset, declared_epoch) = {observed}",
                expected=f"(epoch, high_watermark, last_offset, declared_epoch) = {expected}",
                next_step=RESTORE_OR_REBUILD,
            )
