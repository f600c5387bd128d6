"""The data of the page's charts and filters: short lists of numbers, for thousands of streams and loads."""

from __future__ import annotations

from typing import Any

from lakehouse.contracts.gate import CRITICAL, WARN
from tidemark.extras.report.charts import STAGES
from tidemark.extras.report.text import classes, loads_of, moment, place, text


def chart_data(found: dict[str, Any]) -> dict[str, Any]:
    """Return the data that `report.js` reads, from `tidemark.extras.report.facts.facts`; the script says how."""
    at = {(row["topic"], row["partition"]): number for number, row in enumerate(found["partitions"])}
    counted = (*classes(found), "jumps_forward", "jumps_backward")
    return {
        "classes": classes(found),
        "partitions": [[text(row["topic"]), place(row), row["lag"]] for row in found["partitions"]],
        "streams": [
            [text(row["topic"]), text(row["producer"] or ""), place(row), at.get((row["topic"], row["partition"]), -1)]
            for row in found["streams"]
        ],
        "others": found["stream_count"] - len(found["streams"]),
        "slices": [[loads_of(row), moment(row["last_claimed_at"])] for row in found["slices"]],
        "history": [[row["stream"], row["slice"], *(row[name] for name in counted)] for row in found["history"]],
        "gate": _gate(found["gate_runs"]),
        "runs": _runs(found["runs"]),
    }


def _gate(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "run": number,
            "when": moment(run["evaluated_at"]),
            "load": run["last_load_seq"],
            "verdict": "passed" if run["passed"] else "failed",
            "severity": severity,
            "order": order,
            "unmet": run[f"unmet_{severity}"],
        }
        for number, run in enumerate(reversed(runs), start=1)
        for order, severity in enumerate((CRITICAL, WARN))
    ]


def _runs(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "run": number,
            "when": moment(run["started_at"]),
            "stage": stage,
            "order": order,
            "seconds": run["stages"].get(stage, 0),
        }
        for number, run in enumerate(reversed(runs), start=1)
        for order, stage in enumerate(STAGES)
    ]
