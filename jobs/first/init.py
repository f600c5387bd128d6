"""`tidemark init`: look at a sample of a topic, say what could be sequence, producer and epoch, write a config."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from bronze.kafka import metadata
from bronze.kafka import sample as kafka_sample
from bronze.kafka.source import require_reachable
from jobs.first import candidates, config_text, findings, objects, registered
from jobs.first.candidates import LITTLE_ENDIAN, NOBODY
from jobs.first.config_text import Chosen, Parts, Value
from jobs.first.objects import MOST_BYTES
from jobs.process import exit_codes, output
from jobs.process.atomic_file import whole
from jobs.process.options import command_line
from lakehouse.config import load as configs
from lakehouse.config.mistakes import ConfigMistakesError
from lakehouse.config.sources import PREFIX
from lakehouse.errors import RegistryError, SourceError, UsageError
from lakehouse.escape import printable, shortened
from lakehouse.extract.on_driver import Record
from lakehouse.extract.sources import Source
from lakehouse.extract.written import framing
from lakehouse.settings import payload_schema
from lakehouse.settings.extractor import ROLES, Extractor
from lakehouse.settings.secrets import smells_of_secret
from silver.extract import one_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bronze.kafka.sample import Sample
    from jobs.first.candidates import Candidate, Found
    from jobs.first.findings import Finding, Option
    from jobs.first.objects import Payload
    from jobs.first.registered import Registered
    from lakehouse.settings.pipeline import Registry, Settings

_MOST_SHOWN = 30
_MOST_LINES, _WIDTH = 40, 100
_MOST_WHYS, _MOST_NAMED, _MOST_OFFERED, _MOST_EXPECTATIONS = 12, 5, 9, 20
_SHARE_NO_JSON = 0.05
_KEY = "ever-new keys scatter a stream over the partitions, and its order is lost"
_OFFSET = "Kafka gives a new one to each record, also to one that is sent again"
_WIDEST_NAME = 30
_REGISTRY_KEYS = ("username", "password", "ca", "cert", "key")
_ROOT = "./lakehouse"
_NO_REGISTRY = (
    "Start it, or correct --registry. With a login: --registry-property 'username=${env:REGISTRY_USER}' "
    "--registry-property 'password=${env:REGISTRY_PASSWORD}'. Without --registry, init says what the rest of the records has."
)
_PLAIN_PASSWORD = re.compile(r"password\s*=\s*[\"']?(?!\$\{)[^\s\"';]", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|secret):[^}]+\}")

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


@dataclass(frozen=True)
class Asked:
    """The options of the command line. On a terminal, `init` prompts for missing brokers, topics, root and registry.

    Attributes:
        is_forced: Whether a file that is there is replaced.
        records: How many records are read.
        properties: Kafka client properties as `NAME=VALUE`.
        roles: What was named as `sequence`, `producer` and `epoch`, as `header:seq`; None for what is to be found.
        registry: The URL of the schema registry.
        registry_properties: Keys of `value.registry` as `NAME=VALUE`.
    """

    brokers: str | None
    topics: Sequence[str]
    root: str | None
    config: Path
    is_forced: bool
    records: int
    properties: Sequence[str]
    roles: Mapping[str, str | None]
    registry: str | None = None
    registry_properties: Sequence[str] = ()

    @property
    def registry_keys(self) -> dict[str, str]:
        """The registry as `value.registry` of the config has it; empty if none is named.

        Raises:
            UsageError: A key of it is unknown, has no value, is a secret in plain text, or lacks the registry.
        """
        keys = _pairs("--registry-property", self.registry_properties, _REGISTRY_KEYS)
        if keys and self.registry is None:
            raise UsageError(
                "--registry-property is given without --registry.",
                where="--registry-property",
                expected="both, or --registry alone",
                next_step="Name the registry: --registry http://localhost:8081.",
            )
        return {} if self.registry is None else {"url": self.registry, **keys}


def init(asked: Asked, *, ask: Callable[[str, str | None], str] | None, as_json: bool) -> int:
    """Look at a sample of the topics, say what was found, and write a config that runs; `ask` asks a person.

    Returns:
        0 if the config was written, 1 if nothing fits as the sequence.

    Raises:
        UsageError: An option is missing or wrong, or the file is there.
        SourceError: The topic cannot be read.
        RegistryError: A schema registry is named, and cannot be asked.
    """
    _require_free(asked)
    _ = asked.registry_keys  # wrong ones are named before anybody is asked
    extractors = {role: _extractor(role, text) for role, text in asked.roles.items() if text}
    place = _place(asked, ask)
    settings = _parse(config_text.text(place), asked)
    registry = _registry(asked, place)
    sys.stderr.write(f"Reading a sample of {_listed(place.topics)} at {settings.kafka.bootstrap_servers!s}.\n")
    sample = kafka_sample.require(settings.kafka, asked.records)
    if registry is None and ask is not None and registered.schema_ids(sample.records):
        asked = replace(asked, registry=ask("The schema registry's URL; nothing for none", "").strip() or None)
        registry = _registry(asked, place)
    behind = _look(registry, sample) if registry else None
    names = [*dict.fromkeys(each.topic for each in sample.records)] or place.topics[:1]
    topics = [_topic(sample, [name], extractors, behind) for name in names]
    overall = topics[0] if len(topics) == 1 else _topic(sample, names, extractors, behind)
    options = [each for each in overall.options if all(each.label in topic.labels for topic in topics)]
    chosen = _choose(options, None if as_json or "sequence" in extractors else ask)
    own: dict[str, Option] = {}
    if chosen is None and all(each.options for each in topics):
        chosen, own = _most_common(topics)
    value = None
    if chosen is not None:
        parts = replace(place, own={topic: _otherwise(each, chosen) for topic, each in own.items()})
        parts = _with_roles(parts, overall, chosen, options, extractors)
        parts = _with_values(parts, asked, overall, behind)
        value, written = parts.value, config_text.text(parts)
        _parse(written, asked)  # a config that cannot be read is written by nobody
        _write(asked, written)
    commands = [command_line(name, asked.config) for name in ("check", "plan", "run")] if chosen else []
    if as_json:
        output.write_json(
            {
                **_plain(settings, overall, topics),
                "registry": {"url": asked.registry, **behind.to_json()} if behind else None,
                "order": findings.ORDER,
                "chosen": _labels(chosen) if chosen else None,
                "chosen_of_topics": {topic: _labels(each) for topic, each in own.items()},
                "value": value and {"format": value.format, "schema": value.schema, "expectations": value.expectations},
                "config": str(asked.config) if chosen else None,
                "next": commands,
            }
        )
        return int(chosen is None)
    notes = [*_on_values(topics, behind)]
    if chosen is None:
        answer, unfit = [*_nothing_fits(place, topics, notes)], [each for each in topics if not each.options]
    else:
        hows = ("nothing fits all topics, and it fits the most", "the only one that fits", "the first of several that fit")
        how = "as was asked" if "sequence" in extractors else hows[min(len(options), 2)]
        answer, unfit = [*_answer(chosen, own, how), *notes], topics
        proposed = " It proposes value.schema and expectations." if value and not value.registry else ""
        answer += [*_wrapped(f"Written: {asked.config}. It says why in its comments.{proposed}")]
        answer += ["", "Next:", *(f"  {command}" for command in commands)]
    others = [each.label for each in options if each is not chosen]
    fits_too = f"Fits too: {_listed(others)}; --sequence takes another. First are: {findings.ORDER}." if others else ""
    looked_at = _looked_at(overall, names, place.topics)
    rest = ["", *_wrapped(looked_at), *_wrapped(fits_too), *_whys(unfit)] if sample.records else []
    rest += [line for each in (behind.lines() if behind else ()) for line in _wrapped(each)]
    if len(answer) + len(rest) > _MOST_LINES:
        rest = [*rest[: max(0, _MOST_LINES - 1 - len(answer))], "--json has the rest."]
    output.write("\n".join([*answer, *rest]))
    return int(chosen is None)


@dataclass(frozen=True)
class Topic:
    """What was found in one topic, or in several topics together. `name` is the first of them.

    Attributes:
        options: What fits as the sequence, with what was named on the command line; the best first.
    """

    name: str
    sample: Sample
    found: Found
    findings: Sequence[Finding]
    options: Sequence[Option]

    @property
    def labels(self) -> list[str]:
        """The options in the command line's words."""
        return [each.label for each in self.options]


