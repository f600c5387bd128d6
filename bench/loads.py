"""Kafka to Bronze, a plain copy of Bronze, and a Silver load of the same Bronze: timed one after another, and checked."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.sitting import BRONZE, COPY, SILVER, require
from bench.topics import HEADER
from bronze.ingest import ingest
from lakehouse.contracts.contract import ERASED
from lakehouse.contracts.silver import IN_ORDER, silver_records
from lakehouse.delta import tables
from lakehouse.extract.sources import Sources
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from lakehouse.table import BRONZE_RECORDS, SILVER_RECORDS, Lakehouse
from silver.load import steps as load
from silver.rules import Rules
from silver.state.tables import create_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from bench.sitting import Sitting
    from bench.topics import Topic
    from lakehouse.table import Table

_COPY = "copy_records"


@dataclass(frozen=True)
class Place:
    """Where a benchmark runs: its session, its broker, its folder."""

    spark: SparkSession
    servers: str
    folder: Path


class Silent:
    """A report that tells nobody."""

    def event(self, name: str, **fields: object) -> None:
        """Do nothing."""


def settings_of(place: Place, topic: str, root: Path, **more: object) -> Settings:
    """The settings of a pipeline that reads one of the benchmark's topics."""
    return Settings.model_validate({**_config(place.servers, topic, root), **more}, context={"folder": root})


def write_config(servers: str, topic: str, root: Path) -> Path:
    """The config of a pipeline that reads one of the benchmark's topics, as the installed commands take it.

    Args:
        servers: The broker.
        topic: The topic.
        root: Where the tables go; the file goes there too.
    """
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


def measure_loads(place: Place, sitting: Sitting, topic: Topic) -> None:
    """Ingest a topic into a fresh Bronze, then copy it and load it into a fresh Silver; check what each made.

    The tables are made before the clock starts. Copy and load take turns in going first, so that neither always finds
    Bronze's files as the other one left them.
    """
    root = place.folder / topic.name
    settings = settings_of(place, topic.name, root)
    run = Run(settings.pipeline, Lakehouse(root=str(root)), Silent())
    sitting.measure(BRONZE, topic.name, topic.records, lambda: ingest(place.spark, run, settings.kafka, Sources.of(settings)))
    require("rows of Bronze", observed=_rows(place.spark, run, BRONZE_RECORDS), expected=topic.records)
    steps: list[Callable[[], None]] = [
        lambda: _measure_copy(place.spark, run, sitting, topic),
        lambda: _measure_silver(place.spark, run, sitting, topic, Rules.of(settings)),
    ]
    for step in steps if len(sitting.starts) % 2 else reversed(steps):
        step()
    shutil.rmtree(root)


def _measure_copy(spark: SparkSession, run: Run, sitting: Sitting, topic: Topic) -> None:
    """The floor: the same rows by the same writer, Silver's columns, nothing decided."""
    tables.create(spark, copy_table(run), silver_records())
    sitting.measure(COPY, topic.name, topic.records, lambda: _copy(spark, run))
    require("rows of the copy", observed=_rows(spark, run, _COPY), expected=topic.records)


def copy_table(run: Run) -> Table:
    """The copy's table, whose log keeps the same statistics as Silver's."""
    return replace(run.table(_COPY), properties=run.table(SILVER_RECORDS).properties)


def _copy(spark: SparkSession, run: Run) -> None:
    bronze = run.table(BRONZE_RECORDS)
    rows = tables.read(spark, bronze, version=tables.version(spark, bronze))
    tables.append(as_silver(rows), copy_table(run), silver_records())


def as_silver(records: DataFrame) -> DataFrame:
    """Bronze records with the columns that Silver has beside them, as constants: nothing is decided or read."""
    constants = {
        "producer": F.lit(None).cast("string"),
        "epoch": F.lit(0).cast("bigint"),
        "sequence": F.lit(0).cast("bigint"),
        "load_seq": F.lit(1).cast("bigint"),
        "arrival": F.lit(IN_ORDER),
        "erased": F.lit(None).cast(ERASED),
    }
    return records.withColumns(constants)


def _measure_silver(spark: SparkSession, run: Run, sitting: Sitting, topic: Topic, rules: Rules) -> None:
    create_tables(spark, run, rules)
    done = sitting.measure(SILVER, topic.name, topic.records, lambda: load.load_once(spark, run, rules))
    require("records of the load", observed=done and done.records, expected=topic.records)
    found = (
        spark.read.table(run.table(SILVER_RECORDS).sql)
        .groupBy("partition")
        .agg(F.count(F.lit(1)).alias("rows"), F.count_distinct("sequence").alias("unique"), F.max("sequence").alias("highest"))
    )
    observed = {row["partition"]: (row["rows"], row["unique"], row["highest"]) for row in found.collect()}
    # All three the same: 1 to n, each once.
    expected = {partition: (unique,) * 3 for partition, unique in enumerate(topic.unique) if unique}
    require("rows, unique sequences and highest sequence of Silver's partitions", observed=observed, expected=expected)


def _rows(spark: SparkSession, run: Run, name: str) -> int:
    return spark.read.table(run.table(name).sql).count()
