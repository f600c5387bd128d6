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
from lakehouse.settings.extractor import ROLES
from silver.extract import one_record
from tidemark.extras.formats.prefixes import framing
from tidemark.extras.onboarding import candidates, values
from tidemark.extras.onboarding.candidates import extractor
from tidemark.extras.onboarding.values import schema_ids, with_long_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidemark.extras.onboarding.candidates import Candidate, Found, Option
    from tidemark.extras.onboarding.init import Asked, Look

_CONFIG_WIDTH = 110
_LONGEST_PIPELINE = 100
_MOST_IDS, _MOST_EXPECTATIONS = 5, 20
_SHARE_NO_JSON = 0.05
_BLOCKS = ("kafka", "properties", "value", "registry", "gate")
_REFERENCES = ("bootstrap_servers", "properties", "registry")  # what may hold references
OFFSET = "Kafka gives a new one to each record, also to one that is sent again"
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
   producer. For one of several topics, in the config: topics: {{NAME: {{sequence: {{offset: true}}}}}}
3. A MERGE by key, without Tidemark, where each key is sent for one record only: docs/comparison.md.
"""


class Section(NamedTuple):
    """Keys of the config, with sentences for the comment above them. A proposal is written as a comment."""

    content: Mapping[str, Any]
    why: Sequence[str] = ()
    is_proposal: bool = False


def config_text(sections: Iterable[Section]) -> str:
    """The config as YAML."""
    blocks = []
    for section in sections:
        whys = [line for why in section.why for line in textwrap.wrap(printable(shortened(why)), _CONFIG_WIDTH)]
        keys = [f"# {line}" if section.is_proposal else line for line in _yaml(section.content)]
        blocks.append("\n".join([*(f"# {line}" for line in whys), *keys]))
    return "\n\n".join(blocks) + "\n"


def _yaml(content: Mapping[str, Any], indent: str = "", *, has_references: bool = False) -> Iterator[str]:
    for name, value in content.items():
        is_verbatim = has_references or name in _REFERENCES
        if isinstance(value, dict) and name in _BLOCKS:
            yield f"{indent}{name}:"
            yield from _yaml(value, f"{indent}  ", has_references=is_verbatim)
        else:
            # What producers wrote is no reference: its `${` stays text.
            written = value if is_verbatim else json.loads(json.dumps(value).replace("${", "$${"))
            style = None if isinstance(value, dict | list) else False
            lines = yaml.safe_dump({name: written}, default_flow_style=style, sort_keys=False, width=_CONFIG_WIDTH).splitlines()
            yield from (f"{indent}{line}" for line in lines)


def _begins(ids: Mapping[str, Sequence[int]]) -> str:
    numbers = sorted({number for each in ids.values() for number in each})
    shown = ", ".join(map(str, numbers[:_MOST_IDS])) + (", ..." if len(numbers) > _MOST_IDS else "")
    return f"begin with a zero byte and the id of a schema in a registry, {shown}"


def place_sections(asked: Asked) -> list[Section]:
    """The sections that a config begins with."""
    pipeline = re.sub(r"^[.-]+", "", asked.topics[0])[:_LONGEST_PIPELINE] or "pipeline"
    kafka = {"bootstrap_servers": asked.brokers, "topics": list(asked.topics)}
    return [
        Section(
            {"pipeline": pipeline}, ["The pipeline's name. It marks the tables, so it must not change once there are some."]
        ),
        Section({"kafka": kafka | ({"properties": asked.properties} if asked.properties else {})}),
        Section({"lakehouse": {"root": asked.root}}, ["Where the tables go: a folder, or an address in an object store."]),
    ]


def sections(look: Look, chosen: Option, decoding: Sequence[Section]) -> list[Section]:
    """The config of what was found and chosen."""
    about = f"Written by `tidemark init` from a sample of {len(look.records):,} records. Every key is in docs/configuration.md."
    found = [Section({}, [about]), *place_sections(look.asked)]
    for role, each in chosen.by_role.items():
        why = [f"{each.label} is in {each.present:,} of {len(each.numbers):,} records: {each.describe()}."]
        if each.source.form == "custom":
            why = [f"{each.label} is code of your own, which only Spark runs: `tidemark plan` tries it."]
        elif role == "sequence" and chosen.steps.records:
            why.append(f"Within the streams of the sample it {chosen.describe()}.")
        if each.source.form == "offset":
            why.append(f"It guards against reading twice, not against resends: {OFFSET}.")
        found.append(Section({role: extractor(each.source)}, why))
    if _is_per_partition(look, chosen):
        repeats = "A number is in several partitions of the sample. So they are not compared where a topic gets partitions."
        found.append(Section({"policies": {"numbering": "per_partition"}}, [repeats]))
    if own := _own(look, chosen, decoding):
        found.append(Section({"topics": own}, ["These topics are read otherwise: nothing fits all of them."]))
    return [*found, *decoding]


def _is_per_partition(look: Look, chosen: Option) -> bool:
    """Whether numbers of the sequence repeat across the partitions of a topic."""
    if chosen.by_role["sequence"].source.form in ("offset", "custom", "debezium") or "producer" in chosen.by_role:
        return False
    places = set()
    for topic in look.topics:
        for option in topic.options:
            if option.label == chosen.label:
                numbered = zip(topic.sample.records, option.by_role["sequence"].numbers, strict=True)
                places |= {(each.topic, each.partition, number) for each, number in numbered if number is not None}
    return len({(topic, number) for topic, _, number in places}) < len(places)


def _own(look: Look, chosen: Option, decoding: Sequence[Section]) -> dict[str, dict[str, Any]]:
    """What single topics have of their own; null is what the others have and they have not."""
    own = dict[str, dict[str, Any]]()
    for topic, option in look.own(chosen).items():
        here, top = ({role: extractor(each.source) for role, each in of.by_role.items()} for of in (option, chosen))
        own[topic] = {role: here.get(role) for role in ROLES if here.get(role) != top.get(role)}
    if not decoding or not look.registered.formats:
        return own
    top_format = decoding[0].content["value"]["format"]
    is_field = "field" in [each.source.form for each in chosen.by_role.values()]
    for topic in dict.fromkeys(each.topic for each in look.records if each.value is not None):
        written = look.registered.formats.get(topic)
        # One that takes its sequence from a field as the others do has to be decoded as they are.
        if written != top_format and ("sequence" in own.get(topic, {}) or not is_field):
            schema = look.registered.payloads[written].schema if written else None
            own.setdefault(topic, {})["value"] = {"format": written, "schema": schema} if written else None
    return own


def value_sections(look: Look) -> list[Section]:
    """How values are decoded, by the registry or else, as a proposal, as JSON; and what holds of their fields."""
    registered, found = look.registered, look.overall
    if registered.formats:
        top, _ = Counter(registered.formats.values()).most_common(1)[0]
        payload = registered.payloads[top]
        ids = {topic: ids for topic, ids in registered.ids.items() if registered.formats.get(topic) == top}
        what = "JSON, and the fields those of the sample" if top == "json" else "Avro, and the fields those of their schemas"
        why = [f"The values {_begins(ids)}. They are {what}."]
    else:
        top, payload = "json", values.payload(found.documents)
        if registered.ids or not payload.schema or found.no_json > _SHARE_NO_JSON * len(look.records):
            return []
        columns = "The values are JSON. This makes columns of their fields, with the types of the sample."
        why = [f"{columns} A DOUBLE rounds: for exact digits, as of money, write DECIMAL(18,2)."]
    if is_event := all(each.events for each in look.topics):
        why.insert(0, "The values are change events: the columns are the change and the row after it. A delete has no row.")
    if payload.left_out:
        why.append(f"Left out: {_listed([f'{path} ({reason})' for path, reason in payload.left_out.items()])}.")
    if registered.refused and top == "avro":
        numbers = ", ".join(map(str, registered.refused))
        stops = f"The registry gave no schema {numbers}: a run stops there. If there never was one"
        why.append(f"{stops}: undecodable_ids: [{numbers}].")
    value = {"format": top, "schema": payload.schema} | ({"registry": look.asked.registry_keys} if registered.formats else {})
    proposed = candidates.expectations(found, payload.fields)
    gate = {"gate": {"expectations": list(islice(proposed, _MOST_EXPECTATIONS))}}
    holds = ["What holds of these fields in the sample. Correct it, and the gate will look at it:"]
    proposals = [Section(gate, holds, is_proposal=True)] if gate["gate"]["expectations"] else []
    return [Section({"value": value}, why, is_proposal=not (registered.formats or is_event)), *proposals]


def answer(look: Look, chosen: Option | None, decoding: Sequence[Section], commands: Sequence[str]) -> str:
    """The answer for a terminal: at most 40 lines of at most 100 characters."""
    notes, unfit, others = list(_on_values(look)), [each for each in look.topics if chosen or not each.options], list[str]()
    if chosen is not None:
        labels = {role: shortened(label, _WIDTH) for role, label in chosen.labels.items()}
        hows = ("nothing fits all topics, and it fits the most", "the only one that fits", "the first of several that fit")
        how = "as was asked" if "sequence" in look.asked.given else hows[min(len(look.options), 2)]
        said = f"The sequence is {labels['sequence']}: {how}."
        said += f" Producer: {labels.get('producer', 'none')}. Epoch: {labels.get('epoch', 'none')}."
        said += f" It {chosen.describe()}." if chosen.steps.records else ""
        said += f" It does not guard against resends: {OFFSET}." if labels["sequence"] == "offset" else ""
        own = islice(look.own(chosen).items(), _MOST_OWN)
        ofs = [f"Of {_listed([topic])} it is {shortened(each.label, _WIDTH)}: it {each.describe()}." for topic, each in own]
        proposed = " It proposes value.schema and expectations." if decoding and decoding[0].is_proposal else ""
        written = f"Written: {look.asked.config}. It says why in its comments.{proposed}"
        lines = _wrapped([said, *ofs, *notes, written, "", "Next:"]) + [f"  {command}" for command in commands]
        others = [each.label for each in look.options if each is not chosen]
    elif look.records:
        lacking = [each.topic for each in unfit]
        said = f"Nothing in the records of {_listed(lacking)} fits as a sequence, so no config was written."
        if fit := [f"{each.topic} ({each.labels[0]})" for each in look.topics if each.options]:
            said += f" The others have one: {_listed(fit)}. Without --topic {_listed(lacking[:1])}, init writes their config."
        names = (look.asked.brokers.partition(",")[0], lacking[0])
        broker, topic = (json.dumps(each if len(each) < _WIDTH - 20 else "...") for each in names)
        ways = [] if all(_position(each) for each in unfit) else _WAYS.format(broker=broker, topic=topic).splitlines()
        lines = _wrapped([said, *notes, *ways])
    else:
        none = f"{_listed(look.asked.topics)}: no records yet, so there is nothing to look at, and no config was written."
        lines = _wrapped([f"{none} Send some, or name what the records will have: --sequence header:seq"])
    fits_too = [f"Fits too: {_listed(others)}; --sequence takes another. First are: {candidates.ORDER}."] if others else []
    looked = ["", _looked_at(look), *fits_too, *_whys(unfit)] if look.records else []
    rest = _wrapped([*looked, *(look.registered.lines() if look.asked.registry else [])])
    if len(lines) + len(rest) > _MOST_LINES:
        rest = [*rest[: max(0, _MOST_LINES - 1 - len(lines))], "--json has the rest."]
    return "\n".join([*lines, *rest])


def _wrapped(lines: Iterable[str]) -> list[str]:
    """Wrap lines; what follows in an indented one is indented further."""
    indents = ((line, "      " if line.startswith("  ") else "") for line in lines)
    wrapped = (textwrap.wrap(printable(line), _WIDTH, subsequent_indent=each, break_on_hyphens=False) for line, each in indents)
    return [line for each in wrapped for line in each or [""]]


def _listed(names: Sequence[str]) -> str:
    shown = [shortened(each, 120) for each in names[:_MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else "")


def _looked_at(look: Look) -> str:
    """How much was looked at, and what could not be."""
    sample, found, names = look.overall.sample, look.overall, [each.topic for each in look.topics]
    partitions = f"{len(sample.partitions):,} partition{'s' if len(sample.partitions) > 1 else ''}"
    records = f"{len(sample.records):,} of {sample.available:,} records of {_listed(names)}"
    said = f"Looked at {records}, from the beginnings and ends of {partitions}."
    if unread := sum(each.headers is None for each in sample.records):
        said += f" In {unread:,} no header was read: a name is no UTF-8."
    if unnamed := found.left_out + len(found.unnamed):
        said += f" {unnamed:,} names were left out; see --json."
    if empty := [each for each in look.asked.topics if each not in names]:
        said += f" These topics have no records yet: {_listed(empty)}."
    return said


def _whys(topics: Sequence[Found]) -> Iterator[str]:
    """Why the rest of each topic is no sequence: of numbers first, and of what the most records have."""
    for topic in topics[:_MOST_NAMED]:
        # All fields of a change event have the same reason: the position.
        is_event = _position(topic) is not None
        unfit = [each for each in topic.candidates if "sequence" in each.why_not and not (is_event and each.is_in_value)]
        unfit.sort(key=lambda each: (not each.known, -each.present))
        shown = unfit[: max(2, _MOST_WHYS // len(topics))]
        rows = {each.label: each.why_not["sequence"] for each in shown}
        rows |= {"key": _KEY, "offset": OFFSET} if topic is topics[0] else {}
        more = f" ({len(unfit) - len(shown):,} more with --json)" if len(shown) < len(unfit) else ""
        yield f"Not a sequence in {_listed([topic.topic])}{more}:"
        names = [printable(shortened(name, _WIDEST_NAME)) for name in rows]
        for name, why in zip(names, rows.values(), strict=True):
            yield f"  {name:<{max(map(len, names))}}  {why}"


def _on_values(look: Look) -> Iterator[str]:
    """What is known of values that begin with a header, or look like JSON and are no objects."""
    for topic in look.topics[:_MOST_NAMED]:
        values = [each.value for each in topic.sample.records if each.value is not None]
        faults = Counter(fault for value in values if (fault := _fault(value)))
        if with_long_ids(topic.sample.records):
            faults = Counter({"it begins with an id of eight bytes of a schema registry": len(values)})
        if (position := _position(topic)) and (why := position.why_not.get("sequence")):
            yield f"The values of {_listed([topic.topic])} are Debezium's change events: {why}. docs/cdc.md has the settings."
        if topic.events and (tombstones := topic.sample.tombstones):
            skipped = "tombstones after deletes, which a run skips: tombstones.on.delete=false in the connector ends them."
            yield f"{tombstones:,} records of {_listed([topic.topic])} are {skipped}"
        for fault, count in faults.most_common(1) if topic.no_json else ():
            yield f"{count:,} of {len(values):,} values of {_listed([topic.topic])} are not read: {fault}."
    ids = schema_ids(look.records)
    if ids and not look.asked.registry:
        yield f"The values of {_listed([*ids])} {_begins(ids)}. Name the registry, and init reads their fields:"
        yield "  --registry http://localhost:8081 --force"


def _position(topic: Found) -> Candidate | None:
    """The position of a topic's change events; None if the values are others, or of a database that the config cannot name."""
    return next((each for each in topic.candidates if each.source.form == "debezium"), None)