def _topic(sample: Sample, names: Sequence[str], extractors: Mapping[str, Source], behind: Registered | None) -> Topic:
    """Look at the records of topics.

    Raises:
        UsageError: Something is named on the command line that none of them has.
    """
    part = replace(sample, records=[each for each in sample.records if each.topic in names])
    found = candidates.find(part.records, behind)
    judged, options = findings.judge(part, found)
    given = {role: _given(part, source, role, found, behind) for role, source in extractors.items()}
    return Topic(names[0], part, found, judged, _possible(part, judged, options, given))


def _place(asked: Asked, ask: Callable[[str, str | None], str] | None) -> Parts:
    """Return brokers, topics, root and properties. Prompts for those that are missing.

    Raises:
        UsageError: One is missing, and there is nobody to ask; or a property is wrong.
    """
    properties = _pairs("--property", asked.properties)
    brokers = asked.brokers or _ask(ask, "Kafka's brokers, host:port", "localhost:9092", option="--brokers")
    topics = list(asked.topics)
    if not topics:
        known = _topic_names(_parse(config_text.text(Parts(brokers, ["unknown"], _ROOT, properties)), asked)) if ask else []
        if known:
            shown = ", ".join(known[:_MOST_SHOWN]) + (", ..." if len(known) > _MOST_SHOWN else "")
            sys.stderr.write(f"Topics: {shown}\n")
        default = known[0] if len(known) == 1 else None
        topics = _ask(ask, "The topic, or several with commas between", default, option="--topic").replace(",", " ").split()
    if not topics:
        raise UsageError("No topic is named.", where="--topic", next_step="Name one: --topic orders.")
    root = asked.root or (ask("Where the tables go: a folder, or s3://bucket/path", _ROOT) if ask else _ROOT)
    return Parts(brokers, topics, root, properties)


