"""Silver to Gold: audit the unpublished loads, and publish them if they pass or are released."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from expectations import gate
from expectations.evidence.snapshot import last_published
from gold import publish, undo
from gold.sql_models import refresh_models
from gold.undo import withdraw
from lakehouse.contracts.silver import ERASE, RESTORE
from lakehouse.delta import small_tables, tables
from lakehouse.table import GOLD_RECORDS, GOLD_STREAM_HEALTH, SILVER_LOADS
from silver.rules import Rules
from silver.state import watermarks
from silver.state.request import Request
from silver.state.tables import are_of_earlier_version, last_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def run_gate(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Audit the loads that are not published; see `expectations.gate.audit`.

    Returns gate_run_id (None if there was nothing to audit), the range of loads, passed, warned, failed, decision, seconds.

    Raises:
        GateFailedError: A critical expectation was not met, and the range was not released; all results are recorded.
    """
    started = time.monotonic()
    audited = gate.audit(spark, run, settings.gate, settings.policies)
    if audited is None:
        return {"gate_run_id": None, "passed": True, "seconds": round(time.monotonic() - started, 3)}
    amend_gold(spark, run, settings)
    gate.raise_if_failed(run, audited)
    return {
        "gate_run_id": audited.gate_run_id,
        "first_load_seq": audited.first_load_seq,
        "last_load_seq": audited.last_load_seq,
        "passed": audited.passed,
        "warned": list(audited.warned),
        "failed": list(audited.failed),
        "decision": audited.decision,
        "seconds": round(time.monotonic() - started, 3),
    }


def run_gold(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Publish the range of the last gate run if it passed or was released, and rebuild models that are not current.

    Raises:
        GateFailedError: The last gate run, as `gate_results` has it, did not pass and was not released.
        ModelError: A model failed; Gold's own tables are published.
    """
    started = time.monotonic()
    audited = gate.last_gate_run(spark, run)
    if audited is None:
        done: dict[str, object] = {"gate_run_id": None, "records": 0, "models": refresh_models(spark, run, settings.gold)}
    else:
        gate.raise_if_failed(run, audited)
        # Before publishing: afterwards an erasure in the range would count as applied, and earlier loads would keep its key.
        amend_gold(spark, run, settings)
        done = vars(publish.publish(spark, run, audited, settings.gold))
        # Again after it: the audited version may be older than an erasure.
        amend_gold(spark, run, settings, after_load_seq=audited.last_load_seq)
    return {**done, "seconds": round(time.monotonic() - started, 3)}


def require_gate(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Raise the errors that `run_gate` would raise for the waiting loads. Commits nothing."""
    if are_of_earlier_version(spark, run):
        return
    gate.require_passing(spark, run, settings.gate, settings.policies)


def require_gold(spark: SparkSession, run: Run, settings: Settings) -> None:
    """Raise the errors that `run_gold` would raise for any records: Gold's columns, and models. Commits nothing."""
    kind = Rules.of(settings).keeping(last_rules(spark, run)).payload_type
    publish.require_tables_and_models(spark, run, settings.gold, None if kind is None else kind.sql())


def amend_gold(spark: SparkSession, run: Run, settings: Settings, *, after_load_seq: int | None = None) -> int | None:
    """Remove the records that finished loads erased or rolled back since Gold's last publish, and rebuild the models.

    Commits to Gold's tables, see `gold.undo`, and to the models. `after_load_seq` is the last published load, if known: Gold
    also applies the erasures and restores of loads that were rejected since.

    Returns the last such load, which the rebuilt models name, or None.

    Raises:
        ModelError: A model failed; the next run tries again.
    """
    after = last_published(spark, run) if after_load_seq is None else after_load_seq
    loads = small_tables.read(spark, run.table(SILVER_LOADS), ("load_seq", "kind", "request"), start=("load_seq", after + 1))
    requests = sorted({(row["load_seq"], row["request"]) for row in loads if row["kind"] in (ERASE, RESTORE)})
    if not requests or not tables.exists(spark, run.table(GOLD_STREAM_HEALTH)):
        return None
    finished = watermarks.read(spark, run).load_seq
    known = max(row["load_seq"] for row in loads)
    done = [(load_seq, Request.from_json(text)) for load_seq, text in requests if load_seq <= finished]
    for load_seq, request in done:
        if request.erase is not None:
            erased = request.erase
            names = (erased.topic, erased.key_sha256, erased.salt, erased.is_of_all_incarnations)
            undo.remove_key(spark, run, undo.ErasedKey(*names, before_load_seq=load_seq))
        if request.cutover is not None:
            keep_to, undo_to = request.cutover.keep_to, request.cutover.undo_to
            withdraw(spark, run, keep_to=keep_to, undo_to=undo_to, by_load_seq=known)
            undo.undo_decisions(spark, run, keep_to=keep_to, undo_to=undo_to)
    if not done:
        return None
    last: int = done[-1][0]
    refresh_models(spark, run, settings.gold, amended_by=last)
    return last


def withdraw_unpublished(spark: SparkSession, run: Run, settings: Settings, *, first: int, last: int) -> None:
    """Remove the rows of loads `first` to `last` that an interrupted publish wrote. Commits to Gold and its models."""
    if small_tables.highest(spark, run.table(GOLD_RECORDS), "load_seq") >= first:
        withdraw(spark, run, keep_to=first - 1, undo_to=last, by_load_seq=last)
        refresh_models(spark, run, settings.gold, amended_by=last)
