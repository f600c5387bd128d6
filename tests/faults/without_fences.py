"""The control arm: the pipeline without lock, transaction ids and checks. The pipeline never imports it."""

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession

from lakehouse.contracts.silver import LOADS
from lakehouse.delta import tables
from lakehouse.run.context import Run
from lakehouse.run.crash_points import crash_point
from lakehouse.run.lock import locked, require_no_run
from lakehouse.spark import frames
from lakehouse.table import SILVER_LOADS
from pipelines import job
from silver.load import recover, steps
from silver.state.ledger import Plan


def take_off() -> None:
    """Remove the lock, the transaction ids, the reading back of the claim, and the checks that would refuse the result."""
    set_lock(is_on=False)
    steps._transaction = _do_nothing  # type: ignore[assignment] # an append takes None as no transaction
    steps.claim = _claim
    recover._require_silver = _do_nothing  # type: ignore[assignment] # takes anything
    recover._require_marks = _do_nothing  # type: ignore[assignment] # takes anything


def set_lock(*, is_on: bool) -> None:
    vars(job)["locked"] = locked if is_on else _unlocked
    vars(job)["require_no_run"] = require_no_run if is_on else _do_nothing


@contextlib.contextmanager
def _unlocked(*_: object, **__: object) -> Iterator[None]:
    yield


def _do_nothing(*_: object) -> None:
    return None


def _claim(spark: SparkSession, run: Run, planned: Plan) -> None:
    tables.append(frames.of_contract(spark, planned.ledger, LOADS), run.table(SILVER_LOADS), LOADS)
    run.report.event("silver.claimed", load_seq=planned.load_seq)
    crash_point("silver.claimed")
