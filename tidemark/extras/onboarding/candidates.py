"""What fits as sequence, producer and epoch of a sample's records, and why the rest does not. Pure.

The sequence rises, in the order of the offsets, within each stream of the sample: a partition, or a producer's records in it.
Records that were sent again do not count against it, nor do gaps. `walk` counts what Silver's rule would decide.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise, product, repeat
from typing import TYPE_CHECKING, Any

import yaml

from lakehouse.contracts.silver import PROBLEMS
from lakehouse.errors import UsageError
from lakehouse.escape import printable, shortened
from lakehouse.extract import debezium, on_driver
from lakehouse.extract.on_driver import Object, Record, text_of
from lakehouse.extract.sources import Source
from lakehouse.settings.extractor import ENCODED, IN_VALUE, ROLES, WIDTHS, SourceForm
from tidemark.extras.onboarding.values import FRACTION, TEXT, TRUTH, WHOLE, Event, Registered, among, is_connector, parts
from tidemark.process.output import plain

if TYPE_CHECKING:
    from lakehouse.settings.payload_schema import Type
    from tidemark.extras.onboarding.sample import Sample

    Numbers = Sequence[int | None]  # one a record
    Names = Sequence[str | None]

MOST_NAMES = 200  # headers, and as many paths
_MOST_STEPS, _MOST_SHOWN = 4, 30  # of a path, and candidates in an error
_LONGEST_NAME, _LONGEST_EXAMPLE = 200, 30
_PLAIN, _NO_STEP = re.compile(r"[A-Za-z0-9_-]+"), re.compile(r"['\[\]?]|^\*$|^$")
_KINDS = {
    WHOLE: re.compile(rb"[0-9]+"),
    "negative numbers": re.compile(rb"-[0-9]+"),
    FRACTION: re.compile(rb"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?"),
    TRUTH: re.compile(rb"true|false"),
}
_BINARY = {f"whole numbers in {width} bytes": encoding for encoding, width in WIDTHS.items()}
_LITTLE_ENDIAN = ", little-endian"  # the end of the kind of binary numbers that the config does not read
_NOBODY = (FRACTION, TRUTH)  # kinds of values that are no producer's name
_FAR = 256  # times as far: steps of numbers whose bytes are read in the wrong order
_THERE = ("disagrees", "repeated", "not_a_whole_number", "no_position", "no_total_order")  # problems of values that are present
_SHARE_NUMBERS = 0.95  # of its values: a candidate with more holds numbers
_SHARE_OUT = 0.05  # of records that Silver may keep out under a sequence that fits
_SHARE_WRONG = 0.01  # of records that may collide or be invalid under a sequence that fits
_SHARE_KEYS = 0.95  # of records whose key holds a field's value: with more the field is a key
_MOST_SEQUENCES, _MOST_PRODUCERS, _MOST_EPOCHS = 12, 8, 4  # are tried together, each time over the whole sample
_NAMES = {
    "sequence": ("seq", "lsn", "scn", "offset", "position", "counter", "version", "number", "id"),
    "producer": ("producer", "source", "instance", "host", "writer", "origin", "shard", "client", "node", "device"),
    "epoch": ("epoch", "generation", "term", "incarnation", "boot", "session"),
}
_OF_FORMAT: dict[str | None, SourceForm] = {"avro": "field", "json": "prefixed_json"}  # behind the prefix of a registry
_FORMS: tuple[SourceForm, ...] = ("debezium", "header", "json", "prefixed_json", "field", "value")  # those that a sample shows
_FIRST_SECOND, _LAST_SECOND = 946_684_800, 4_102_444_800  # 2000 and 2100
_UNITS = (1_000, 1_000_000, 1_000_000_000)  # milli-, micro- and nanoseconds; seconds themselves are as likely counters
_FEW = 20  # with fewer records a sample says little
_FEW_VALUES, _LONGEST_VALUE = 10, 100
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_READ: dict[str, Callable[[str], Any]] = {"BIGINT": int, "INT": int, "DOUBLE": float}
ORDER = "fewest records kept out, no producer or epoch needed, a name like seq or lsn, headers before values, fewest gaps, name"
_KEPT_OUT = {
    "late": "below an earlier one that never came before",
    "collisions": "with a number that another record has",  # and another key or value
    "fenced": "with an epoch below an earlier one, and a new number",
}
_AGAIN = {"resent": "sent again", "unknown": "perhaps sent again: what lies before them is not in the sample"}


@dataclass(frozen=True)
class Steps:
    """How a sequence goes within the streams of a sample, in records; `longest` are those of the longest stream.

    `gaps` counts steps forward over numbers that are not in the sample; it is None for positions, which always have some.
    """

    records: int = 0
    streams: int = 0
    longest: int = 0
    in_order: int = 0
    gaps: int | None = 0
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

    @property
    def fits(self) -> bool:
        """Whether the sequence rises within its streams, but for few records, and very few of them collisions."""
        is_clean = self.kept_out <= _SHARE_OUT * self.records and self.collisions <= _SHARE_WRONG * self.records
        return self.longest > 1 and not self.is_constant and is_clean

    def describe(self) -> str:
        """How it goes, in words."""
        gaps = f", with {self.gaps:,} gap{'s' if self.gaps > 1 else ''}" if self.gaps else ", without a gap"
        rises = f"rises{' in part' if self.kept_out else ''}{'' if self.gaps is None else gaps}"
        return "; ".join([rises, *self.counted(_AGAIN | _KEPT_OUT)])

    def counted(self, words: Mapping[str, str]) -> Iterator[str]:
        """Yield how many records there are of some classes, in words."""
        for name, said in words.items():
            if count := getattr(self, name):
                yield f"{count:,} record{'s' if count > 1 else ''} {said}"


def walk(sample: Sample, numbers: Numbers, producers: Names | None = None, epochs: Numbers | None = None) -> Steps:
    """Walk a sequence, perhaps with producers and epochs, through a sample. A record without one of them is left out."""
    counts, records_of = Counter[str](), Counter[tuple[str, int, str]]()
    highest, before_tail = dict[object, tuple[int, int]](), dict[object, tuple[int, int]]()
    seen: dict[object, int | None] = {}  # None for a fenced one
    columns = zip(sample.records, numbers, producers or repeat(""), epochs or repeat(0), strict=False)
    for record, sequence, producer, epoch in columns:
        if sequence is None or producer is None or epoch is None:
            continue
        stream, ordinal, content = (*record[:2], producer), (epoch, sequence), hash((record.key, record.value))
        top = highest.get(stream, (-1, -1))
        is_first_of_tail = stream not in before_tail and record.offset >= sample.tails.get(record[:2], math.inf)
        if is_first_of_tail:
            before_tail[stream] = top
        if ordinal > top:
            counts["gaps"] += epoch == top[0] and sequence > top[1] + 1 and not is_first_of_tail
            highest[stream], kind = ordinal, "in_order"
        elif (first := seen.get((stream, ordinal))) is not None:
            kind = "resent" if first == content else "collisions"
        elif epoch < top[0]:
            kind = "fenced"
        else:
            kind = "unknown" if ordinal > before_tail.get(stream, top) else "late"
        counts[kind] += 1
        records_of[stream] += 1
        seen.setdefault((stream, ordinal), None if kind == "fenced" else content)
    longest = max(records_of.values(), default=0)
    is_constant = longest > 1 and len(seen) == len(records_of)
    return Steps(records_of.total(), len(records_of), longest, is_constant=is_constant, **counts)


@dataclass(frozen=True)
class Candidate:
    """A header, a path, the whole value or a position, over all records of a sample.

    `kind` is what most of its values are, in words. `numbers` and `names` have one a record, or None. `problems` counts
    records without a number, by the names of `lakehouse.contracts.silver.PROBLEMS`. `why_not` is that of `_why_not`.
    """

    source: Source
    kind: str
    kinds: dict[str, int]
    example: str | None
    problems: dict[str, int]
    numbers: Numbers
    known: Sequence[int]
    names: Names
    different_names: frozenset[str]
    present: int
    steps: Steps
    why_not: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_in_value(self) -> bool:
        """Whether it is a field of the value."""
        return self.source.form in ("json", "prefixed_json", "field")

    @property
    def label(self) -> str:
        """The candidate as an option of the command line spells it: `header:seq` or `{header: seq, encoding: int64}`."""
        written = extractor(self.source)
        if len(written) > 1:
            spelled: str = yaml.safe_dump(written, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**9)
            return spelled.strip()
        [(form, argument)] = written.items()
        return form if argument is True else f"{form}:{argument}"

    def describe(self) -> str:
        """What it holds, in words."""
        if self.source.form == "debezium":
            return self.kind
        if self.known and len(self.known) >= _SHARE_NUMBERS * self.present:
            return f"{self.kind}, {min(self.known):,} to {max(self.known):,}"
        different = f", {len(self.different_names):,} different" if self.different_names else ""
        return f"{self.kind}{different}" + (f", such as {printable(self.example)}" if self.example else "")

    def to_json(self) -> dict[str, Any]:
        """The candidate as plain data."""
        seen = {name: getattr(self, name) for name in ("present", "kind", "kinds", "example", "problems")}
        numbers = {"lowest": min(self.known, default=None), "highest": max(self.known, default=None)}
        whys = {f"not_{role}": self.why_not.get(role) for role in ROLES}
        found = {"records": len(self.numbers), **seen, **numbers, "names": len(self.different_names), **whys}
        return {"name": self.label, **asdict(self.source), **found, "steps": asdict(self.steps) if self.known else None}


def extractor(source: Source) -> dict[str, Any]:
    """A source as the config writes it."""
    if source.form == "value":
        return {"value": source.encoding}
    written: dict[str, Any] = {"json" if source.form == "prefixed_json" else source.form: source.argument or True}
    is_encoded = source.encoding != "utf8" and source.form in ENCODED
    return written | ({"encoding": source.encoding} if is_encoded else {})


@dataclass(frozen=True)
class Found:
    """A sample as extractors read it, its candidates, and what fits as the sequence, the best first.

    Each document is a value as JSON, or decoded from Avro; None if it is neither. `forms` are those of extractors that read a
    field of it. `events` are the change events, if most values are such, and `position` theirs, if the config can name it.
    `unnamed` are names that the config cannot spell. `no_json` counts values that are no JSON objects, without tombstones.
    """

    topic: str  # of the first record
    sample: Sample
    records: Sequence[Record]
    forms: Sequence[SourceForm]
    documents: Sequence[Any]
    keys: Sequence[frozenset[str]]
    events: Sequence[Event]
    candidates: Sequence[Candidate] = ()
    options: Sequence[Option] = ()
    unnamed: Sequence[str] = ()
    left_out: int = 0
    position: Candidate | None = None
    no_json: int = 0

    @classmethod
    def of(cls, sample: Sample, registered: Registered) -> Found:
        """Read a sample, without candidates."""
        decoded, keys = registered.documents, [_key_texts(each.key) for each in sample.records]
        records = [Record(each.value, each.headers or (), each.offset, decoded.get(each[:3])) for each in sample.records]
        forms = [_OF_FORMAT.get(registered.formats.get(each.topic), "json") for each in sample.records]
        documents = [each.json if form == "json" else each.decoded for each, form in zip(records, forms, strict=True)]
        topic = sample.records[0].topic if sample.records else ""
        return cls(topic, sample, records, forms, documents, keys, among(documents))

    @property
    def labels(self) -> list[str]:
        """The options in the command line's words."""
        return [each.label for each in self.options]


