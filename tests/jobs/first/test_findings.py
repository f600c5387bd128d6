"""What fits as sequence, producer and epoch of a sample, and why the rest does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bronze.kafka.sample import Sample, Sampled
from jobs.first.candidates import find
from jobs.first.findings import Steps, judge, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.first.findings import Finding

NUMBERS = st.one_of(st.none(), st.integers(0, 6))
ROWS = st.lists(st.tuples(st.integers(0, 1), NUMBERS, st.sampled_from([None, "a", "b"]), st.integers(0, 1), st.booleans()))


def record(offset: int, *, partition: int = 0, value: Any = None, key: bytes | None = None, **headers: bytes | None) -> Sampled:
    written = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return Sampled("t", partition, offset, key, written, tuple(headers.items()))


def with_header(*sequences: int, partition: int = 0) -> list[Sampled]:
    """Records with these sequences in the header `seq`; the same sequence comes with the same value."""
    return [record(offset, partition=partition, value=b"v%d" % each, seq=b"%d" % each) for offset, each in enumerate(sequences)]


def found(records: Sequence[Sampled], **more: Any) -> tuple[dict[str, Finding], list[str]]:
    """The finding of each candidate by its name, and the names of the options."""
    sample = Sample(records, **more)
    judged = judge(sample, find(records))
    return {each.candidate.label: each for each in judged.findings}, [each.label for each in judged.options]


@pytest.mark.parametrize(
    ("sequences", "told"),
    [
        ((1, 2, 3), "rises, without a gap"),
        ((1, 5, 9, 10), "rises, with 2 gaps"),
        ((1, 2, 3, 2, 3, 4), "rises, without a gap; 2 records sent again"),
        ((1, 2, 7, 2, 7, 8), "rises, with 1 gap; 2 records sent again"),
        ((1, 2, 9, 4, 10), "rises in part, with 1 gap; 1 record below an earlier one that never came before"),
    ],
)
def test_a_sequence_rises_with_gaps_with_resends_and_with_jumps_back(sequences: tuple[int, ...], told: str) -> None:
    findings, options = found(with_header(*sequences))
    steps = findings["header:seq"].steps
    assert steps is not None
    assert steps.describe() == told
    assert (options == ["header:seq"]) == ("in part" not in told)


def test_numbers_that_fall_do_not_fit() -> None:
    findings, options = found(with_header(*range(50, 0, -1)))
    assert options == []
    assert findings["header:seq"].not_sequence == (
        "it does not rise within the partitions: 49 of 50 records are below an earlier one and never there before"
    )


def test_the_same_number_on_different_records_does_not_fit() -> None:
    records = [record(offset, value={"n": offset}, seq=b"%d" % (offset // 5 + 1)) for offset in range(50)]
    findings, options = found(records)
    assert "40 of 50 records are with the number of another record" in str(findings["header:seq"].not_sequence)
    assert options == ["json:$.n"]


def test_what_does_not_fit_says_why() -> None:
    values = [{"one": 7, "text": "x", "half": 0.5, "at": 1_795_254_019_000 + n, "far": 2**63 + n, "neg": -n} for n in range(40)]
    findings, options = found([record(n, value=each) for n, each in enumerate(values)])
    assert options == []
    assert {name.removeprefix("json:$."): each.not_sequence for name, each in findings.items()} == {
        "one": "it never changes within a partition, such as 7",
        "text": "text, such as x",
        "half": "fractions, such as 0.5",
        "at": "it looks like a time, and two records of one moment would have one sequence",
        "far": "it is not from 0 to the greatest number of its encoding",
        "neg": "negative numbers, such as 0 (in 39 of 40 records)",
    }


def test_a_header_that_many_records_lack_does_not_fit() -> None:
    records = [record(n, seq=b"%d" % n) if n % 2 else record(n, other=b"x") for n in range(40)]
    assert found(records)[0]["header:seq"].not_sequence == "it is missing in 20 of 40 records"


def test_a_sequence_that_rises_for_each_producer_alone_is_found_with_its_producer() -> None:
    records = [record(n, value=b"v%d" % n, seq=b"%d" % (n // 2 + 100 * (n % 2)), who=b"w%d" % (n % 2)) for n in range(200)]
    findings, options = found(records)
    assert findings["header:seq"].not_sequence is not None
    assert findings["header:who"].not_producer is None
    assert options == ["header:seq with producer header:who"]


def test_what_names_nobody_is_no_producer() -> None:
    records = [record(n, value={"price": n % 3 + 0.5, "paid": n % 2 == 0, "shop": "a", "id": f"o-{n}"}) for n in range(60)]
    whys = {name.removeprefix("json:$."): each.not_producer for name, each in found(records)[0].items()}
    assert whys == {
        "price": "fractions name nobody",
        "paid": "true and false name nobody",
        "shop": "it is the same in all records, so it divides nothing",
        "id": "60 different values in 60 records are too many",
    }


def test_a_sequence_that_starts_anew_is_found_with_its_epoch() -> None:
    records = [record(n, value={"n": n % 50, "epoch": n // 50, "body": n % 7}) for n in range(200)]
    assert found(records)[1] == ["json:$.n with epoch json:$.epoch"]


def test_of_several_the_one_comes_first_that_keeps_the_fewest_records_out_and_is_named_so() -> None:
    records = [record(n, value={"id": n, "other": n}, seq=b"%d" % n, rev=b"%d" % n) for n in range(50)]
    assert found(records)[1] == ["header:seq", "json:$.id", "header:rev", "json:$.other"]


def test_a_whole_partition_with_one_record_says_nothing_of_the_order() -> None:
    records = [record(0, partition=partition, value=b"v", seq=b"7") for partition in range(3)]
    assert found(records)[1] == []
    assert "two records" in str(found(records)[0]["header:seq"].not_sequence)


def test_what_may_have_been_sent_before_the_end_of_a_partition_is_not_held_against_a_sequence() -> None:
    ends = [record(100 + n, value=b"v", seq=b"%d" % each) for n, each in enumerate((90, 91, 88, 92))]
    records = [*with_header(1, 2, 3), *ends]
    findings, options = found(records, tails={("t", 0): 100})
    assert options == ["header:seq"]
    steps = findings["header:seq"].steps
    assert steps is not None
    assert (steps.unknown, steps.late, steps.gaps) == (1, 0, 0)


def test_numbers_in_eight_bytes_are_read_as_such() -> None:
    records = [record(n, value=b"v%d" % n, seq=(n + 1).to_bytes(8)) for n in range(50)]
    findings, options = found(records)
    assert options == ["{header: seq, encoding: int64}"]
    assert findings[options[0]].highest == 50


def plainly(records: Sequence[Sampled], sequences: Sequence[Any], producers: Sequence[Any], epochs: Sequence[Any]) -> Steps:
    """The same by looking, for each record, at all before it."""
    seen: list[tuple[Any, tuple[int, int], Any]] = []
    counts = dict.fromkeys(("in_order", "gaps", "resent", "collisions", "late", "fenced"), 0)
    for each, sequence, producer, epoch in zip(records, sequences, producers, epochs, strict=True):
        if sequence is None or producer is None:
            continue
        stream, ordinal, content = (each.partition, producer), (epoch, sequence), (each.key, each.value)
        before = [(other, what) for place, other, what in seen if place == stream]
        highest = max((other for other, _ in before), default=None)
        if highest is None or ordinal > highest:
            counts["in_order"] += 1
            counts["gaps"] += highest is not None and highest[0] == epoch and sequence > highest[1] + 1
        elif epoch < highest[0]:
            counts["fenced"] += 1
        elif first := [what for other, what in before if other == ordinal]:
            counts["resent" if first[0] == content else "collisions"] += 1
        else:
            counts["late"] += 1
        seen.append((stream, ordinal, content))
    streams = {place for place, _, _ in seen}
    of_stream = [[ordinal for place, ordinal, _ in seen if place == stream] for stream in streams]
    longest = max(map(len, of_stream), default=0)
    is_constant = longest > 1 and all(len(set(each)) == 1 for each in of_stream)
    return Steps(records=len(seen), streams=len(streams), longest=longest, is_constant=is_constant, **counts)


@given(ROWS)
def test_a_walk_counts_what_looking_back_at_every_record_counts(rows: list[tuple[Any, ...]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    records = [record(offset, partition=row[0], value=b"same" if row[4] else b"%d" % offset) for offset, row in enumerate(rows)]
    sequences, producers, epochs = ([row[place] for row in rows] for place in (1, 2, 3))
    assert walk(records, sequences, producers, epochs) == plainly(records, sequences, producers, epochs)
