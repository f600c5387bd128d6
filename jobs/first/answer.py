"""What `tidemark init` answers: the choice and why, for a terminal or as JSON."""

from __future__ import annotations

import codecs
import json
import textwrap
from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from jobs.first import findings
from jobs.first.config_text import OFFSET, registry_ids
from jobs.first.objects import MOST_BYTES
from jobs.first.registered import schema_ids, with_long_ids
from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Record
from lakehouse.extract.written import framing
from silver.extract import one_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobs.first.config_text import Section
    from jobs.first.findings import Option
    from jobs.first.look import Look, Topic

_MOST_LINES, _WIDTH, _WIDEST_NAME = 40, 100, 30
_MOST_WHYS, _MOST_NAMED, _MOST_OWN, _MOST_UNNAMED = 12, 5, 10, 30
_KEY = "ever-new keys scatter a stream over the partitions, and its order is lost"
_WAYS = """\
Without one, a record that is sent again looks like a new one. The ways out:

1. The producer numbers its records. The kit in the folder producer/ does so in Python, and reads
   the last number back from Kafka when it starts (docs/producers.md):

    from tidemark_producer import Counter, Sender, last_accepted

    brokers = {broker}
    topic = {topic}
    config = {{"bootstrap.servers": brokers, "transactional.id": "shop"}}
    numbers = Counter(after=lambda: last_accepted(config, topic, "shop"))
    with Sender(config, "shop", numbers) as sender, sender.transaction():
        for key, value in [("a", "first"), ("b", "second")]:
            sender.send(topic, value, key)

   Where the program itself sends again after a crash, the numbers have to be kept with its records:
   Given(epoch=1) instead of the counter, and sequence=NUMBER in send.
2. --sequence offset: it guards against reading a record twice, and not against resends of the
   producer, which have offsets of their own. For one of several topics, it is in the config:
   topics: {{NAME: {{sequence: {{offset: true}}}}}}
3. A MERGE by key, without Tidemark, where each key is sent for one record only: docs/comparison.md.
"""


def text(look: Look, chosen: Option | None, of_values: Sequence[Section], commands: Sequence[str]) -> str:
    """The answer for a terminal: at most 40 lines of at most 100 characters."""
    notes, others = list(_on_values(look)), list[str]()
    if chosen is None:
        answer, unfit = [*_nothing_fits(look, notes)], [each for each in look.topics if not each.options]
    else:
        proposed = " It proposes value.schema and expectations." if of_values and of_values[0].is_proposal else ""
        last = [*_wrapped(f"Written: {look.asked.config}. It says why in its comments.{proposed}"), "", "Next:"]
        answer = [*_choice(look, chosen), *notes, *last, *(f"  {command}" for command in commands)]
        unfit, others = list(look.topics), [each.label for each in look.options if each is not chosen]
    rest = [line for each in look.registered.lines() for line in _wrapped(each)] if look.asked.registry else []
    if look.records:
        fits_too = f"Fits too: {_listed(others)}; --sequence takes another. First are: {findings.ORDER}." if others else ""
        rest = ["", *_wrapped(_looked_at(look)), *_wrapped(fits_too), *_whys(unfit), *rest]
    if len(answer) + len(rest) > _MOST_LINES:
        rest = [*rest[: max(0, _MOST_LINES - 1 - len(answer))], "--json has the rest."]
    return "\n".join([*answer, *rest])


