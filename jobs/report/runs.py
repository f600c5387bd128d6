"""The last runs, from their saved results: `_reports/<run_id>.json` next to the tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MAX_RUNS = 120
_STAGES = ("bronze", "silver", "gate", "gold")
_STARTED = "%Y%m%dT%H%M%S"


def last_runs(root: Path | None) -> list[dict[str, Any]]:
    """Read the last runs from their files, the latest first.

    Args:
        root: The lakehouse's folder.

    Returns:
        run_id, started_at (UTC, from the run's id; None if that holds no time), seconds (None if the run failed), `stages`
        (seconds of each that ran), records that Silver decided, and error and exit_code of a run that failed, else None. A file
        that is not a result is left out.
    """
    if root is None:
        return []
    files = sorted((root / "_reports").glob("*.json"), reverse=True)[:MAX_RUNS]
    return [run for file in files if (run := _run(file))]


def _run(file: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        done = {name: told[name] for name in _STAGES if told.get(name)}
        return {
            "run_id": str(told["run_id"]),
            "started_at": _started_at(str(told["run_id"])),
            "seconds": told.get("seconds"),
            "stages": {name: float(stage["seconds"]) for name, stage in done.items() if "seconds" in stage},
            "records": (done.get("silver") or {}).get("records"),
            "error": told.get("error"),
            "exit_code": told.get("exit_code"),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # a foreign file, or one still being written


def _started_at(run_id: str) -> datetime | None:
    try:
        return datetime.strptime(run_id.partition("-")[0], _STARTED).replace(tzinfo=UTC)
    except ValueError:
        return None
