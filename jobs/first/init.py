"""`tidemark init`: look at a sample of a topic, say what could be sequence, producer and epoch, write a config."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from bronze.kafka import metadata
from bronze.kafka import sample as kafka_sample
from bronze.kafka.source import require_reachable
from jobs.first import candidates, config_text, findings, registered
from jobs.first.config_text import Chosen, Parts, Value
from jobs.process import exit_codes, output
from jobs.process.atomic_file import whole
from jobs.process.options import DEFAULT_CONFIG, command_line
from lakehouse.config import load as configs
from lakehouse.config.mistakes import ConfigMistakesError
from lakehouse.config.sources import PREFIX
from lakehouse.errors import RegistryError, SourceError, UsageError
from lakehouse.escape import printable, shortened
from lakehouse.extract.sources import Source
from lakehouse.extract.written import framing
from lakehouse.settings.extractor import ROLES, Extractor
from lakehouse.settings.secrets import smells_of_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bronze.kafka.sample import Sample
    from jobs.first.candidates import Candidate, Found
    from jobs.first.findings import Finding, Findings, Option
    from jobs.first.registered import Registered
    from lakehouse.settings.pipeline import Registry, Settings

_MOST_SHOWN = 30
_MOST_OPTIONS = 20
_KEY = "ever-new keys scatter a stream over the partitions, and its order is lost"
_OFFSET = "Kafka gives a new one to each record, also to one that is sent again"
_WIDEST_NAME = 40
_WIDTH = 100
_FEW = 20
_REGISTRY_KEYS = ("username", "password", "ca", "cert", "key")
_ROOT = "./lakehouse"
_NO_REGISTRY = (
    "Start it, or correct --registry. With a login: --registry-property 'username=${env:REGISTRY_USER}' "
    "--registry-property 'password=${env:REGISTRY_PASSWORD}'. Without --registry, init says what the rest of the records has."
)
_PLAIN_PASSWORD = re.compile(r"password\s*=\s*[\"']?(?!\$\{)[^\s\"';]", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|secret):[^}]+\}")

_NOTHING_FITS = """\
Nothing in these records fits as a sequence, so no config was written. Without one, a record that is sent again cannot be told
from a new one. The producer has to add a number that rises with each record: an outbox id, a database's log position, a counter
that is kept with what was sent. It may have gaps, and one counter will do for all partitions. The shortest way, as a header:
"""
_PRODUCER = """\
    from confluent_kafka import Producer

    producer = Producer({{"bootstrap.servers": {brokers}, "enable.idempotence": True}})
    last = 0  # after a restart, go on after the last one: `tidemark watermark show --json`
    for key, value in [("a", "first"), ("b", "second")]:
        last += 1
        producer.produce({topic}, key=key, value=value, headers={{"seq": str(last)}})
    producer.flush()
