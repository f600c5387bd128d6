"""The pipeline's stages over Bronze tables that a test wrote: what a run does, without a broker."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines import bronze_to_silver, silver_to_gold
from pipelines.verify import run as verify
from silver.load import steps
from silver.rules import Rules
from silver.state import tables
from tests.support.bronze import Record, put


class Stopped(Exception):  # noqa: N818 -- a stop, no error of ours
    pass


def stop(*_: object, **__: object) -> None:
    raise Stopped


@contextlib.contextmanager
def stopped_at(module: object, name: str) -> Iterator[None]:
    """Have what is done here die where it would call a function of a module."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, name, stop)
        with pytest.raises(Stopped):
            yield


def loaded(spark: SparkSession, run: Run, settings: Settings, records: Iterable[Record]) -> steps.Load:
    put(spark, run, records)
    rules = Rules.of(settings)
    tables.create_tables(spark, run, rules)
    done = steps.load_once(spark, run, rules, bronze_to_silver.limits(settings))
    assert done is not None
    return done


def published(spark: SparkSession, run: Run, settings: Settings) -> dict[str, Any]:
    silver_to_gold.run_gate(spark, run, settings)
    return silver_to_gold.run_gold(spark, run, settings)


def ran(spark: SparkSession, run: Run, settings: Settings) -> dict[str, Any]:
    done = bronze_to_silver.run(spark, run, settings)
    published(spark, run, settings)
    return done


def require_sound(spark: SparkSession, run: Run, *, is_deep: bool = False) -> None:
    found: dict[str, Any] = verify.verify(spark, run, is_deep=is_deep)
    assert [each for each in found["checks"] if not each["ok"]] == []
