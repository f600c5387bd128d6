"""The demo's input: its truth agrees with the rule applied record by record, and it arrives as planned."""

from collections import Counter
from collections.abc import Callable

import pytest
from tidemark_producer import Headers

from lakehouse.errors import SourceError, UsageError
from tests.support.reference import Reference, Seen
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.demo.producer import BAD_KINDS, Outgoing, events, expected, incidents, plan_events, produce_numbered


def number(record: Outgoing) -> int | None:
    return int(record.headers[0][1]) if len(record.headers) == 1 and record.headers[0][1].isdigit() else None


@pytest.mark.parametrize(("records", "seed"), [(1_000, 1), (1_003, 2), (4_000, 3)])
def test_the_plan_tells_what_the_rule_decides_and_is_repeatable(records: int, seed: int) -> None:
    plans = plan_events(records, seed=seed)
    sent = list(events(plans))
    assert len(sent) == records
    assert sent == list(events(plan_events(records, seed=seed)))
    assert {150 < len(record.value) < 250 for record in sent} == {True}
    assert [record.number for record in sent] == [number(record) for record in sent]
    # What is sent again has the same bytes, or it were a collision.
    seen = [Seen("t", each.partition, offset, number(each), payload=repr(each)) for offset, each in enumerate(sent)]
    rule = Reference().take(seen)
    assert rule.watermarks == {("t", plan.partition, None): (0, plan.unique) for plan in plans}
    counts = Counter((partition, kind) for (_, partition, _), kind in rule.classes.items())
    assert counts == {
        (plan.partition, kind): count
        for plan in plans
        for kind, count in (("accepted", plan.unique), ("duplicate", plan.resent), ("invalid", BAD_KINDS))
    }


def test_block_lengths_and_the_least_number_of_records() -> None:
    blocks = [last - first + 1 for plan in plan_events() for first, last in plan.resends]
    assert (min(blocks) >= 500, max(blocks) <= 2_000) == (True, True)
    with pytest.raises(UsageError, match="at least 80"):
        plan_events(79)


def test_the_incidents_are_those_of_the_article() -> None:
    truth = expected(80)
    assert (truth.records, truth.incident_records, sum(truth.classes.values())) == (95, 15, 80)
    assert truth.incidents == {"A": [1, 6, 7, 8], "B": [2, 5, 9, 11], "C": [3, 4, 10]}
    sent = incidents()
    assert [int(record.value.split(b'"id": ')[1].split(b",")[0]) for record in sent] == [*range(1, 8), *range(4, 12)]
    assert sent[0].value == b'{"id": 1, "data": "ab583cc8f8"}'
    assert [(record.key, record.partition) for record in sent[:3]] == [(b"A", 0), (b"B", 1), (b"C", 0)]


def test_records_that_the_broker_refuses_are_an_error(broker: LocalBroker, topic: Callable[..., str]) -> None:
    second = [record._replace(number=None) for record in incidents() if record.partition == 1]
    with pytest.raises(SourceError, match="could not be sent"):
        produce_numbered(broker.bootstrap_servers, topic(1), second, Headers(None, None, None))
    small = topic(1, {"cleanup.policy": "delete", "max.message.bytes": "100"})
    first = [record for record in events(plan_events(100)) if record.partition == 0]
    with pytest.raises(SourceError, match="could not be sent"):
        produce_numbered(broker.bootstrap_servers, small, first, Headers(None, None, "seq"))