def find(sample: Sample, registered: Registered | None = None, given: Mapping[str, Source] | None = None) -> Found:
    """List everything in a sample that could be a sequence, a producer or an epoch.

    Of `given`, what the command line names by role, a sequence is taken whether it fits or not. Raises a UsageError if no
    record of the sample has what is named.
    """
    found, sources, left_out = Found.of(sample, registered or Registered()), list[Source](), 0
    rows = [*zip(found.records, found.forms, found.documents, strict=True)]
    named = Counter(name for row in rows for name in dict.fromkeys(_names(*row)))
    is_json = [form != "field" and isinstance(document, Object) for _, form, document in rows]
    no_json = sum(record.value is not None and not is_ for (record, _, _), is_ in zip(rows, is_json, strict=True))
    for form in _FORMS:
        of_form = [each for each, _ in named.most_common() if isinstance(each, Source) and each.form == form]
        sources += sorted(of_form[:MOST_NAMES], key=lambda each: each.argument)
        left_out += len(of_form[MOST_NAMES:])
    if not all(isinstance(document, Object) for document in found.documents):
        sources.append(Source("value"))
    positions = [Source("debezium", each) for each in dict.fromkeys(each.database for each in found.events) if each]
    judged, by_role = [judge(found, each) for each in (*positions, *sources)], dict[str, Candidate]()
    for role, source in (given or {}).items():
        is_prefixed = source.form == "json" and "prefixed_json" in found.forms
        by_role[role] = judge(found, replace(source, form="prefixed_json") if is_prefixed else source)
        _require_read(sample, judged, role, by_role[role])
    unnamed, fitting = [each for each in named if isinstance(each, str)], options(sample, judged, by_role)
    position = next((each for each in judged if each.source.form == "debezium"), None)
    found = replace(found, candidates=judged, options=fitting, unnamed=unnamed, left_out=left_out)
    return replace(found, position=position, no_json=no_json)


