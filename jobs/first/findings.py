"""What fits as sequence, producer and epoch of a sample's records, and why the rest does not. Pure.

A candidate fits as the sequence if it rises, in the order of the offsets, within each stream of the sample: a partition, or a
producer's records in it. Records that were sent again do not speak against it, nor do gaps. It is the rule by which Silver
decides (`silver.decide`), in the few lines that a sample of a topic takes.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from jobs.first.candidates import LITTLE_ENDIAN, NOBODY
from jobs.first.objects import parts
from lakehouse.contracts.silver import PROBLEMS
from lakehouse.escape import printable
from lakehouse.extract.on_driver import Record, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bronze.kafka.sample import Partition, Sample, Sampled
    from jobs.first.candidates import Candidate, Found
    from lakehouse.extract.sources import Source
    from lakehouse.settings.payload_schema import Type

_SHARE_OUT = 0.05
"""The share of records that may be kept out of Silver under a sequence that fits."""
_SHARE_WRONG = 0.01
"""The share of records that may collide or be invalid under a sequence that fits."""
_SHARE_KEYS = 0.95
"""The share of records from which on a field whose value is in the record's key is a key."""
_INTEGER_BYTES = (4, 8)
_SHARE_NAMES = 0.2
"""The share of its records above which different names are no producers."""
_MOST_NAMES = 1_000
_MOST_SEQUENCES, _MOST_PRODUCERS, _MOST_EPOCHS = 12, 8, 4
"""How many candidates are tried together. Each trial goes over the whole sample."""
_SEQUENCE_NAMES = ("seq", "lsn", "scn", "offset", "position", "counter", "version", "number", "id")
_PRODUCER_NAMES = ("producer", "source", "instance", "host", "writer", "origin", "shard", "client", "node", "device")
_EPOCH_NAMES = ("epoch", "generation", "term", "incarnation", "boot", "session")
_SECONDS_OF_YEARS = (946_684_800, 4_102_444_800)
"""2000 and 2100."""
_LONGEST_EXAMPLE = 20
FEW = 20
"""With fewer records a sample says little."""
_FEW_VALUES, _LONGEST_VALUE = 10, 100
_IN_VALUES = ("json", "prefixed_json", "field")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_READ: dict[str, Callable[[str], Any]] = {"BIGINT": int, "INT": int, "DOUBLE": float}
_FORMS = ("header", "json", "prefixed_json", "field", "value", "bytes", "custom", "offset")
_UNITS = (1_000, 1_000_000, 1_000_000_000)
"""Milli-, micro- and nanoseconds in a second. Seconds themselves are as likely counters."""

ORDER = "fewest records kept out, no producer or epoch needed, a name like seq or lsn, headers before values, fewest gaps, name"
"""How the first of several is found, in words."""


@dataclass(frozen=True)
class Steps:
    """How a sequence goes within the streams of a sample, in numbers of records.

    Attributes:
        longest: The records of the longest stream.
        gaps: Steps forward over numbers that are not in the sample.
        resent: With a number that was there before, with the same key and value.
        collisions: With a number that was there before, with another key or value.
        late: Below an earlier one, with a number that was not there before.
        fenced: With an epoch below an earlier one.
        unknown: Below an earlier one, and perhaps sent again: the sample leaves out what lies before.
        is_constant: Whether the number never changes within a stream.
    """

    records: int = 0
    streams: int = 0
    longest: int = 0
    in_order: int = 0
    gaps: int = 0
    resent: int = 0
    collisions: int = 0
    late: int = 0
    fenced: int = 0
    unknown: int = 0
    is_constant: bool = False

    @property
    def kept_out(self) -> int:
        """The records that Silver would keep out until a person decides."""
        return self.late + self.collisions + self.fenced

    def describe(self) -> str:
        """How it goes, in words.

        >>> Steps(records=12, streams=1, longest=12, in_order=9, gaps=1, resent=3).describe()
        'rises, with 1 gap; 3 records sent again'
        """
        gaps = f"with {self.gaps:,} gap{'s' if self.gaps > 1 else ''}" if self.gaps else "without a gap"
        said = [f"rises{' in part' if self.kept_out else ''}, {gaps}"]
        for count, words in (
            (self.resent, "sent again"),
            (self.unknown, "perhaps sent again: what lies before them is not in the sample"),
            (self.late, "below an earlier one that never came before"),
            (self.collisions, "with a number that another record has"),
            (self.fenced, "with an epoch below an earlier one"),
        ):
            if count:
                said.append(f"{count:,} record{'s' if count > 1 else ''} {words}")
        return "; ".join(said)


