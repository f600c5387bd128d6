"""What a sample of records holds that could be a sequence, a producer or an epoch: headers, fields, whole values. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jobs.first import config_text, objects, registered
from jobs.first.objects import FRACTION, MOST_BYTES, SCALARS, TEXT, TRUTH, WHOLE
from lakehouse.extract import on_driver
from lakehouse.extract.on_driver import Object, Record
from lakehouse.extract.sources import Encoding, Form, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bronze.kafka.sample import Sampled
    from jobs.first.objects import Path
    from jobs.first.registered import Registered

MOST_NAMES = 200
"""The headers, and the paths, that are looked at."""
_MOST_LEVELS = 4
_LONGEST_NAME = 200
_SHARE = 0.95
"""The share of its values from which on a candidate is of a kind."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_NO_STEP = re.compile(r"['\[\]?]|^\*$|^$")
_WHOLE, _NEGATIVE = re.compile(rb"[0-9]+"), re.compile(rb"-[0-9]+")
_FRACTION = re.compile(rb"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?")

NEGATIVE = "negative numbers"
BYTES = "bytes"
BINARY: dict[Encoding, str] = {"int32": "whole numbers in 4 bytes", "int64": "whole numbers in 8 bytes"}
LITTLE_ENDIAN = ", little-endian"
"""The end of the kind of binary numbers that are no big-endian ones, as the config reads them."""
NOTHING = "nothing"
NOBODY = (FRACTION, TRUTH)
"""Kinds of values that are no producer's name."""
_TRUTH = re.compile(rb"true|false")
_BY_WIDTH: dict[int, Encoding] = {4: "int32", 8: "int64"}
_THERE = ("disagrees", "repeated", "not_a_whole_number")
"""Problems of what is there all the same."""
_LONGEST_EXAMPLE = 30
_FAR = 256
_ENCODED = ("header", "value")


@dataclass(frozen=True)
class Candidate:
    """A header, a path or the whole value, over all records of a sample.

    Attributes:
        kind: What most of its values are, in words; `kinds` counts all.
        problems: How many records have no number there, by problem; see `lakehouse.contracts.silver.PROBLEMS`.
        numbers: The number in each record, in the sample's order; None where there is none.
        names: The producer's name in each record; None where there is none.
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
        """The candidate as an option of the command line spells it, for example `header:seq`."""
        return label(self.source)

    @property
    def is_number(self) -> bool:
        """Whether nearly all of its values are numbers that a sequence or an epoch may be."""
        return self.readable > 0 and self.readable >= _SHARE * self.present

    @property
    def readable(self) -> int:
        """In how many records it is such a number."""
        return len(self.numbers) - self.numbers.count(None)


@dataclass(frozen=True)
class Found:
    """All candidates of a sample.

    Attributes:
        candidates: Headers first, then paths, then the whole value; each in the order of their names.
        unnamed: Names that the config cannot spell, not escaped.
        left_out: How many further headers and paths were not looked at.
        keys: How many records have a key.
        no_json: How many values are no JSON objects, tombstones apart.
        headers_unread: How many records have a header whose name is no UTF-8: none of their headers can be read.
        schema_ids: The ids of a schema registry that every value of a topic begins with, by topic; see `registered.schema_ids`.
        json_kinds: What the parts of the JSON values are, by their paths; see `objects.kinds`.
    """

    candidates: Sequence[Candidate]
    unnamed: Sequence[str]
    left_out: int
    keys: int
    no_json: int
    tombstones: int
    headers_unread: int
    schema_ids: Mapping[str, Sequence[int]]
    json_kinds: Mapping[Path, Mapping[str, int]]


def label(source: Source) -> str:
    """A source as an option of the command line spells it.

    >>> label(Source("header", "seq")), label(Source("header", "seq", "int64")), label(Source("value", encoding="int64"))
    ('header:seq', '{header: seq, encoding: int64}', 'value:int64')
    """
    written = config_text.extractor(source)
    if len(written) > 1:
        return config_text.flow(written, is_ascii=False)
    [(form, argument)] = written.items()
    return form if argument is True else f"{form}:{argument}"


def records_of(sample: Sequence[Sampled], behind: Registered | None = None) -> list[Record]:
    """The records of a sample as extractors read them, with their values decoded by the schemas of a registry."""
    if behind is not None:
        return [behind.record(each) for each in sample]
    return [Record(each.value, each.headers or (), each.offset) for each in sample]


def find(sample: Sequence[Sampled], behind: Registered | None = None) -> Found:
    """List everything in a sample that could be a sequence, a producer or an epoch."""
    records = records_of(sample, behind)
    headers = Counter(name for each in sample for name in dict(each.headers or ()))
    unnamed = [name for name in headers if not 0 < len(name) <= _LONGEST_NAME]
    known = {name: times for name, times in headers.items() if 0 < len(name) <= _LONGEST_NAME}
    sources = [Source("header", name) for name in _most(known)]
    forms: list[Form] = [behind.form(each.topic) if behind else "json" for each in sample]
    documents = [(form, _document(each, form)) for form, each in zip(forms, records, strict=True)]
    left_out = max(0, len(known) - MOST_NAMES)
    json_kinds: dict[Path, Counter[str]] = {}
    for form in ("json", "prefixed_json", "field"):
        kinds = objects.kinds(document for of, document in documents if of == form)
        paths = dict(_scalars(kinds))
        for path, counted in kinds.items() if form != "field" else ():
            json_kinds.setdefault(path, Counter()).update(counted)
        spelled = {path: argument for path in paths if (argument := argument_of(path)) is not None}
        unnamed += [".".join(path) for path in paths if path not in spelled]
        arguments = [spelled[path] for path in _most({path: paths[path] for path in spelled})]
        sources += [Source(form, each.removeprefix("$.") if form == "field" else each) for each in arguments]
        left_out += max(0, len(spelled) - MOST_NAMES)
    found = [candidate(source, records) for source in sources]
    if not all(isinstance(document, Object) for _, document in documents):
        found.append(candidate(Source("value"), records))
    tombstones = sum(each.value is None for each in sample)
    no_json = sum(of == "field" or not isinstance(document, Object) for of, document in documents) - tombstones
    return Found(
        candidates=found,
        unnamed=unnamed,
        left_out=left_out,
        keys=sum(each.key is not None for each in sample),
        no_json=no_json,
        tombstones=tombstones,
        headers_unread=sum(each.headers is None for each in sample),
        schema_ids=registered.schema_ids(sample),
        json_kinds=json_kinds,
    )


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


def _most(counted: dict[Any, int]) -> list[Any]:
    """The names that the most records have, by name."""
    return sorted(sorted(counted, key=lambda name: (-counted[name], name))[:MOST_NAMES])


def _scalars(kinds: Mapping[Path, Mapping[str, int]]) -> Iterator[tuple[tuple[str, ...], int]]:
    """The paths to what is no object and no list, in objects and as deep as is looked, and how often each is there."""
    for path, counted in kinds.items():
        times = sum(count for kind, count in counted.items() if kind in SCALARS)
        keys = tuple(step for step in path if step is not None)
        if times and len(keys) == len(path) <= _MOST_LEVELS:
            yield keys, times


def candidate(source: Source, records: Sequence[Record]) -> Candidate:
    """What a source reads of each record. A header or value that holds binary numbers is read as such."""
    read = [on_driver.raw(source, each) for each in records]
    kinds = Counter(_kind(raw) for raw, _ in read if raw is not None)
    kind = kinds.most_common(1)[0][0] if kinds else NOTHING
    encoding = next((name for name, words in BINARY.items() if words == kind and source.form in _ENCODED), source.encoding)
    if encoding in BINARY and _is_little_endian([raw for raw, _ in read if raw is not None]):
        kind = BINARY[encoding] + LITTLE_ENDIAN
    numbers = [(None, problem) if raw is None else on_driver.to_number(raw, encoding) for raw, problem in read]
    example = next((_example(raw) for raw, _ in read if raw is not None), None)
    return Candidate(
        source=replace(source, encoding=encoding),
        kind=kind,
        kinds=dict(kinds.most_common()),
        example=example,
        problems=dict(Counter(problem for _, problem in numbers if problem is not None)),
        numbers=[number for number, _ in numbers],
        names=[None if raw is None else on_driver.to_name(raw, encoding)[0] for raw, _ in read],
        present=sum(raw is not None or problem in _THERE for raw, problem in read),
    )


def _kind(raw: bytes) -> str:
    """What bytes are, in words. Of long ones, only the beginning is looked at."""
    start = raw[: on_driver.MOST_BYTES]
    for kind, pattern in ((WHOLE, _WHOLE), (NEGATIVE, _NEGATIVE), (FRACTION, _FRACTION), (TRUTH, _TRUTH)):
        if pattern.fullmatch(start):
            return kind
    text = start.decode(errors="replace")
    if text.isprintable() and "\ufffd" not in text:
        return TEXT
    if len(raw) in _BY_WIDTH:
        return BINARY[_BY_WIDTH[len(raw)]]
    return BYTES if "\ufffd" in text.rstrip("\ufffd") else TEXT


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
