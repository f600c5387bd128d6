"""The Databricks bundle as its files say it: resources, the jobs among them, and the dashboard."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
BUNDLE: dict[str, Any] = yaml.safe_load((ROOT / "databricks.yml").read_text(encoding="utf-8"))
DASHBOARD: dict[str, Any] = json.loads((ROOT / "resources" / "streams.lvdash.json").read_text(encoding="utf-8"))


@cache
def resources() -> list[tuple[str, str, dict[str, Any]]]:
    files = sorted(file for pattern in BUNDLE["include"] for file in ROOT.glob(pattern))
    kinds = [yaml.safe_load(file.read_text(encoding="utf-8"))["resources"] for file in files]
    return [(kind, key, content) for found in kinds for kind, under in found.items() for key, content in under.items()]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {key: content for found, key, content in resources() if found == kind}


def dataset_queries() -> dict[str, str]:
    return {dataset["name"]: "".join(dataset["queryLines"]) for dataset in DASHBOARD["datasets"]}


def widgets() -> list[dict[str, Any]]:
    return [placed["widget"] for page in DASHBOARD["pages"] for placed in page["layout"]]


def columns_used() -> dict[str, set[str]]:
    used: dict[str, set[str]] = {name: set() for name in dataset_queries()}
    for asked in (each["query"] for widget in widgets() for each in widget.get("queries", [])):
        used[asked["datasetName"]] |= {field["expression"].split("`")[1] for field in asked["fields"]}
    return used