class _Stream:
    """A stream as far as it was walked."""

    def __init__(self) -> None:
        self.highest: tuple[int, int] | None = None
        self.seen: dict[tuple[int, int], int] = {}
        self.counts: Counter[str] = Counter()
        self.before_tail: tuple[int, int] | None = None
        self.is_in_tail = False

    def take(self, ordinal: tuple[int, int], content: int, *, is_in_tail: bool) -> None:
        """Take the stream's next record: its epoch and sequence, and a hash of its key and value."""
        is_first_of_tail = is_in_tail and not self.is_in_tail
        if is_first_of_tail:
            self.is_in_tail, self.before_tail = True, self.highest
        highest = self.highest
        self.counts["records"] += 1
        self.counts[self._class(ordinal, content)] += 1
        if highest is None or ordinal > highest:
            is_gap = highest is not None and highest[0] == ordinal[0] and ordinal[1] > highest[1] + 1
            self.counts["gaps"] += is_gap and not is_first_of_tail
            self.highest = ordinal
        self.seen.setdefault(ordinal, content)

    def _class(self, ordinal: tuple[int, int], content: int) -> str:
        if self.highest is None or ordinal > self.highest:
            return "in_order"
        if ordinal[0] < self.highest[0]:
            return "fenced"
        if ordinal in self.seen:
            return "resent" if self.seen[ordinal] == content else "collisions"
        is_unknown = self.is_in_tail and (self.before_tail is None or ordinal > self.before_tail)
        return "unknown" if is_unknown else "late"


def walk(
    records: Sequence[Sampled],
    numbers: Sequence[int | None],
    producers: Sequence[str | None] | None = None,
    epochs: Sequence[int | None] | None = None,
    tails: Mapping[Partition, int] | None = None,
) -> Steps:
    """Walk a sequence through the records that have all of what is given.

    Args:
        records: The records, by topic, partition and offset.
        numbers: The sequence of each; None where there is none.
        producers: The producer of each, which divides a partition into streams; None where there is none.
        epochs: The epoch of each; None where there is none.
        tails: Where the second part of a partition's records begins.
    """
    streams: dict[tuple[str, int, str | None], _Stream] = {}
    for at, record in enumerate(records):
        sequence = numbers[at]
        producer = producers[at] if producers else None
        epoch = epochs[at] if epochs else 0
        if sequence is None or epoch is None or (producers and producer is None):
            continue
        place = (record.topic, record.partition)
        is_in_tail = record.offset >= (tails or {}).get(place, math.inf)
        stream = streams.setdefault((*place, producer), _Stream())
        stream.take((epoch, sequence), hash((record.key, record.value)), is_in_tail=is_in_tail)
    longest = max((stream.counts["records"] for stream in streams.values()), default=0)
    is_constant = longest > 1 and all(len(stream.seen) == 1 for stream in streams.values())
    counts: Counter[str] = sum((stream.counts for stream in streams.values()), Counter())
    return Steps(streams=len(streams), longest=longest, is_constant=is_constant, **counts)


@dataclass(frozen=True)
class Option:
    """A sequence that fits, perhaps only with a producer or an epoch; `unread` records lack one of them."""

    sequence: Candidate
    producer: Candidate | None
    epoch: Candidate | None
    steps: Steps
    unread: int

    @property
    def label(self) -> str:
        """The option in the command line's words."""
        others = {"producer": self.producer, "epoch": self.epoch}
        more = "".join(f" with {role} {each.label}" for role, each in others.items() if each)
        return f"{self.sequence.label}{more}"

    def to_json(self) -> dict[str, int | bool]:
        """The option's steps as plain data."""
        return {**asdict(self.steps), "unread": self.unread}

    def named(self) -> list[bool]:
        """Whether producer and epoch, where they are needed, have the names of such."""
        extras = [(self.producer, _PRODUCER_NAMES), (self.epoch, _EPOCH_NAMES)]
        return [_is_named(role, names) for role, names in extras if role is not None]

    def rank(self) -> tuple[object, ...]:
        """The place among several: the lowest is the best; see `ORDER`."""
        named = self.named()
        return (
            self.steps.kept_out + self.unread,
            len(named),
            not _is_named(self.sequence, _SEQUENCE_NAMES),
            named.count(False),
            _FORMS.index(self.sequence.source.form),
            self.steps.gaps,
            self.label,
        )


