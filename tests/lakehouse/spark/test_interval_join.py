"""Spans and the records in them: what a join finds, and that few rows are broadcast however the spans lie."""

from collections.abc import Iterable

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.spark import frames, interval_join
from silver.audit import offset_bitmaps
from tests.support.examples import examples

Place = tuple[int, int, int]  # partition, first and last offset
_LARGEST = 2**63 - 1
_PRODUCERS_IN_TURNS = 10_000
_OFFSETS = 1_000_000


@st.composite
def places(draw: st.DrawFn) -> list[Place]:
    firsts = st.builds(int.__add__, st.sampled_from([0, 5, _LARGEST - 3_000]), st.integers(1, 40))
    spans = draw(st.lists(st.tuples(st.integers(0, 1), firsts, st.sampled_from([1, 1, 2, 60, 700])), max_size=15))
    return [(partition, first, first + length - 1) for partition, first, length in spans]


@settings(max_examples=examples(5, 20))
@given(drawn=places())
def test_merged_spans_hold_the_same_offsets_and_lie_apart(spark: SparkSession, drawn: list[Place]) -> None:
    merged = interval_join.merged(frames.of_arrow(spark, _table(drawn))).toArrow().to_pylist()

    lie_apart = [(row["partition"], row["first_offset"], row["last_offset"]) for row in merged]
    offsets = [(n, offset) for n, first, last in lie_apart for offset in range(first, last + 1)]
    assert sorted(offsets) == sorted({(n, offset) for n, first, last in drawn for offset in range(first, last + 1)})


def test_blocks_of_producers_in_turns_are_audited_as_all_their_offsets(spark: SparkSession) -> None:
    last = _OFFSETS - _PRODUCERS_IN_TURNS
    blocks = _table((0, nth, last + nth) for nth in range(_PRODUCERS_IN_TURNS))
    rejects = frames.of_arrow(spark, blocks.append_column("state", pa.array(["held"] * _PRODUCERS_IN_TURNS)))
    merged = interval_join.merged(rejects).toArrow().to_pylist()
    words = offset_bitmaps.rejects_by_word(rejects)
    assert [(row["first_offset"], row["last_offset"]) for row in merged] == [(0, _OFFSETS - 1)]
    assert {row["r_bits"] for row in words.select("r_bits").distinct().collect()} == {-1}
    assert words.count() == _OFFSETS // 64


def _table(drawn: Iterable[Place]) -> pa.Table:
    names = ("topic", "partition", "first_offset", "last_offset")
    schema = pa.schema(list(zip(names, (pa.string(), pa.int32(), pa.int64(), pa.int64()), strict=True)))
    return pa.Table.from_pylist([dict(zip(names, ("t", *place), strict=True)) for place in drawn], schema)