"""
_SEVERAL_PRODUCERS = """
Several producers each count for themselves, and say who they are in a second header, for example producer.
Then again: {command}
"""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for.

    Attributes:
        brokers: The brokers; None to be asked.
        topics: The topics; none to be asked.
        root: Where the tables go; None to be asked.
        config: The file to write.
        is_forced: Whether a file that is there is replaced.
        records: How many records are read.
        properties: Kafka client properties as `NAME=VALUE`.
        roles: What was named as `sequence`, `producer` and `epoch`, as `header:seq`; None for what is to be found.
        registry: The URL of the schema registry; None to be asked where values look as one's do.
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
        """The registry as `value.registry` of the config has it; empty if none is named."""
        if self.registry is None:
            return {}
        pairs = dict(each.split("=", 1) for each in self.registry_properties)
        return {"url": self.registry, **{name.strip(): value for name, value in pairs.items()}}


def init(asked: Asked, *, ask: Callable[[str, str | None], str] | None, as_json: bool) -> int:
    """Look at a sample of the topics, say what was found, and write a config that runs.

    Args:
        asked: What the command line asks for.
        ask: Asks a person; None if there is none to ask.
        as_json: Whether the findings are printed as JSON.

    Returns:
        0 if the config was written, 1 if nothing fits as the sequence.

    Raises:
        UsageError: An option is missing or wrong, or the file is there.
        SourceError: The topic cannot be read.
        RegistryError: A schema registry is named, and cannot be asked.
    """
    _require_free(asked)
    _require_registry_properties(asked)
    extractors = {role: _extractor(role, text) for role, text in asked.roles.items() if text}
    properties = _properties(asked.properties)
    asked = _with_place(asked, properties, ask)
    place = (asked.brokers or "", asked.topics, asked.root or _ROOT, properties)
    settings = _settings(*place[:2], properties, asked, root=place[2])
    registry = _registry(asked, properties)
    sys.stderr.write(f"Reading a sample of {', '.join(asked.topics)} at {settings.kafka.bootstrap_servers!s}.\n")
    sample = kafka_sample.require(settings.kafka, asked.records)
    if registry is None and ask is not None and registered.schema_ids(sample.records):
        asked = replace(asked, registry=ask("The schema registry's URL; nothing for none", "").strip() or None)
        registry = _registry(asked, properties)
    behind = _look(registry, sample) if registry else None
    found = candidates.find(sample.records, behind)
    judged = findings.judge(sample, found)
    given = {role: _given(sample, source, role, found, behind) for role, source in extractors.items()}
    options = _possible(sample, judged, given)
    if not as_json:
        _write_findings(asked, settings, sample, found, judged, behind=behind)
    chosen = _choose(options, None if as_json or given.get("sequence") else ask)
    chosen, own = _by_topic(sample, behind) if chosen is None and not given else (chosen, {})
    written = None
    if chosen is not None:
        parts = _parts(place, sample, chosen, options, given=given, found=found)
        parts = replace(parts, own={topic: _otherwise(each, chosen) for topic, each in own.items()})
        parts = _with_values(parts, asked, sample, behind)
        written = config_text.text(parts)
        _parse(written, asked)  # a config that cannot be read is written by nobody
        _write(asked, written)
    commands = [command_line(name, asked.config) for name in ("check", "plan", "run")] if written else []
    if as_json:
        told = _told(settings, sample, found, judged, options)
        of_topics = {topic: _labels(each) for topic, each in own.items()}
        output.write_json(
            {
                **told,
                "registry": {"url": asked.registry, **behind.to_json()} if behind else None,
                "order": findings.ORDER,
                "chosen": _labels(chosen) if chosen else None,
                "chosen_of_topics": of_topics,
                "config": str(asked.config) if written else None,
                "next": commands,
            }
        )
    elif chosen is None:
        _write_nothing_fits(asked, sample)
    else:
        _write_chosen(asked, chosen, options, own, is_given="sequence" in given)
        output.write("\nNext:\n" + "\n".join(f"  {command}" for command in commands))
    return int(chosen is None)


def _with_place(asked: Asked, properties: Mapping[str, str], ask: Callable[[str, str | None], str] | None) -> Asked:
    """What is asked for, with the brokers, the topics and the root that a person is asked for where they are missing.

    Raises:
        UsageError: One is missing, and there is nobody to ask.
    """
    brokers = asked.brokers or _ask(ask, "Kafka's brokers, host:port", "localhost:9092", option="--brokers")
    topics = list(asked.topics)
    if not topics:
        known = _topic_names(_settings(brokers, ["unknown"], properties, asked)) if ask else []
        if known:
            shown = ", ".join(known[:_MOST_SHOWN]) + (", ..." if len(known) > _MOST_SHOWN else "")
            sys.stderr.write(f"Topics: {shown}\n")
        default = known[0] if len(known) == 1 else None
        topics = _ask(ask, "The topic, or several with commas between", default, option="--topic").replace(",", " ").split()
    if not topics:
        raise UsageError("No topic is named.", where="--topic", next_step="Name one: --topic orders.")
    root = asked.root or (ask("Where the tables go: a folder, or s3://bucket/path", _ROOT) if ask else _ROOT)
    return replace(asked, brokers=brokers, topics=topics, root=root)


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


def _properties(given: Sequence[str]) -> dict[str, str]:
    """The Kafka properties.

    Raises:
        UsageError: One has no value, or is a secret in plain text.
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise UsageError(
                "--property needs a name and a value.", where="--property", expected="NAME=VALUE", next_step="See --help."
            )
        name = name.strip()
        if (smells_of_secret(name) and not _REFERENCE.search(value)) or _PLAIN_PASSWORD.search(value):
            raise _plain_secret("--property", name)
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


def _require_registry_properties(asked: Asked) -> None:
    """Raise if a key of the registry is unknown, has no value, or is a secret in plain text.

    Raises:
        UsageError: As said.
    """
    for text in asked.registry_properties:
        name, equals, value = (part.strip() for part in text.partition("="))
        if name not in _REGISTRY_KEYS or not (equals and value):
            raise UsageError(
                "--registry-property needs the name of a key and a value.",
                where="--registry-property",
                observed=shortened(name, 60),
                expected=f"NAME=VALUE, with one of {', '.join(_REGISTRY_KEYS)}",
                next_step="For example --registry-property ca=registry-ca.pem.",
            )
        if name == "password" and not _REFERENCE.search(value):
            raise _plain_secret("--registry-property", name)
    if asked.registry_properties and asked.registry is None:
        raise UsageError(
            "--registry-property is given without --registry.",
            where="--registry-property",
            expected="both, or --registry alone",
            next_step="Name the registry: --registry http://localhost:8081.",
        )