def _require_free(asked: Asked) -> None:
    if asked.config.exists() and not asked.is_forced:
        raise UsageError(
            "There is a file already; nothing was written.",
            where=str(asked.config),
            next_step="Name another one with --config, or replace it with --force.",
        )
    if not asked.config.absolute().parent.is_dir():
        raise UsageError(
            "There is no such folder.",
            where=str(asked.config.absolute().parent),
            next_step="Make it, or name another --config.",
        )


def _ask(ask: Callable[[str, str | None], str] | None, question: str, default: str | None, *, option: str) -> str:
    if ask is None:
        raise UsageError(f"{option} is missing.", where="init", next_step=f"Add {option}; on a terminal it is asked for.")
    return ask(question, default)


def _pairs(option: str, given: Sequence[str], known: Sequence[str] = ()) -> dict[str, str]:
    """The names and values of an option that may be repeated.

    Raises:
        UsageError: One has no value or an unknown name, or is a secret in plain text.
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not (name and equals and value.strip()) or (known and name not in known):
            raise UsageError(
                f"{option} needs a name and a value.",
                where=option,
                observed=shortened(name, 60),
                expected="NAME=VALUE" + (f", with one of {', '.join(known)}" if known else ""),
                next_step="See --help.",
            )
        is_secret = name == "password" if known else smells_of_secret(name)  # the key of a registry is a file
        if (is_secret and not _REFERENCE.search(value)) or _PLAIN_PASSWORD.search(value):
            raise _plain_secret(option, name)
        found[name] = value
    return found


def _plain_secret(option: str, name: str) -> UsageError:
    # Neither name nor value is repeated whole: others see the command line, and this message may be kept.
    return UsageError(
        "A secret is given in plain text; it would stay in the shell's history and in the file.",
        where=f"{option} {shortened(name, 60)}",
        expected="a reference: ${env:NAME}, or ${secret:scope/key} on Databricks",
        next_step=f"Put it into an environment variable, and write {option} '{shortened(name, 60)}=${{env:NAME}}'.",
    )


def _registry(asked: Asked, place: Parts) -> Registry | None:
    """The registry that is named; None if none is.

    Raises:
        UsageError: It is none that the config takes.
    """
    if asked.registry is None:
        return None
    try:
        settings = _parse(config_text.text(replace(place, value=Value("json", "value STRING", asked.registry_keys))), asked)
    except ConfigMistakesError as error:
        first = error.mistakes[0]
        raise UsageError(
            f"The registry cannot be used: {first.what}.",
            where=f"--registry, or --registry-property: {first.key}",
            observed=first.observed,
            expected=first.expected,
            next_step=first.next_step,
        ) from None
    return settings.registry


def _look(registry: Registry, sample: Sample) -> Registered:
    """What the registry says of the sample.

    Raises:
        RegistryError: It cannot be reached, refuses, or knows none of the schemas.
    """
    try:
        return registered.look(registry, sample.records)
    except RegistryError as error:
        raise RegistryError(
            error.what, where=error.where, observed=error.observed, expected=error.expected, next_step=_NO_REGISTRY
        ) from None


def _extractor(role: str, text: str) -> Source:
    """What `--sequence`, `--producer` or `--epoch` names.

    Raises:
        UsageError: It is no extractor.
    """
    spelled: Any = None
    if text.startswith("{"):
        try:
            spelled = yaml.safe_load(text)
        except yaml.YAMLError:
            spelled = None
    else:
        form, _, argument = text.partition(":")
        spelled = {form: argument} if argument else {form: form == "offset" or None}
    why = "no header:NAME, json:PATH, field:PATH, value:utf8, bytes:0:8, offset or custom:module:function"
    if isinstance(spelled, dict) and not (role != "sequence" and "offset" in spelled):
        try:
            return Source.of(Extractor.model_validate(spelled))
        except ValidationError as error:
            why = error.errors()[0]["msg"]
    raise UsageError(
        f"--{role} names nothing that the config knows.",
        where=f"--{role}",
        observed=shortened(text, 200),
        expected=why,
        next_step="For example header:seq or json:$.seq; a whole extractor too: '{header: seq, encoding: int64}'.",
    )


def _parse(text: str, asked: Asked) -> Settings:
    """Read a config; without the variables that would override it, so that its own text is in order."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    settings = configs.parse(text, asked.config, environ=environ)
    exit_codes.known_secrets.update(configs.known_secrets(settings))
    return settings


