"""The demo's input: its truth agrees with the rule applied record by record."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from jobs.demo.events import BAD_KINDS, Outgoing, bad_headers, events, plan_events
from jobs.demo.producer import incidents, names
from lakehouse.errors import UsageError


def outcome(sent: list[Outgoing]) -> tuple[Counter[tuple[int, str]], dict[int, int]]:
    """What the article's rule, read literally, makes of the events: counts by partition and class, and the watermarks."""
    counts: Counter[tuple[int, str]] = Counter()
    high: dict[int, int] = defaultdict(int)
    for record in sent:
        if len(record.headers) != 1 or not record.headers[0][1].isdigit():
            counts[record.partition, "bad"] += 1
        elif (sequence := int(record.headers[0][1])) > high[record.partition]:
            high[record.partition] = sequence
            counts[record.partition, "unique"] += 1
        else:
            counts[record.partition, "resent"] += 1
    return counts, dict(high)


@pytest.mark.parametrize(("records", "seed"), [(1_000, 1), (1_003, 2), (20_000, 3), (200_000, 1)])
def test_the_plan_tells_the_truth(records: int, seed: int) -> None:
    plans = plan_events(records, seed=seed)
    sent = list(events(plans))
    counts, high = outcome(sent)
    assert len(sent) == records
    assert high == {plan.partition: plan.unique for plan in plans}
    for plan in plans:
        found = {name: counts[plan.partition, name] for name in ("unique", "resent", "bad")}
        assert found == {"unique": plan.unique, "resent": plan.resent, "bad": BAD_KINDS}


def test_what_is_sent_again_has_the_same_bytes() -> None:
    first: dict[tuple[int, bytes], Outgoing] = {}
    for record in events(plan_events(5_000)):
        if len(record.headers) == 1 and record.headers[0][1].isdigit():
            assert first.setdefault((record.partition, record.headers[0][1]), record) == record


def test_the_input_is_the_same_every_time_and_about_200_bytes_wide() -> None:
    sent = list(events(plan_events(2_000)))
    assert sent == list(events(plan_events(2_000)))
    assert {150 < len(record.value) < 250 for record in sent} == {True}


def test_blocks_are_500_to_2000_records_long_by_default() -> None:
    blocks = [last - first + 1 for plan in plan_events() for first, last in plan.resends]
    assert min(blocks) >= 500
    assert max(blocks) <= 2_000


def test_the_kinds_of_bad_records_differ() -> None:
    assert len({str(bad_headers(kind, 7)) for kind in range(BAD_KINDS)}) == BAD_KINDS


def test_too_few_records_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 80"):
        plan_events(79)


def test_the_incidents_are_those_of_the_article() -> None:
    sent = incidents()
    assert [int(record.value.split(b'"id": ')[1].split(b",")[0]) for record in sent] == [*range(1, 8), *range(4, 12)]
    assert sent[0].value == b'{"id": 1, "data": "ab583cc8f8"}'
    assert [(record.key, record.partition) for record in sent[:3]] == [(b"A", 0), (b"B", 1), (b"C", 0)]


def test_a_name_stays_on_one_partition() -> None:
    sent = names()
    assert len(sent) == 17
    assert len({record.value for record in sent}) == 12
    assert len({(record.key, record.partition) for record in sent}) == len({record.key for record in sent})
