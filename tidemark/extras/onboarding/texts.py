"""What `tidemark init` writes: the config, with comments that say why, and the answer for a terminal or as JSON."""

from __future__ import annotations

import codecs
import json
import re
import textwrap
from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Record
from lakehouse.extract.written import framing
from lakehouse.settings.extractor import ROLES
from silver.extract import one_record
from tidemark.extras.onboarding import candidates, values
from tidemark.extras.onboarding.candidates import extractor
from tidemark.extras.onboarding.values import MOST_BYTES, schema_ids, with_long_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidemark.extras.onboarding.candidates import Option
    from tidemark.extras.onboarding.init import Asked, Look, Topic

_CONFIG_WIDTH = 110
_LONGEST_PIPELINE = 100
_MOST_IDS, _MOST_OTHERS, _MOST_EXPECTATIONS = 5, 5, 20
_SHARE_NO_JSON = 0.05
_BLOCKS = ("kafka", "properties", "value", "registry", "gate")
_REFERENCES = ("bootstrap_servers", "properties", "registry")  # what may hold references
OFFSET = "Kafka gives a new one to each record, also to one that is sent again"
_NEEDED = {
    "producer": "Without it the sequence does not rise within a partition.",
    "epoch": "Where it rises, the sequence restarts.",
}
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


class Section(NamedTuple):
    """Keys of the config, with sentences for the comment above them. A proposal is written as a comment."""

    content: Mapping[str, Any]
    why: Sequence[str] = ()
    is_proposal: bool = False


def config_text(sections: Iterable[Section]) -> str:
    """The config as YAML."""
    return "\n\n".join("\n".join(_section(each)) for each in sections) + "\n"


def _section(section: Section) -> Iterator[str]:
    for why in section.why:
        wrapped = textwrap.wrap(printable(shortened(why)), _CONFIG_WIDTH, break_long_words=False)
        yield from (f"# {line}" for line in wrapped)
    for line in _yaml(section.content):
        yield f"# {line}" if section.is_proposal else line


def _yaml(content: Mapping[str, Any], indent: str = "", *, is_literal: bool = True) -> Iterator[str]:
    for name, value in content.items():
        key, is_own = _literal(name), is_literal and name not in _REFERENCES
        if isinstance(value, dict) and name in _BLOCKS:
            yield f"{indent}{name}:"
            yield from _yaml(value, f"{indent}  ", is_literal=is_own)
        else:
            found = {key: _literal(value) if is_own else value}
            style = None if isinstance(value, dict | list) else False
            written = yaml.safe_dump(found, default_flow_style=style, sort_keys=False, width=_CONFIG_WIDTH)
            yield from (f"{indent}{line}" for line in written.splitlines())


