"""What `tidemark verify` costs on a history that is published, and an answer of `tidemark sql` over it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.loads import write_config
from bench.look import LookPipeline
from bench.sitting import SQL, VERIFY, require
from expectations import gate
from gold.publish import publish
from lakehouse.settings.pipeline import Gate, Gold
from pipelines.verify.run import verify

if TYPE_CHECKING:
    from bench.loads import Place
    from bench.sitting import Sitting


class VerifyPipeline:
    """All tables with a history: generated Bronze, loaded, audited and published.

    Args:
        place: Where it runs.
        history: Records in Silver, and in Gold.
    """

    def __init__(self, place: Place, history: int) -> None:
        self._spark, self._history = place.spark, history
        self._run = LookPipeline(place, history, name="verify").run
        audited = gate.audit(place.spark, self._run, Gate())
        require("the gate of the history", observed=audited is not None and audited.passed, expected=True)
        if audited is not None:
            publish(place.spark, self._run, audited, Gold())
        root = Path(str(self._run.lakehouse.root))
        config = write_config(place.servers, "look", root)
        self._sql = [str(Path(sys.executable).with_name("tidemark")), "sql", "--config", str(config)]

    def measure(self, sitting: Sitting) -> None:
        """All checks but those of --deep, on the open session; then a query, as a user asks one."""
        found = sitting.measure(
            VERIFY, f"on {self._history:,}", self._history, lambda: verify(self._spark, self._run, is_deep=False)
        )
        require("what verify says of sound tables", observed=found["ok"], expected=True)
        asked = [*self._sql, "SELECT count(*) FROM gold_records"]
        answer = sitting.measure(
            SQL, f"on {self._history:,}", 0, lambda: subprocess.run(asked, check=True, capture_output=True, text=True)
        )
        require("records in Gold", observed=int(answer.stdout.split()[-1]), expected=self._history)
