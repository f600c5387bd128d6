"""`tidemark init`: look at a sample of topics, say what could be sequence, producer and epoch, write a config that says why."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from pydantic import ValidationError

from lakehouse.config import load as configs
from lakehouse.config.sources import PREFIX
from lakehouse.errors import RegistryError, UsageError
from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Record
from lakehouse.extract.sources import Source
from lakehouse.settings.extractor import ROLES, Extractor
from lakehouse.settings.secrets import secret_texts, smells_of_secret
from silver.extract import one_record
from tidemark.extras.formats.prefixes import framing
from tidemark.extras.onboarding import candidates, values
from tidemark.extras.onboarding.candidates import extractor, find, judge
from tidemark.extras.onboarding.sample import require_sample
from tidemark.extras.onboarding.values import Registered, schema_ids, with_long_ids
from tidemark.process import exit_codes, output
from tidemark.process.options import command_line
from tidemark.process.output import whole

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.settings.pipeline import Settings
    from tidemark.extras.onboarding.candidates import Found, Option
    from tidemark.extras.onboarding.sample import Sample, Sampled

    Ask = Callable[[str, str | None], str]

_LONGEST_PIPELINE = 100
_MOST_OFFERED, _MOST_IDS, _MOST_EXPECTATIONS = 9, 5, 20
_MOST_LINES, _WIDTH, _WIDEST_NAME = 40, 100, 30
_MOST_WHYS, _MOST_NAMED, _MOST_OWN, _MOST_UNNAMED = 12, 5, 10, 30
_SHARE_NO_JSON = 0.05
_NO_REGISTRY = (
    "Start it, correct --registry, or leave it out. A login: --registry-property 'password=${env:REGISTRY_PASSWORD}'."
)
_PLAIN_PASSWORD = re.compile(r"password\s*=\s*[\"']?(?!\$\{)[^\s\"';]", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|secret):[^}]+\}")
_OFFSET = "Kafka gives a new one to each record, also to one that is sent again"
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


@dataclass(frozen=True)
class Asked:
    """The options of the command line. `roles` has what was named, by role; properties are `NAME=VALUE`."""

    brokers: str
    topics: Sequence[str]
    root: str
    config: Path
    is_forced: bool
    records: int
    given_properties: Sequence[str]
    roles: Mapping[str, str | None]
    registry: str = ""
    registry_properties: Sequence[str] = ()

    @property
    def given(self) -> dict[str, Source]:
        """The sources that were named, by role."""
        return {role: _source(role, text) for role, text in self.roles.items() if text}

    @property
    def registry_keys(self) -> dict[str, str]:
        """The registry as `value.registry` of the config has it; empty if none is named."""
        keys = _pairs("--registry-property", self.registry_properties)
        return {**keys, "url": Reference(self.registry)} if self.registry else keys

    def sections(self) -> list[Section]:
        """The sections that a config begins with. Secrets in the properties are references."""
        pipeline = re.sub(r"^[.-]+", "", self.topics[0])[:_LONGEST_PIPELINE] or "pipeline"
        properties = _pairs("--property", self.given_properties)
        kafka = {"bootstrap_servers": Reference(self.brokers), "topics": list(self.topics)}
        of_name = "The pipeline's name. It marks the tables, so it must not change once there are some."
        of_root = "Where the tables go: a folder, or an address in an object store."
        return [
            Section({"pipeline": pipeline}, [of_name]),
            Section({"kafka": Block(kafka | ({"properties": Block(properties)} if properties else {}))}),
            Section({"lakehouse": {"root": self.root}}, [of_root]),
        ]


class Block(dict[str, Any]):
    """A mapping that the config has on lines of its own."""


class Reference(str):
    """A text of the config that may hold references. In other texts `${` stays text."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(Block, lambda dumper, block: dumper.represent_mapping("tag:yaml.org,2002:map", block, flow_style=False))
_Dumper.add_representer(Reference, lambda dumper, text: dumper.represent_str(text))
_Dumper.add_representer(str, lambda dumper, text: dumper.represent_str(text.replace("${", "$${")))


class Section(NamedTuple):
    """Keys of the config, with sentences for the comment above them. A proposal is written as a comment."""

    content: Mapping[str, Any]
    why: Sequence[str] = ()
    is_proposal: bool = False