def _fault(value: bytes) -> str | None:
    """Why no object is read from a value; None if it is one, is behind an id of a registry, or looks like no known format."""
    header = None if value.startswith(b"\0") else framing(value)
    looks_like_json = value.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[", b'"')
    return f"it begins with {header}" if header else one_record.instead_of_object(Record(value)) if looks_like_json else None


def answer_json(look: Look, chosen: Option | None, decoding: Sequence[Section]) -> dict[str, Any]:
    """The answer as plain data."""
    sample, found, asked = look.overall.sample, look.overall, look.asked
    decoded = {name: part for section in decoding for name, part in section.content.items()}
    options = [
        {"topic": topic.topic, "label": each.label, "steps": {**asdict(each.steps), "unread": each.unread}}
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
        "candidates": [{**each.to_json(), "topic": topic.topic} for topic in look.topics for each in topic.candidates],
        "key": {"present": sum(each.key is not None for each in sample.records), "not_sequence": _KEY},
        "offset": {"present": len(sample.records), "not_sequence": OFFSET},
        "unnamed": list(found.unnamed[:_MOST_UNNAMED]),
        "left_out": found.left_out,
        "no_json": found.no_json,
        "schema_ids": sorted({number for each in schema_ids(sample.records).values() for number in each}),
        "tombstones": sample.tombstones,
        "headers_unread": sum(each.headers is None for each in sample.records),
        "options": options,
        "registry": {"url": asked.registry, **look.registered.to_json()} if asked.registry else None,
        "order": candidates.ORDER,
        "chosen": chosen and chosen.labels,
        "chosen_of_topics": {topic: each.labels for topic, each in look.own(chosen).items()} if chosen else {},
        "value": decoded.get("value") and {**decoded["value"], "expectations": decoded.get("gate", {}).get("expectations", [])},
    }
