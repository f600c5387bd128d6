"""The decision on literal rows, in memory. `test_ways` holds every way to decide against the sequential reference."""

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from lakehouse.extract.sources import Source
from lakehouse.spark import frames
from silver.decide import decision, islands
from silver.decide.decision import How, Way
from silver.model import Island
from silver.rules import Policy, Rules
from silver.state.streams import Known
from silver.state.watermarks import Watermarks
from tests.support.reference import Seen

pytestmark = pytest.mark.spark

_STREAM = "topic string, partition int, producer string"
_NARROW = f"{_STREAM}, offset bigint, epoch bigint, sequence bigint, problem string"


@pytest.mark.parametrize("how", How)
def test_a_step_is_a_jump_in_the_topic_whose_max_jump_it_passes(spark: SparkSession, how: How) -> None:
    sequences = [1, 2, 5, 30]
    topics = ("orders", "payments", "returns")
    load = [Seen(topic, 0, offset, number) for topic in topics for offset, number in enumerate(sequences)]
    rules = Rules(Source("value"), topics=(("orders", Policy(max_jump=2)), ("payments", Policy(max_jump=20))))

    found = decision.decide(spark, _narrow(spark, load), Known(Watermarks({})), rules, Way(how)).to_pylist()

    assert sorted((row["topic"], row["first_sequence"]) for row in found if row["class"] == "jump") == [
        ("orders", 5),
        ("orders", 30),
        ("payments", 30),
    ]
    assert {row["topic"]: row["last_sequence"] for row in found if row["class"] == "accepted"} == {
        "orders": 2,
        "payments": 5,
        "returns": 30,
    }


@pytest.mark.parametrize(
    ("offsets", "is_chained"),
    [
        ([0, 1, 2, 3], True),
        ([0, 1, 3, 4], False),
        ([0, 1, 1, 2], False),
        ([0, 1, 1, 3], False),  # as many records as offsets from 0 to 3, and one of them twice
        ([62, 63, 64, 65], True),
    ],
    ids=["unbroken", "gap", "twice", "gap and twice", "over the end of a word"],
)
def test_a_island_is_an_unbroken_run_of_offsets(spark: SparkSession, offsets: list[int], is_chained: bool) -> None:
    rows = [("t", 0, None, offset, 0, offset + 7, None) for offset in offsets]

    chained, odd = islands.split(islands.find_islands(frames.of_tuples(spark, rows, _NARROW)).toArrow().to_pylist())

    assert chained == ([Island(("t", 0, None), offsets[0], offsets[-1], 0, offsets[0] + 7, None)] if is_chained else [])
    assert odd == (set() if is_chained else {("t", 0, None)})


def test_islands_are_cut_in_offset_order_where_a_stream_comes_back_to_a_distance(spark: SparkSession) -> None:
    most = 2**63 - 1
    records = [
        *[("t", 0, None, 0, 0, 1, None), ("t", 0, None, 1, 0, 2, None), ("t", 0, None, 2, 0, 1, None)],  # back
        *[("t", 0, None, 3, 0, 4, None), ("t", 0, None, 4, 0, 5, None), ("t", 0, None, 4, 0, 5, None)],  # ahead; offset 4 twice
        *[("t", 0, None, 5, 0, 6, None), ("t", 0, None, 6, 1, 7, None)],  # after a replay; another epoch
        *[("t", 0, None, 7, None, None, "no header"), ("t", 0, None, 8, None, None, "no header")],
        *[("t", 0, None, 9, 1, 8, "undecodable"), ("t", 0, None, 10, 1, 9, "undecodable"), ("t", 0, None, 11, 1, 10, None)],
        *[("t", 0, "p", 0, 0, most - 1, None), ("t", 0, "p", 1, 0, most, None), ("t", 0, "p", 2, 0, 0, None)],
        *[("t", 0, "p", 4, 0, 1, None), ("t", 1, None, 5, 0, 2, None)],  # offset 3 is another stream's; another partition
    ]
    schema = (
        f"{_STREAM}, run bigint, first_offset bigint, last_offset bigint, epoch bigint, first_sequence bigint, problem string"
    )
    expected = [
        *[("t", 0, None, 1, 0, 1, 0, 1, None), ("t", 0, None, 2, 2, 2, 0, 1, None), ("t", 0, None, 3, 3, 4, 0, 4, None)],
        *[("t", 0, None, 4, 4, 4, 0, 5, None), ("t", 0, None, 5, 5, 5, 0, 6, None), ("t", 0, None, 6, 6, 6, 1, 7, None)],
        *[("t", 0, None, 7, 7, 7, None, None, "no header"), ("t", 0, None, 8, 8, 8, None, None, "no header")],
        *[("t", 0, None, 9, 9, 10, 1, 8, "undecodable"), ("t", 0, None, 10, 11, 11, 1, 10, None)],
        *[("t", 0, "p", 1, 0, 1, 0, most - 1, None), ("t", 0, "p", 2, 2, 2, 0, 0, None), ("t", 0, "p", 3, 4, 4, 0, 1, None)],
        ("t", 1, None, 1, 5, 5, 0, 2, None),
    ]

    found = islands.runs(frames.of_tuples(spark, records[::-1], _NARROW))

    assert_df_equality(found, frames.of_tuples(spark, expected, schema), ignore_row_order=True, ignore_nullable=True)


def test_rises_pass_over_the_records_of_other_streams(spark: SparkSession) -> None:
    records = [
        *[
            ("t", 0, "p", 0, 0, 5, None),
            ("t", 0, "q", 1, 0, 5, None),
            ("t", 0, "p", 2, 0, 6, None),
            ("t", 0, "q", 3, 0, 7, None),
        ],
        *[("t", 0, "p", 4, 1, 7, None), ("t", 0, "p", 5, 1, 8, "undecodable"), ("t", 0, "q", 6, 0, 8, None)],
        *[("t", 0, None, offset, None, None, "no header") for offset in (7, 9)],
        *[("t", 0, None, 10, 0, 1, None), ("t", 0, None, 11, None, None, "no header"), ("t", 0, None, 12, 0, 2, None)],
    ]
    schema = f"{_STREAM}, run bigint, first_offset bigint, epoch bigint, first_sequence bigint, records bigint"
    expected = [
        *[
            ("t", 0, "p", 1, 0, 0, 5, 2),
            ("t", 0, "p", 2, 4, 1, 7, 2),
            ("t", 0, "q", 1, 1, 0, 5, 1),
            ("t", 0, "q", 2, 3, 0, 7, 2),
        ],
        *[("t", 0, None, 0, 7, None, None, 2), ("t", 0, None, 1, 10, 0, 1, 1)],
        *[("t", 0, None, 2, 11, None, None, 1), ("t", 0, None, 3, 12, 0, 2, 1)],
    ]

    found = islands.rises(frames.of_tuples(spark, records[::-1], _NARROW))

    assert_df_equality(found, frames.of_tuples(spark, expected, schema), ignore_row_order=True, ignore_nullable=True)


def _narrow(spark: SparkSession, load: list[Seen]) -> DataFrame:
    rows = [(*r.stream, r.offset, *((None, None, "x") if r.sequence is None else (r.epoch, r.sequence, None))) for r in load]
    return frames.of_tuples(spark, rows[::-1], _NARROW)