@dataclass(frozen=True)
class Finding:
    """What one candidate is good for.

    Attributes:
        steps: How its numbers go within the partitions; None if it has none.
        lowest: Its lowest number; None if it has none.
        names: How many different names it has.
        row_part: Why its value belongs to a row or a key and not to the record; None if it does not.
        not_sequence: Why it does not fit as the sequence, by itself; None if it does.
        not_producer: Why it does not fit as the producer; None if it could.
        not_epoch: Why it does not fit as the epoch; None if it could.
    """

    candidate: Candidate
    steps: Steps | None
    lowest: int | None
    highest: int | None
    names: int
    row_part: str | None
    not_sequence: str | None
    not_producer: str | None
    not_epoch: str | None

    def to_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        each, found = self.candidate, vars(self)
        seen = {name: getattr(each, name) for name in ("present", "kind", "kinds", "example", "problems")}
        judged = {name: found[name] for name in found if name not in ("candidate", "steps", "row_part")}
        steps = asdict(self.steps) if self.steps else None
        return {"name": each.label, **asdict(each.source), "records": len(each.numbers), **seen, **judged, "steps": steps}


def judge(sample: Sample, found: Found) -> tuple[list[Finding], list[Option]]:
    """Judge each candidate, and list the sequences that fit, perhaps with a producer or an epoch, the best first."""
    keys = [_key_texts(each.key) for each in sample.records]
    envelopes = _envelopes(found.candidates)
    findings = [_finding(sample, each, _row_part(each, keys, envelopes)) for each in found.candidates]
    return findings, sorted(_options(sample, findings), key=Option.rank)


def option(sample: Sample, sequence: Candidate, producer: Candidate | None = None, epoch: Candidate | None = None) -> Option:
    """How a sample goes under a sequence, a producer and an epoch, whether they fit or not."""
    names, epochs = producer.names if producer else None, epoch.numbers if epoch else None
    steps = walk(sample.records, sequence.numbers, names, epochs, sample.tails)
    return Option(sequence, producer, epoch, steps, len(sample.records) - steps.records)


def with_given(sample: Sample, found: Sequence[Finding], producer: Candidate | None, epoch: Candidate | None) -> list[Option]:
    """The sequences that fit beside a producer and an epoch that were named, the best first."""
    taken = {each.source for each in (producer, epoch) if each is not None}
    able = [each.candidate for each in found if _is_able(each)]
    tried = [option(sample, each, producer, epoch) for each in able if each.source not in taken]
    return sorted((each for each in tried if fits(each.steps)), key=Option.rank)


def expectations(sample: Sample, found: Found, fields: Type) -> Iterator[dict[str, dict[str, Any]]]:
    """What the payload's fields hold in a sample, as expectations of the gate that only warn: no null, a range, a few values.

    There is no range of what rises or looks like a time, as the next record would be outside.
    """
    for each in found.candidates:
        path, texts = each.source.argument.removeprefix("$."), [name for name in each.names if name is not None]
        kind = fields.at(path) if each.source.form in _IN_VALUES and _COLUMN.fullmatch(path) else None
        if kind is None or len(texts) < FEW:
            continue
        read = _READ.get(kind.name, str)
        try:
            values = [None if name is None else read(name) for name in each.names]
        except ValueError:  # in another topic the field is of another type
            continue
        column, severity = {"column": f"payload.{path}"}, {"severity": "warn"}
        if len(texts) == len(each.names):
            yield {"expect_column_values_to_not_be_null": column | severity}
        if kind.name in _READ:
            lowest, highest = min(map(read, texts)), max(map(read, texts))
            steps = walk(sample.records, values)
            if lowest < highest and steps.in_order < steps.records / 2 and not is_time(values, with_seconds=True):
                limits = {"min_value": lowest, "max_value": highest}
                yield {"expect_column_values_to_be_between": column | limits | severity}
        elif kind.name == "STRING" and _are_few(names := sorted(set(texts)), len(texts)):
            yield {"expect_column_values_to_be_in_set": column | {"value_set": names} | severity}


def _are_few(values: Sequence[str], records: int) -> bool:
    return len(values) <= min(_FEW_VALUES, records / _FEW_VALUES) and max(map(len, values)) <= _LONGEST_VALUE


def _finding(sample: Sample, each: Candidate, row_part: str | None) -> Finding:
    numbers = [number for number in each.numbers if number is not None]
    steps = walk(sample.records, each.numbers, tails=sample.tails) if numbers else None
    names = {name for name in each.names if name is not None}
    return Finding(
        candidate=each,
        steps=steps,
        lowest=min(numbers, default=None),
        highest=max(numbers, default=None),
        names=len(names),
        row_part=row_part,
        not_sequence=row_part or _not_sequence(each, steps),
        not_producer=_not_producer(each, names),
        not_epoch=_not_epoch(sample, each, steps),
    )


