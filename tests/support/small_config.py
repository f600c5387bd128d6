"""The smallest config that is in order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def write_config(folder: Path, *, root: str, **more: Any) -> Path:
    """Write `tidemark.yml` into the folder; further keys as given."""
    settings = {
        "pipeline": "tests",
        "kafka": {"bootstrap_servers": "localhost:9092", "topics": ["incidents"]},
        "lakehouse": {"root": root},
        "sequence": {"header": "seq"},
    }
    file = folder / "tidemark.yml"
    file.write_text(json.dumps(settings | more), encoding="utf-8")
    return file
