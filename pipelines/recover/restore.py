"""Restore all tables together to an earlier load. The pipeline continues from there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse import reconcile
from lakehouse.contracts.silver import CUTOVERS, ERASE, LEDGER, RESTORE, first_load
from lakehouse.delta import tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import AnotherWriterError, TableStateError, TidemarkError, UsageError, headline
from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS
from pipelines.silver_to_gold import amend_gold
from silver.audit import ledger_checks
from silver.load import cutover, recover, steps
from silver.rules import Rules
from silver.state.request import Cutover, Request
from silver.state.tables import create_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from lakehouse.run.findings import Violation
    from lakehouse.settings.pipeline import Settings

_TABLES = (SILVER_RECORDS, SILVER_REJECTS, SILVER_LOADS)


def restore(  # noqa: PLR0913 -- the decision's parts, as an operator gives them
    spark: SparkSession, run: Run, settings: Settings, to: int, *, reason: str, by: str, is_dry_run: bool
) -> dict[str, object]:
    """Restore Silver, watermarks, rejects, the ledger and Gold to their state after load `to`.

    This also repairs a table that was restored, emptied or written alone, or a claim that cannot be executed; `to` is then
    the last finished load. Bronze stays, so the next run decides its records again.
    Operators' decisions in later loads are rolled back. `reason` and `by` go to the ledger. Commits: see
    `silver.load.cutover` and `pipelines.silver_to_gold`.

    Returns:
        load_seq, the restore's own; to; undone, the first and last load rolled back, or None; records, rejects and loads:
        rows removed from each table; is_dry_run.

    Raises:
        TableMissingError: Silver has not been written yet.
        UsageError: There is no such load in the ledger.
        TableStateError: The tables no longer hold all rows of the loads up to `to`.
        AnotherWriterError: Another run wrote at the same time.
    """
    rules = Rules.of(settings)
    tables.version(spark, run.table(SILVER_LOADS))  # raises if Silver has not been written yet
    loads = spark.read.table(run.table(SILVER_LOADS).sql)
    if not is_dry_run:
        kinds = _kinds(loads)
        if kinds.get(max(kinds, default=0)) not in CUTOVERS:  # an unfinished cutover adds other loads to the ledger
            _require_known(run, kinds, to)
        create_missing(spark, run, rules)
        _finish(spark, run, rules, to)
        loads = spark.read.table(run.table(SILVER_LOADS).sql)
    _require_whole(spark, run, loads, to)
    highest = cutover.highest_load(spark, run)
    going = {name: _count_after(spark, run, name, to) for name in _TABLES}
    result: dict[str, object] = {
        "load_seq": None,
        "to": to,
        "undone": [to + 1, highest] if highest > to else None,
        **{name.removeprefix("silver_"): rows for name, rows in going.items()},
        "is_dry_run": is_dry_run,
    }
    if is_dry_run:
        return result
    last = loads.where(F.col("load_seq") == to).select("rules", "bronze_to_version").limit(1).collect()[0]
    marks = cutover.marks_after(loads, to)
    wanted = Cutover(keep_to=to, undo_to=highest)
    load_seq = cutover.claim_and_apply(
        spark,
        run,
        Request(RESTORE, reason, by),
        wanted,
        marks=marks,
        rules=Rules.from_json(last["rules"]),
        bronze_version=last["bronze_to_version"],
        first_free=highest + 1,
    )
    amend_gold(spark, run, settings)
    return {**result, "load_seq": load_seq}


def _finish(spark: SparkSession, run: Run, rules: Rules, to: int) -> None:
    """Finish a claimed load if possible; otherwise the restore rolls it back.

    A load that only adds rows is not finished just to be rolled back. An erasure is finished, because half of it would remain.
    """
    try:
        recovered = recover.recover(spark, run, rules)
        claimed = recovered.open_claim[0] if recovered.open_claim else None
        if claimed is not None and (claimed["load_seq"] <= to or claimed["kind"] in (*CUTOVERS, ERASE)):
            steps.finish(spark, run, recovered)
    except AnotherWriterError:
        raise
    except (TidemarkError, *SPARK_ERRORS) as error:
        observed = error.observed if isinstance(error, TidemarkError) else None
        run.report.event("restore.unsound", observed=headline(str(observed or error)))


def _kinds(loads: DataFrame) -> dict[int, str]:
    return dict(loads.select("load_seq", "kind").distinct().collect())


def _require_known(run: Run, loads: Collection[int], to: int) -> None:
    if to not in loads:
        raise UsageError(
            "The ledger holds no such load.",
            where=str(run.table(SILVER_LOADS)),
            observed=f"load {to}",
            expected=f"a load from {min(loads)} to {max(loads)} that was not undone" if loads else "no load was done yet",
            next_step='See `tidemark sql "SELECT DISTINCT load_seq, claimed_at, kind FROM silver_loads ORDER BY 1"`.',
        )


def _require_whole(spark: SparkSession, run: Run, loads: DataFrame, to: int) -> None:
    kinds = _kinds(loads)
    _require_known(run, kinds, to)
    rows = loads.where(F.col("load_seq") <= to).select(*LEDGER).toArrow().sort_by([("load_seq", "ascending")]).to_pylist()
    violation = next(_violations(spark, run, rows, to, first=first_load(kinds)), None)
    if violation is not None:
        raise TableStateError(
            f"The tables no longer hold all rows of the loads up to {to}; nothing was written.",
            where=violation.where,
            observed=violation.observed,
            expected=violation.expected,
            next_step="Restore to an earlier load, or rebuild Silver from Bronze: `tidemark rebuild`.",
        )


def _violations(spark: SparkSession, run: Run, rows: list[ledger_checks.Row], to: int, *, first: int) -> Iterator[Violation]:
    yield from ledger_checks.chain(rows, run.pipeline, first=first)
    silver = spark.read.table(run.table(SILVER_RECORDS).sql).where(F.col("load_seq") <= to)
    yield from reconcile.rows_match(rows, ledger_checks.kept(silver).toArrow().to_pylist())
    rejects = ledger_checks.rejects(spark.read.table(run.table(SILVER_REJECTS).sql), to)
    yield from ledger_checks.rejects_match(rows, rejects.toArrow().to_pylist())


def _count_after(spark: SparkSession, run: Run, name: str, load_seq: int) -> int:
    table = run.table(name)
    return spark.read.table(table.sql).where(F.col("load_seq") > load_seq).count() if tables.exists(spark, table) else 0