def _not_sequence(each: Candidate, steps: Steps | None) -> str | None:
    if unread := _not_read(each):
        return unread
    if steps is None or steps.longest < 2:  # noqa: PLR2004 -- one record alone neither rises nor falls
        return "no partition of the sample has two records with it, so nothing can be said of its order"
    if steps.is_constant:
        return f"it never changes within a partition, such as {each.example}"
    if is_time(each.numbers):
        return "it looks like a time, and two records of one moment would have one sequence"
    if not _is_clean(steps):
        return f"it does not rise within the partitions: {_kept_out(steps)}"
    return None


def _is_able(each: Finding) -> bool:
    """Whether a candidate may be a sequence, with a producer or an epoch if need be."""
    return each.row_part is None and not _not_read(each.candidate) and not is_time(each.candidate.numbers)


def _key_texts(key: bytes | None) -> frozenset[str]:
    r"""The texts that a record's key holds: the key itself, or the values of its fields.

    >>> sorted(_key_texts(b'{"id": 7, "of": {"shop": "x"}}')), "7" in _key_texts(b"\x00\x00\x00\x07")
    (['7', 'x'], True)
    """
    if not key:
        return frozenset()
    found = Record(key).json
    if isinstance(found, dict | list):
        scalars = (part for _, part in parts(found) if part is not None and not isinstance(part, dict | list))
        return frozenset(text_of(part).decode() for part in scalars)
    texts = {str(int.from_bytes(key, signed=True))} if len(key) in _INTEGER_BYTES else set()
    with contextlib.suppress(UnicodeDecodeError):
        texts.add(key.decode())
    return frozenset(texts)


def _envelopes(found: Sequence[Candidate]) -> frozenset[str]:
    """The paths of the objects that are a change event: those that have an `op`, such as Debezium's."""
    paths = (each.source.argument for each in found)
    return frozenset(path.removesuffix("op") for path in paths if path == "op" or path.endswith((".op", "$op")))


def _row_part(each: Candidate, keys: Sequence[frozenset[str]], envelopes: frozenset[str]) -> str | None:
    """Why a candidate belongs to a row or a key and not to the record: a second change of the row has the same value."""
    path = each.source.argument
    if any(path.startswith((f"{above}before.", f"{above}after.")) for above in envelopes):
        return "it is a column of the changed row, and another change of the row has the same one"
    both = [(name, texts) for name, texts in zip(each.names, keys, strict=True) if name is not None and texts]
    if len(both) > 1 and sum(name in texts for name, texts in both) >= _SHARE_KEYS * len(both):
        return "it is the record's key, or a part of it, and another record of the key has the same one"
    return None


def _not_read(each: Candidate) -> str | None:
    """Why a candidate is no whole number in enough records."""
    total = len(each.numbers)
    if each.kind.endswith(LITTLE_ENDIAN):
        return f"{each.kind}, such as {_shown(each.example)}; only big-endian ones are read"
    if total - each.readable <= _SHARE_WRONG * total and each.readable:
        return None
    if each.present < total * (1 - _SHARE_WRONG):
        return f"it is missing in {total - each.present:,} of {total:,} records"
    worst = max(each.problems, key=lambda name: each.problems[name])
    said = PROBLEMS.get(worst, worst)
    if worst == "not_a_whole_number":
        said = f"{each.kind}, such as {_shown(each.example)}"
    return said if each.problems[worst] == total else f"{said} (in {each.problems[worst]:,} of {total:,} records)"


def _kept_out(steps: Steps) -> str:
    parts = [
        (steps.late, "below an earlier one and never there before"),
        (steps.collisions, "with the number of another record"),
        (steps.fenced, "with an epoch below an earlier one"),
    ]
    return ", ".join(f"{count:,} of {steps.records:,} records are {words}" for count, words in parts if count)


def _not_producer(each: Candidate, names: set[str]) -> str | None:
    total = len(each.names)
    without = each.names.count(None)
    if without > _SHARE_OUT * total:
        return f"it is missing, or no name of at most 1,024 bytes, in {without:,} of {total:,} records"
    if each.kind in NOBODY:
        return f"{each.kind} name nobody"
    if len(names) == 1:
        return "it is the same in all records, so it divides nothing"
    if len(names) > min(_MOST_NAMES, max(2, _SHARE_NAMES * total)):
        return f"{len(names):,} different values in {total:,} records are too many"
    return None


