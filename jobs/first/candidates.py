"""What a sample of records holds that could be a sequence, a producer or an epoch: headers, fields, whole values. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import yaml

from jobs.first import objects
from jobs.first.objects import FRACTION, MOST_BYTES, SCALARS, TEXT, TRUTH, WHOLE
from jobs.first.registered import Registered
from lakehouse.escape import printable
from lakehouse.extract import on_driver
from lakehouse.extract.on_driver import Object, Record
from lakehouse.extract.sources import Encoding, Form, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bronze.kafka.sample import Sampled
    from jobs.first.objects import Path

MOST_NAMES = 200
"""The headers, and the paths, that are looked at."""
_MOST_LEVELS = 4
_LONGEST_NAME = 200
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_NO_STEP = re.compile(r"['\[\]?]|^\*$|^$")
_KINDS = {
    WHOLE: re.compile(rb"[0-9]+"),
    "negative numbers": re.compile(rb"-[0-9]+"),
    FRACTION: re.compile(rb"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?"),
    TRUTH: re.compile(rb"true|false"),
}
_BINARY: dict[str, Encoding] = {"whole numbers in 4 bytes": "int32", "whole numbers in 8 bytes": "int64"}
_LITTLE_ENDIAN = ", little-endian"
"""The end of the kind of binary numbers that are no big-endian ones, as the config reads them."""
_THERE = ("disagrees", "repeated", "not_a_whole_number")
"""Problems of values that are present."""
_SHARE_NUMBERS = 0.95
"""The share of its values from which on a candidate holds numbers."""
_LONGEST_EXAMPLE = 30
_FAR = 256


@dataclass(frozen=True)
class Candidate:
    """A header, a path or the whole value, over all records of a sample.

    Attributes:
        kind: What most of its values are, in words; `kinds` counts all.
        problems: How many records have no number there, by problem; see `lakehouse.contracts.silver.PROBLEMS`.
        numbers: The number in each record; None where there is none. So `names`, of producers.
        present: In how many records it is.
    """

    source: Source
    kind: str
    kinds: dict[str, int]
    example: str | None
    problems: dict[str, int]
    numbers: Sequence[int | None]
    names: Sequence[str | None]
    present: int

    @property
    def label(self) -> str:
        """The candidate as an option of the command line spells it: `header:seq` or `{header: seq, encoding: int64}`."""
        written = extractor(self.source)
        if len(written) > 1:
            spelled: str = yaml.safe_dump(written, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**9)
            return spelled.strip()
        [(form, argument)] = written.items()
        return form if argument is True else f"{form}:{argument}"

    @cached_property
    def known(self) -> list[int]:
        """The numbers of the records that have one."""
        return [number for number in self.numbers if number is not None]

    @cached_property
    def different_names(self) -> set[str]:
        """The different names of the records that have one."""
        return {name for name in self.names if name is not None}

    def describe(self) -> str:
        """What it holds, in words."""
        if self.known and len(self.known) >= _SHARE_NUMBERS * self.present:
            return f"{self.kind}, {min(self.known):,} to {max(self.known):,}"
        different = f", {len(self.different_names):,} different" if self.different_names else ""
        return f"{self.kind}{different}" + (f", such as {printable(self.example)}" if self.example else "")

    @property
    def is_little_endian(self) -> bool:
        """Whether it holds binary numbers in an order of bytes that the config does not read."""
        return self.kind.endswith(_LITTLE_ENDIAN)

    @property
    def names_nobody(self) -> bool:
        """Whether its values are of a kind that is no producer's name."""
        return self.kind in (FRACTION, TRUTH)


@dataclass(frozen=True)
class Found:
    """All candidates of a sample: headers, paths, the whole value; and how many further names were not looked at.

    Attributes:
        unnamed: Names that the config cannot spell, not escaped.
        no_json: How many values are no JSON objects, tombstones apart.
        json_kinds: The kinds of the parts of the JSON values, by their paths; see `objects.kinds`.
    """

    candidates: Sequence[Candidate]
    unnamed: Sequence[str]
    left_out: int
    no_json: int
    json_kinds: Mapping[Path, Mapping[str, int]]


def extractor(source: Source) -> dict[str, Any]:
    """A source as the config writes it.

    >>> extractor(Source("header", "seq", "int64")), extractor(Source("value")), extractor(Source("offset"))
    ({'header': 'seq', 'encoding': 'int64'}, {'value': 'utf8'}, {'offset': True})
    """
    if source.form in ("value", "offset"):
        return {"value": source.encoding} if source.form == "value" else {"offset": True}
    written: dict[str, Any] = {"json" if source.form == "prefixed_json" else source.form: source.argument}
    is_encoded = source.encoding != "utf8" and source.form in ("header", "bytes")
    return written | ({"encoding": source.encoding} if is_encoded else {})


