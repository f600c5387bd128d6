"""Frames of rows on the driver, of records at some offsets, and of spans: no row more or less, and few are broadcast."""

from collections.abc import Iterable
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.spark import bitmaps, frames, pruning
from silver.audit import offset_bitmaps
from tests.support.examples import examples


@pytest.mark.parametrize("chunks", [[[1], [], [2]], [[], [1, 2]], [[1, 2], []], [[], [1], [], [], [2], []], [[], []]], ids=str)
def test_no_row_is_lost_behind_a_chunk_without_rows(spark: SparkSession, chunks: list[list[int]]) -> None:
    schema = pa.schema([pa.field("offset", pa.int64(), nullable=False)])
    table = pa.table([pa.chunked_array(chunks, pa.int64())], schema=schema)
    with patch.object(frames, "_AT_ONCE", 1):
        for frame in (frames.of_arrow(spark, table), frames.of_many(spark, table)):
            assert frame.columns == ["offset"]
            assert [row["offset"] for row in frame.collect()] == [each for chunk in chunks for each in chunk]


_LARGEST = 2**63 - 1
_WANTED = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_DRAWN_OFFSETS = st.one_of(st.integers(0, 200), st.sampled_from([4_095, 4_096, 8_191, _LARGEST - 63, _LARGEST - 1, _LARGEST]))
_PLACES = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1), _DRAWN_OFFSETS)


@settings(max_examples=examples(5, 20), suppress_health_check=[HealthCheck.too_slow])
@given(wanted=st.lists(_PLACES, max_size=60))
def test_the_records_at_some_offsets_are_found_and_no_others(spark: SparkSession, wanted: list[tuple[str, int, int]]) -> None:
    near = {(topic, partition, offset + by) for topic, partition, offset in wanted for by in (-64, -1, 0, 1, 64)}
    others = {(topic, 1 - partition, offset) for topic, partition, offset in wanted}
    records = sorted(place for place in near | others | {("t", 0, 7)} if 0 <= place[2] <= _LARGEST)
    frame = frames.of_tuples(spark, [*records, *records], "topic string, partition int, offset bigint")
    table = pa.Table.from_pylist([dict(zip(_WANTED.names, place, strict=True)) for place in wanted], _WANTED)

    blocks = bitmaps.blocks(table)
    ways = {how: bitmaps.join(spark, frame, blocks, how).toArrow().to_pylist() for how in ("left_semi", "left_anti", "left")}

    inside, outside = ([place for place in records if (place in wanted) == is_in] for is_in in (True, False))
    assert sorted(tuple(row.values()) for row in ways["left_semi"]) == sorted(inside * 2)
    assert sorted(tuple(row.values()) for row in ways["left_anti"]) == sorted(outside * 2)
    assert sorted(tuple(row.values())[:3] for row in ways["left"] if row["block"] is not None) == sorted(inside * 2)
    assert len(ways["left"]) == 2 * len(records)


Place = tuple[int, int, int]  # partition, first and last offset
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
    merged = pruning.merge_intervals(frames.of_arrow(spark, _table(drawn))).toArrow().to_pylist()

    lie_apart = [(row["partition"], row["first_offset"], row["last_offset"]) for row in merged]
    offsets = [(n, offset) for n, first, last in lie_apart for offset in range(first, last + 1)]
    assert sorted(offsets) == sorted({(n, offset) for n, first, last in drawn for offset in range(first, last + 1)})


def test_blocks_of_producers_in_turns_are_audited_as_all_their_offsets(spark: SparkSession) -> None:
    last = _OFFSETS - _PRODUCERS_IN_TURNS
    blocks = _table((0, nth, last + nth) for nth in range(_PRODUCERS_IN_TURNS))
    rejects = frames.of_arrow(spark, blocks.append_column("state", pa.array(["held"] * _PRODUCERS_IN_TURNS)))
    merged = pruning.merge_intervals(rejects).toArrow().to_pylist()
    words = offset_bitmaps.rejects_by_word(rejects)
    assert [(row["first_offset"], row["last_offset"]) for row in merged] == [(0, _OFFSETS - 1)]
    assert {row["r_bits"] for row in words.select("r_bits").distinct().collect()} == {-1}
    assert words.count() == _OFFSETS // 64


def _table(drawn: Iterable[Place]) -> pa.Table:
    names = ("topic", "partition", "first_offset", "last_offset")
    schema = pa.schema(list(zip(names, (pa.string(), pa.int32(), pa.int64(), pa.int64()), strict=True)))
    return pa.Table.from_pylist([dict(zip(names, ("t", *place), strict=True)) for place in drawn], schema)