def _topic_names(settings: Settings) -> list[str]:
    require_reachable(settings.kafka.bootstrap_servers)
    try:
        return metadata.topic_names(settings.kafka)
    except metadata.LookError as error:
        raise SourceError("Kafka cannot be asked for its topics.", observed=str(error)) from None


def _given(sample: Sample, source: Source, role: str, found: Found, behind: Registered | None) -> Candidate:
    """What an option names, over the sample.

    Raises:
        UsageError: The sample has records, and none of them has it.
    """
    if source.form == "json" and behind is not None and "json" in behind.formats.values():
        source = replace(source, form="prefixed_json")
    each = candidates.candidate(source, candidates.records_of(sample.records, behind))
    is_number = each.readable > 0 and not each.kind.endswith(LITTLE_ENDIAN)
    is_name = any(name is not None for name in each.names) and not (source.form == "field" and each.kind in NOBODY)
    is_read = is_name if role == "producer" else is_number
    if sample.records and not is_read and source.form != "custom":
        known = ", ".join(printable(other.label) for other in found.candidates[:_MOST_SHOWN])
        records = f"{len(sample.records):,} records of {sample.records[0].topic}"
        there = f"it is {each.kind}, such as {each.example}, in {each.present:,} of {records}"
        missing = f"{records} with {known or 'no headers and no JSON'}"
        raise UsageError(
            f"No record of the sample has a {role} where --{role} names it; nothing was written.",
            where=f"--{role} {each.label}",
            observed=there if each.present else missing,
            next_step="Name the registry of the values: --registry http://localhost:8081."
            if source.form == "field" and behind is None
            else "Have the producer write big-endian numbers, or digits."
            if each.kind.endswith(LITTLE_ENDIAN)
            else "Correct the name; lower and upper case differ. Without the option, init says what fits.",
        )
    return each


