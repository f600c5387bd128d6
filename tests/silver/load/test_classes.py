"""One load over real tables: which class each record ends in, and what the tables say of it."""

from dataclasses import replace

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from silver.load import steps
from silver.rules import Reading, Rules
from silver.state import tables
from tests.conftest import RunAt
from tests.support.bronze import Record, put

BY_PRODUCER = Reading(Source("header", "seq"), producer=Source("header", "producer"), epoch=Source("header", "epoch"))
RULES = Rules(Source("header", "seq"), own=(("nameless", BY_PRODUCER), ("alike", BY_PRODUCER)))

RESENT = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 3, 4, 2, 3, 4, 6])]
NAMELESS = [Record.of(0, 1, epoch=0), Record.of(1, 2, epoch=0)]
NAMES = dict(enumerate(["a", "A", "a ", "a\0", " ", "\u00e9", "e\u0301", "\uffff", "\U0001f40c", "null"], start=1))
OWN = [(name, sequence) for number, name in NAMES.items() for sequence in (number, 50)]
ALL = [(name, sequence) for name in NAMES.values() for sequence in NAMES]
ALIKE = [Record.of(offset, sequence, producer=name, epoch=0) for offset, (name, sequence) in enumerate(OWN + ALL)]
SENT = {"resent": RESENT, "nameless": NAMELESS}


@pytest.fixture(scope="module")
def decided(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_at: RunAt) -> Run:
    run = run_at(tmp_path_factory.mktemp("classes"))
    put(spark, run, [replace(record, topic=topic) for topic, records in SENT.items() for record in records])
    put(spark, run, [replace(record, topic="alike") for record in ALIKE[: len(OWN)]])
    tables.create_tables(spark, run, RULES)
    steps.load_once(spark, run, RULES)
    put(spark, run, [replace(record, topic="alike") for record in ALIKE[len(OWN) :]])
    steps.load_once(spark, run, RULES)
    return run


def rows(spark: SparkSession, run: Run, table: str, topic: str) -> DataFrame:
    return spark.read.table(run.table(table).sql).where(f"topic = '{topic}'")


def kept(spark: SparkSession, run: Run, topic: str) -> list[tuple[int, int]]:
    found = rows(spark, run, "silver_records", topic).orderBy("offset").select("offset", "sequence").collect()
    return [(row["offset"], row["sequence"]) for row in found]


def test_a_resent_block_is_listed_as_one_and_counted_with_its_jumps(spark: SparkSession, decided: Run) -> None:
    rejects = rows(spark, decided, "silver_rejects", "resent")
    counted = rows(spark, decided, "silver_loads", "resent").select(
        "records", "accepted", "duplicate", "jumps_forward", "jumps_backward", "missing", "high_watermark_after"
    )

    expected = [("resent", 0, None, 0, "duplicate", None, 4, 6, 2, 4, 3, 1, "discarded", None, None)]
    assert_df_equality(rejects, spark.createDataFrame(expected, rejects.schema), transforms=[])
    assert kept(spark, decided, "resent") == [(0, 1), (1, 2), (2, 3), (3, 4), (7, 6)]
    assert [tuple(row) for row in counted.collect()] == [(8, 5, 3, 1, 1, 1, 6)]


def test_records_that_name_no_stream_still_move_the_partition(spark: SparkSession, decided: Run) -> None:
    marks = rows(spark, decided, "silver_watermarks", "nameless")
    found = marks.select("producer", "epoch", "high_watermark", "last_offset").collect()
    assert [tuple(row) for row in found] == [(None, None, None, 1)]


def test_producers_whose_names_look_alike_are_streams_of_their_own(spark: SparkSession, decided: Run) -> None:
    rejects = rows(spark, decided, "silver_rejects", "alike").where("class = 'duplicate'").select("producer", "first_sequence")
    counted = rows(spark, decided, "silver_loads", "alike").orderBy("load_seq").select("accepted", "late", "duplicate")

    assert sorted(map(tuple, rejects.collect())) == sorted((name, number) for number, name in NAMES.items())
    assert [tuple(row) for row in counted.collect()] == [(2, 0, 0)] * len(NAMES) + [(0, 9, 1)] * len(NAMES)