def config_text(sections: Iterable[Section]) -> str:
    """The config as YAML."""
    blocks = []
    for section in sections:
        lines = [f"# {line}" for why in section.why for line in textwrap.wrap(printable(shortened(why)), 110)]
        for name, value in section.content.items():
            text = yaml.dump(Block({name: value}), Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=110)
            lines += [f"# {line}" if section.is_proposal else line for line in text.splitlines()]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


class Look:
    """What was found in each topic that has records, and in all of them. `options` fit all topics as the sequence, best first.

    `chosen` is the first of them; else what fits the most topics, if each has something that fits.
    """

    def __init__(self, sample: Sample, asked: Asked, registered: Registered) -> None:
        by_topic: dict[str, list[Sampled]] = {}
        for each in sample.records:
            by_topic.setdefault(each.topic, []).append(each)
        self.asked, self.registered, self.sample = asked, registered, sample
        parts = [replace(sample, records=records) for records in by_topic.values()] or [sample]
        self.topics = [find(part, registered, asked.given) for part in parts]
        self.overall = self.topics[0] if len(self.topics) == 1 else find(sample, registered, asked.given)
        self.options = [each for each in self.overall.options if all(each.label in topic.labels for topic in self.topics)]
        firsts = [each.options[0] for each in self.topics if each.options]
        labels = Counter(each.label for each in firsts)
        of_most = max(firsts, key=lambda each: labels[each.label]) if len(firsts) == len(self.topics) else None
        self.chosen = self.options[0] if self.options else of_most

    @property
    def own(self) -> dict[str, Option]:
        """What single topics have instead of what was chosen."""
        if self.chosen is None or self.chosen in self.options:
            return {}
        return {each.topic: each.options[0] for each in self.topics if each.labels[0] != self.chosen.label}

    @cached_property
    def decoding(self) -> list[Section]:
        """How values are decoded, by the registry or else, as a proposal, as JSON; and what holds of their fields."""
        if self.chosen is None:
            return []
        registered, found = self.registered, self.overall
        if registered.formats:
            top, _ = Counter(registered.formats.values()).most_common(1)[0]
            payload = registered.payloads[top]
            ids = {topic: ids for topic, ids in registered.ids.items() if registered.formats.get(topic) == top}
            what = "JSON, with the fields of the sample" if top == "json" else "Avro, with the fields of their schemas"
            why = [f"The values {_begins(ids)}. They are {what}."]
        else:
            top, payload = "json", values.payload(found.documents)
            if registered.ids or not payload.schema or found.no_json > _SHARE_NO_JSON * len(self.sample.records):
                return []
            columns = "The values are JSON. This makes columns of their fields, with the types of the sample."
            why = [f"{columns} A DOUBLE rounds: for exact digits, as of money, write DECIMAL(18,2)."]
        if is_event := all(each.events for each in self.topics):
            why.insert(0, "The values are change events: the columns are the change and the row after it. A delete has no row.")
        if payload.left_out:
            why.append(f"Left out: {_listed([f'{path} ({reason})' for path, reason in payload.left_out.items()])}.")
        registry = {"registry": Block(self.asked.registry_keys)} if registered.formats else {}
        value = Block({"format": top, "schema": payload.schema} | registry)
        proposed = [*islice(candidates.expectations(found, payload.fields), _MOST_EXPECTATIONS)]
        holds = ["What holds of these fields in the sample. Correct it, and the gate will look at it:"]
        gate = Section({"gate": Block(expectations=proposed)}, holds, is_proposal=True)
        return [Section({"value": value}, why, is_proposal=not (registered.formats or is_event)), *([gate] if proposed else [])]


