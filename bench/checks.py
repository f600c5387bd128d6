"""What exactly-once costs: a load with all its checks beside one without, and the next run after a load was cut off."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING
from unittest.mock import patch

from pyspark.sql import functions as F

from bench.look import STREAMS, LookPipeline, Part, sent
from bench.sitting import CHECKED, RECOVERY, UNCHECKED
from lakehouse.contracts.silver import LOADS
from lakehouse.delta import tables
from lakehouse.table import SILVER_LOADS
from silver.load import recover, steps
from silver.state import claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from bench.loads import Place
    from bench.sitting import Sitting
    from lakehouse.run.context import Run

_RECORDS = 1_000_000


class ChecksPipeline(LookPipeline):
    """Silver with a history, as for the look.

    Args:
        place: Where it runs.
        history: Records in Silver before the first round.
    """

    def __init__(self, place: Place, history: int) -> None:
        super().__init__(place, history, name="checks")

    def measure(self, sitting: Sitting) -> None:
        """Two loads of the same size, taking turns in going first; then one that is cut off before its watermarks move."""
        order: list[tuple[str, Callable[[dict[str, int]], None]]] = [(CHECKED, self._load), (UNCHECKED, self._load_unchecked)]
        for name, action in order if len(sitting.starts) % 2 else reversed(order):
            counts = self._arrive()
            sitting.measure(name, self._pattern, _RECORDS, lambda action=action, counts=counts: action(counts))  # type: ignore[misc] # a lambda's defaults
        counts = self._arrive()
        with suppress(_CutOff), patch.object(steps, "advance", side_effect=_CutOff):
            self._load(counts)
        sitting.measure(RECOVERY, self._pattern, _RECORDS, lambda: self._load(counts))

    def _arrive(self) -> dict[str, int]:
        records = _RECORDS // STREAMS
        self._commit(Part(records, sent(F.col("nth") + self._sent)))
        self._sent += records
        return {"accepted": records}

    def _load_unchecked(self, counts: dict[str, int]) -> None:
        """A load that believes its tables: no look at what the last one left, no reading back of the claim."""
        checks = (recover._require_silver, recover._require_marks)  # noqa: SLF001 -- what is left out, by names that mypy knows
        with ExitStack() as stack:
            for check in checks:
                stack.enter_context(patch.object(recover, check.__name__))
            stack.enter_context(patch.object(claim, "claim", _claim_unread))
            self._load(counts)


class _CutOff(Exception):  # noqa: N818 -- a stop, no error of ours
    pass


def _claim_unread(spark: SparkSession, run: Run, rows: DataFrame, load_seq: int, *, records: int = 0) -> None:
    del spark, records
    transaction = tables.Transaction(run.app_id(SILVER_LOADS), load_seq)
    tables.append(rows, run.table(SILVER_LOADS), LOADS, transaction=transaction)
