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


@pytest.mark.parametrize(("records", "seed"), [(1_000, 1), (1_003, 2), (20_000, 3)])
def test_the_plan_tells_the_truth(records: int, seed: int) -> None:
    plans = plan_events(records, seed=seed)
    sent = list(events(plans))
    counts, high = outcome(sent)
    assert len(sent) == records
    assert high == {plan.partition: plan.unique for plan in plans}
    for plan in plans:
        found = {name: counts[plan.partition, name] for name in ("unique", "resent", "bad")}
        assert found == {"unique": plan.unique, "resent": plan.resent, "bad": BAD_KINDS}


def test_the_input_is_repeatable_and_resent_with_the_same_bytes() -> None:
    sent = list(events(plan_events(2_000)))
    assert sent == list(events(plan_events(2_000)))
    assert {150 < len(record.value) < 250 for record in sent} == {True}
    first: dict[tuple[int, bytes], Outgoing] = {}
    for record in sent:
        if len(record.headers) == 1 and record.headers[0][1].isdigit():
            assert first.setdefault((record.partition, record.headers[0][1]), record) == record


def test_block_lengths_bad_kinds_and_the_least_number_of_records() -> None:
    blocks = [last - first + 1 for plan in plan_events() for first, last in plan.resends]
    assert (min(blocks) >= 500, max(blocks) <= 2_000) == (True, True)
    assert len({str(bad_headers(kind, 7)) for kind in range(BAD_KINDS)}) == BAD_KINDS
    with pytest.raises(UsageError, match="at least 80"):
        plan_events(79)


def test_the_incidents_are_those_of_the_article_and_a_name_stays_on_one_partition() -> None:
    sent = incidents()
    assert [int(record.value.split(b'"id": ')[1].split(b",")[0]) for record in sent] == [*range(1, 8), *range(4, 12)]
    assert sent[0].value == b'{"id": 1, "data": "ab583cc8f8"}'
    assert [(record.key, record.partition) for record in sent[:3]] == [(b"A", 0), (b"B", 1), (b"C", 0)]
    sent = names()
    assert (len(sent), len({record.value for record in sent})) == (17, 12)
    assert len({(record.key, record.partition) for record in sent}) == len({record.key for record in sent})
