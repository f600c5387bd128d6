"""The config that `tidemark init` writes: small, commented, and read back before it is written."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from lakehouse.escape import printable, shortened
from lakehouse.extract.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_WIDTH = 110
_LONGEST_PIPELINE = 100
_MOST_IDS = 5


@dataclass(frozen=True)
class Chosen:
    """Where a key of the config is read from, None to leave it out, and sentences for the comment above it."""

    source: Source | None
    why: Sequence[str]


@dataclass(frozen=True)
class Value:
    """How values are decoded: `value` of the config.

    Attributes:
        registry: The keys of the schema registry, secrets as references. Without one, the section is proposed as a comment.
        why: Sentences for the comment above it.
        expectations: Expectations on the fields, proposed as a comment.
    """

    format: str
    schema: str
    registry: Mapping[str, str] = field(default_factory=dict)
    why: Sequence[str] = ()
    expectations: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Parts:
    """What a config is written from.

    Attributes:
        properties: Kafka client properties; secrets among them are references.
        about: What the file was written from.
        roles: `sequence`, `producer` and `epoch`.
        schema_ids: The ids of a schema registry that values seem to begin with.
        notes: Sentences for a comment at the end.
        own: Overrides of single topics: their extractors by role and their value, None for what they have not.
    """

    brokers: str
    topics: Sequence[str]
    root: str
    properties: Mapping[str, str]
    about: str = ""
    roles: Mapping[str, Chosen] = field(default_factory=lambda: {"sequence": Chosen(Source("offset"), ())})
    schema_ids: Sequence[int] = ()
    value: Value | None = None
    notes: Sequence[str] = ()
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def text(parts: Parts) -> str:
    """The config as YAML."""
    lines = [
        *_comment(f"{parts.about} Every key is in docs/configuration.md."),
        "",
        *_comment("The pipeline's name. It marks the writes to the tables, so it stays as it is once there are some."),
        f"pipeline: {_flow(pipeline_name(parts.topics[0]))}",
        "",
        "kafka:",
        f"  bootstrap_servers: {flow(parts.brokers)}",
        f"  topics: {_flow(list(parts.topics))}",
    ]
    if parts.properties:
        lines.append("  properties:")
        lines += [f"    {_flow(name)}: {flow(value)}" for name, value in parts.properties.items()]
    place = "in an object store; its credentials come from the environment" if "://" in parts.root else "a folder"
    lines += ["", *_comment(f"Where the tables go: {place}."), f"lakehouse: {{root: {_flow(parts.root)}}}"]
    for role, chosen in parts.roles.items():
        if chosen.why or chosen.source:
            lines += ["", *(line for why in chosen.why for line in _comment(why))]
        if chosen.source:
            lines.append(f"{role}: {_flow(extractor(chosen.source))}")
    if parts.own:
        lines += ["", *_comment("These topics are read otherwise: nothing fits all of them."), "topics:"]
        lines += [f"  {_flow(topic)}: {_flow(dict(own))}" for topic, own in parts.own.items()]
    if parts.value:
        lines += ["", *_value(parts.value)]
    elif parts.schema_ids:
        lines += [
            "",
            *_comment(
                f"The values begin with {registry_ids(parts.schema_ids)}. To have their fields as columns, or to read the "
                "sequence from one, name the registry, the fields with their types of Spark, and the format, avro, protobuf or "
                "json:"
            ),
            '# value: {format: avro, schema: "id STRING, amount DOUBLE", registry: {url: "https://registry:8081"}}',
        ]
    if parts.notes:
        lines += ["", *(line for note in parts.notes for line in _comment(note))]
    return "\n".join(lines) + "\n"


def _value(value: Value) -> Iterator[str]:
    """The section `value`, as a comment where there is no registry, and the expectations as a comment."""
    yield from (line for why in value.why for line in _comment(why))
    section = {"format": value.format, "schema": _literal(value.schema)}
    if value.registry:
        section["registry"] = dict(value.registry)
    written: str = yaml.safe_dump({"value": section}, default_flow_style=False, sort_keys=False, width=_WIDTH)
    yield from (line if value.registry else f"# {line}" for line in written.splitlines())
    if value.expectations:
        yield from ["", *_comment("What holds of these fields in the sample. Correct it, and the gate will look at it:")]
        yield from ["# gate:", "#   expectations:"]
        yield from (f"#     - {_flow(each)}" for each in value.expectations)


def extractor(source: Source) -> dict[str, Any]:
    """A source as the config writes it.

    >>> extractor(Source("header", "seq", "int64")), extractor(Source("value")), extractor(Source("offset"))
    ({'header': 'seq', 'encoding': 'int64'}, {'value': 'utf8'}, {'offset': True})
    """
    if source.form == "value":
        return {"value": source.encoding}
    if source.form == "offset":
        return {"offset": True}
    given: dict[str, Any] = {"json" if source.form == "prefixed_json" else source.form: source.argument}
    is_encoded = source.encoding != "utf8" and source.form in ("header", "bytes")
    return {**given, "encoding": source.encoding} if is_encoded else given


def registry_ids(ids: Sequence[int]) -> str:
    """The ids of schemas that values begin with, in words.

    >>> registry_ids(range(1, 10))
    'a zero byte and the id of a schema in a registry, 1, 2, 3, 4, 5, ...'
    """
    shown = ", ".join(map(str, ids[:_MOST_IDS])) + (", ..." if len(ids) > _MOST_IDS else "")
    return f"a zero byte and the id of a schema in a registry, {shown}"


def pipeline_name(topic: str) -> str:
    """A pipeline's name after a topic.

    >>> pipeline_name("orders"), pipeline_name(".hidden-topic")
    ('orders', 'hidden-topic')
    """
    return re.sub(r"^[.-]+", "", topic)[:_LONGEST_PIPELINE] or "pipeline"


def _comment(said: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(printable(shortened(said)), _WIDTH, break_long_words=False)]


def flow(value: Any, *, is_ascii: bool = True) -> str:
    """A value in one line of YAML."""
    written: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=not is_ascii, sort_keys=False, width=10**9)
    return written.removesuffix("\n").removesuffix("\n...")


def _flow(value: Any) -> str:
    """What comes from outside, in one line of YAML: it is no reference, so its `${` is written as one that stays text."""
    return flow(_literal(value))


def _literal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _literal(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_literal(part) for part in value]
    return value.replace("${", "$${") if isinstance(value, str) else value
