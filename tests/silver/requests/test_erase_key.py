"""Which stream of the ledger an erased record counts in."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import TableStateError
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from silver.requests import planner
from silver.rules import Rules
from silver.state.ledger import Settled
from silver.state.tables import create_tables
from silver.state.watermarks import Streams, Watermark, Watermarks
from tests.support.bronze import Record, frame

RULES = Rules(Source("header", "seq"), producer=Source("header", "producer"))
NONE = Settled()


def test_a_record_that_version_0_1_read_otherwise_counts_in_a_stream_of_its_partition(spark: SparkSession, run: Run) -> None:
    meant = frame(spark, [Record.of(0, 1, producer=""), Record.of(1, 2, producer=""), Record.of(2, 1, producer="a")])
    known = Watermarks({("t", 0, name): Watermark(0, 7, 20, 1, "rules") for name in ("", "a")})
    found = planner.erased_loads(meant, NONE, RULES, Streams(spark, run, known))
    assert {stream: load.erased for stream, load in found.items()} == {("t", 0, ""): 2, ("t", 0, "a"): 1}


def test_a_partition_without_any_watermark_is_an_error(spark: SparkSession, run: Run) -> None:
    create_tables(spark, run, RULES)
    known = Watermarks({("t", 1, "a"): Watermark(0, 7, 20, 1, "rules")})
    with pytest.raises(TableStateError, match="no watermark"):
        planner.erased_loads(frame(spark, [Record.of(0, 1, producer="a")]), NONE, RULES, Streams(spark, run, known))
