"""Silver tables for tests, made by real loads from Bronze records with a JSON value."""

import json
from collections.abc import Iterable

from pyspark.sql import SparkSession

from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from silver.load import steps
from silver.rules import Payload, Rules
from silver.state import tables
from tests.support.bronze import Record, put

RULES = Rules(Source("header", "seq"), payload=Payload("json", "id STRING, n BIGINT"))


def message(offset: int, sequence: int, *, partition: int = 0, key: str | None = "k", value: bytes | None = None) -> Record:
    text = json.dumps({"id": f"id{sequence}", "n": sequence}).encode() if value is None else value
    headers = (("seq", str(sequence).encode()),)
    return Record(offset, value=text, key=None if key is None else key.encode(), headers=headers, partition=partition)


def load_records(spark: SparkSession, run: Run, records: Iterable[Record]) -> None:
    put(spark, run, records)
    tables.create_tables(spark, run, RULES)
    steps.load_once(spark, run, RULES)


def two_loads(spark: SparkSession, run: Run) -> None:
    """Load 1: 1 2 3 2 4 in partition 0 (one is resent), 1 2 3 in partition 1. Load 2: 5 8 in partition 0 (two are missing)."""
    ordered = [message(offset, sequence, key=f"k{sequence}") for offset, sequence in enumerate([1, 2, 3, 2, 4])]
    others = [message(offset, sequence, partition=1, key=None) for offset, sequence in enumerate([1, 2, 3])]
    load_records(spark, run, [*ordered, *others])
    load_records(spark, run, [message(5, 5, key="k1"), message(6, 8, key="k8", value=b"not json")])