def _require_read(sample: Sample, found: Sequence[Candidate], role: str, each: Candidate) -> None:
    if role == "producer":
        is_read = bool(each.different_names) and not (each.source.form == "field" and each.kind in _NOBODY)
    else:
        is_read = bool(each.known) and not each.kind.endswith(_LITTLE_ENDIAN)
    if is_read or not sample.records or each.source.form == "custom":  # only Spark runs code of your own
        return
    known = ", ".join(printable(other.label) for other in found[:_MOST_SHOWN]) or "no headers and no JSON"
    of_topic = f"{len(sample.records):,} records of {sample.records[0].topic}"
    observed = f"{each.describe()}, in {each.present:,} of {of_topic}" if each.present else f"{of_topic} with {known}"
    what, next_step = (
        f"No record of the sample has a {role} where --{role} names it.",
        "A field needs --registry.",
    )
    raise UsageError(what, where=f"--{role} {each.label}", observed=observed, next_step=next_step)


def _names(record: Record, form: SourceForm, document: Any) -> Iterator[Source | str]:
    """Yield what an extractor could name in a record, and the names that no extractor can spell."""
    for name, _ in record.headers:
        yield Source("header", name) if 0 < len(name) <= _LONGEST_NAME else name
    for path, part in parts(document) if isinstance(document, Object) else ():
        keys = [step for step in path if step is not None]
        if len(keys) == len(path) <= _MOST_STEPS and not isinstance(part, dict | list):
            argument = argument_of(keys)
            yield Source(form, argument.removeprefix("$." if form == "field" else "")) if argument else ".".join(keys)