def _possible(
    sample: Sample, judged: Sequence[Finding], options: Sequence[Option], given: Mapping[str, Candidate]
) -> Sequence[Option]:
    """The options under what was named, the best first."""
    sequence, producer, epoch = (given.get(role) for role in ROLES)
    if sequence is not None and producer is None and epoch is None:
        same = [each for each in options if each.sequence.source == sequence.source]
        return same[:1] or [findings.option(sample, sequence)]
    if sequence is not None:
        return [findings.option(sample, sequence, producer, epoch)]
    if producer is None and epoch is None:
        return options
    return findings.with_given(sample, judged, producer, epoch)


def _choose(options: Sequence[Option], ask: Callable[[str, str | None], str] | None) -> Option | None:
    if not options or ask is None or len(options) == 1:
        return options[0] if options else None
    shown = options[:_MOST_OFFERED]
    lines = [f"  {number}  {printable(each.label)}: {each.steps.describe()}" for number, each in enumerate(shown, start=1)]
    sys.stderr.write("\nSeveral fit as the sequence:\n" + "\n".join(lines) + "\n")
    while True:
        answer = ask(f"Which one, 1 to {len(shown)}", "1").strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1]
        sys.stderr.write(f"A number from 1 to {len(shown)}.\n")


def _most_common(topics: Sequence[Topic]) -> tuple[Option, dict[str, Option]]:
    """What fits most of the topics, and what fits those that are otherwise."""
    best = {each.name: each.options[0] for each in topics}
    labels = Counter(each.label for each in best.values())
    top = max(best.values(), key=lambda each: labels[each.label])
    return top, {topic: each for topic, each in best.items() if each.label != top.label}


def _otherwise(each: Option, top: Option) -> dict[str, Any]:
    """What a topic has of its own; null is what the others have and it has not."""
    found = {role: (getattr(each, role), getattr(top, role)) for role in ROLES}
    sources = {role: [one and config_text.extractor(one.source) for one in pair] for role, pair in found.items()}
    return {role: own for role, (own, other) in sources.items() if own != other}


def _labels(chosen: Option) -> dict[str, str]:
    return {role: each.label for role in ROLES if (each := getattr(chosen, role)) is not None}


def _with_roles(parts: Parts, overall: Topic, chosen: Option, options: Sequence[Option], given: Mapping[str, Source]) -> Parts:
    """What is written from, with sequence, producer and epoch, and why they were chosen."""
    sample = overall.sample
    about = f"Written by `tidemark init` from a sample of {len(sample.records):,} records."
    if not sample.records:
        about = "Written by `tidemark init`; there were no records to look at, so nothing below is checked against any."
    others = [each.label for each in options if each is not chosen][:5]
    why = [_about(chosen.sequence, "It was named on the command line." if "sequence" in given else "")]
    is_read = "custom" not in [each.source.form for each in (chosen.sequence, chosen.producer, chosen.epoch) if each]
    if sample.records and is_read:
        why.append(f"Within the streams of the sample it {chosen.steps.describe()}.")
        why += [_few(chosen)] if _few(chosen) else []
    if chosen.unread and sample.records and is_read:
        why.append(f"{chosen.unread:,} records lack it: they would be invalid, and wait in quarantine.")
    if others:
        why.append(f"Fits too: {', '.join(others)}. First are: {findings.ORDER}.")
    if chosen.sequence.source.form == "offset":
        why.append(f"It guards against reading twice, not against resends: {_OFFSET}.")
    roles = {"sequence": Chosen(chosen.sequence.source, why)}
    roles["producer"] = _extra(chosen.producer, "producer", given, "Without it the sequence does not rise within a partition.")
    roles["epoch"] = _extra(chosen.epoch, "epoch", given, "Where it rises, the sequence starts anew.")
    return replace(parts, about=about, roles=roles, schema_ids=_all_ids(overall.found.schema_ids))


