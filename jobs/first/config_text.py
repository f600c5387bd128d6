"""The config that `tidemark init` writes: small, and with comments that say why."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from jobs.first import findings, objects
from jobs.first.candidates import extractor
from jobs.first.registered import schema_ids
from lakehouse.escape import printable, shortened
from lakehouse.settings.extractor import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jobs.first.findings import Option
    from jobs.first.init import Asked
    from jobs.first.look import Look

_WIDTH = 110
_LONGEST_PIPELINE = 100
_MOST_IDS, _MOST_OTHERS, _MOST_EXPECTATIONS = 5, 5, 20
_SHARE_NO_JSON = 0.05
_BLOCKS = ("kafka", "properties", "value", "registry", "gate")
_REFERENCES = ("bootstrap_servers", "properties", "registry")
"""What may hold references."""
OFFSET = "Kafka gives a new one to each record, also to one that is sent again"
_NEEDED = {
    "producer": "Without it the sequence does not rise within a partition.",
    "epoch": "Where it rises, the sequence starts anew.",
}


class Section(NamedTuple):
    """Keys of the config, with sentences for the comment above them. A proposal is written as a comment."""

    content: Mapping[str, Any]
    why: Sequence[str] = ()
    is_proposal: bool = False


def text(sections: Iterable[Section]) -> str:
    """The config as YAML."""
    return "\n\n".join("\n".join(_section(each)) for each in sections) + "\n"


def _section(section: Section) -> Iterator[str]:
    for why in section.why:
        wrapped = textwrap.wrap(printable(shortened(why)), _WIDTH, break_long_words=False)
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
            written = yaml.safe_dump(found, default_flow_style=style, sort_keys=False, width=_WIDTH)
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
    if own := _own(look, chosen, of_values):
        found.append(Section({"topics": own}, ["These topics are read otherwise: nothing fits all of them."]))
    return [*found, *(of_values or _unread_values(look))]


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
        yield f"Within the streams of the sample it {chosen.steps.describe()}. {chosen.warning()}".strip()
        if chosen.unread:
            yield f"{chosen.unread:,} records lack it: they would be invalid, and wait in quarantine."
    if others := [each.label for each in look.options if each is not chosen]:
        yield f"Fits too: {', '.join(others[:_MOST_OTHERS])}. First are: {findings.ORDER}."
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
        top, payload = "json", objects.payload(look.overall.found.json_kinds)
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
    proposed = list(islice(findings.expectations(look.overall.sample, look.overall.found, payload.fields), _MOST_EXPECTATIONS))
    holds = ["What holds of these fields in the sample. Correct it, and the gate will look at it:"]
    return [*found, Section({"gate": {"expectations": proposed}}, holds, is_proposal=True)] if proposed else found
