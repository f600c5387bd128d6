"""The exact look: what lies below a watermark is a duplicate, a late record or a collision, whichever load brought its like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.cli import order as jobs_order
from jobs.readers.why import why, write_why
from lakehouse.errors import BreakerOpenError, TidemarkError
from lakehouse.extract.sources import Source
from lakehouse.settings.pipeline import Settings
from pipelines.arrival_order import orders
from silver.decide.decision import How, Way
from silver.load import steps
from silver.rules import Policy, Rules
from silver.state import tables
from tests.support.bronze import Record, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from silver.audit.arrival_order import Order
    from silver.rules import Late

pytestmark = pytest.mark.spark

RULES = Rules(Source("header", "seq"))


def loaded(spark: SparkSession, run: Run, records: list[Record], rules: Rules = RULES, way: Way | None = None) -> steps.Load:
    put(spark, run, records)
    tables.create_tables(spark, run, rules)
    done = steps.load_once(spark, run, rules, max_quarantined_share=0.5, way=way)
    assert done is not None
    return done


def rejects(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    """Class, first and last offset, records and state of each reject."""
    rows = spark.read.table(run.table("silver_rejects").sql).orderBy("partition", "first_offset").collect()
    return [(row["class"], row["first_offset"], row["last_offset"], row["records"], row["state"]) for row in rows]


def kept(spark: SparkSession, run: Run) -> list[tuple[int, int]]:
    return [(offset, sequence) for offset, sequence, _ in kept_with_arrival(spark, run)]


def kept_with_arrival(spark: SparkSession, run: Run) -> list[tuple[int, int, str]]:
    rows = spark.read.table(run.table("silver_records").sql).orderBy("partition", "offset").collect()
    return [(row["offset"], row["sequence"], row["arrival"]) for row in rows]


def other(record: Record, value: bytes = b"another payload") -> Record:
    return replace(record, value=value)


FIRST = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 3, 6, 7])]
AGAIN = [
    Record.of(5, 2),
    Record.of(6, 3),
    Record.of(7, 4),
    Record.of(8, 6),
    other(Record.of(9, 7)),
    Record.of(10, 4),
    other(Record.of(11, 4)),
    replace(Record.of(12, 7), key=None),
    Record.of(13, 8),
]
TOLD = [
    ("duplicate", 5, 6, 2, "discarded"),
    ("late", 7, 7, 1, "held"),
    ("duplicate", 8, 8, 1, "discarded"),
    ("collision", 9, 9, 1, "held"),
    ("duplicate", 10, 10, 1, "discarded"),
    ("collision", 11, 11, 1, "held"),
    ("collision", 12, 12, 1, "held"),
]


@pytest.mark.parametrize(("cut", "at_once"), [(0, 250_000), (0, 3), (0, 1), (8, 250_000), (8, 3), (8, 1)], ids=str)
def test_suspects_are_told_apart_whichever_load_brought_their_like(
    spark: SparkSession, new_run: Callable[[], Run], cut: int, at_once: int
) -> None:
    records = [*FIRST, *AGAIN]
    for part in (records[:cut], records[cut:]):
        if part:
            loaded(spark, new_run(), part, way=Way(How.FEW, most_at_once=at_once))

    assert rejects(spark, new_run()) == TOLD
    assert kept(spark, new_run()) == [(0, 1), (1, 2), (2, 3), (3, 6), (4, 7), (13, 8)]
    told = [why(new_run().lakehouse, "t", 0, offset) for offset in range(len(records))]
    assert [(each["class"], each["sequence"]) for each in told] == [
        *[("accepted", 1), ("accepted", 2), ("accepted", 3), ("accepted", 6), ("accepted", 7)],
        *[("duplicate", 2), ("duplicate", 3), ("late", 4), ("duplicate", 6), ("collision", 7)],
        *[("duplicate", 4), ("collision", 4), ("collision", 7), ("accepted", 8)],
    ]
    first = {5: 1, 6: 2, 8: 3, 9: 4, 10: 7, 11: 7, 12: 4}
    assert {offset: each["winner"]["offset"] for offset, each in enumerate(told) if each["winner"]} == first
    arrived = {layer: jobs_order.rows(found) for layer, found in _orders(spark, new_run()).items()}
    assert arrived == {
        "bronze": [["bronze", "t", 0, None, 14, 7, 2, 3, 1, 0]],
        "silver": [["silver", "t", 0, None, 6, 0, 0, 0, 1, 0]],
    }
    assert [each["load"]["load_seq"] for each in told] == [1 if offset < cut or not cut else 2 for offset in range(14)]


def _orders(spark: SparkSession, run: Run) -> dict[str, dict[str, list[Order]]]:
    config = {
        "pipeline": run.pipeline,
        "kafka": {"bootstrap_servers": "localhost:9092", "topics": ["t"]},
        "lakehouse": {"root": run.lakehouse.root},
        "sequence": {"header": "seq"},
    }
    found = orders(spark, run, Settings.model_validate(config, context={"folder": Path()}), topic="t")
    return {layer: {layer: each} for layer, each in found.items()}


@pytest.mark.parametrize(
    ("late", "arrivals", "state"),
    [("accept", [(0, 1, "in_order"), (1, 3, "in_order"), (2, 2, "late")], None), ("drop", None, "discarded")],
)
def test_a_late_record_gets_what_the_policy_says_and_its_next_copy_is_a_duplicate(
    spark: SparkSession, new_run: Callable[[], Run], late: Late, arrivals: list[tuple[int, int, str]] | None, state: str | None
) -> None:
    rules = replace(RULES, late=late)
    loaded(spark, new_run(), [Record.of(0, 1), Record.of(1, 3), Record.of(2, 2)], rules)
    loaded(spark, new_run(), [Record.of(3, 2)], rules)

    expected = [("late", 2, 2, 1, state)] if state else []
    assert rejects(spark, new_run()) == [*expected, ("duplicate", 3, 3, 1, "discarded")]
    assert kept_with_arrival(spark, new_run()) == (arrivals or [(0, 1, "in_order"), (1, 3, "in_order")])


def test_each_topic_has_its_own_policies_in_one_load(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    rules = replace(RULES, topics=(("orders", Policy(late="accept")), ("returns", Policy(max_jump=10, late="drop"))))
    sent = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 3, 2, 40])]
    topics = ("orders", "payments", "returns")
    loaded(spark, new_run(), [replace(record, topic=topic) for topic in topics for record in sent], rules)
    loaded(spark, new_run(), [replace(Record.of(4, 2), topic=topic) for topic in topics], rules)

    run = new_run()
    silver = spark.read.table(run.table("silver_records").sql).orderBy("topic", "offset").collect()
    assert [(row["topic"], row["sequence"], row["arrival"]) for row in silver] == [
        *[("orders", 1, "in_order"), ("orders", 3, "in_order"), ("orders", 2, "late"), ("orders", 40, "in_order")],
        *[("payments", 1, "in_order"), ("payments", 3, "in_order"), ("payments", 40, "in_order")],
        *[("returns", 1, "in_order"), ("returns", 3, "in_order")],
    ]
    out = spark.read.table(run.table("silver_rejects").sql).orderBy("topic", "first_offset").collect()
    assert [(row["topic"], row["class"], row["first_sequence"], row["state"]) for row in out] == [
        ("orders", "duplicate", 2, "discarded"),
        *[("payments", "late", 2, "held"), ("payments", "duplicate", 2, "discarded")],
        *[("returns", "late", 2, "discarded"), ("returns", "jump", 40, "held"), ("returns", "duplicate", 2, "discarded")],
    ]
    ledger = spark.read.table(run.table("silver_loads").sql).where("load_seq = 1").orderBy("topic").collect()
    assert [(row["topic"], row["accepted"], row["late"], row["late_accepted"], row["jump"]) for row in ledger] == [
        ("orders", 3, 1, 1, 0),
        ("payments", 3, 1, 0, 0),
        ("returns", 2, 1, 0, 1),
    ]


JUMPED = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 6, 4, 7, 6, 6])] + [other(Record.of(6, 6))]


@pytest.mark.parametrize("cut", [0, 3, 5], ids=lambda cut: f"cut before offset {cut}")
def test_what_only_a_held_jump_has_was_never_accepted(spark: SparkSession, new_run: Callable[[], Run], cut: int) -> None:
    rules = replace(RULES, max_jump=3)
    for part in (JUMPED[:cut], JUMPED[cut:]):
        if part:
            loaded(spark, new_run(), part, rules)

    assert rejects(spark, new_run()) == [
        ("jump", 1, 1, 1, "held"),
        ("late", 4, 4, 1, "held"),
        ("duplicate", 5, 5, 1, "discarded"),
        ("collision", 6, 6, 1, "held"),
    ]
    assert why(new_run().lakehouse, "t", 0, 5)["winner"]["offset"] == 4


def test_a_genuine_record_gets_in_past_a_held_jump_where_late_ones_do(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    rules = replace(RULES, max_jump=3, late="accept")
    loaded(spark, new_run(), JUMPED[:4], rules)
    loaded(spark, new_run(), [other(Record.of(4, 6), b"genuine"), Record.of(5, 6)], rules)

    assert kept_with_arrival(spark, new_run()) == [(0, 1, "in_order"), (2, 4, "in_order"), (3, 7, "in_order"), (4, 6, "late")]
    assert rejects(spark, new_run()) == [("jump", 1, 1, 1, "held"), ("collision", 5, 5, 1, "held")]


def test_where_the_config_names_a_header_that_no_record_has_the_breaker_names_those_that_they_have(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    value = rb'{"id": 1, "a\u001bb": 2}'
    sent = [replace(Record.of(offset, offset, producer="p"), value=value) for offset in range(11)]

    with pytest.raises(BreakerOpenError) as stopped:
        loaded(spark, new_run(), sent, Rules(Source("header", "sq")))

    told = str(stopped.value)
    assert "11 of 11 records: 11 invalid; the first one, topic t, partition 0, offset 0 (sequence_missing), " in told
    assert "has the headers seq, producer, and a JSON object of id, a\\x1bb" in told
    assert "Look whether sequence, producer and epoch in the config name what the records have" in told


def test_one_corrupt_number_opens_the_breaker_and_the_load_goes_through_when_it_is_let(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    loaded(spark, new_run(), [Record.of(0, 1), Record.of(1, 2**63 - 1), Record.of(0, 1, partition=1)])
    after = [Record.of(offset, offset) for offset in range(2, 22)]
    others = [Record.of(offset, offset + 1, partition=1) for offset in range(1, 101)]

    with pytest.raises(BreakerOpenError) as stopped:
        loaded(spark, new_run(), [*after, *others])
    assert "partition 0" in str(stopped.value)
    assert "20 of 20 records" in str(stopped.value)
    assert len(kept(spark, new_run())) == 3

    steps.load_once(spark, new_run(), RULES, max_quarantined_share=1)
    assert [row[0] for row in rejects(spark, new_run())] == ["late"] * 20
    assert len(kept(spark, new_run())) == 103


def test_why_says_what_is_not_decided_yet_and_what_was_never_read(
    spark: SparkSession, new_run: Callable[[], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    loaded(spark, new_run(), [Record.of(0, 1), Record.of(0, 1), Record.of(1, "x")])
    put(spark, new_run(), [Record.of(2, 3)])
    lakehouse = new_run().lakehouse

    write_why(why(lakehouse, "t", 0, 0))
    write_why(why(lakehouse, "t", 0, 1))
    write_why(why(lakehouse, "t", 0, 2))
    for place, said in [
        (("t", 0, 3), "was not read yet(.|\n)*has offset 2"),
        (("t", 7, 0), "Nothing was read of this partition"),
        (("tt", 0, 0), "Nothing was read of this topic(.|\n)*Did you mean t"),
    ]:
        with pytest.raises(TidemarkError, match=said):
            why(lakehouse, *place)

    printed = capsys.readouterr().out
    assert "offset 0 (epoch 0, sequence 1): accepted.\n" in printed
    assert "Bronze holds it 2 times; all but one are replays.\n" in printed
    assert "offset 1 (epoch 0): invalid.\n" in printed
    assert "(sequence_not_a_whole_number).\n" in printed
    assert "offset 2 (no sequence): undecided.\n" in printed


def test_why_says_what_is_missing_between_two_offsets_and_what_before_any_run(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    with pytest.raises(TidemarkError, match="Nothing was read yet"):
        why(new_run().lakehouse, "t", 0, 0)
    loaded(spark, new_run(), [Record.of(0, 1), Record.of(2, 2)])
    with pytest.raises(TidemarkError, match="gaps where a log was compacted"):
        why(new_run().lakehouse, "t", 0, 1)


def test_why_names_the_record_of_the_same_load_that_a_late_one_came_after(
    spark: SparkSession, new_run: Callable[[], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    loaded(spark, new_run(), [Record.of(0, 1), Record.of(1, 9), Record.of(2, 10), Record.of(3, 5)])

    told = why(new_run().lakehouse, "t", 0, 3)
    write_why(told)

    assert (told["class"], told["passed_by"]) == ("late", {"offset": 2, "sequence": 10})
    printed = capsys.readouterr().out
    assert "Watermark before the load: none, after: 10.\n" in printed
    assert "It came after offset 2 of the same load, which had moved it to 10.\n" in printed
