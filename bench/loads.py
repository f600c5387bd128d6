"""What the measures share: where they run, the config of a pipeline, and the columns of Silver without a decision."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.topics import HEADER
from lakehouse.contracts.contract import ERASED
from lakehouse.contracts.silver import IN_ORDER
from lakehouse.settings.pipeline import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Place:
    """Where a benchmark runs: its session, its broker, its folder."""

    spark: SparkSession
    servers: str
    folder: Path


class Silent:
    """A report that goes nowhere."""

    def event(self, name: str, **fields: object) -> None:
        """Do nothing."""


def settings_of(place: Place, topic: str, root: Path, **more: object) -> Settings:
    """The settings of a pipeline that reads one of the benchmark's topics."""
    return Settings.model_validate({**_config(place.servers, topic, root), **more}, context={"folder": root})


def write_config(servers: str, topic: str, root: Path) -> Path:
    """Write the config of a pipeline that reads one of the benchmark's topics, into the tables' folder."""
    root.mkdir(parents=True, exist_ok=True)
    file = root / "tidemark.yml"
    file.write_text(json.dumps(_config(servers, topic, root)), encoding="utf-8")  # JSON is YAML
    return file


def _config(servers: str, topic: str, root: Path) -> dict[str, object]:
    return {
        "pipeline": "bench",
        "kafka": {"bootstrap_servers": servers, "topics": [topic]},
        "lakehouse": {"root": str(root)},
        "sequence": {"header": HEADER},
    }


def as_silver(records: DataFrame) -> DataFrame:
    """Bronze records with the further columns of Silver, as constants: nothing is decided or read."""
    constants = {
        "producer": F.lit(None).cast("string"),
        "epoch": F.lit(0).cast("bigint"),
        "sequence": F.lit(0).cast("bigint"),
        "load_seq": F.lit(1).cast("bigint"),
        "arrival": F.lit(IN_ORDER),
        "erased": F.lit(None).cast(ERASED),
    }
    return records.withColumns(constants)