def _wrapped(said: str, indent: str = "") -> list[str]:
    return textwrap.wrap(printable(said), _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _listed(names: Sequence[str]) -> str:
    shown = [shortened(each, 2 * _WIDEST_NAME) for each in names[:_MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else "")


def _choice(look: Look, chosen: Option) -> Iterator[str]:
    """The sequence, the producer and the epoch."""
    labels = {role: shortened(label, _WIDTH) for role, label in chosen.labels.items()}
    hows = ("nothing fits all topics, and it fits the most", "the only one that fits", "the first of several that fit")
    how = "as was asked" if "sequence" in look.asked.given else hows[min(len(look.options), 2)]
    producer, epoch = labels.get("producer", "none"), labels.get("epoch", "none")
    said = f"The sequence is {labels['sequence']}: {how}. Producer: {producer}. Epoch: {epoch}."
    said += f" It {chosen.steps.describe()}." if look.records else ""
    said += f" It does not guard against resends: {OFFSET}." if chosen.form == "offset" else ""
    yield from _wrapped(f"{said} {chosen.warning()}" if look.records else said)
    for topic, each in islice(look.own(chosen).items(), _MOST_OWN):
        yield from _wrapped(f"Of {_listed([topic])} it is {shortened(each.label, _WIDTH)}: it {each.steps.describe()}.")


def _nothing_fits(look: Look, notes: Sequence[str]) -> Iterator[str]:
    """Which topics have no sequence, and what can be done."""
    if not look.records:
        none = f"{_listed(look.asked.topics)}: no records yet, so there is nothing to look at, and no config was written."
        yield from _wrapped(f"{none} Send some, or name what the records will have: --sequence header:seq")
        return
    lacking = [each.name for each in look.topics if not each.options]
    said = f"Nothing in the records of {_listed(lacking)} fits as a sequence, so no config was written."
    if others := [f"{each.name} ({each.labels[0]})" for each in look.topics if each.options]:
        said += f" The others have one: {_listed(others)}. Without --topic {_listed(lacking[:1])}, init writes their config."
    yield from [*_wrapped(said), *notes]
    names = (look.asked.brokers.partition(",")[0], lacking[0])
    broker, topic = (json.dumps(each if len(each) < _WIDTH - 20 else "...") for each in names)
    yield from _WAYS.format(broker=broker, topic=topic).splitlines()


def _looked_at(look: Look) -> str:
    """How much was looked at, and what could not be."""
    sample, found, names = look.overall.sample, look.overall.found, [each.name for each in look.topics]
    empty = [each for each in look.asked.topics if each not in names]
    unread = sum(each.headers is None for each in sample.records)
    records = f"{len(sample.records):,} of {sample.available:,} records of {_listed(names)}"
    partitions = f"{len(sample.partitions):,} partition{'s' if len(sample.partitions) > 1 else ''}"
    sentences = {
        f"Looked at {records}, from the beginnings and ends of {partitions}.": True,
        f"No records yet, so nothing is said of them: {_listed(empty)}.": empty,
        "Fewer than requested: they are large, or arrive slowly.": sample.is_cut_short,
        f"{unread:,} records have a header whose name is no UTF-8: of these no header was read.": unread,
        f"{found.left_out:,} further names were not looked at.": found.left_out,
        f"{len(found.unnamed):,} names that no extractor can spell were left out: {_listed(found.unnamed)}.": found.unnamed,
    }
    return " ".join(said for said, is_so in sentences.items() if is_so)


def _whys(topics: Sequence[Topic]) -> Iterator[str]:
    """Why the rest of each topic is no sequence: of numbers first, and of what the most records have."""
    for topic in topics[:_MOST_NAMED]:
        unfit = [each for each in topic.findings if each.not_sequence is not None]
        unfit.sort(key=lambda each: (not each.candidate.known, -each.candidate.present))
        rows = [(each.candidate.label, each.not_sequence) for each in unfit[: max(2, _MOST_WHYS // len(topics))]]
        left = len(unfit) - len(rows)
        rows += [("key", _KEY), ("offset", OFFSET)] if topic is topics[0] else []
        names = [printable(shortened(name, _WIDEST_NAME)) for name, _ in rows]
        width = max(map(len, names), default=0)
        yield from _wrapped(f"Not a sequence in {_listed([topic.name])}{f' ({left:,} more with --json)' if left else ''}:")
        for name, (_, why) in zip(names, rows, strict=True):
            yield from _wrapped(f"  {name:<{width}}  {why}", " " * (width + 4))


def _on_values(look: Look) -> Iterator[str]:
    """What is known of values that begin with the id of a schema, or with another header."""
    for topic in look.topics[:_MOST_NAMED]:
        values = [each.value for each in topic.sample.records if each.value is not None]
        headers = {framing(value) for value in values if not value.startswith(b"\0")}
        is_long = with_long_ids(topic.sample.records)
        header = "an id of eight bytes of a schema registry" if is_long else headers.pop() if len(headers) == 1 else None
        if header:
            yield from _wrapped(f"The values of {_listed([topic.name])} begin with {header}, which is not read.")
        faults = Counter(each for value in values if (each := _json_fault(value))) if topic.found.no_json else None
        if faults:
            fault, count = faults.most_common(1)[0]
            said = f"{count:,} of {len(values):,} values of {_listed([topic.name])} look like JSON, and no object is read"
            yield from _wrapped(f"{said} from them: {fault}.")
    ids = schema_ids(look.records)
    if ids and not look.asked.registry:
        begins = f"Every value of {_listed([*ids])} begins with {registry_ids(ids)}"
        yield from _wrapped(f"{begins}. Name the registry, and init reads their fields:")
        yield "  --registry http://localhost:8081 --force"


def _json_fault(value: bytes) -> str | None:
    r"""Why a value that looks like JSON is no object; None if it is one, looks like something else, or is too long.

    >>> _json_fault(b"\xef\xbb\xbf{}"), _json_fault(b"[1]"), _json_fault(b"{}"), _json_fault(b"ok")
    ('it begins with a byte order mark', 'a list', None, None)
    """
    looks_so = value.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[", b'"')
    return one_record.instead_of_object(Record(value)) if looks_so and len(value) <= MOST_BYTES else None


def as_json(look: Look, chosen: Option | None, of_values: Sequence[Section]) -> dict[str, Any]:
    """The answer as plain data."""
    sample, found, asked = look.overall.sample, look.overall.found, look.asked
    values = {name: part for section in of_values for name, part in section.content.items()}
    options = [
        {"topic": topic.name, "label": each.label, "steps": {**asdict(each.steps), "unread": each.unread}}
        for topic in look.topics
        for each in topic.options
    ]
    return {
        "brokers": asked.brokers,
        "topics": list(asked.topics),
        "records": len(sample.records),
        "available": sample.available,
        "partitions": len(sample.partitions),
        "is_cut_short": sample.is_cut_short,
        "candidates": [{**each.to_json(), "topic": topic.name} for topic in look.topics for each in topic.findings],
        "key": {"present": sum(each.key is not None for each in sample.records), "not_sequence": _KEY},
        "offset": {"present": len(sample.records), "not_sequence": OFFSET},
        "unnamed": list(found.unnamed[:_MOST_UNNAMED]),
        "left_out": found.left_out,
        "no_json": found.no_json,
        "schema_ids": sorted({number for each in schema_ids(sample.records).values() for number in each}),
        "tombstones": sum(each.value is None for each in sample.records),
        "headers_unread": sum(each.headers is None for each in sample.records),
        "options": options,
        "registry": {"url": asked.registry, **look.registered.to_json()} if asked.registry else None,
        "order": findings.ORDER,
        "chosen": chosen and chosen.labels,
        "chosen_of_topics": {topic: each.labels for topic, each in look.own(chosen).items()} if chosen else {},
        "value": values.get("value") and {**values["value"], "expectations": values.get("gate", {}).get("expectations", [])},
    }