def _all_ids(ids: Mapping[str, Sequence[int]]) -> list[int]:
    return sorted({number for each in ids.values() for number in each})


def _with_values(parts: Parts, asked: Asked, overall: Topic, behind: Registered | None) -> Parts:
    """What is written from, with how the values are decoded, in all topics and in those that are otherwise."""
    sample = overall.sample
    if behind is None or not behind.ids:
        return replace(parts, value=_of_json(overall))
    if not behind.formats:
        whys = dict.fromkeys(each.why or "none fits all schemas" for each in behind.schemas.values())
        begins = f"The values begin with {config_text.registry_ids(_all_ids(behind.ids))}"
        return replace(parts, schema_ids=(), notes=[f"{begins}; of them no field is read here: {'; '.join(whys)}."])
    top, _ = Counter(behind.formats.values()).most_common(1)[0]
    payload = behind.payloads[top]
    ids = _all_ids({topic: ids for topic, ids in behind.ids.items() if behind.formats.get(topic) == top})
    what = "JSON, and the fields those of the sample" if top == "json" else "Avro, and the fields those of their schemas"
    why = [f"The values begin with {config_text.registry_ids(ids)}. They are {what}."]
    if payload.left_out:
        why.append(f"Left out: {payload.listed()}.")
    if behind.refused and top == "avro":
        numbers = ", ".join(map(str, behind.refused))
        why.append(
            f"The registry gave no schema {numbers}: a run stops there. If there never was one: undecodable_ids: [{numbers}]."
        )
    own: dict[str, dict[str, Any]] = {topic: dict(each) for topic, each in parts.own.items()}
    is_field = any(each.source is not None and each.source.form == "field" for each in parts.roles.values())
    for topic in dict.fromkeys(each.topic for each in sample.records if each.value is not None):
        written = behind.formats.get(topic)
        # One that takes its sequence from a field as the others do has to be decoded as they are.
        if written != top and ("sequence" in own.get(topic, {}) or not is_field):
            schema = behind.payloads[written].schema if written else None
            own.setdefault(topic, {})["value"] = {"format": written, "schema": schema} if written else None
    expected = _expectations(overall, payload)
    return replace(parts, own=own, value=Value(top, payload.schema, asked.registry_keys, why, expected))


def _of_json(overall: Topic) -> Value | None:
    """How JSON values would be decoded, with the types of the sample; None if the values are no JSON."""
    payload = objects.payload(overall.found.json_kinds)
    if not payload.schema or overall.found.no_json > _SHARE_NO_JSON * len(overall.sample.records):
        return None
    columns = "The values are JSON. This makes columns of their fields, with the types of the sample."
    why = [f"{columns} A DOUBLE rounds: for exact digits, as of money, write DECIMAL(18,2)."]
    why += [f"Left out: {payload.listed()}."] if payload.left_out else []
    return Value("json", payload.schema, why=why, expectations=_expectations(overall, payload))


def _expectations(overall: Topic, payload: Payload) -> list[dict[str, Any]]:
    found = findings.expectations(overall.sample, overall.found, payload_schema.of(payload.schema))
    return list(islice(found, _MOST_EXPECTATIONS))


def _few(chosen: Option) -> str:
    """A warning where the sample is too small to say much."""
    records = chosen.steps.records
    return f"Only {records:,} records say so: look again when there are more." if records < findings.FEW else ""


def _about(each: Candidate, more: str) -> str:
    if each.source.form == "custom":
        return f"{each.label} is code of your own, which only Spark runs: `tidemark plan` tries it. {more}".strip()
    where = f"{each.label} is in {each.present:,} of {len(each.numbers):,} records: {_values(each)}."
    return f"{where} {more}".strip()


def _extra(each: Candidate | None, role: str, given: Mapping[str, Source], needed: str) -> Chosen:
    if each is None:
        return Chosen(None, ())
    return Chosen(each.source, [_about(each, "It was named on the command line." if role in given else needed)])


