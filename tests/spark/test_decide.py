"""The decision against the sequential reference, in memory: any streams, any cutting into loads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse import frames
from silver import ledger, segments
from silver.watermarks import Watermark, Watermarks
from tests.support.reference import Seen, decide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_NARROW = "topic string, partition int, producer string, offset bigint, epoch bigint, sequence bigint, problem string"
_SEQUENCES = st.one_of(st.integers(0, 12), st.integers(0, 60), st.sampled_from([None, 0, 2**63 - 1]))


@st.composite
def logs(draw: st.DrawFn) -> list[list[Seen]]:
    """A dozen topics, each a Kafka log of two partitions that was cut into three loads at random."""
    loads: list[list[Seen]] = [[], [], []]
    for topic in range(12):
        with_epochs = draw(st.booleans())
        for partition in range(2):
            drawn = draw(
                st.lists(
                    st.tuples(
                        _SEQUENCES,
                        st.sampled_from([None, "a", "b"]),
                        st.integers(0, 2 if with_epochs else 0),
                        st.integers(1, 2),
                    ),
                    max_size=14,
                )
            )
            cuts = sorted(draw(st.lists(st.integers(0, len(drawn)), min_size=2, max_size=2)))
            offset = -1
            for index, (sequence, producer, epoch, step) in enumerate(drawn):
                offset += step  # compaction and transaction markers leave gaps between offsets
                load = sum(index >= cut for cut in cuts)
                loads[load].append(Seen(f"t{topic}", partition, offset, sequence, producer, epoch))
    return loads


@pytest.mark.parametrize("max_jump", [None, 20])
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(loads=logs())
def test_any_cutting_into_loads_decides_as_the_reference_does(
    spark: SparkSession, max_jump: int | None, loads: list[list[Seen]]
) -> None:
    records = [record for load in loads for record in load]
    expected = decide(records, max_jump)

    classes: dict[tuple[str, int, int], str] = {}
    watermarks = Watermarks({})
    for number, load in enumerate(loads, start=1):
        if load:
            decided, watermarks = _load(spark, load, watermarks, number, max_jump)
            classes |= decided

    assert classes == expected.classes
    assert watermarks.ordinals == expected.watermarks


def _load(
    spark: SparkSession, load: list[Seen], watermarks: Watermarks, number: int, max_jump: int | None
) -> tuple[dict[tuple[str, int, int], str], Watermarks]:
    """Decide one load as the planner does, and move the watermarks as the ledger says."""
    rows = [(*r.stream, r.offset, *((None, None, "x") if r.sequence is None else (r.epoch, r.sequence, None))) for r in load]
    found = segments.collect(spark, frames.of_tuples(spark, rows[::-1], _NARROW), watermarks, max_jump=max_jump)
    streams = ledger.stream_loads(segments.summary(found), [], watermarks)
    moved = {}
    for stream, done in streams.items():
        epoch, sequence = done.ordinal or (None, None)
        moved[stream] = Watermark(epoch, sequence, done.last_offset, number, "rules")
    assert sum(sum(stream.counts.values()) for stream in streams.values()) == len(load)
    return _classes(load, segments.rejects(found, number).to_pylist()), replace(watermarks, rows={**watermarks.rows, **moved})


def _classes(load: list[Seen], rejects: list[dict[str, Any]]) -> dict[tuple[str, int, int], str]:
    """The class of each record: accepted where no reject of its stream spans its offset."""
    classes = {(r.topic, r.partition, r.offset): "accepted" for r in load}
    for reject in rejects:
        stream = (reject["topic"], reject["partition"], reject["producer"])
        span = [r for r in load if r.stream == stream and reject["first_offset"] <= r.offset <= reject["last_offset"]]
        assert len(span) == reject["records"]
        for record in span:
            key = (record.topic, record.partition, record.offset)
            assert classes[key] == "accepted", "two rejects span one record"
            classes[key] = str(reject["class"])
    return classes
