"""A pipeline as those who watch it see it: tables that delta-rs wrote, and a run that only tells how it went."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.contracts.gate import RESULTS
from lakehouse.contracts.gold import STREAM_HEALTH
from lakehouse.contracts.silver import CLASSES, LOADS, REJECTS, WATERMARKS
from lakehouse.errors import TidemarkError
from pipelines.job import Job
from tests.support.small_tables import write_rows

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
_COUNTS = {"accepted": 90, "duplicate": 7, "late": 2, "invalid": 1}
SILVER = {"loads": [2], "records": 100, **dict.fromkeys(CLASSES, 0), **_COUNTS, "seconds": 4.5}
LOAD_2 = {"first_load_seq": 2, "last_load_seq": 2}
AUDITED = {**LOAD_2, "failed": [], "warned": ["budget_late"]}


def write_tables(root: Path) -> None:
    """Two loads of a topic with two producers in partition 0, and of one that was created anew; the second is not published."""
    mark = {"topic": "incidents", "partition": 0, "load_seq": 2, "epoch": 0}
    marks = [
        {**mark, "producer": "p1", "high_watermark": 70, "last_offset": 80},
        {**mark, "producer": "p2", "high_watermark": 30, "last_offset": 99},
        {**mark, "topic": "orders", "high_watermark": 900, "last_offset": 901},
        {**mark, "topic": "orders@2", "high_watermark": 5, "last_offset": 4},
    ]
    write_rows(root, WATERMARKS, marks)
    counts = {"records": 100, **dict.fromkeys(CLASSES, 0), **_COUNTS}
    write_rows(root, LOADS, [{**mark, **counts, "load_seq": each, "run_id": "r", "claimed_at": NOON} for each in (1, 2)])
    rejects = [("late", "held", 3), ("late", "released", 1), ("invalid", "held", 2), ("duplicate", "discarded", 14)]
    write_rows(root, REJECTS, [{**mark, "class": name, "state": state, "records": n} for name, state, n in rejects])
    audit = {**LOAD_2, "gate_run_id": "g", "evaluated_at": NOON, "observed": "2", "expected": "0"}
    unmet = [("budget_late", "warn", "failed"), ("keys", "critical", "passed"), ("conserved", "critical", "errored")]
    write_rows(root, RESULTS, [{**audit, "expectation": n, "severity": s, "outcome": o} for n, s, o in unmet])
    write_rows(root, STREAM_HEALTH, [{**mark, "load_seq": 1, "gate_run_id": "g", "published_at": NOON}])


@dataclass
class Medallion:
    stages: dict[str, dict[str, Any]]  # what each stage that reaches its end did
    audited: dict[str, Any] | None = None  # what the gate found; None where it audited nothing
    error: TidemarkError | None = None  # what the run fails with after that

    def run(self, job: Job, _stage: str | None) -> dict[str, Any]:
        report = job.report
        report.event("run.started", pipeline="tests", run_id="r7")
        if self.audited is not None:
            report.event("gate.audited", **self.audited)
        for name, done in self.stages.items():
            report.event(f"{name}.finished", **done)
        if self.error is not None:
            raise self.error
        return {"pipeline": "tests", "run_id": "r7", "seconds": 1.0, **self.stages}