def argument_of(path: Sequence[str]) -> str | None:
    """A path as an extractor of the config names it; None if it cannot."""
    if any(_NO_STEP.search(step) or len(step) > _LONGEST_NAME for step in path):
        return None
    return "$" + "".join(f".{step}" if _PLAIN.fullmatch(step) else f"['{step}']" for step in path)


def judge(found: Found, source: Source, *, detects: bool = True) -> Candidate:
    """Read a source of each record, and judge it. If `detects`, binary numbers of a header or value are read as such."""
    read = [on_driver.raw(source, each) for each in found.records]
    there = [raw for raw, _ in read if raw is not None]
    kinds = Counter(map(_kind, there))
    kind = kinds.most_common(1)[0][0] if there else "nothing"
    if detects and source.form in ("header", "value"):
        source = replace(source, encoding=_BINARY.get(kind, source.encoding))
    if source.encoding != "utf8":
        orders = ([int.from_bytes(each, order) for each in there] for order in ("little", "big"))
        little, big = (sum(abs(later - earlier) for earlier, later in pairwise(each)) for each in orders)
        # The right order of bytes has by far the smaller steps.
        kind = f"whole numbers in {WIDTHS[source.encoding]} bytes{_LITTLE_ENDIAN}" if little * _FAR < big else kind
    numbered = [(None, problem) if raw is None else on_driver.to_number(raw, source.encoding) for raw, problem in read]
    numbers = [number for number, _ in numbered]
    if source.form == "debezium":  # the whole position in one number
        of_epochs, kind = Source("debezium_epoch", source.argument), "positions of change events"
        epochs = [on_driver.number(of_epochs, each)[0] or 0 for each in found.records]
        numbers = [number and epoch << debezium.BITS | number for number, epoch in zip(numbers, epochs, strict=True)]
    names = [None if raw is None else on_driver.to_name(raw, source.encoding)[0] for raw, _ in read]
    read_by = Candidate(
        source=source,
        kind=kind,
        kinds=dict(kinds.most_common()),
        example=shortened(plain(there[0]), _LONGEST_EXAMPLE) if there else None,
        problems=dict(Counter(problem for _, problem in numbered if problem is not None)),
        numbers=numbers,
        known=[number for number in numbers if number is not None],
        names=names,
        different_names=frozenset(name for name in names if name is not None),
        present=sum(raw is not None or problem in _THERE for raw, problem in read),
        steps=walk(found.sample, numbers),
    )
    return replace(read_by, why_not=_why_not(found, read_by))