def _registry(asked: Asked, properties: Mapping[str, str]) -> Registry | None:
    """The registry that is named; None if none is.

    Raises:
        UsageError: It is none that the config takes.
    """
    if asked.registry is None:
        return None
    roles = {"sequence": Chosen(Source("offset"), ())}
    value = Value("json", "value STRING", asked.registry_keys)
    place = (asked.brokers or "", asked.topics, asked.root or _ROOT, properties)
    try:
        settings = _parse(config_text.text(Parts(*place, "", roles, value=value)), asked)
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


def _settings(
    brokers: str, topics: Sequence[str], properties: Mapping[str, str], asked: Asked, *, root: str = _ROOT
) -> Settings:
    """The settings of what is given so far, to reach the brokers with: its sequence is none."""
    roles = {"sequence": Chosen(Source("offset"), ())}
    return _parse(config_text.text(Parts(brokers, topics, root, properties, "", roles)), asked)


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
    is_read = any(name is not None for name in each.names) if role == "producer" else each.readable > 0
    if sample.records and not is_read and source.form != "custom":
        known = ", ".join(printable(other.label) for other in found.candidates[:_MOST_SHOWN])
        there = f"it is {each.kind}, such as {each.example}, in {each.present:,} of {len(sample.records):,} records"
        missing = f"{len(sample.records):,} records with {known or 'no headers and no JSON'}"
        raise UsageError(
            f"No record of the sample has a {role} where --{role} names it; nothing was written.",
            where=f"--{role} {each.label}",
            observed=there if each.present else missing,
            next_step="Name the registry of the values: --registry http://localhost:8081."
            if source.form == "field" and behind is None
            else "Correct the name; lower and upper case differ. Without the option, init says what fits.",
        )
    return each


def _possible(sample: Sample, judged: Findings, given: Mapping[str, Candidate]) -> Sequence[Option]:
    """The options under what was named, the best first."""
    sequence, producer, epoch = (given.get(role) for role in ROLES)
    if sequence is not None and producer is None and epoch is None:
        same = [each for each in judged.options if each.sequence.source == sequence.source]
        return same[:1] or [findings.option(sample, sequence)]
    if sequence is not None:
        return [findings.option(sample, sequence, producer, epoch)]
    if producer is None and epoch is None:
        return judged.options
    return findings.with_given(sample, judged.findings, producer, epoch)


def _choose(options: Sequence[Option], ask: Callable[[str, str | None], str] | None) -> Option | None:
    if not options or ask is None or len(options) == 1:
        return options[0] if options else None
    shown = options[:_MOST_OPTIONS]
    lines = [f"  {number}  {printable(each.label)}: {each.steps.describe()}" for number, each in enumerate(shown, start=1)]
    sys.stderr.write("\nSeveral fit as the sequence:\n" + "\n".join(lines) + "\n")
    while True:
        answer = ask(f"Which one, 1 to {len(shown)}", "1").strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1]
        sys.stderr.write(f"A number from 1 to {len(shown)}.\n")


def _by_topic(sample: Sample, behind: Registered | None) -> tuple[Option | None, dict[str, Option]]:
    """Where nothing fits all topics: what fits most of them, and what the others; nothing unless each has something."""
    best: dict[str, Option] = {}
    for topic in dict.fromkeys(each.topic for each in sample.records):
        part = replace(sample, records=[each for each in sample.records if each.topic == topic])
        options = findings.judge(part, candidates.find(part.records, behind)).options
        if not options:
            return None, {}
        best[topic] = options[0]
    if len(best) <= 1:
        return None, {}
    labels = Counter(each.label for each in best.values())
    top = max(best.values(), key=lambda each: labels[each.label])
    return top, {topic: each for topic, each in best.items() if each.label != top.label}


def _otherwise(each: Option, top: Option) -> dict[str, Any]:
    """What a topic has of its own; null is what the others have and it has not."""
    extractors = {role: [_spelled(getattr(option, role)) for option in (each, top)] for role in ROLES}
    return {role: own for role, (own, other) in extractors.items() if own != other}


def _spelled(each: Candidate | None) -> dict[str, Any] | None:
    return config_text.extractor(each.source) if each else None


