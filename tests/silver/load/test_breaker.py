"""When a load is stopped before anything of it is written."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.contracts.silver import CLASSES
from silver.load.breaker import trips

HALF = 0.5


def stream(partition: int = 0, topic: str = "t", **counts: int) -> dict[str, Any]:
    """A ledger row, as far as the breaker reads it."""
    classes = {**dict.fromkeys(CLASSES, 0), **counts}
    return {
        "topic": topic,
        "partition": partition,
        "producer": None,
        "records": sum(classes.values()),
        "late_accepted": 0,
        "high_watermark_before": 99,
        **classes,
    }


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
    assert bool(trips(1, rows, HALF)) is opens
    assert trips(1, rows, 1) == [], "the whole share lets everything through"


def test_a_stream_that_starts_anew_stops_the_load_however_many_others_are_well() -> None:
    rows = [stream(0, accepted=100_000), stream(1, collision=40, late=10), stream(topic="u", late=20)]

    (trip,) = trips(7, rows, HALF, {"u": 1})

    assert trip.where == "topic t, partition 1"
    assert trip.observed == "50 of 50 records below the watermark 99, none above: 10 late, 40 collision"
    assert trip.expected == "a share of at most 0.5 (policies.max_quarantined_share)"


def test_a_topic_with_its_own_share_is_judged_alone_and_the_others_together() -> None:
    rows = [
        stream(topic="orders", accepted=80, invalid=20),
        stream(topic="payments", accepted=15, invalid=85),
        stream(topic="returns", accepted=80),
    ]

    assert trips(7, rows, HALF) == []
    (orders,) = trips(7, rows, HALF, {"orders": 0.1})
    assert (orders.where, orders.observed) == ("load 7, topic orders", "20 of 100 records: 20 invalid")
    assert orders.expected == "a share of at most 0.1 (policies.topics.orders.max_quarantined_share)"
    (others,) = trips(7, rows, HALF, {"returns": 0.1})
    assert (others.where, others.observed) == (
        "load 7, the topics without a share of their own",
        "105 of 200 records: 105 invalid",
    )
    assert others.expected == "a share of at most 0.5 (policies.max_quarantined_share)"
    assert trips(7, rows, 0.25, {"payments": 1}) == []
