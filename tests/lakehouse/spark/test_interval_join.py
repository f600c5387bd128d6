"""Spans and the records in them: what a join finds, and that few rows are broadcast however the spans lie."""

from collections.abc import Iterable
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.spark import frames, interval_join
from silver.audit import offset_bitmaps
from tests.support.examples import examples

pytestmark = pytest.mark.spark

Place = tuple[int, str | None, int, int]
"""partition, producer, first and last offset"""

_LARGEST = 2**63 - 1
_PRODUCERS = (None, "", "a", "A", "a ")
_SPANS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("producer", pa.string())]
    + [(name, pa.int64()) for name in ("first_offset", "last_offset")]
)
_PRODUCERS_IN_TURNS = 10_000
_OFFSETS = 1_000_000


@st.composite
def places(draw: st.DrawFn) -> list[Place]:
    """Spans that lie over each other, but not those of one stream; some of them long."""
    found = []
    for partition in (0, 1):
        for producer in _PRODUCERS:
            start = draw(st.sampled_from([0, 5, _LARGEST - 3_000]))
            for gap, length in draw(st.lists(st.tuples(st.integers(1, 40), st.sampled_from([1, 1, 2, 60, 700])), max_size=3)):
                found.append((partition, producer, start + gap, start + gap + length - 1))
                start += gap + length
    return found


@settings(
    max_examples=examples(5, 20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(drawn=[(0, None, 3, 702), (0, "", 4, 4), (0, "a", 5, 704), (0, "a", 706, 706)])
@given(drawn=places())
def test_long_spans_and_short_ones_hold_the_records_that_lie_in_them(spark: SparkSession, drawn: list[Place]) -> None:
    edges = {edge + by for _, _, *ends in drawn for edge in ends for by in (-1, 0, 1)} | {0}
    records = [("t", n, name, edge) for n in (0, 1) for name in _PRODUCERS for edge in sorted(edges) if edge <= _LARGEST]
    frame = frames.of_tuples(spark, records, "topic string, partition int, producer string, offset bigint")
    table = _table(drawn)
    with patch("lakehouse.spark.interval_join._MOST_BUCKETS", 8), patch("lakehouse.spark.interval_join._SHORT", 300):
        parts = interval_join.by_length(table)
        outside = interval_join.outside(spark, frame, table, by_producer=True)
        within = interval_join.within(spark, frame, table, {"first_offset": "block"}) if drawn else None

        told = {tuple(row.values()) for row in outside.toArrow().to_pylist()}
        in_block = [] if within is None else [tuple(row.values()) for row in within.toArrow().to_pylist()]

    by_hand = [
        (*record, first)
        for record in records
        for partition, producer, first, last in drawn
        if (partition, producer) == record[1:3] and first <= record[3] <= last
    ]
    assert sorted(in_block, key=str) == sorted(by_hand, key=str)
    assert told == set(records) - {row[:4] for row in by_hand}
    assert sum(len(part) for part, _ in parts) == len(drawn)


@settings(max_examples=examples(5, 20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=places())
def test_merged_spans_hold_the_same_offsets_and_lie_apart(spark: SparkSession, drawn: list[Place]) -> None:
    merged = interval_join.merged(frames.of_arrow(spark, _table(drawn))).toArrow().to_pylist()

    lie_apart = [(row["partition"], row["first_offset"], row["last_offset"]) for row in merged]
    offsets = [(n, offset) for n, first, last in lie_apart for offset in range(first, last + 1)]
    assert sorted(offsets) == sorted({(n, offset) for n, _, first, last in drawn for offset in range(first, last + 1)})


def test_blocks_of_producers_in_turns_are_few_rows_and_audited_as_all_their_offsets(spark: SparkSession) -> None:
    """Each spans nearly a million offsets: in buckets of 256 they were 38,681,872 rows, broadcast."""
    last = _OFFSETS - _PRODUCERS_IN_TURNS
    blocks = _table((0, f"p{nth}", nth, last + nth) for nth in range(_PRODUCERS_IN_TURNS))

    [(part, bits)] = interval_join.by_length(blocks)
    assert blocks.num_rows <= interval_join.bucketed(frames.of_arrow(spark, part), bits=bits).count() <= 2**16

    rejects = frames.of_arrow(spark, blocks.append_column("state", pa.array(["held"] * _PRODUCERS_IN_TURNS)))
    merged = interval_join.merged(rejects).toArrow().to_pylist()
    words = offset_bitmaps.rejects_by_word(rejects)
    assert [(row["first_offset"], row["last_offset"]) for row in merged] == [(0, _OFFSETS - 1)]
    assert {row["r_bits"] for row in words.select("r_bits").distinct().collect()} == {-1}
    assert words.count() == _OFFSETS // 64


def _table(drawn: Iterable[Place]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(_SPANS.names, ("t", *place), strict=True)) for place in drawn], _SPANS)
