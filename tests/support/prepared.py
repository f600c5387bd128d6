"""Lakehouses that tests start from. A process builds each history once; a test gets a copy of its files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from silver.rules import Rules
from silver.state.tables import create_tables

History = Callable[[SparkSession, Run], object]  # builds the tables of a lakehouse that is empty before


@dataclass(frozen=True)
class Histories:
    spark: SparkSession
    run_at: Callable[[Path], Run]  # makes a run over the lakehouse that belongs to a folder
    copied: Callable[[Run, Path], Run]  # makes a run over a copy of another run's tables
    new_folder: Callable[[], Path]  # makes the folder of a history
    built: dict[History, Run] = field(default_factory=dict)  # those that are built already

    def original(self, history: History) -> Run:
        if history not in self.built:
            run = self.run_at(self.new_folder() / "lakehouse")
            history(self.spark, run)
            self.built[history] = run
        return self.built[history]

    def copy(self, history: History, folder: Path) -> Run:
        return self.copied(self.original(history), folder)


def copy_of(history: History) -> Any:
    @pytest.fixture
    def run(prepared: Callable[[History], Run]) -> Run:
        return prepared(history)

    return run


def empty(spark: SparkSession, run: Run) -> None:
    """The tables of Bronze and Silver without a row, for records whose payload is not decoded."""
    tables.create(spark, run.table(BRONZE.name), BRONZE)
    create_tables(spark, run, Rules(Source("header", "seq")))