def _values(each: Candidate) -> str:
    numbers = [number for number in each.numbers if number is not None]
    if each.is_number and numbers:
        return f"{each.kind}, {min(numbers):,} to {max(numbers):,}"
    names = {name for name in each.names if name is not None}
    example = f", such as {printable(each.example)}" if each.example else ""
    return f"{each.kind}, {len(names):,} different{example}" if names else f"{each.kind}{example}"


def _write(asked: Asked, text: str) -> None:
    if asked.is_forced:
        with whole(asked.config) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
        return
    try:
        with asked.config.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError("The file cannot be written.", where=str(asked.config), observed=why) from error


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(printable(text), _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _listed(names: Sequence[str]) -> str:
    shown = [shortened(each, 2 * _WIDEST_NAME) for each in names[:_MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else "")


def _answer(chosen: Option, own: Mapping[str, Option], how: str) -> Iterator[str]:
    """The sequence, the producer and the epoch."""
    sequence, producer, epoch = (
        shortened(each.label, _WIDTH) if each else "none" for each in (chosen.sequence, chosen.producer, chosen.epoch)
    )
    said = f"The sequence is {sequence}: {how}. Producer: {producer}. Epoch: {epoch}."
    said += f" It {chosen.steps.describe()}." if chosen.steps.records else ""
    said += f" It does not guard against resends: {_OFFSET}." if chosen.sequence.source.form == "offset" else ""
    yield from _wrapped(f"{said} {_few(chosen)}" if chosen.steps.records else said)
    for topic, each in islice(own.items(), _MOST_NAMED):
        yield from _wrapped(f"Of {_listed([topic])} it is {shortened(each.label, _WIDTH)}: it {each.steps.describe()}.")
    if len(own) > _MOST_NAMED:
        yield f"{len(own) - _MOST_NAMED:,} further topics have their own, too: see the config."


def _nothing_fits(place: Parts, topics: Sequence[Topic], notes: Sequence[str]) -> Iterator[str]:
    """Which topics have no sequence, and what can be done."""
    if not topics[0].sample.records:
        none = f"{_listed(place.topics)}: no records yet, so there is nothing to look at, and no config was written."
        yield from _wrapped(f"{none} Send some, or name what the records will have: --sequence header:seq")
        return
    lacking = [each.name for each in topics if not each.options]
    said = f"Nothing in the records of {_listed(lacking)} fits as a sequence, so no config was written."
    if others := [f"{each.name} ({each.options[0].label})" for each in topics if each.options]:
        said += f" The others have one: {_listed(others)}. Without --topic {_listed(lacking[:1])}, init writes their config."
    yield from [*_wrapped(said), *notes]
    names = (place.brokers.partition(",")[0], lacking[0])
    broker, topic = (json.dumps(each if len(each) < _WIDTH - 20 else "...") for each in names)
    yield from _WAYS.format(broker=broker, topic=topic).splitlines()


def _looked_at(overall: Topic, names: Sequence[str], wanted: Sequence[str]) -> str:
    """How much was looked at, and what could not be."""
    sample, found = overall.sample, overall.found
    records = f"{len(sample.records):,} of {sample.available:,} records of {_listed(names)}"
    partitions = f"{len(sample.partitions):,} partition{'s' if len(sample.partitions) > 1 else ''}"
    said = f"Looked at {records}, from the beginnings and ends of {partitions}."
    if empty := [each for each in wanted if each not in names]:
        said += f" No records yet, so nothing is said of them: {_listed(empty)}."
    said += " Fewer than requested: they are large, or arrive slowly." if sample.is_cut_short else ""
    if found.headers_unread:
        said += f" {found.headers_unread:,} records have a header whose name is no UTF-8: of these no header was read."
    said += f" {found.left_out:,} further names were not looked at." if found.left_out else ""
    if found.unnamed:
        said += f" {len(found.unnamed):,} names that no extractor can spell were left out: {_listed(found.unnamed)}."
    return said


def _whys(topics: Sequence[Topic]) -> Iterator[str]:
    """Why the rest of each topic is no sequence: of numbers first, and of what the most records have."""
    for topic in topics[:_MOST_NAMED]:
        unfit = [each for each in topic.findings if each.not_sequence is not None]
        unfit.sort(key=lambda each: (not each.candidate.readable, -each.candidate.present))
        rows = [(each.candidate.label, each.not_sequence) for each in unfit[: max(2, _MOST_WHYS // len(topics))]]
        left = len(unfit) - len(rows)
        rows += [("key", _KEY), ("offset", _OFFSET)] if topic is topics[0] else []
        names = [printable(shortened(name, _WIDEST_NAME)) for name, _ in rows]
        width = max(map(len, names), default=0)
        yield from _wrapped(f"Not a sequence in {_listed([topic.name])}{f' ({left:,} more with --json)' if left else ''}:")
        for name, (_, why) in zip(names, rows, strict=True):
            yield from _wrapped(f"  {name:<{width}}  {why}", " " * (width + 4))


def _on_values(topics: Sequence[Topic], behind: Registered | None) -> Iterator[str]:
    """What is known of values that begin with the id of a schema, or with another header."""
    for topic in topics[:_MOST_NAMED]:
        values = [each.value for each in topic.sample.records if each.value is not None]
        headers = {framing(value) for value in values if not value.startswith(b"\0")}
        is_long = registered.with_long_ids(topic.sample.records)
        header = "an id of eight bytes of a schema registry" if is_long else headers.pop() if len(headers) == 1 else None
        if header:
            yield from _wrapped(f"The values of {_listed([topic.name])} begin with {header}, which is not read.")
        if topic.found.no_json and (faults := Counter(each for value in values if (each := _json_fault(value)))):
            fault, count = faults.most_common(1)[0]
            said = f"{count:,} of {len(values):,} values of {_listed([topic.name])} look like JSON, and no object is read"
            yield from _wrapped(f"{said} from them: {fault}.")
    of_registry = {name: ids for topic in topics for name, ids in topic.found.schema_ids.items()}
    if behind is None and of_registry:
        begins = f"begins with {config_text.registry_ids(_all_ids(of_registry))}"
        yield from _wrapped(
            f"Every value of {_listed([*of_registry])} {begins}. Name the registry, and init reads their fields:"
        )
        yield "  --registry http://localhost:8081 --force"


def _json_fault(value: bytes) -> str | None:
    r"""Why a value that looks like JSON is no object; None if it is one, looks like something else, or is too long.

    >>> _json_fault(b"\xef\xbb\xbf{}"), _json_fault(b"[1]"), _json_fault(b"{}"), _json_fault(b"ok")
    ('it begins with a byte order mark', 'a list', None, None)
    """
    looks_so = value.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[", b'"')
    return one_record.instead_of_object(Record(value)) if looks_so and len(value) <= MOST_BYTES else None


def _plain(settings: Settings, overall: Topic, topics: Sequence[Topic]) -> dict[str, Any]:
    """What was found, as plain data."""
    sample, found = overall.sample, overall.found
    options = [(topic.name, each) for topic in topics for each in topic.options]
    return {
        "brokers": str(settings.kafka.bootstrap_servers),
        "topics": list(settings.kafka.topics),
        "records": len(sample.records),
        "available": sample.available,
        "partitions": len(sample.partitions),
        "is_cut_short": sample.is_cut_short,
        "candidates": [{**each.to_json(), "topic": topic.name} for topic in topics for each in topic.findings],
        "key": {"present": found.keys, "not_sequence": _KEY},
        "offset": {"present": len(sample.records), "not_sequence": _OFFSET},
        "unnamed": list(found.unnamed[:_MOST_SHOWN]),
        "left_out": found.left_out,
        "no_json": found.no_json,
        "schema_ids": _all_ids(found.schema_ids),
        "tombstones": found.tombstones,
        "headers_unread": found.headers_unread,
        "options": [{"topic": topic, "label": each.label, "steps": each.to_json()} for topic, each in options],
    }