def _literal(value: Any) -> Any:
    """A value from outside, which is no reference: its `${` stays text."""
    if isinstance(value, dict):
        return {key: _literal(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_literal(part) for part in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def registry_ids(ids: Mapping[str, Sequence[int]]) -> str:
    """The ids of schemas that values of topics begin with, in words.

    >>> registry_ids({"t": range(1, 5), "u": range(3, 10)})
    'a zero byte and the id of a schema in a registry, 1, 2, 3, 4, 5, ...'
    """
    numbers = sorted({number for each in ids.values() for number in each})
    shown = ", ".join(map(str, numbers[:_MOST_IDS])) + (", ..." if len(numbers) > _MOST_IDS else "")
    return f"a zero byte and the id of a schema in a registry, {shown}"


def pipeline_name(topic: str) -> str:
    """A pipeline's name after a topic.

    >>> pipeline_name("orders"), pipeline_name(".hidden-topic")
    ('orders', 'hidden-topic')
    """
    return re.sub(r"^[.-]+", "", topic)[:_LONGEST_PIPELINE] or "pipeline"


def place(asked: Asked) -> list[Section]:
    """The sections that a config begins with."""
    kafka = {"bootstrap_servers": asked.brokers, "topics": list(asked.topics)}
    stored = "in an object store; its credentials come from the environment" if "://" in asked.root else "a folder"
    named = "The pipeline's name. It marks the writes to the tables, so it stays as it is once there are some."
    return [
        Section({"pipeline": pipeline_name(asked.topics[0])}, [named]),
        Section({"kafka": kafka | ({"properties": asked.properties} if asked.properties else {})}),
        Section({"lakehouse": {"root": asked.root}}, [f"Where the tables go: {stored}."]),
    ]


def sections(look: Look, chosen: Option, of_values: Sequence[Section]) -> list[Section]:
    """The config of what was found and chosen."""
    about = f"Written by `tidemark init` from a sample of {len(look.records):,} records."
    if not look.records:
        about = "Written by `tidemark init`; there were no records to look at, so nothing below is checked against any."
    found = [Section({}, [f"{about} Every key is in docs/configuration.md."]), *place(look.asked)]
    for role, each in chosen.by_role.items():
        found.append(Section({role: extractor(each.source)}, list(_why(look, chosen, role))))
    if numbering := _numbering(look, chosen):
        found.append(numbering)
    if own := _own(look, chosen, of_values):
        found.append(Section({"topics": own}, ["These topics are read otherwise: nothing fits all of them."]))
    return [*found, *(of_values or _unread_values(look))]


def _numbering(look: Look, chosen: Option) -> Section | None:
    """How the sequence is numbered, where its numbers repeat across the partitions of a topic."""
    if chosen.form in ("offset", "custom") or "producer" in chosen.by_role:
        return None
    places = set()
    for topic in look.topics:
        for option in topic.options:
            if option.label == chosen.label:
                numbered = zip(topic.sample.records, option.by_role["sequence"].numbers, strict=True)
                places |= {(each.topic, each.partition, number) for each, number in numbered if number is not None}
    if len({(topic, number) for topic, _, number in places}) == len(places):
        return None
    why = "A number is in several partitions of the sample. So they are not compared where a topic gets partitions."
    return Section({"policies": {"numbering": "per_partition"}}, [why])


def _why(look: Look, chosen: Option, role: str) -> Iterator[str]:
    """Why a role is read from there."""
    each = chosen.by_role[role]
    if each.source.form == "custom":
        yield f"{each.label} is code of your own, which only Spark runs: `tidemark plan` tries it."
    else:
        why = "It was named on the command line." if role in look.asked.given else _NEEDED.get(role, "")
        yield f"{each.label} is in {each.present:,} of {len(each.numbers):,} records: {each.describe()}. {why}".strip()
    if role != "sequence":
        return
    if look.records and "custom" not in [other.source.form for other in chosen.by_role.values()]:
        yield f"Within the streams of the sample it {chosen.describe()}."
    if others := [each.label for each in look.options if each is not chosen]:
        yield f"Fits too: {', '.join(others[:_MOST_OTHERS])}. First are: {candidates.ORDER}."
    if chosen.form == "offset":
        yield f"It guards against reading twice, not against resends: {OFFSET}."


def _own(look: Look, chosen: Option, of_values: Sequence[Section]) -> dict[str, dict[str, Any]]:
    """What single topics have of their own; null is what the others have and they have not."""
    top, own = _extractors(chosen), dict[str, dict[str, Any]]()
    for topic, each in look.own(chosen).items():
        own[topic] = {role: found for role, found in _extractors(each).items() if found != top[role]}
    if not of_values or of_values[0].is_proposal:
        return own
    top_format = of_values[0].content["value"]["format"]
    is_field = "field" in [each.source.form for each in chosen.by_role.values()]
    for topic in dict.fromkeys(each.topic for each in look.records if each.value is not None):
        written = look.registered.formats.get(topic)
        # One that takes its sequence from a field as the others do has to be decoded as they are.
        if written != top_format and ("sequence" in own.get(topic, {}) or not is_field):
            schema = look.registered.payloads[written].schema if written else None
            own.setdefault(topic, {})["value"] = {"format": written, "schema": schema} if written else None
    return own


def _extractors(option: Option) -> dict[str, Any]:
    return dict.fromkeys(ROLES) | {role: extractor(each.source) for role, each in option.by_role.items()}


def _unread_values(look: Look) -> list[Section]:
    """A comment on values of a registry whose fields are not read."""
    if look.registered.ids:
        whys = dict.fromkeys(each.why or "none fits all schemas" for each in look.registered.schemas.values())
        begins = f"The values begin with {registry_ids(look.registered.ids)}"
        return [Section({}, [f"{begins}; of them no field is read here: {'; '.join(whys)}."])]
    if not (ids := schema_ids(look.records)):
        return []
    why = (
        f"The values begin with {registry_ids(ids)}. To have their fields as columns, or to read the "
        "sequence from one, name the registry, the fields with their types of Spark, and the format, avro, protobuf or json:"
    )
    example = {"format": "avro", "schema": "id STRING, amount DOUBLE", "registry": {"url": "https://registry:8081"}}
    return [Section({"value": example}, [why], is_proposal=True)]


def of_values(look: Look) -> list[Section]:
    """How values are decoded, by the registry or else, as a proposal, as JSON; and what holds of their fields."""
    behind, is_json = look.registered, look.overall.found.no_json <= _SHARE_NO_JSON * len(look.records)
    if behind.formats:
        top, _ = Counter(behind.formats.values()).most_common(1)[0]
        payload = behind.payloads[top]
        ids = {topic: ids for topic, ids in behind.ids.items() if behind.formats.get(topic) == top}
        what = "JSON, and the fields those of the sample" if top == "json" else "Avro, and the fields those of their schemas"
        why = [f"The values begin with {registry_ids(ids)}. They are {what}."]
    else:
        top, payload = "json", values.payload(look.overall.found.json_kinds)
        if behind.ids or not payload.schema or not is_json:
            return []
        columns = "The values are JSON. This makes columns of their fields, with the types of the sample."
        why = [f"{columns} A DOUBLE rounds: for exact digits, as of money, write DECIMAL(18,2)."]
    if payload.left_out:
        why.append(f"Left out: {payload.listed()}.")
    if behind.refused and top == "avro":
        numbers = ", ".join(map(str, behind.refused))
        stops = f"The registry gave no schema {numbers}: a run stops there. If there never was one"
        why.append(f"{stops}: undecodable_ids: [{numbers}].")
    value: dict[str, Any] = {"format": top, "schema": payload.schema}
    value |= {"registry": look.asked.registry_keys} if behind.formats else {}
    found = [Section({"value": value}, why, is_proposal=not behind.formats)]
    proposed = list(
        islice(candidates.expectations(look.overall.sample, look.overall.found.candidates, payload.fields), _MOST_EXPECTATIONS)
    )
    holds = ["What holds of these fields in the sample. Correct it, and the gate will look at it:"]
    return [*found, Section({"gate": {"expectations": proposed}}, holds, is_proposal=True)] if proposed else found


def answer(look: Look, chosen: Option | None, of_values: Sequence[Section], commands: Sequence[str]) -> str:
    """The answer for a terminal: at most 40 lines of at most 100 characters."""
    notes, others = list(_on_values(look)), list[str]()
    if chosen is None:
        lines, unfit = [*_nothing_fits(look, notes)], [each for each in look.topics if not each.options]
    else:
        proposed = " It proposes value.schema and expectations." if of_values and of_values[0].is_proposal else ""
        last = [*_wrapped(f"Written: {look.asked.config}. It says why in its comments.{proposed}"), "", "Next:"]
        lines = [*_choice(look, chosen), *notes, *last, *(f"  {command}" for command in commands)]
        unfit, others = list(look.topics), [each.label for each in look.options if each is not chosen]
    rest = [line for each in look.registered.lines() for line in _wrapped(each)] if look.asked.registry else []
    if look.records:
        fits_too = f"Fits too: {_listed(others)}; --sequence takes another. First are: {candidates.ORDER}." if others else ""
        rest = ["", *_wrapped(_looked_at(look)), *_wrapped(fits_too), *_whys(unfit), *rest]
    if len(lines) + len(rest) > _MOST_LINES:
        rest = [*rest[: max(0, _MOST_LINES - 1 - len(lines))], "--json has the rest."]
    return "\n".join([*lines, *rest])


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
    said += f" It {chosen.describe()}." if chosen.steps.records else ""
    yield from _wrapped(f"{said} It does not guard against resends: {OFFSET}." if chosen.form == "offset" else said)
    for topic, each in islice(look.own(chosen).items(), _MOST_OWN):
        yield from _wrapped(f"Of {_listed([topic])} it is {shortened(each.label, _WIDTH)}: it {each.describe()}.")


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
        unfit = [each for each in topic.found.candidates if "sequence" in each.why_not]
        unfit.sort(key=lambda each: (not each.known, -each.present))
        rows = [(each.label, each.why_not["sequence"]) for each in unfit[: max(2, _MOST_WHYS // len(topics))]]
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
    """Why a value that looks like JSON is no object; None if it is one, looks like something else, or is too long."""
    looks_so = value.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[", b'"')
    return one_record.instead_of_object(Record(value)) if looks_so and len(value) <= MOST_BYTES else None


def answer_json(look: Look, chosen: Option | None, of_values: Sequence[Section]) -> dict[str, Any]:
    """The answer as plain data."""
    sample, found, asked = look.overall.sample, look.overall.found, look.asked
    decoded = {name: part for section in of_values for name, part in section.content.items()}
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
        "candidates": [{**each.to_json(), "topic": topic.name} for topic in look.topics for each in topic.found.candidates],
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
        "order": candidates.ORDER,
        "chosen": chosen and chosen.labels,
        "chosen_of_topics": {topic: each.labels for topic, each in look.own(chosen).items()} if chosen else {},
        "value": decoded.get("value") and {**decoded["value"], "expectations": decoded.get("gate", {}).get("expectations", [])},
    }