def _labels(chosen: Option) -> dict[str, str]:
    return {role: each.label for role in ROLES if (each := getattr(chosen, role)) is not None}


def _parts(
    place: tuple[str, Sequence[str], str, Mapping[str, str]],
    sample: Sample,
    chosen: Option,
    options: Sequence[Option],
    *,
    given: Mapping[str, Candidate],
    found: Found,
) -> Parts:
    brokers, topics, root, properties = place
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
    is_json = found.no_json == 0 and bool(sample.records) and found.tombstones < len(sample.records)
    ids = _all_ids(found.schema_ids)
    return Parts(brokers, topics, root, properties, about, roles, has_json=is_json, schema_ids=ids)


def _all_ids(ids: Mapping[str, Sequence[int]]) -> list[int]:
    return sorted({number for each in ids.values() for number in each})


def _with_values(parts: Parts, asked: Asked, sample: Sample, behind: Registered | None) -> Parts:
    """What is written from, with how the values are decoded, in all topics and in those that are otherwise."""
    if behind is None or not behind.ids:
        return parts
    if not behind.formats:
        whys = dict.fromkeys(each.why or "none fits all schemas" for each in behind.schemas.values())
        begins = f"The values begin with {config_text.registry_ids(_all_ids(behind.ids))}"
        return replace(parts, schema_ids=(), notes=[f"{begins}; of them no field is read here: {'; '.join(whys)}."])
    top, _ = Counter(behind.formats.values()).most_common(1)[0]
    payload = behind.payloads[top]
    ids = _all_ids({topic: ids for topic, ids in behind.ids.items() if behind.formats.get(topic) == top})
    what = (
        "JSON, and the fields those of the sample, as text" if top == "json" else "Avro, and the fields those of their schemas"
    )
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
    return replace(parts, own=own, value=Value(top, payload.schema, asked.registry_keys, why))


def _few(chosen: Option) -> str:
    """A warning where the sample is too small to say much."""
    return (
        f"Only {chosen.steps.records:,} records say so: look again when there are more." if chosen.steps.records < _FEW else ""
    )


def _about(each: Candidate, more: str) -> str:
    if each.source.form == "custom":
        return f"{each.label} is code of your own, which only Spark runs: `tidemark plan` tries it. {more}".strip()
    where = f"{each.label} is in {each.present:,} of {len(each.numbers):,} records: {_values(each)}."
    return f"{where} {more}".strip()


def _extra(each: Candidate | None, role: str, given: Mapping[str, Candidate], needed: str) -> Chosen:
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


def _write_findings(
    asked: Asked, settings: Settings, sample: Sample, found: Found, judged: Findings, *, behind: Registered | None
) -> None:
    topics, partitions = ", ".join(settings.kafka.topics), len(sample.partitions)
    records = f"{len(sample.records):,} records of {topics}, which holds {sample.available:,} in {partitions:,} partitions"
    output.write(f"Looked at {records}, from their beginnings and ends.")
    if sample.is_cut_short:
        output.write("Fewer than were asked for: they are large, or come slowly.")
    if found.headers_unread:
        output.write(f"{found.headers_unread:,} records have a header whose name is no UTF-8: of these no header was read.")
    if found.left_out:
        output.write(f"{found.left_out:,} further names were not looked at.")
    if found.unnamed:
        names = ", ".join(printable(shortened(name, 40)) for name in found.unnamed[:5])
        output.write(f"{len(found.unnamed):,} names that no extractor can spell were left out, such as {names}.")
    _write_registry(asked, sample, found, behind)
    if not sample.records:
        return
    first = sorted(judged.findings, key=lambda each: (each.not_sequence is not None, -each.candidate.present))[:_MOST_SHOWN]
    total = len(sample.records)
    rows = [[_name(each), f"{each.candidate.present:,} of {total:,}", _values(each.candidate)] for each in first]
    output.write_table(["name", "records", "values"], [*rows, ["key", f"{found.keys:,} of {total:,}", ""]])
    if len(judged.findings) > len(first):
        output.write(f"{len(judged.findings) - len(first):,} more: --json has them all.")
    rows = [[_name(each), _as_sequence(each)] for each in first]
    output.write_table(["name", "as sequence"], [*rows, ["key", f"no: {_KEY}"], ["offset", f"no: {_OFFSET}"]])
    for role in ("producer", "epoch"):
        whys = [(each, getattr(each, f"not_{role}")) for each in first]
        rows = [[_name(each), f"no: {why}" if why else "could be"] for each, why in whys]
        if rows:
            output.write_table(["name", f"as {role}"], rows)


