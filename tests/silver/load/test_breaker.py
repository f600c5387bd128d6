"""When a load is stopped before anything of it is written."""

from typing import Any

import pytest

from lakehouse.contracts.silver import CLASSES
from lakehouse.extract.sources import Source
from lakehouse.extract.written import Written
from lakehouse.run.findings import Trip
from silver.load.breaker import Cause, advice, list_trips
from silver.model import TopicLimits
from silver.rules import Payload, Reading, Rules

HALF = 0.5


def trips(load_seq: int, ledger: list[dict[str, Any]], shares: TopicLimits[float]) -> list[Trip]:
    return [trip for trip, _ in list_trips(load_seq, ledger, shares)]


def stream(partition: int = 0, topic: str = "t", **counts: int) -> dict[str, Any]:
    classes = {**dict.fromkeys(CLASSES, 0), **counts}
    shared = {"topic": topic, "partition": partition, "producer": None, "late_accepted": 0, "high_watermark_before": 99}
    return {**shared, "records": sum(classes.values()), **classes}


@pytest.mark.parametrize(
    ("rows", "opens"),
    [
        ([stream(accepted=10, invalid=10)], False),
        ([stream(accepted=10, invalid=11)], True),
        ([stream(accepted=1, invalid=9)], False),  # a handful of bad records stops nothing
        ([stream(accepted=1, invalid=10)], True),
        ([stream(duplicate=1_000)], False),  # duplicates wait for nobody
        ([stream(late=12) | {"late_accepted": 12}], False),  # by policy, Silver takes them
        ([stream(accepted=10, jump=4, fenced=4, collision=4)], True),
        ([stream(accepted=10), stream(1, duplicate=500, late=3)], False),  # a history that is sent again is no restart
        ([stream(invalid=50), stream(1, late=50)], True),
    ],
    ids=["half", "above half", "few", "ten", "duplicates", "late accepted", "several classes", "history", "all"],
)
def test_a_load_is_stopped_when_more_than_the_share_would_be_quarantined(rows: list[dict[str, Any]], opens: bool) -> None:
    assert bool(trips(1, rows, TopicLimits(HALF))) is opens
    assert trips(1, rows, TopicLimits(1)) == [], "the whole share lets everything through"


def test_a_stream_that_starts_anew_stops_the_load_however_many_others_are_well() -> None:
    rows = [stream(0, accepted=100_000), stream(1, collision=40, late=10), stream(topic="u", late=20)]

    (trip,) = trips(7, rows, TopicLimits(HALF, {"u": 1}))

    assert trip.where == "topic t, partition 1"
    assert trip.observed == "50 of 50 records below the watermark 99, none above: 10 late, 40 collision"
    assert trip.expected == "a share of at most 0.5 (policies.max_quarantined_share)"


def test_a_topic_with_its_own_share_is_judged_alone_and_the_others_together() -> None:
    rows = [
        stream(topic="orders", accepted=80, invalid=20),
        stream(topic="payments", accepted=15, invalid=85),
        stream(topic="returns", accepted=80),
    ]

    assert trips(7, rows, TopicLimits(HALF)) == []
    (orders,) = trips(7, rows, TopicLimits(HALF, {"orders": 0.1}))
    assert (orders.where, orders.observed) == ("load 7, topic orders", "20 of 100 records: 20 invalid")
    assert orders.expected == "a share of at most 0.1 (policies.topics.orders.max_quarantined_share)"
    (others,) = trips(7, rows, TopicLimits(HALF, {"returns": 0.1}))
    assert others.where == "load 7, the topics without a share of their own"
    assert others.observed == "105 of 200 records: 105 invalid"
    assert others.expected == "a share of at most 0.5 (policies.max_quarantined_share)"
    assert trips(7, rows, TopicLimits(0.25, {"payments": 1})) == []


ORDERS = Reading(
    Source("prefixed_json", "$.id"), payload=Payload("avro", "id STRING"), written=Written("avro", has_prefix=True)
)
RULES = Rules(
    Source("header", "seq"),
    epoch=Source("bytes", "0:4", "int32"),
    payload=Payload("json", "id STRING"),
    own=(("orders", ORDERS), ("notes", Reading(Source("header", "seq"), payload=Payload("text")))),
)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (Cause("t@2", "invalid", "value_undecodable"), ["`value.schema`"]),
        (Cause("orders", "invalid", "value_undecodable"), ["`topics.orders.value.schema`", "silver.schema_misfit"]),
        (Cause("notes", "invalid", "value_undecodable"), ["`topics.notes.value.format`"]),
        (Cause("notes", "invalid", "sequence_missing"), ['`sequence`, header "seq" (utf8),', "there is no such header"]),
        (Cause("orders@2", "invalid", "sequence_null"), ["`topics.orders.sequence`, json $.id (utf8), behind", "it is null"]),
        (Cause("t", "invalid", "epoch_out_of_range"), ["`epoch`, bytes 0:4 (int32),", "epoch_out_of_range"]),
        (Cause("orders", "invalid", "sequence_not_json"), ["json $.id (utf8), behind", "have the producer write it"]),
        (Cause("t", "late", None), ["--new-epoch"]),
        (Cause("t", "collision", None), ["--new-epoch"]),
        (Cause("t", "jump", None), ["policies.max_jump"]),
        (Cause("t", "fenced", None), ["older epoch"]),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, Cause) else "",
)
def test_the_advice_follows_the_reason_of_the_records_that_open_the_breaker(cause: Cause, expected: list[str]) -> None:
    text = advice([cause], RULES)
    assert [each for each in expected if each not in text] == []


def test_the_advice_says_each_thing_once_for_the_three_most_frequent_kinds_at_most() -> None:
    kinds = ["late", "collision", "jump", "fenced"]
    text = advice([*(Cause("t", kind, None) for kind in kinds), Cause("t", "invalid", "value_undecodable")], RULES)

    assert (text.count("--new-epoch"), "older epoch" in text, "value.schema" in text) == (1, True, False)


def test_the_advice_prints_nothing_that_a_terminal_interprets_and_no_name_at_length() -> None:
    text = advice([Cause("t", "invalid", "sequence_missing")], Rules(Source("header", "\x1b[31m" + "a" * 10_000)))

    assert text.isprintable()
    assert len(text) < 600
