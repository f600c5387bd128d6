"""The load protocol over real tables: whatever stops it, however its input is cut, the tables come out the same."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from expectations import gate
from lakehouse.delta import tables
from lakehouse.errors import AnotherWriterError, TableMissingError, TableStateError
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from lakehouse.settings.formats import Undecodable
from lakehouse.settings.pipeline import Gate, Settings
from pipelines.operate import requests
from silver import model
from silver.load import planner, recover
from silver.load import steps as load
from silver.model import Limits
from silver.rules import Policy, Rules
from silver.state.request import RecordFilter, Request
from silver.state.tables import create_tables
from tests.support.bronze import SEQ, Record, put
from tests.support.examples import examples
from tests.support.prepared import copy_of
from tests.support.reference import Reference, Seen, Stream
from tests.support.small_config import settings_of
from tests.support.stages import require_sound
from tidemark.readers.database import connect

Kind = Literal["release", "discard"]

BY_HEADER = Rules(Source("header", "seq"))


def load_all(spark: SparkSession, run: Run, rules: Rules = BY_HEADER, limits: Limits = model.LIMITS) -> load.Load:
    create_tables(spark, run, rules)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(model, "LIMITS", limits)
        done = load.load_once(spark, run, rules)
    assert done is not None
    return done


def kept(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    rows = spark.read.table(run.table("silver_records").sql).orderBy("partition", "offset").collect()
    return [(row["offset"], row["sequence"]) for row in rows]


def loaded_twice(spark: SparkSession, run: Run) -> None:
    """Load 1: 1 and 2. Load 2: 3."""
    for records in ([Record.of(0, 1), Record.of(1, 2)], [Record.of(2, 3)]):
        put(spark, run, records)
        load_all(spark, run)


run = copy_of(loaded_twice)


def test_a_load_without_bronze_is_refused(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    with pytest.raises(TableMissingError, match=r"bronze_records(.|\n)*tidemark run"):
        load_all(spark, new_run())


@pytest.mark.parametrize(
    ("change", "table", "observed"),
    [
        ("DELETE FROM {}", "silver_records", "rows by load: {}"),
        ("DELETE FROM {}", "silver_watermarks", "last claimed load 2, last finished load 0"),
        ("DELETE FROM {}", "silver_loads", "last claimed load 1, no rows of load 2, last finished load 2"),
        ("UPDATE {} SET high_watermark = high_watermark - 1", "silver_watermarks", "(0, 2, 2, None)"),
    ],
)
def test_a_table_changed_alone_is_refused(spark: SparkSession, run: Run, change: str, table: str, observed: str) -> None:
    spark.sql(f"{change.format(run.table(table).sql)} WHERE load_seq = 2")

    with pytest.raises(TableStateError, match=rf"where: .*{table}") as refused:
        load_all(spark, run)
    assert observed in str(refused.value)


def test_bronze_that_has_lost_its_last_commit_is_refused(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    for file in sorted((tmp_path / "lakehouse" / "bronze_records" / "_delta_log").glob("*.json"))[-1:]:
        file.unlink()
        file.with_suffix(".crc").unlink(missing_ok=True)

    with pytest.raises(TableStateError, match="at an earlier version than the last load has read"):
        load_all(spark, run)


def test_watermarks_that_are_emptied_under_a_load_stay_so_with_a_way_out(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(0, 1, partition=2)])
    planned = planner.plan(spark, run, BY_HEADER, recover.recover(spark, run, BY_HEADER))
    assert planned is not None
    load.claim(spark, run, planned)
    before = tables.version(spark, run.table("silver_watermarks"))
    spark.sql(f"DELETE FROM {run.table('silver_watermarks').sql}")

    with pytest.raises(TableStateError, match=r"last finished load 0(.|\n)*restore --to 2"):
        load.apply_claim(spark, run, planned)
    spark.sql(f"RESTORE TABLE {run.table('silver_watermarks').sql} TO VERSION AS OF {before}")
    done = load_all(spark, run)

    assert (done.load_seq, done.is_repeat) == (3, True)
    assert kept(spark, run) == [(0, 1), (1, 2), (2, 3), (0, 1)]


def test_a_claimed_load_that_would_be_decided_differently_now_is_refused(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(0, 1, partition=2)])
    planned = planner.plan(spark, run, BY_HEADER, recover.recover(spark, run, BY_HEADER))
    assert planned is not None
    load.claim(spark, run, planned)
    spark.sql(f"UPDATE {run.table('silver_loads').sql} SET accepted = 0, duplicate = 1 WHERE load_seq = 3")

    with pytest.raises(TableStateError, match=r"Load 3 is claimed(.|\n)*gives another outcome(.|\n)*where: .*silver_loads"):
        load_all(spark, run)
    assert kept(spark, run) == [(0, 1), (1, 2), (2, 3)]


def test_of_two_runs_that_claim_the_same_load_one_goes_on(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    first, second = new_run(), new_run()
    put(spark, first, [Record.of(0, 1)])
    create_tables(spark, first, BY_HEADER)
    recovered = recover.recover(spark, first, BY_HEADER)
    one = planner.plan(spark, first, BY_HEADER, recovered)
    two = planner.plan(spark, second, BY_HEADER, recovered)
    assert one is not None
    assert two is not None

    load.claim(spark, first, one)
    with pytest.raises(AnotherWriterError):
        load.claim(spark, second, two)

    load_all(spark, second)
    assert kept(spark, second) == [(0, 1)]


_POLICIES = {
    "t": Policy(contiguous=True),
    "u": Policy(max_jump=25, late="accept", contiguous=True),
    "v": Policy(late="drop", contiguous=True),
    "w": Policy(max_jump=25, contiguous=True),
    "x": Policy(late="accept", contiguous=True),
}
_ACCEPTING = {"u", "v"}
"""Topics whose undecodable values are accepted."""
_PARTITIONS = examples(10, 25)
"""Of each topic. Each partition has a history of its own, cut in its own places."""
_RECORDS = 60
_COMMITS = 4


def test_any_cutting_into_loads_gives_the_tables_of_the_reference(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    chance = random.Random(0)
    undecodable: dict[str, Undecodable] = {topic: "accept" if topic in _ACCEPTING else "quarantine" for topic in _POLICIES}
    settings = settings_of(
        new_run(),
        topics=tuple(_POLICIES),
        policies={"max_quarantined_share": 1, "topics": {topic: vars(policy) for topic, policy in _POLICIES.items()}},
        value={"format": "text"},
        own={topic: {"value": {"undecodable": each}} for topic, each in undecodable.items()},
        producer={"header": "producer"},
        epoch={"header": "epoch"},
    )
    rules = Rules.of(settings)
    histories = [_history(topic, partition, chance) for topic in _POLICIES for partition in range(_PARTITIONS)]
    expected = {topic: Reference(own.late, own.max_jump, undecodable=undecodable[topic]) for topic, own in _POLICIES.items()}
    replays, undecided = 0, list[Seen]()
    cuts = [sorted([0, *(chance.randint(0, _RECORDS) for _ in range(_COMMITS - 1)), _RECORDS]) for _ in histories]
    for nth in range(_COMMITS):
        commit, again = list[Seen](), list[Seen]()
        for history, cut in zip(histories, cuts, strict=True):
            commit += history[cut[nth] : cut[nth + 1]]
            again += history[max(0, cut[nth] - 5) : cut[nth]] if chance.random() < 0.7 else []
        replays += len(again)
        batch = commit + again
        chance.shuffle(batch)  # the order that rows are stored in says nothing
        put(spark, new_run(), map(_record, batch), chance.choice([rules.sources, SEQ, None]))
        undecided += commit
        is_last = nth == _COMMITS - 1
        if chance.random() < 0.6 or nth == 1 or is_last:
            limits = Limits(records=chance.choice([500, 2_000_000]), suspects=chance.choice([300, 250_000]))
            load_all(spark, new_run(), rules, limits)
            for topic, reference in expected.items():
                reference.take(seen for seen in undecided if seen.topic == topic)
            undecided.clear()
            # Both at the end, so that every history has seen both; in between whatever is drawn, and streams that are retired.
            kinds: list[Kind] = ["release", "discard"] if is_last else [chance.choice(["release", "discard"])]
            for kind in kinds:
                _settle_some(spark, new_run(), settings, expected, chance, kind=kind)
            if not is_last:
                retire = Request("retire", "quiet", "ann", wanted=RecordFilter(days=0))
                requests.carry_out(spark, new_run(), settings, retire, is_dry_run=False)

    back = {seen.stream for history, cut in zip(histories, cuts, strict=True) for seen in history[cut[-2] :]}
    _compare(spark, new_run(), [seen for history in histories for seen in history], expected, back)
    ledger = spark.read.table(new_run().table("silver_loads").sql).collect()
    assert {row["kind"] for row in ledger} == {"records", "release", "discard", "retire"}
    assert sum(row["replay"] for row in ledger) == replays
    assert sum(row["records"] for row in ledger) == sum(map(len, histories)) + replays
    for name, count in Counter(_of_all(expected, "classes").values()).items():
        assert sum(row[name] for row in ledger) == count
    late = [reference.classes.values() for reference in expected.values() if reference.late == "accept"]
    assert sum(row["late_accepted"] for row in ledger) == sum(kind == "late" for kinds in late for kind in kinds)


def _compare(spark: SparkSession, run: Run, log: list[Seen], expected: Mapping[str, Reference], back: set[Stream]) -> None:
    """Compare the tables with the reference; of the streams that were retired, those have come back."""
    silver = spark.read.table(run.table("silver_records").sql).collect()
    assert {(r["topic"], r["partition"], r["offset"]): r["arrival"] for r in silver} == _of_all(expected, "silver")
    assert len(silver) == len(_of_all(expected, "silver"))
    marks = spark.read.table(run.table("silver_watermarks").sql).where("high_watermark IS NOT NULL").collect()
    known = {(r["topic"], r["partition"], r["producer"]): (r["epoch"], r["high_watermark"]) for r in marks}
    whole = _of_all(expected, "watermarks")
    assert known.items() <= whole.items()
    assert known.keys() >= back & whole.keys()
    classes, states = _of_all(expected, "classes"), _of_all(expected, "states")
    assert _rejected(spark, run, log) == {place: (classes[place], state) for place, state in states.items()}
    assert set(classes.values()) == {"accepted", "duplicate", "late", "collision", "invalid", "fenced", "jump"}
    assert set(states.values()) == {"held", "released", "discarded"}
    assert _missing(run) == set().union(*(reference.missing for reference in expected.values()))
    audited = gate.audit(spark, run, Gate())
    assert audited is not None
    gate.raise_if_failed(run, audited)
    require_sound(spark, run)


def _history(topic: str, partition: int, chance: random.Random) -> list[Seen]:
    """What came to a partition: two producers, two epochs, resends, other payloads, and what cannot be read."""
    sequences = chance.choices([None, *range(40), *range(40)], k=_RECORDS)
    payloads = chance.choices("xxxxxxyyy\xff", k=_RECORDS)
    return [
        Seen(topic, partition, offset, sequence, chance.choice("ab"), chance.choice([0, 0, 0, 1]), payload, payload == "\xff")
        for offset, (sequence, payload) in enumerate(zip(sequences, payloads, strict=True))
    ]


def _of_all(expected: Mapping[str, Reference], name: str) -> dict[Any, Any]:
    """What the references of all topics say."""
    return {place: found for reference in expected.values() for place, found in getattr(reference, name).items()}


def _missing(run: Run) -> set[tuple[tuple[str, int, str | None], int, int]]:
    """What the view says that Silver lacks, each sequence on its own."""
    with connect(run.lakehouse) as tables:
        found = tables.rows("SELECT * FROM silver_missing")
    return {
        ((row["topic"], row["partition"], row["producer"]), row["epoch"], sequence)
        for row in found
        for sequence in range(row["first_sequence"], row["last_sequence"] + 1)
    }


def _settle_some(
    spark: SparkSession, run: Run, settings: Settings, expected: Mapping[str, Reference], chance: random.Random, *, kind: Kind
) -> None:
    """Release or discard a part of what waits, here and in the reference."""
    wanted = RecordFilter(topic=chance.choice([None, *_POLICIES]), producer=chance.choice(["a", "b", None]))
    requests.carry_out(spark, run, settings, Request(kind, "as agreed", "ann", wanted=wanted), is_dry_run=False)
    for topic, reference in expected.items():
        if wanted.topic in (None, topic):
            reference.settle(kind, lambda seen: wanted.producer in (None, seen.producer))


def _record(seen: Seen) -> Record:
    read = "x" if seen.sequence is None else seen.sequence
    record = Record.of(seen.offset, read, partition=seen.partition, producer=seen.producer, epoch=seen.epoch)
    value = f"v{seen.sequence}{seen.payload}".encode("latin-1")  # one of the payloads is no UTF-8
    return type(record)(**{**vars(record), "topic": seen.topic, "value": value})


def _rejected(spark: SparkSession, run: Run, log: list[Seen]) -> dict[tuple[str, int, int], tuple[str, str]]:
    """The class and state of each rejected record, from the spans of `silver_rejects`, whose other columns fit the records."""
    found: dict[tuple[str, int, int], tuple[str, str]] = {}
    by_stream: dict[object, list[Seen]] = {}
    for seen in log:
        by_stream.setdefault(seen.stream, []).append(seen)
    for row in spark.read.table(run.table("silver_rejects").sql).collect():
        stream = (row["topic"], row["partition"], row["producer"])
        span = [seen for seen in by_stream[stream] if row["first_offset"] <= seen.offset <= row["last_offset"]]
        first, last = span[0], span[-1]
        is_read = first.sequence is not None
        assert len(span) == row["records"]
        assert (row["first_offset"], row["last_offset"]) == (first.offset, last.offset)
        assert (row["first_sequence"], row["last_sequence"]) == (first.sequence, last.sequence)
        assert row["epoch"] == (first.epoch if is_read else None)
        reason = "value_undecodable" if is_read else "sequence_not_a_whole_number"
        assert row["reason"] == (reason if row["class"] == "invalid" else None)
        found |= {seen.place: (row["class"], row["state"]) for seen in span}
    return found