def _why_not(found: Found, each: Candidate) -> dict[str, str]:
    """Why a candidate does not fit by itself, by role; `never` is why it is no sequence with a producer or epoch either."""
    sample, events, steps = found.sample, found.events, each.steps
    skipped = sample.tombstones if each.source.form in IN_VALUE else 0
    total = len(each.numbers) - skipped
    missing, without, different = total - each.present, each.names.count(None) - skipped, len(each.different_names)
    is_event = bool(events) and each.is_in_value
    is_column = is_event and events[0].is_column(each.source.argument)
    position = f"debezium:{events[0].database}" if is_event and events[0].database else ""
    in_key = [name in texts for name, texts in zip(each.names, found.keys, strict=True) if name is not None and texts]
    in_order = [(record[:2], number) for record, number in zip(sample.records, each.numbers, strict=True) if number is not None]
    falls = any(place == before and number < earlier for (before, earlier), (place, number) in pairwise(in_order))
    example = f"{each.kind}, such as {printable(each.example or '')}"
    problems = {name: count - skipped * (name == "null") for name, count in each.problems.items()}
    worst, count = max(problems.items(), key=lambda problem: problem[1], default=("", 0))
    problem = example if worst == "not_a_whole_number" else PROBLEMS.get(worst, worst)
    problem += f" (in {count:,} of {total:,} records)" if count < total else ""
    is_key = len(in_key) > 1 and sum(in_key) >= _SHARE_KEYS * len(in_key)
    unable = (
        (is_column, "it is a column of the changed row, and another change of the row has the same one"),
        (is_key, "it is the record's key, or a part of it, and another record of the key has the same one"),
        (bool(position), f"it is not unique in a change event; {position} reads the whole position"),
    )
    unread = (
        (each.kind.endswith(_LITTLE_ENDIAN), f"{example}; only big-endian ones are read"),
        (missing > _SHARE_WRONG * total, f"it is missing in {missing:,} of {total:,} records"),
        (total - len(each.known) > _SHARE_WRONG * total, problem),
    )
    no_sequence = (
        (steps.longest <= 1, "no partition of the sample has two records with it, so nothing can be said of its order"),
        (steps.is_constant, f"it never changes within a partition, such as {each.example}"),
        (is_time(each.known), "it looks like a time, and two records of one moment would have one sequence"),
        (not steps.fits, f"it does not rise within the partitions: {'; '.join(steps.counted(_KEPT_OUT))}"),
    )
    no_producer = (
        (is_event and not is_connector(each.source.argument), "it is a part of a change event, and names no connector"),
        (without > _SHARE_OUT * total, f"it is missing, empty or too long in {without:,} of {total:,} records"),
        (each.kind in _NOBODY, f"{each.kind} name nobody"),
        (different == 1, "it is the same in all records, so it divides nothing"),
        (different > min(1_000, max(2, total / 5)), f"{different:,} different values in {total:,} records are too many"),
    )
    no_epoch = (
        (is_event or each.source.form == "debezium", "it is a part of a change event"),
        (len(set(each.known)) == 1, "it never changes, so no sequence restarts with it"),
        (is_time(each.known, with_seconds=True), "it looks like a time"),
        (len(set(each.numbers)) > total / 5, "it changes too often"),
        (falls, "it falls within a partition, and records of a lower epoch are kept out"),
    )
    rules = {"never": unable + unread + no_sequence[2:3], "sequence": unable + unread + no_sequence}
    rules |= {"producer": no_producer, "epoch": unread + no_epoch}
    first = {role: next((why for is_so, why in of_role if is_so), "") for role, of_role in rules.items()}
    return {role: why for role, why in first.items() if why}