def _write_registry(asked: Asked, sample: Sample, found: Found, behind: Registered | None) -> None:
    """What is known of values that begin with the id of a schema, or with another header."""
    headers = {framing(each.value) for each in sample.records if each.value is not None and not each.value.startswith(b"\0")}
    if len(headers) == 1 and (header := headers.pop()):
        output.write(f"The values begin with {header}, which is not read: they would be undecodable.")
    if behind is None and found.schema_ids:
        ids, topics = _all_ids(found.schema_ids), ", ".join(map(printable, found.schema_ids))
        of = f" of {topics}" if len(asked.topics) > 1 else ""
        begins = (
            f"Every value{of} begins with {config_text.registry_ids(ids)}. With the registry's URL, init reads their fields:"
        )
        output.write(textwrap.fill(begins, _WIDTH))
        output.write(f"  {_again(asked, '--registry', 'http://localhost:8081', '--force')}")
    for line in behind.lines() if behind else ():
        output.write(textwrap.fill(line, _WIDTH))


def _again(asked: Asked, *more: str) -> str:
    """The command with what was given so far, as a shell takes it."""
    words = ["--brokers", asked.brokers or "", *(word for topic in asked.topics for word in ("--topic", topic))]
    words += ["--root", asked.root] if asked.root and asked.root != _ROOT else []
    words += [word for text in asked.properties for word in ("--property", text)]
    words += ["--registry", asked.registry] if asked.registry else []
    words += [word for text in asked.registry_properties for word in ("--registry-property", text)]
    words += [word for role, text in asked.roles.items() if text for word in (f"--{role}", text)]
    words += ["--config", str(asked.config)] if asked.config != DEFAULT_CONFIG else []
    return " ".join(["tidemark init", *map(shlex.quote, (*words, *more))])


def _name(each: Finding) -> str:
    return shortened(printable(each.candidate.label), _WIDEST_NAME)


def _as_sequence(each: Finding) -> str:
    if each.not_sequence is not None:
        return f"no: {each.not_sequence}"
    return f"fits: {each.steps.describe()}" if each.steps else ""


def _told(settings: Settings, sample: Sample, found: Found, judged: Findings, options: Sequence[Option]) -> dict[str, Any]:
    return {
        "brokers": str(settings.kafka.bootstrap_servers),
        "topics": list(settings.kafka.topics),
        "records": len(sample.records),
        "available": sample.available,
        "partitions": len(sample.partitions),
        "is_cut_short": sample.is_cut_short,
        "candidates": [each.to_json() for each in judged.findings],
        "key": {"present": found.keys, "not_sequence": _KEY},
        "offset": {"present": len(sample.records), "not_sequence": _OFFSET},
        "unnamed": list(found.unnamed[:_MOST_SHOWN]),
        "left_out": found.left_out,
        "no_json": found.no_json,
        "schema_ids": _all_ids(found.schema_ids),
        "tombstones": found.tombstones,
        "headers_unread": found.headers_unread,
        "options": [{"label": each.label, "steps": each.to_json()} for each in options[:_MOST_OPTIONS]],
    }


def _write_chosen(
    asked: Asked, chosen: Option, options: Sequence[Option], own: Mapping[str, Option], *, is_given: bool
) -> None:
    how = "as was asked" if is_given else "the only one that fits"
    if not is_given and len(options) > 1:
        others = ", ".join(printable(each.label) for each in options if each is not chosen)
        how = f"the first of several that fit (in order: {findings.ORDER}). The others: {others}. --sequence takes another"
    if own:
        how = "nothing fits all topics, and it fits the most"
    steps = f" It {chosen.steps.describe()}. {_few(chosen)}".rstrip() if chosen.steps.records else ""
    output.write("\n" + textwrap.fill(f"The sequence is {printable(chosen.label)}: {how}.{steps}", _WIDTH))
    for topic, each in own.items():
        output.write(textwrap.fill(f"Of {printable(topic)} it is {printable(each.label)}: it {each.steps.describe()}.", _WIDTH))
    output.write(f"Written: {printable(str(asked.config))}. It says why in its comments.")


def _write_nothing_fits(asked: Asked, sample: Sample) -> None:
    if not sample.records:
        output.write(
            f"\n{', '.join(asked.topics)}: no records yet, so there is nothing to look at, and no config was written. "
            "Send some, or name what the records will have: --sequence header:seq"
        )
        return
    output.write(f"\n{_NOTHING_FITS}")
    output.write(_PRODUCER.format(brokers=json.dumps(asked.brokers), topic=json.dumps(asked.topics[0])))
    output.write(_SEVERAL_PRODUCERS.format(command=_again(asked)))