def init(asked: Asked, *, ask: Ask | None, as_json: bool) -> int:
    """Say what a sample of the topics has, and write a config that runs; return 1 if nothing fits as the sequence, else 0.

    `ask` asks a person. Raises a UsageError for a wrong option or a file that is there, a SourceError for a topic that cannot
    be read, and a RegistryError for a schema registry that cannot be asked.
    """
    _require_free(asked)
    _ = asked.registry_keys, asked.given  # wrong ones are named before anybody is asked
    asked = _complete(asked, ask)
    settings = _settings(asked)
    sys.stderr.write(f"Reading a sample of {', '.join(asked.topics)} at {settings.kafka.bootstrap_servers!s}.\n")
    sample = require_sample(settings.kafka, asked.records)
    if not asked.registry and ask is not None and schema_ids(sample.records):
        asked = replace(asked, registry=ask("The schema registry's URL; nothing for none", "").strip())
        settings = _settings(asked)
    try:
        registered = values.ask_registry(settings.registry, sample.records) if settings.registry else Registered()
    except RegistryError as error:
        raise RegistryError(error.what, where=error.where, observed=error.observed, next_step=_NO_REGISTRY) from None
    look, commands = Look(sample, asked, registered), list[str]()
    if ask is not None and not as_json and "sequence" not in asked.given and len(look.options) > 1:
        look.chosen = _choose(look.options[:_MOST_OFFERED], ask)
    if look.chosen is not None:
        sections = config_sections(look)
        _parse(asked, sections)  # a config that cannot be read is not written
        _require_free(asked)  # nobody has made it meanwhile
        with whole(asked.config) as unfinished:
            unfinished.write_text(config_text(sections), encoding="utf-8")
        commands = [command_line(name, asked.config) for name in ("check", "run")]
    output.write_json(_as_json(look, commands)) if as_json else output.write(answer(look, commands))
    return int(look.chosen is None)


def _require_free(asked: Asked) -> None:
    config, folder = str(asked.config), asked.config.absolute().parent
    if asked.config.exists() and not asked.is_forced:
        raise UsageError("There is a file already.", where=config, next_step="Name another --config, or replace it by --force.")
    if not folder.is_dir():
        raise UsageError("There is no such folder.", where=str(folder), next_step="Make it, or name another --config.")


def _complete(asked: Asked, ask: Ask | None) -> Asked:
    """Prompt for brokers, topics and root that are missing; an error if there is nobody to ask."""
    if ask is None and not (asked.brokers and asked.topics):
        what = f"{'--topic' if asked.brokers else '--brokers'} is missing."
        raise UsageError(what, where="init", next_step="Add it; on a terminal init prompts for it.")
    prompt = ask or (lambda _, default: default or "")
    brokers = asked.brokers or prompt("Kafka's brokers, host:port", "localhost:9092")
    topics = asked.topics or prompt("The topic, or several with commas between", None).replace(",", " ").split()
    if not topics:
        raise UsageError("No topic is named.", where="--topic", next_step="Name one: --topic orders.")
    root = asked.root or prompt("Where the tables go: a folder, or s3://bucket/path", "./lakehouse")
    return replace(asked, brokers=brokers, topics=topics, root=root)


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """The names and values of an option that may be repeated; an error for a secret in plain text."""
    found: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        name = name.strip()
        where = f"{option} {shortened(name, 60)}"  # others see the command line, and a message may be kept
        if not name or not value.strip():
            raise UsageError(f"{option} needs a name and a value.", where=where, next_step="Write NAME=VALUE.")
        is_secret = smells_of_secret(name) and name != "key"  # a registry's key is a file
        if (is_secret and not _REFERENCE.search(value)) or _PLAIN_PASSWORD.search(value):
            what, expected = "A secret is given in plain text, which the shell keeps.", "${env:NAME} or ${secret:scope/key}"
            raise UsageError(what, where=where, expected=expected, next_step="Put it into an environment variable.")
        found[name] = Reference(value)
    return found


def _source(role: str, text: str) -> Source:
    """What `--sequence`, `--producer` or `--epoch` names; an error if it is no extractor."""
    form, _, argument = text.partition(":")
    spelled: Any = {form: argument or form == "offset" or None}
    why = (
        "header:NAME, json:PATH, field:PATH, value:utf8, bytes:0:8, offset, custom:MODULE:NAME or {header: n, encoding: int64}"
    )
    try:
        spelled = yaml.safe_load(text) if text.startswith("{") else spelled
        if isinstance(spelled, dict) and (role == "sequence" or not {"offset", "debezium"} & spelled.keys()):
            return Source.of(Extractor.model_validate(spelled))
    except ValidationError as error:
        why = error.errors()[0]["msg"]
    except yaml.YAMLError:
        pass
    what, observed = f"--{role} names nothing that the config knows.", shortened(text, 200)
    raise UsageError(what, where=f"--{role}", observed=observed, expected=why)