def find(sample: Sequence[Sampled], registered: Registered | None = None) -> Found:
    """List everything in a sample that could be a sequence, a producer or an epoch."""
    behind = registered or Registered()
    records = [behind.record(each) for each in sample]
    headers = Counter(name for each in sample for name in dict(each.headers or ()))
    named = {name: times for name, times in headers.items() if 0 < len(name) <= _LONGEST_NAME}
    unnamed = [name for name in headers if name not in named]
    sources = [Source("header", name) for name in _most(named)]
    left_out = max(0, len(named) - MOST_NAMES)
    forms: list[Form] = [behind.form(each.topic) for each in sample]
    documents = [_document(record, form) for record, form in zip(records, forms, strict=True)]
    json_kinds: dict[Path, Counter[str]] = {}
    for form in ("json", "prefixed_json", "field"):
        kinds = objects.kinds(document for document, of in zip(documents, forms, strict=True) if of == form)
        paths = _scalars(kinds)
        spelled = {argument: times for path, times in paths.items() if (argument := argument_of(path))}
        unnamed += [".".join(path) for path in paths if not argument_of(path)]
        sources += [Source(form, each.removeprefix("$.") if form == "field" else each) for each in _most(spelled)]
        left_out += max(0, len(spelled) - MOST_NAMES)
        for path, counted in kinds.items() if form != "field" else ():
            json_kinds.setdefault(path, Counter()).update(counted)
    found = [candidate(source, records) for source in sources]
    if not all(isinstance(document, Object) for document in documents):
        found.append(candidate(Source("value"), records))
    no_object = sum(of == "field" or not isinstance(each, Object) for each, of in zip(documents, forms, strict=True))
    return Found(found, unnamed, left_out, no_object - sum(each.value is None for each in sample), json_kinds)


def _document(record: Record, form: Form) -> Any:
    """A record's value as JSON; None if it is none, or too long to be read here."""
    return record.json if form == "json" and len(record.value or b"") <= MOST_BYTES else record.decoded


def argument_of(path: Sequence[str]) -> str | None:
    """A path as an extractor of the config names it; None if it cannot.

    >>> argument_of(("m", "seq no")), argument_of(("it's",))
    ("$.m['seq no']", None)
    """
    if any(_NO_STEP.search(step) or len(step) > _LONGEST_NAME for step in path):
        return None
    return "$" + "".join(f".{step}" if _PLAIN.fullmatch(step) else f"['{step}']" for step in path)


def _most(counted: Mapping[str, int]) -> list[str]:
    """The names that the most records have, by name."""
    return sorted(sorted(counted, key=lambda name: (-counted[name], name))[:MOST_NAMES])


def _scalars(kinds: Mapping[Path, Mapping[str, int]]) -> dict[tuple[str, ...], int]:
    """How often each path leads to what is no object and no list, in objects and as deep as is looked."""
    found = {}
    for path, counted in kinds.items():
        times = sum(count for kind, count in counted.items() if kind in SCALARS)
        keys = tuple(step for step in path if step is not None)
        if times and len(keys) == len(path) <= _MOST_LEVELS:
            found[keys] = times
    return found


def candidate(source: Source, records: Iterable[Record], *, detects: bool = True) -> Candidate:
    """What a source reads of each record. A header or value that holds binary numbers is read as such, if wanted."""
    read = [on_driver.raw(source, each) for each in records]
    there = [raw for raw, _ in read if raw is not None]
    kinds = Counter(map(_kind, there))
    kind = kinds.most_common(1)[0][0] if there else "nothing"
    is_detected = detects and source.form in ("header", "value")
    encoding = _BINARY.get(kind, source.encoding) if is_detected else source.encoding
    if encoding != "utf8" and _is_little_endian(there):
        kind = f"whole numbers in {4 if encoding == 'int32' else 8} bytes{_LITTLE_ENDIAN}"
    numbers = [(None, problem) if raw is None else on_driver.to_number(raw, encoding) for raw, problem in read]
    return Candidate(
        source=replace(source, encoding=encoding),
        kind=kind,
        kinds=dict(kinds.most_common()),
        example=_example(there[0]) if there else None,
        problems=dict(Counter(problem for _, problem in numbers if problem is not None)),
        numbers=[number for number, _ in numbers],
        names=[None if raw is None else on_driver.to_name(raw, encoding)[0] for raw, _ in read],
        present=sum(raw is not None or problem in _THERE for raw, problem in read),
    )


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


def _is_little_endian(found: Sequence[bytes]) -> bool:
    """Whether binary numbers go by far smaller steps when their bytes are read backwards.

    >>> counted = [[n.to_bytes(8, order) for n in (1, 2, 300)] for order in ("little", "big")]
    >>> [_is_little_endian(each) for each in counted]
    [True, False]
    """
    numbers = ([int.from_bytes(each, order) for each in found] for order in ("little", "big"))
    little, big = (sum(abs(later - earlier) for earlier, later in pairwise(each)) for each in numbers)
    return little * _FAR < big


def _example(raw: bytes) -> str:
    start = raw[:_LONGEST_EXAMPLE]
    try:
        text = start.decode(errors="strict" if len(start) == len(raw) else "ignore")
    except UnicodeDecodeError:
        text = f"0x{start.hex()}"
    return text if len(start) == len(raw) else f"{text}…"