def _kind(raw: bytes) -> str:
    """What bytes are, in words. Of long ones, only the beginning is looked at."""
    start = raw[: on_driver.MOST_BYTES]
    for kind, pattern in _KINDS.items():
        if pattern.fullmatch(start):
            return kind
    text = start.decode(errors="replace")
    if text.isprintable() and "\ufffd" not in text:
        return TEXT
    if (binary := f"whole numbers in {len(raw)} bytes") in _BINARY:
        return binary
    return "bytes" if "\ufffd" in text.rstrip("\ufffd") else TEXT


def _key_texts(key: bytes | None) -> frozenset[str]:
    """The texts that a record's key holds: the key itself, or the values of its fields."""
    if not key:
        return frozenset()
    found = Record(key).json
    if isinstance(found, dict | list):
        scalars = [part for _, part in parts(found) if part is not None and not isinstance(part, dict | list)]
        return frozenset(text_of(part).decode() for part in scalars)
    number = [str(int.from_bytes(key, signed=True))] if len(key) in WIDTHS.values() else []
    return frozenset([key.decode(errors="replace"), *number])


def is_time(numbers: Sequence[float], *, with_seconds: bool = False) -> bool:
    """Whether numbers look like times of this century in milli-, micro- or nanoseconds, or in seconds too."""
    units = (1, *_UNITS) if with_seconds else _UNITS
    is_within = (_FIRST_SECOND * unit <= min(numbers) <= max(numbers) < _LAST_SECOND * unit for unit in units if numbers)
    return any(is_within)


def _is_named(each: Candidate, role: str) -> bool:
    """Whether the last step of a candidate's name ends or begins in one of the words for a role, or it is a position."""
    last = each.source.argument.lower().rstrip("']").rpartition(".")[2].rpartition("['")[2]
    return each.source.form == "debezium" or last.startswith(_NAMES[role]) or last.endswith(_NAMES[role])


@dataclass(frozen=True)
class Option:
    """A sequence, perhaps with a producer or an epoch, by their roles; `unread` records lack one of them."""

    by_role: Mapping[str, Candidate]
    steps: Steps
    unread: int

    @classmethod
    def of(cls, sample: Sample, by_role: Mapping[str, Candidate]) -> Option:
        """Walk a sample by candidates, whether they fit or not."""
        producer, epoch = by_role.get("producer"), by_role.get("epoch")
        names, epochs = producer.names if producer else None, epoch.numbers if epoch else None
        sequence = by_role["sequence"]
        steps = walk(sample, sequence.numbers, names, epochs)
        skipped = sample.tombstones if sequence.source.form in IN_VALUE else 0
        steps = replace(steps, gaps=None) if sequence.source.form == "debezium" else steps
        return cls(by_role, steps, len(sample.records) - skipped - steps.records)

    @property
    def labels(self) -> dict[str, str]:
        """The candidates in the command line's words."""
        return {role: each.label for role, each in self.by_role.items()}

    @property
    def label(self) -> str:
        """The option in the command line's words."""
        return " with ".join(label if role == "sequence" else f"{role} {label}" for role, label in self.labels.items())

    @property
    def form(self) -> SourceForm:
        """The form of its sequence."""
        return self.by_role["sequence"].source.form

    def to_json(self) -> dict[str, Any]:
        """The option as plain data."""
        return {"label": self.label, "steps": {**asdict(self.steps), "unread": self.unread}}

    def describe(self) -> str:
        """How it goes, in words."""
        invalid = f"; {self.unread:,} invalid" if self.unread else ""
        few = f"; only {self.steps.records:,} records say so" if self.steps.records < _FEW else ""
        return f"{self.steps.describe()}{invalid}{few}"

    def named(self) -> list[bool]:
        """Whether producer and epoch, where they are needed, have the names of such."""
        return [_is_named(each, role) for role, each in self.by_role.items() if role != "sequence"]

    def rank(self) -> tuple[object, ...]:
        """The place among several: the lowest is the best; see `ORDER`."""
        is_named, named = _is_named(self.by_role["sequence"], "sequence"), self.named()
        kept_out, place = self.steps.kept_out + self.unread, (*_FORMS, self.form).index(self.form)
        return (kept_out, len(named), not is_named, named.count(False), place, self.steps.gaps or 0, self.label)