def _settings(asked: Asked) -> Settings:
    value = {"format": "json", "schema": "value STRING", "registry": asked.registry_keys}
    sections = [*asked.sections(), Section({"sequence": {"offset": True}})]
    return _parse(asked, [*sections, Section({"value": value})] if asked.registry_keys else sections)


def _parse(asked: Asked, sections: Sequence[Section]) -> Settings:
    """Read a config; without the variables that would override it, so that its own text is in order."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    settings = configs.parse(config_text(sections), asked.config, environ=environ)
    exit_codes.known_secrets.update(secret_texts(settings))
    return settings


def _choose(options: Sequence[Option], ask: Ask) -> Option:
    lines = [f"  {number}  {printable(each.label)}: {each.describe()}" for number, each in enumerate(options, start=1)]
    sys.stderr.write("\nSeveral fit as the sequence:\n" + "\n".join(lines) + "\n")
    while True:
        answered = ask(f"Which one, 1 to {len(options)}", "1").strip()
        if answered.isdecimal() and 1 <= int(answered) <= len(options):
            return options[int(answered) - 1]
        sys.stderr.write(f"A number from 1 to {len(options)}.\n")


def config_sections(look: Look) -> list[Section]:
    """The config of what was found and chosen."""
    records, chosen = look.sample.records, look.chosen
    about = f"Written by `tidemark init` from a sample of {len(records):,} records. Every key is in docs/configuration.md."
    found = [Section({}, [about]), *look.asked.sections()]
    for role, each in chosen.by_role.items() if chosen else ():
        why = [f"{each.label} is in {each.present:,} of {len(each.numbers):,} records: {each.describe()}."]
        if each.source.form == "custom":
            why = [f"{each.label} is code of your own, which only Spark runs: `tidemark plan` tries it."]
        elif role == "sequence" and chosen and chosen.steps.records:
            why.append(f"Within the streams of the sample it {chosen.describe()}.")
        if each.source.form == "offset":
            why.append(f"It guards against reading twice, not against resends: {_OFFSET}.")
        found.append(Section({role: extractor(each.source)}, why))
    if _is_per_partition(look):
        repeats = "A number is in several partitions of the sample. So they are not compared where a topic gets partitions."
        found.append(Section({"policies": {"numbering": "per_partition"}}, [repeats]))
    if own := _own(look):
        found.append(Section({"topics": own}, ["These topics are read otherwise: nothing fits all of them."]))
    return [*found, *look.decoding]


def _is_per_partition(look: Look) -> bool:
    chosen = look.chosen
    if chosen is None or "producer" in chosen.by_role or chosen.form in ("offset", "custom", "debezium"):
        return False
    own, numbers = look.own, judge(look.overall, chosen.by_role["sequence"].source, detects=False).numbers
    numbered = [(each, number) for each, number in zip(look.sample.records, numbers, strict=True) if number is not None]
    places = {(each.topic, each.partition, number) for each, number in numbered if each.topic not in own}
    return len({(topic, number) for topic, _, number in places}) < len(places)


def _own(look: Look) -> dict[str, dict[str, Any]]:
    """What single topics have of their own; null is what the others have and they have not."""
    chosen, registered, own = look.chosen, look.registered, dict[str, dict[str, Any]]()
    top = {role: extractor(each.source) for role, each in chosen.by_role.items()} if chosen else {}
    for topic, option in look.own.items():
        here = {role: extractor(each.source) for role, each in option.by_role.items()}
        own[topic] = {role: here.get(role) for role in ROLES if here.get(role) != top.get(role)}
    if not look.decoding or not registered.formats:
        return own
    top_format = look.decoding[0].content["value"]["format"]
    for topic in dict.fromkeys(each.topic for each in look.sample.records if each.value is not None):
        written = registered.formats.get(topic)
        # One that takes its sequence from a field as the others do has to be decoded as they are.
        is_free = "sequence" in own.get(topic, {}) or not any("field" in each for each in top.values())
        if written != top_format and is_free:
            value = {"format": written, "schema": registered.payloads[written].schema} if written else None
            own.setdefault(topic, {})["value"] = value
    return own


def _begins(ids: Mapping[str, Sequence[int]]) -> str:
    numbers = sorted({number for each in ids.values() for number in each})
    shown = ", ".join(map(str, numbers[:_MOST_IDS])) + (", ..." if len(numbers) > _MOST_IDS else "")
    return f"begin with a zero byte and the id of a schema in a registry, {shown}"


def answer(look: Look, commands: Sequence[str]) -> str:
    """The answer for a terminal: at most 40 lines of at most 100 characters."""
    notes, chosen = [*_on_values(look)], look.chosen
    unfit = [each for each in look.topics if chosen or not each.options]
    if chosen is not None:
        proposed = " It proposes value.schema and expectations." if look.decoding and look.decoding[0].is_proposal else ""
        written = f"Written: {look.asked.config}. It says why in its comments.{proposed}"
        lines = _wrapped([*_on_chosen(look, chosen), *notes, written, "", "Next:"]) + [f"  {command}" for command in commands]
    elif look.sample.records:
        lines = _wrapped(_on_unfit(look, unfit, notes))
    else:
        none = f"{_listed(look.asked.topics)}: no records yet, so there is nothing to look at, and no config was written."
        lines = _wrapped([f"{none} Send some, or name what the records will have: --sequence header:seq"])
    others = [each.label for each in look.options if each is not chosen]
    fits_too = [f"Fits too: {_listed(others)}; --sequence takes another. First are: {candidates.ORDER}."] if others else []
    looked = ["", _looked_at(look), *fits_too, *_whys(unfit)] if look.sample.records else []
    rest = _wrapped([*looked, *(look.registered.lines() if look.asked.registry else [])])
    if len(lines) + len(rest) > _MOST_LINES:
        rest = [*rest[: max(0, _MOST_LINES - 1 - len(lines))], "--json has the rest."]
    return "\n".join([*lines, *rest])


def _on_chosen(look: Look, chosen: Option) -> Iterator[str]:
    labels = {role: shortened(label, _WIDTH) for role, label in chosen.labels.items()}
    hows = ("nothing fits all topics, and it fits the most", "the only one that fits", "the first of several that fit")
    how = "as was asked" if "sequence" in look.asked.given else hows[min(len(look.options), 2)]
    said = f"The sequence is {labels['sequence']}: {how}."
    said += f" Producer: {labels.get('producer', 'none')}. Epoch: {labels.get('epoch', 'none')}."
    said += f" It {chosen.describe()}." if chosen.steps.records else ""
    yield said + (f" It does not guard against resends: {_OFFSET}." if labels["sequence"] == "offset" else "")
    for topic, each in islice(look.own.items(), _MOST_OWN):
        yield f"Of {_listed([topic])} it is {shortened(each.label, _WIDTH)}: it {each.describe()}."


def _on_unfit(look: Look, unfit: Sequence[Found], notes: Iterable[str]) -> Iterator[str]:
    lacking = [each.topic for each in unfit]
    yield f"Nothing in the records of {_listed(lacking)} fits as a sequence, so no config was written."
    if fit := [f"{each.topic} ({each.labels[0]})" for each in look.topics if each.options]:
        yield f"The others have one: {_listed(fit)}. Without --topic {_listed(lacking[:1])}, init writes their config."
    yield from notes
    if not all(each.position for each in unfit):
        names = (look.asked.brokers.partition(",")[0], lacking[0])
        broker, topic = (json.dumps(each if len(each) < _WIDTH - 20 else "...") for each in names)
        yield from _WAYS.format(broker=broker, topic=topic).splitlines()


def _wrapped(lines: Iterable[str]) -> list[str]:
    """Wrap lines; what follows in an indented one is indented further."""
    indents = ((line, "      " if line.startswith("  ") else "") for line in lines)
    wrapped = (textwrap.wrap(printable(line), _WIDTH, subsequent_indent=each, break_on_hyphens=False) for line, each in indents)
    return [line for each in wrapped for line in each or [""]]


def _listed(names: Sequence[str]) -> str:
    shown = [shortened(each, 120) for each in names[:_MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else "")


def _looked_at(look: Look) -> str:
    sample, names = look.sample, [each.topic for each in look.topics]
    partitions = f"{len(sample.partitions):,} partition{'s' if len(sample.partitions) > 1 else ''}"
    records = f"{len(sample.records):,} of {sample.available:,} records of {_listed(names)}"
    said = f"Looked at {records}, from the beginnings and ends of {partitions}."
    if empty := [each for each in look.asked.topics if each not in names]:
        said += f" These topics have no records yet: {_listed(empty)}."
    return said


def _whys(topics: Sequence[Found]) -> Iterator[str]:
    for topic in topics[:_MOST_NAMED]:
        # All fields of a change event have the same reason: the position.
        is_event = topic.position is not None
        unfit = [each for each in topic.candidates if "sequence" in each.why_not and not (is_event and each.is_in_value)]
        unfit.sort(key=lambda each: (not each.known, -each.present))
        shown = unfit[: max(2, _MOST_WHYS // len(topics))]
        rows = {each.label: each.why_not["sequence"] for each in shown}
        rows |= {"key": _KEY, "offset": _OFFSET} if topic is topics[0] else {}
        yield f"Not a sequence in {_listed([topic.topic])}:"
        names = [printable(shortened(name, _WIDEST_NAME)) for name in rows]
        for name, why in zip(names, rows.values(), strict=True):
            yield f"  {name:<{max(map(len, names))}}  {why}"


def _on_values(look: Look) -> Iterator[str]:
    for topic in look.topics[:_MOST_NAMED]:
        values = [each.value for each in topic.sample.records if each.value is not None]
        faults = Counter(fault for value in values if (fault := _fault(value)))
        if with_long_ids(topic.sample.records):
            faults = Counter({"it begins with an id of eight bytes of a schema registry": len(values)})
        if topic.position and (why := topic.position.why_not.get("sequence")):
            yield f"The values of {_listed([topic.topic])} are Debezium's change events: {why}. docs/cdc.md has the settings."
        if topic.events and (tombstones := topic.sample.tombstones):
            skipped = "tombstones after deletes, which a run skips: tombstones.on.delete=false in the connector ends them."
            yield f"{tombstones:,} records of {_listed([topic.topic])} are {skipped}"
        for fault, count in faults.most_common(1) if topic.no_json else ():
            yield f"{count:,} of {len(values):,} values of {_listed([topic.topic])} are not read: {fault}."
    ids = schema_ids(look.sample.records)
    if ids and not look.asked.registry:
        yield f"The values of {_listed([*ids])} {_begins(ids)}. Name the registry, and init reads their fields:"
        yield "  --registry http://localhost:8081 --force"


def _fault(value: bytes) -> str | None:
    """Why no object is read from a value; None if it is one, is behind an id of a registry, or looks like no known format."""
    header = None if value.startswith(b"\0") else framing(value)
    looks_like_json = value.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[", b'"')
    return f"it begins with {header}" if header else one_record.instead_of_object(Record(value)) if looks_like_json else None


def _as_json(look: Look, commands: Sequence[str]) -> dict[str, Any]:
    sample, found, asked, chosen = look.sample, look.overall, look.asked, look.chosen
    decoded = {name: part for section in look.decoding for name, part in section.content.items()}
    return {
        "brokers": asked.brokers,
        "topics": list(asked.topics),
        "records": len(sample.records),
        "partitions": len(sample.partitions),
        **{name: getattr(sample, name) for name in ("available", "is_cut_short", "tombstones")},
        "candidates": [{**each.to_json(), "topic": topic.topic} for topic in look.topics for each in topic.candidates],
        "key": {"present": sum(each.key is not None for each in sample.records), "not_sequence": _KEY},
        "offset": {"present": len(sample.records), "not_sequence": _OFFSET},
        "unnamed": list(found.unnamed[:_MOST_UNNAMED]),
        **{name: getattr(found, name) for name in ("left_out", "no_json")},
        "schema_ids": sorted({number for each in schema_ids(sample.records).values() for number in each}),
        "headers_unread": sum(each.headers is None for each in sample.records),
        "options": [{"topic": topic.topic, **each.to_json()} for topic in look.topics for each in topic.options],
        "registry": {"url": asked.registry, **look.registered.to_json()} if asked.registry else None,
        "order": candidates.ORDER,
        "chosen": chosen and chosen.labels,
        "chosen_of_topics": {topic: each.labels for topic, each in look.own.items()},
        "value": decoded.get("value") and {**decoded["value"], "expectations": decoded.get("gate", {}).get("expectations", [])},
        "config": str(asked.config) if chosen else None,
        "next": commands,
    }
