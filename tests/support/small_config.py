"""The smallest config that is in order, as a file or as settings."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings


def small_config(root: str, **more: Any) -> dict[str, Any]:
    return {
        "pipeline": "tests",
        "kafka": {"bootstrap_servers": "localhost:9092", "topics": ["incidents", "t"]},
        "lakehouse": {"root": root},
        "sequence": {"header": "seq"},
    } | more


def write_text(folder: Path, text: str) -> Path:
    file = folder / "tidemark.yml"
    file.write_text(text, encoding="utf-8")
    return file


def write_config(folder: Path, *, root: str, **more: Any) -> Path:
    return write_text(folder, json.dumps(small_config(root, **more)))


def settings_of(run: Run, *, topics: Sequence[str] = ("t",), own: Mapping[str, Any] | None = None, **more: Any) -> Settings:
    kafka = {"bootstrap_servers": "localhost:9092", "topics": list(topics)}
    config = small_config(str(run.lakehouse.root), pipeline=run.pipeline, kafka=kafka, **more)
    if own is not None:
        config["topics"] = own
    if run.lakehouse.schema is not None:
        names = ("catalog", "schema", "volume", "metastore")
        config["lakehouse"] = {name: getattr(run.lakehouse, name) for name in names}
    return Settings.model_validate(config, context={"folder": Path()})
