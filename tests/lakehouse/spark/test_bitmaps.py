"""Records at some offsets are found by bitmaps: those, and no others."""

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.spark import bitmaps, frames
from tests.support.examples import examples

_LARGEST = 2**63 - 1
_WANTED = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_OFFSETS = st.one_of(st.integers(0, 200), st.sampled_from([4_095, 4_096, 8_191, _LARGEST - 63, _LARGEST - 1, _LARGEST]))
_PLACES = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1), _OFFSETS)


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
