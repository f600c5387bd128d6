"""Silver to Gold: audit what Gold does not have yet, and publish it if it passed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from expectations import gate, verdict
from expectations.kept_out import Limits
from gold.publish import publish
from gold.sql_models import refresh_models
from pipelines.amendments import amend_gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings


def run_gate(spark: SparkSession, run: Run, settings: Settings) -> dict[str, object]:
    """Audit the loads that are not published; see `expectations.gate.audit`.

    Returns:
        gate_run_id, the range of loads, passed, warned, failed, decision, seconds; gate_run_id is None if there was nothing to
        audit.

    Raises:
        GateFailedError: A critical expectation was not met, and the range was not released; all results are recorded.
    """
    started = time.monotonic()
    limits = Limits(settings.policies.max_quarantined_share, settings.policies.topic_shares)
    audited = gate.audit(spark, run, settings.gate, limits)
    if audited is None:
        return {"gate_run_id": None, "passed": True, "seconds": round(time.monotonic() - started, 3)}
    amend_gold(spark, run, settings)
    verdict.raise_if_failed(spark, run, audited)
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
    """Publish the range that the last gate run let out, see `gold.publish.publish`, and rebuild models that are not current.

    The gate's verdict is read from `gate_results`, so that gate and Gold may be two tasks.

    Raises:
        GateFailedError: The last gate run did not pass and was not released.
        ModelError: A model failed; Gold's own tables are published.
    """
    started = time.monotonic()
    audited = verdict.last(spark, run)
    if audited is None:
        done: dict[str, object] = {"gate_run_id": None, "records": 0, "models": refresh_models(spark, run, settings.gold)}
    else:
        verdict.raise_if_failed(spark, run, audited)
        # Before publishing: afterwards, an erasure in the range would count as followed, and earlier loads would keep its key.
        amend_gold(spark, run, settings)
        done = vars(publish(spark, run, audited, settings.gold))
        # Again after it: the audited version may be older than an erasure.
        amend_gold(spark, run, settings, after_load_seq=audited.last_load_seq)
    return {**done, "seconds": round(time.monotonic() - started, 3)}