def _not_epoch(sample: Sample, each: Candidate, steps: Steps | None) -> str | None:
    if unread := _not_read(each):
        return unread
    if len({number for number in each.numbers if number is not None}) == 1:
        return "it never changes, so the sequence is not started anew by it"
    if is_time(each.numbers, with_seconds=True):
        return "it looks like a time"
    if steps is None or len(set(each.numbers)) > _SHARE_NAMES * len(each.numbers):
        return "it changes too often"
    if any(_falls(numbers) for numbers in _by_partition(sample.records, each.numbers)):
        return "it falls within a partition, and records of a lower epoch are kept out"
    return None


def _by_partition(records: Sequence[Sampled], numbers: Sequence[int | None]) -> Iterator[list[int]]:
    pairs = zip(records, numbers, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0][:2]):
        yield [number for _, number in group if number is not None]


def _falls(numbers: Sequence[int]) -> bool:
    return any(later < earlier for earlier, later in pairwise(numbers))


def is_time(numbers: Sequence[int | None], *, with_seconds: bool = False) -> bool:
    """Whether numbers look like times of this century in milli-, micro- or nanoseconds, or in seconds too.

    >>> is_time([1_795_254_019_000, 1_795_254_019_007]), is_time([1_795_254_019, 1_795_254_020])
    (True, False)
    """
    known = [number for number in numbers if number is not None]
    first, last = _SECONDS_OF_YEARS
    units = (1, *_UNITS) if with_seconds else _UNITS
    return bool(known) and any(all(first * unit <= number < last * unit for number in known) for unit in units)


def _options(sample: Sample, findings: Sequence[Finding]) -> Iterator[Option]:
    """The sequences that fit by themselves; of the others those that fit with a producer, an epoch, or both."""
    able = [each for each in findings if each.steps and _is_able(each) and not each.steps.is_constant]
    several = [each for each in able if each.steps and each.steps.longest > 1]
    alone = [each for each in several if each.not_sequence is None]
    yield from (option(sample, each.candidate) for each in alone)
    unclean = [each for each in several if each.steps and each.steps.kept_out]
    epochs = [each.candidate for each in findings if each.not_epoch is None]
    could_be = [each.candidate for each in sorted(findings, key=lambda each: each.names) if each.not_producer is None]
    producers = [each for each in could_be if each not in epochs or _is_named(each, _PRODUCER_NAMES)]
    most = sorted(unclean, key=lambda each: (not _is_named(each.candidate, _SEQUENCE_NAMES), -_distinct(each)))
    for each in most[:_MOST_SEQUENCES]:
        yield from _with_extras(sample, each, producers[:_MOST_PRODUCERS], epochs[:_MOST_EPOCHS])


def _with_extras(
    sample: Sample, each: Finding, producers: Sequence[Candidate], epochs: Sequence[Candidate]
) -> Iterator[Option]:
    """A sequence beside each producer, each epoch, and each pair of both where neither alone is enough."""
    singles = [*((producer, None) for producer in producers), *((None, epoch) for epoch in epochs)]
    pairs = [(producer, epoch) for producer in producers for epoch in epochs if producer is not epoch]
    enough: set[Source] = set()
    for producer, epoch in (*singles, *pairs):
        extras = [extra for extra in (producer, epoch) if extra is not None]
        if each.candidate in extras or not enough.isdisjoint(extra.source for extra in extras):
            continue
        tried = option(sample, each.candidate, producer, epoch)
        # Extras that are not needed are proposed only where they have the names of what they would be.
        if each.not_sequence is None and not all(tried.named()):
            continue
        if fits(tried.steps) and tried.unread <= _SHARE_WRONG * len(sample.records):
            enough |= {extra.source for extra in extras}
            yield tried


def fits(steps: Steps) -> bool:
    """Whether a sequence rises within its streams, but for few records."""
    return steps.longest > 1 and not steps.is_constant and _is_clean(steps)


def _is_clean(steps: Steps) -> bool:
    """Whether few records would be kept out, and very few of them as collisions."""
    return steps.kept_out <= _SHARE_OUT * steps.records and steps.collisions <= _SHARE_WRONG * steps.records


def _distinct(each: Finding) -> int:
    return len(set(each.candidate.numbers))


def _is_named(each: Candidate, names: Sequence[str]) -> bool:
    """Whether the last step of a candidate's name ends or begins in one of some words."""
    last = each.source.argument.lower().rstrip("']").rpartition(".")[2].rpartition("['")[2]
    return any(last.startswith(name) or last.endswith(name) for name in names)


def _shown(text: str | None) -> str:
    return printable((text or "")[:_LONGEST_EXAMPLE])
