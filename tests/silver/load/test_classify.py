"""A load with its suspects against the reference: any cutting, odd producers, extreme numbers, whatever the limits."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from lakehouse.contracts.silver import REJECTS, silver_records
from lakehouse.extract.sources import Source
from lakehouse.spark import frames
from silver.decide import decision
from silver.load import key_columns
from silver.load.planner import Found, classify
from silver.model import Limits, by_name
from silver.rules import Policy, Rules
from silver.state import ledger
from silver.state.watermarks import Watermark, Watermarks
from silver.suspects.known_records import KnownRecords
from tests.support.logs import LOADS, Log, logs
from tests.support.reference import Reference, Seen

pytestmark = pytest.mark.spark

_STREAM = "topic string, partition int, producer string"
_RECORDS = f"{_STREAM}, offset bigint, epoch bigint, sequence bigint, problem string, key binary, value binary"
_AT_ONCE = 25
"""Logs that are decided in one frame, each as a topic of its own: a Spark job for each would be too dear."""

LIMITS = {
    "at once": Limits(),
    "40 records and 25 suspects at a time": Limits(records=40, suspects=25),
}


@dataclass
class Topic:
    """A drawn log, its policies, and what the reference says of it."""

    log: Log
    policy: Policy
    settles: Literal["release", "discard"] | None
    reference: Reference = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing decided."""
        self.reference = Reference(late=self.policy.late, max_jump=self.policy.max_jump)

    def settle(self) -> None:
        """Have a person decide on the jumps that wait, between two loads."""
        if self.settles is not None:
            self.reference.settle(self.settles, lambda record: self.reference.classes[record.place] == "jump")


_POLICIES = st.builds(Policy, max_jump=st.sampled_from([None, 3, 20]), late=st.sampled_from(["quarantine", "accept", "drop"]))


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[Topic], bool]:
    """Some topics, and whether epochs differ."""
    with_epochs, with_replays = draw(st.booleans()), draw(st.booleans())
    log = logs(with_epochs=with_epochs, with_replays=with_replays)
    topic = st.builds(Topic, log, _POLICIES, st.sampled_from([None, "release", "discard"]))
    drawn = draw(st.lists(topic, min_size=_AT_ONCE, max_size=_AT_ONCE))
    return [replace(each, log=each.log.of(f"t{nth}")) for nth, each in enumerate(drawn)], with_epochs


@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(drawn=topics())
def test_every_load_is_decided_as_the_reference_does(spark: SparkSession, drawn: tuple[list[Topic], bool]) -> None:
    found, with_epochs = drawn
    policies = tuple((f"t{nth}", topic.policy) for nth, topic in enumerate(found))
    rules = Rules(Source("value"), epoch=Source("header", "epoch") if with_epochs else None, topics=policies)
    rejects: list[dict[str, Any]] = []
    for load in range(LOADS):
        sent = [record for topic in found for record in topic.log.arrivals(load)]
        past, known = _past(spark, found, rejects)
        for topic in found:
            topic.reference.take(topic.log.loads[load])
        if not sent:
            continue
        with patch.object(key_columns, "_BITS", 2):  # so that partitions are cut too
            decisions = {name: _decided(spark, sent, rules, past, limits) for name, limits in LIMITS.items()}
        told = {name: _outcome(each, known) for name, each in decisions.items()}

        first, *others = told
        for name in others:
            assert told[name] == told[first], f"{name} and {first}"
        streams, out, offsets = told[first]
        expected = {record.place: topic.reference.classes[record.place] for topic in found for record in topic.log.loads[load]}
        late_accepted = {f"t{nth}" for nth, topic in enumerate(found) if topic.policy.late == "accept"}
        assert _classes(sent, out) == {
            place: "accepted" if kind == "late" and place[0] in late_accepted else kind for place, kind in expected.items()
        }
        late = {place for place, kind in expected.items() if kind == "late" and place[0] in late_accepted}
        of_copy = {
            "out": {place for place, kind in expected.items() if kind != "accepted"} - late,
            "late": late,
            "replayed": {place for place, count in Counter(record.place for record in sent).items() if count > 1},
        }
        assert offsets == {name: places for name, places in of_copy.items() if places}
        marks = {stream: mark for topic in found for stream, mark in topic.reference.watermarks.items()}
        assert {stream: done.ordinal for stream, done in streams.items() if done.ordinal} == {
            stream: mark for stream, mark in marks.items() if stream in streams
        }
        assert sum(sum(done.counts.values()) for done in streams.values()) == len(sent)
        rejects += out
        for topic in found:
            topic.settle()