def options(sample: Sample, found: Sequence[Candidate], given: Mapping[str, Candidate]) -> list[Option]:
    """List the sequences that fit, perhaps with a producer or an epoch, the best first; `given` is as in `find`."""
    sequences = [given["sequence"]] if "sequence" in given else [each for each in found if "never" not in each.why_not]
    producers, epochs, is_open = [given.get("producer")], [given.get("epoch")], given.keys() <= {"sequence"}
    if is_open:
        rising = [each for each in found if "epoch" not in each.why_not]
        others = [each for each in found if each not in rising or _is_named(each, "producer")]
        dividing = [each for each in others if "producer" not in each.why_not]
        producers += sorted(dividing, key=lambda each: len(each.different_names))[:_MOST_PRODUCERS]
        epochs += rising[:_MOST_EPOCHS]
    extras = sorted(product(producers, epochs), key=lambda pair: pair.count(None), reverse=True)
    unclean = [each for each in sequences if "never" not in each.why_not and each.steps.kept_out and not each.steps.is_constant]
    unclean.sort(key=lambda each: (not _is_named(each, "sequence"), -len(set(each.numbers))))
    with_extras = {each.source for each in unclean[:_MOST_SEQUENCES]}
    fitting = list[Option]()
    for sequence in sequences:
        enough: set[Source] = set()
        for producer, epoch in extras if sequence.source in with_extras or not is_open else extras[:1]:
            by_role = {role: each for role, each in zip(ROLES, (sequence, producer, epoch), strict=True) if each}
            sources = [each.source for each in by_role.values()]
            if len(set(sources)) < len(sources) or enough & set(sources[1:]):
                continue
            tried = Option.of(sample, by_role)
            # Extras that are not needed are proposed only where they have the names of what they would be.
            is_wanted = "sequence" in sequence.why_not or all(tried.named())
            is_read = tried.unread <= _SHARE_WRONG * len(sample.records)
            if tried.steps.fits and (not is_open or (is_wanted and is_read)):
                enough |= set(sources[1:])
                fitting.append(tried)
    fitting.sort(key=Option.rank)
    return fitting if "sequence" not in given else fitting[:1] or [Option.of(sample, given)]


def expectations(found: Found, fields: Type) -> Iterator[dict[str, dict[str, Any]]]:
    """What the payload's fields hold in a sample, as expectations of the gate that only warn: no null, a range, a few values.

    There is no range of what rises or looks like a time, as the next record would be outside.
    """
    for each in found.candidates:
        path, texts = each.source.argument.removeprefix("$."), [name for name in each.names if name is not None]
        is_change = bool(found.events) and path.endswith("op")
        kind = fields.at(path) if each.is_in_value and _COLUMN.fullmatch(path) and not is_change else None
        if kind is None or len(texts) < _FEW:
            continue
        try:
            values = [None if name is None else _READ.get(kind.name, str)(name) for name in each.names]
        except ValueError:  # in another topic the field is of another type
            continue
        column, severity = {"column": f"payload.{path}"}, {"severity": "warn"}
        if len(texts) == len(values):
            yield {"expect_column_values_to_not_be_null": column | severity}
        known = [value for value in values if value is not None]
        different, steps = sorted(set(known)), walk(found.sample, values) if kind.name in _READ else None
        if steps and len(different) > 1 and steps.in_order < steps.records / 2 and not is_time(known, with_seconds=True):
            limits = {"min_value": different[0], "max_value": different[-1]}
            yield {"expect_column_values_to_be_between": column | limits | severity}
        is_few = len(different) <= min(_FEW_VALUES, len(texts) / _FEW_VALUES)
        if kind.name == "STRING" and is_few and max(map(len, different)) <= _LONGEST_VALUE:
            yield {"expect_column_values_to_be_in_set": column | {"value_set": different} | severity}
