"""The decision against the sequential reference, in memory: any streams, any cutting into loads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse import frames
from silver import ledger, segments, stretches
from silver.fold import Stretch
from silver.rules import Policy, Rules, Source
from silver.segments import How
from silver.streams import Known
from silver.watermarks import Watermark, Watermarks
from tests.support.reference import Reference, Seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from silver.fold import Stream

pytestmark = pytest.mark.spark

_NARROW = "topic string, partition int, producer string, offset bigint, epoch bigint, sequence bigint, problem string"
_SEQUENCES = st.one_of(st.integers(0, 12), st.integers(0, 60), st.sampled_from([None, 0, 2**63 - 1]))


@st.composite
def logs(draw: st.DrawFn) -> list[list[Seen]]:
    """A dozen topics, each a Kafka log of two partitions that was cut into three loads at random."""
    loads: list[list[Seen]] = [[], [], []]
    with_epochs = draw(st.booleans())
    for topic in range(12):
        for partition in range(2):
            drawn = draw(
                st.lists(
                    st.tuples(
                        _SEQUENCES,
                        st.sampled_from([None, "a", "b"]),
                        st.integers(0, 2 if with_epochs else 0),
                        st.sampled_from([1, 1, 2]),
                        st.integers(1, 4),
                    ),
                    max_size=8,
                )
            )
            sent = list(_in_runs(drawn))
            cuts = sorted(draw(st.lists(st.integers(0, len(sent)), min_size=2, max_size=2)))
            offset = -1
            for index, (sequence, producer, epoch, step) in enumerate(sent):
                offset += step  # compaction and transaction markers leave gaps between offsets
                load = sum(index >= cut for cut in cuts)
                loads[load].append(Seen(f"t{topic}", partition, offset, sequence, producer, epoch))
    return loads


def _in_runs(
    drawn: list[tuple[int | None, str | None, int, int, int]],
) -> Iterator[tuple[int | None, str | None, int, int]]:
    """Each drawn number is sent with those that follow it, as producers send and send again."""
    for sequence, producer, epoch, step, length in drawn:
        for nth in range(1 if sequence is None or sequence == 2**63 - 1 else length):
            yield (None if sequence is None else sequence + nth), producer, epoch, step if nth == 0 else 1


_OWN_JUMPS = {"t0": None, "t1": None, "t2": None, "t3": 5, "t4": 5, "t5": 5, "t6": 40}


@pytest.mark.parametrize(("max_jump", "of_topics"), [(None, {}), (20, _OWN_JUMPS)], ids=["any", "20, some topics their own"])
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(loads=logs())
def test_any_cutting_into_loads_decides_as_the_reference_does(
    spark: SparkSession, max_jump: int | None, of_topics: dict[str, int | None], loads: list[list[Seen]]
) -> None:
    records = [record for load in loads for record in load]
    expected = Reference(max_jump=max_jump, max_jump_of=of_topics).take(records)
    told = {"duplicate": "suspect", "late": "suspect", "collision": "suspect"}  # the exact look comes after
    rules = Rules(
        Source("value"),
        epoch=Source("header", "e") if any(r.epoch for r in records) else None,
        max_jump=max_jump,
        topics=tuple((topic, Policy(most)) for topic, most in of_topics.items()),
    )

    classes: dict[tuple[str, int, int], str] = {}
    watermarks = Watermarks({})
    for number, load in enumerate(loads, start=1):
        if load:
            decided, watermarks = _load(spark, load, watermarks, number, rules)
            classes |= decided

    assert classes == {key: told.get(kind, kind) for key, kind in expected.classes.items()}
    assert watermarks.ordinals == expected.watermarks


@pytest.mark.parametrize("how", How)
def test_a_step_is_a_jump_in_the_topic_whose_max_jump_it_passes(spark: SparkSession, how: How) -> None:
    sequences = [1, 2, 5, 30]
    topics = ("orders", "payments", "returns")
    load = [Seen(topic, 0, offset, number) for topic in topics for offset, number in enumerate(sequences)]
    rules = Rules(Source("value"), topics=(("orders", Policy(max_jump=2)), ("payments", Policy(max_jump=20))))

    found = segments.collect(spark, _narrow(spark, load), Known(Watermarks({})), rules, how).segments.to_pylist()

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
def test_a_stretch_is_an_unbroken_run_of_offsets(spark: SparkSession, offsets: list[int], is_chained: bool) -> None:
    rows = [("t", 0, None, offset, 0, offset + 7, None) for offset in offsets]

    chained, odd = stretches.split(stretches.stretches(frames.of_tuples(spark, rows, _NARROW)).toArrow().to_pylist())

    assert chained == ([Stretch(("t", 0, None), offsets[0], offsets[-1], 0, offsets[0] + 7, None)] if is_chained else [])
    assert odd == (set() if is_chained else {("t", 0, None)})


def _narrow(spark: SparkSession, load: list[Seen]) -> DataFrame:
    rows = [(*r.stream, r.offset, *((None, None, "x") if r.sequence is None else (r.epoch, r.sequence, None))) for r in load]
    return frames.of_tuples(spark, rows[::-1], _NARROW)


def _load(
    spark: SparkSession, load: list[Seen], watermarks: Watermarks, number: int, rules: Rules
) -> tuple[dict[tuple[str, int, int], str], Watermarks]:
    """Decide one load as the planner does, in every way, and move the watermarks as the ledger says."""
    ways = [segments.collect(spark, _narrow(spark, load), Known(watermarks), rules, how).segments for how in How]
    (streams, rejects), *others = [_outcome(found, watermarks, rules) for found in ways]
    assert all(other == (streams, rejects) for other in others)
    moved = {}
    for stream, done in streams.items():
        epoch, sequence = done.ordinal or (None, None)
        moved[stream] = Watermark(epoch, sequence, done.last_offset, number, "rules")
    assert sum(sum(stream.counts.values()) for stream in streams.values()) == len(load)
    return _classes(load, rejects), replace(watermarks, rows={**watermarks.rows, **moved})


def _outcome(
    found: pa.Table, watermarks: Watermarks, rules: Rules
) -> tuple[dict[Stream, ledger.StreamLoad], list[dict[str, Any]]]:
    """What the ledger says of each stream, and the rejects in the order of their places."""
    told = [replace(s, kind="duplicate") if s.kind == "suspect" else s for s in segments.summary(found)]
    rejects = segments.rejects(found, 1, rules).to_pylist()
    rejects.sort(key=lambda row: (row["topic"], row["partition"], row["producer"] or "", row["first_offset"]))
    return ledger.stream_loads(told, [], watermarks), rejects


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