def _past(spark: SparkSession, found: Iterable[Topic], rejects: Sequence[Mapping[str, Any]]) -> tuple[KnownRecords, Watermarks]:
    """What the loads before left, by the reference; the rejects as they were decided, in the state that they are in by now."""
    marks: dict[Any, Watermark] = {}
    kept: list[dict[str, object]] = []
    states: dict[Any, str] = {}
    for topic in found:
        reference = topic.reference
        for stream, (epoch, sequence) in reference.watermarks.items():
            marks[stream] = Watermark(epoch, sequence, -1, 1, "rules")
        states |= reference.states
        for load in topic.log.loads:
            kept += [_kept(record) for record in load if record.place in reference.silver]
    known = Watermarks(marks)
    waiting = [
        {**row, "state": states[row["topic"], row["partition"], row["first_offset"]]} if row["records"] == 1 else dict(row)
        for row in rejects
    ]
    silver = frames.of_contract(spark, kept, silver_records())
    rejected = frames.of_contract(spark, waiting, REJECTS)
    return KnownRecords(lambda: silver, lambda: rejected, known), known


def _kept(record: Seen) -> dict[str, object]:
    names = dict(zip(("topic", "partition", "producer"), record.stream, strict=True))
    numbers = {"offset": record.offset, "epoch": record.epoch, "sequence": record.sequence, "load_seq": 1}
    return {**names, **numbers, "key": b"k", "value": record.payload.encode()}


def _decided(spark: SparkSession, sent: Sequence[Seen], rules: Rules, past: KnownRecords, limits: Limits) -> Found:
    """A load, its suspects classified."""
    rows = []
    for record in reversed(sent):
        numbers = (None, None) if record.sequence is None else (record.epoch, record.sequence)
        unread = "value_undecodable" if record.is_undecodable else None
        problem = "unread" if record.sequence is None else unread
        rows.append((*record.stream, record.offset, *numbers, problem, b"k", record.payload.encode()))
    records = _frame(spark, rows, _RECORDS)
    chunks = key_columns.of_records(records, rules, limits.records)
    return classify(
        spark, chunks, records, rules, load_seq=1, resolve=lambda _: past.watermarks, known=lambda: past, limits=limits
    )


def _frame(spark: SparkSession, rows: list[tuple[object, ...]], columns: str) -> DataFrame:
    return frames.of_tuples(spark, rows, columns)


def _outcome(
    found: Found, watermarks: Watermarks
) -> tuple[dict[Any, ledger.StreamLoad], list[dict[str, Any]], dict[str, set[tuple[object, ...]]]]:
    """What the ledger says of each stream, the rejects in the order of their places, and the offsets that the copy looks at."""
    rejects = found.rejects.to_pylist()
    rejects.sort(key=lambda row: (by_name((row["topic"], row["partition"], row["producer"])), row["first_offset"]))
    offsets = {name: set(_places(blocks)) for name, blocks in found.offsets.items()}
    return ledger.stream_loads(decision.summary(found.segments), [], watermarks), rejects, offsets


def _places(blocks: pa.Table) -> Iterator[tuple[object, ...]]:
    """The offsets of bitmaps."""
    for row in blocks.to_pylist():
        places = [place for place in range(64) if row["mask"] >> place & 1]
        for place, word in zip(places, row["words"], strict=True):
            first = row["block"] << 12 | place << 6
            yield from ((row["topic"], row["partition"], first | nth) for nth in range(64) if word >> nth & 1)


def _classes(sent: Iterable[Seen], rejects: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, int], str]:
    """The class of each record: accepted where no reject of its stream spans its offset."""
    classes = {record.place: "accepted" for record in sent}
    by_place: dict[tuple[object, ...], list[Seen]] = {}
    for record in {record.place: record for record in sent}.values():
        by_place.setdefault(record.stream, []).append(record)
    for reject in rejects:
        stream = (reject["topic"], reject["partition"], reject["producer"])
        span = [r for r in by_place[stream] if reject["first_offset"] <= r.offset <= reject["last_offset"]]
        assert len(span) == reject["records"]
        for record in span:
            assert classes[record.place] == "accepted", "two rejects span one record"
            classes[record.place] = str(reject["class"])
    return classes
