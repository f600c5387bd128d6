"""Measures a large Bronze that Silver loads in parts: time and resident memory of each load.

One record in five is sent again and one in a hundred has no number, scattered over all partitions. Values have 32 bytes. A
commit of Bronze holds half of a load.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from bench.loads import Silent
from bench.machine import machine, resident_bytes
from bench.markdown import table
from bench.shapes import Shape
from bench.sitting import require
from bench.topics import PARTITIONS
from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.silver import ACCEPTED, DUPLICATE, INVALID
from lakehouse.delta import tables
from lakehouse.run.context import Run
from lakehouse.spark.session import driver_memory, open_session
from lakehouse.table import BRONZE_RECORDS, Lakehouse
from silver.load import steps
from silver.model import LoadLimits
from silver.state.tables import create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHAPE = Shape("gaps, 20 % sent again, 1 % invalid", 0, duplicates=5, invalid=100)
_HEAD = ("load", "records", "s", "records a second", "resident memory, GB")
_GIGABYTE = 1e9


def fill(spark: SparkSession, run: Run, records: int, commits: int) -> int:
    """Append records to Bronze in so many equal commits; return how many there are."""
    bronze = run.table(BRONZE_RECORDS)
    tables.create(spark, bronze, BRONZE)
    share = records // commits // PARTITIONS // _SHAPE.invalid * _SHAPE.invalid
    for nth in range(commits):
        tables.append(_SHAPE.records(spark, share * PARTITIONS, first=nth * share, noise=1), bronze, BRONZE)
    return share * PARTITIONS * commits


def load_all(spark: SparkSession, run: Run, most: int) -> Iterator[tuple[steps.Load, float, int]]:
    """Load Bronze in parts; yield each load, its seconds, and the bytes that Spark and Python then hold."""
    create_tables(spark, run, _SHAPE.rules)
    is_cut = True
    while is_cut:
        started = time.monotonic()
        done = steps.load_once(spark, run, _SHAPE.rules, LoadLimits(records=most))
        if done is None:
            return
        yield done, time.monotonic() - started, resident_bytes(os.getpid())
        is_cut = done.is_cut


def main() -> None:
    """Fill Bronze, load it in parts, and print a row for each load."""
    parser = argparse.ArgumentParser(prog="python -m bench.bounded", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000_000, help="records in Bronze (%(default)s)")
    parser.add_argument("--most", type=int, default=20_000_000, help="limit on the records of a load (%(default)s)")
    asked = parser.parse_args()
    print(f"driver: {driver_memory()}; {machine()}\n")
    spark, counts, rows = open_session("tidemark-bench"), Counter[str](), []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        run = Run("bench", Lakehouse(root=folder), Silent())
        records = fill(spark, run, asked.records, ceil(2 * asked.records / asked.most))
        for done, seconds, held in load_all(spark, run, asked.most):
            counts.update(done.counts)
            speed = f"{done.records / seconds:,.0f}"
            rows.append((f"{done.load_seq}", f"{done.records:,}", f"{seconds:.1f}", speed, f"{held / _GIGABYTE:.2f}"))
        spark.stop()
    print(table(_HEAD, rows))
    kept_out = {DUPLICATE: records // _SHAPE.duplicates, INVALID: records // _SHAPE.invalid}
    require("classes", observed=+counts, expected=Counter({ACCEPTED: records - sum(kept_out.values()), **kept_out}))


if __name__ == "__main__":
    main()
