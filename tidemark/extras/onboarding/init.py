"""`tidemark init`: look at a sample of a topic, say what could be sequence, producer and epoch, write a config."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from lakehouse.config import load as configs
from lakehouse.config.sources import PREFIX
from lakehouse.errors import RegistryError, UsageError
from lakehouse.escape import printable, shortened
from lakehouse.extract.sources import Source
from lakehouse.settings.extractor import Extractor
from lakehouse.settings.secrets import secret_texts, smells_of_secret
from tidemark.extras.onboarding import sample as kafka_sample
from tidemark.extras.onboarding import texts, values
from tidemark.extras.onboarding.candidates import find
from tidemark.extras.onboarding.texts import Section
from tidemark.extras.onboarding.values import Registered
from tidemark.process import exit_codes, output
from tidemark.process.options import command_line
from tidemark.process.output import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lakehouse.settings.pipeline import Settings
    from tidemark.extras.onboarding.candidates import Found, Option
    from tidemark.extras.onboarding.sample import Sample, Sampled

    Ask = Callable[[str, str | None], str]

_MOST_OFFERED = 9
_ROOT = "./lakehouse"
_NO_REGISTRY = (
    "Start it, or correct --registry. With a login: --registry-property 'username=${env:REGISTRY_USER}' "
    "--registry-property 'password=${env:REGISTRY_PASSWORD}'. Without --registry, init says what the rest of the records has."
)
_PLAIN_PASSWORD = re.compile(r"password\s*=\s*[\"']?(?!\$\{)[^\s\"';]", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|secret):[^}]+\}")


@dataclass(frozen=True)
class Asked:
    """The options of the command line. On a terminal, `init` prompts for missing brokers, topics, root and registry.

    `roles` has what was named as `sequence`, `producer` and `epoch`; properties are `NAME=VALUE`.
    """

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
        """What was named, by role."""
        return {role: _extractor(role, text) for role, text in self.roles.items() if text}

    @property
    def properties(self) -> dict[str, str]:
        """The Kafka client properties; secrets among them are references."""
        return _pairs("--property", self.given_properties)

    @property
    def registry_keys(self) -> dict[str, str]:
        """The registry as `value.registry` of the config has it; empty if none is named."""
        keys = _pairs("--registry-property", self.registry_properties)
        return {**keys, "url": self.registry} if self.registry else keys


@dataclass(frozen=True)
class Look:
    """What was found in a sample: in each topic that has records, and in all of them together.

    `options` is what fits all topics as the sequence, the best first.
    """

    asked: Asked
    registered: Registered
    topics: Sequence[Found]
    overall: Found
    options: Sequence[Option]

    @classmethod
    def at(cls, sample: Sample, asked: Asked, registered: Registered) -> Look:
        """Look at a sample; an error if something is named on the command line that a topic does not have."""
        by_topic: dict[str, list[Sampled]] = {}
        for each in sample.records:
            by_topic.setdefault(each.topic, []).append(each)
        parts = [replace(sample, records=records) for records in by_topic.values()] or [sample]
        topics = [find(part, registered, asked.given) for part in parts]
        overall = topics[0] if len(topics) == 1 else find(sample, registered, asked.given)
        options = [each for each in overall.options if all(each.label in topic.labels for topic in topics)]
        return cls(asked, registered, topics, overall, options)

    @property
    def records(self) -> Sequence[Sampled]:
        """The records of all topics."""
        return self.overall.sample.records

    def of_most(self) -> Option | None:
        """What fits the most topics, where each has something that fits."""
        if not all(each.options for each in self.topics):
            return None
        labels = Counter(each.labels[0] for each in self.topics)
        return max((each.options[0] for each in self.topics), key=lambda each: labels[each.label])

    def own(self, chosen: Option) -> dict[str, Option]:
        """What single topics have instead of what was chosen."""
        is_common = chosen in self.options
        return {} if is_common else {each.topic: each.options[0] for each in self.topics if each.labels[0] != chosen.label}


def init(asked: Asked, *, ask: Ask | None, as_json: bool) -> int:
    """Look at a sample of the topics, say what was found, and write a config that runs; `ask` asks a person.

    Returns:
        0 if the config was written, 1 if nothing fits as the sequence.

    Raises:
        UsageError: An option is missing or wrong, or the file is there.
        SourceError: The topic cannot be read.
        RegistryError: A schema registry is named, and cannot be asked.
    """
    _require_free(asked)
    _ = asked.registry_keys, asked.given  # wrong ones are named before anybody is asked
    asked = _complete(asked, ask)
    settings = _settings(asked)
    sys.stderr.write(f"Reading a sample of {', '.join(asked.topics)} at {settings.kafka.bootstrap_servers!s}.\n")
    sample = kafka_sample.require_sample(settings.kafka, asked.records)
    if not asked.registry and ask is not None and values.schema_ids(sample.records):
        asked = replace(asked, registry=ask("The schema registry's URL; nothing for none", "").strip())
        settings = _settings(asked)
    try:
        registered = values.ask_registry(settings.registry, sample.records) if settings.registry else Registered()
    except RegistryError as error:
        parts = {name: getattr(error, name) for name in ("where", "observed", "expected")}
        raise RegistryError(error.what, **parts, next_step=_NO_REGISTRY) from None
    look = Look.at(sample, asked, registered)
    chosen = _choose(look.options, None if as_json or "sequence" in asked.given else ask) or look.of_most()
    decoding, commands = list[Section](), list[str]()
    if chosen is not None:
        decoding = texts.value_sections(look)
        sections = texts.sections(look, chosen, decoding)
        _parse(asked, sections)  # a config that cannot be read is not written
        _require_free(asked)  # nobody has made it meanwhile
        with whole(asked.config) as unfinished:
            unfinished.write_text(texts.config_text(sections), encoding="utf-8")
        commands = [command_line(name, asked.config) for name in ("check", "run")]
    if as_json:
        written = str(asked.config) if chosen else None
        output.write_json({**texts.answer_json(look, chosen, decoding), "config": written, "next": commands})
    else:
        output.write(texts.answer(look, chosen, decoding, commands))
    return int(chosen is None)


def _require_free(asked: Asked) -> None:
    config, folder = str(asked.config), asked.config.absolute().parent
    if asked.config.exists() and not asked.is_forced:
        next_step = "Name another one with --config, or replace it with --force."
        raise UsageError("There is a file already; nothing was written.", where=config, next_step=next_step)
    if not folder.is_dir():
        raise UsageError("There is no such folder.", where=str(folder), next_step="Make it, or name another --config.")


def _complete(asked: Asked, ask: Ask | None) -> Asked:
    """Prompt for brokers, topics and root that are missing; an error if there is nobody to ask."""

    def prompt(option: str, question: str, default: str | None) -> str:
        if ask is None:
            next_step = f"Add {option}; on a terminal init prompts for it."
            raise UsageError(f"{option} is missing.", where="init", next_step=next_step)
        return ask(question, default)

    brokers = asked.brokers or prompt("--brokers", "Kafka's brokers, host:port", "localhost:9092")
    topics = asked.topics or prompt("--topic", "The topic, or several with commas between", None).replace(",", " ").split()
    if not topics:
        raise UsageError("No topic is named.", where="--topic", next_step="Name one: --topic orders.")
    root = asked.root or (ask("Where the tables go: a folder, or s3://bucket/path", _ROOT) if ask else _ROOT)
    return replace(asked, brokers=brokers, topics=topics, root=root)


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """The names and values of an option that may be repeated; an error for a secret in plain text."""
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        name = name.strip()
        shown = shortened(name, 60)  # others see the command line, and a message may be kept
        if not name or not value.strip():
            raise UsageError(f"{option} needs a name and a value.", where=f"{option} {shown}", next_step="Write NAME=VALUE.")
        is_secret = smells_of_secret(name) and name != "key"  # a registry's key is a file
        if (is_secret and not _REFERENCE.search(value)) or _PLAIN_PASSWORD.search(value):
            raise UsageError(
                "A secret is given in plain text; it would stay in the shell's history and in the file.",
                where=f"{option} {shown}",
                expected="a reference: ${env:NAME}, or ${secret:scope/key} on Databricks",
                next_step=f"Put it into an environment variable, and write {option} '{shown}=${{env:NAME}}'.",
            )
        found[name] = value
    return found


def _settings(asked: Asked) -> Settings:
    """What the sample and the schemas are read by."""
    value = {"format": "json", "schema": "value STRING", "registry": asked.registry_keys}
    registry = [Section({"value": value})] if asked.registry_keys else []
    return _parse(asked, [*texts.place_sections(asked), Section({"sequence": {"offset": True}}), *registry])


def _extractor(role: str, text: str) -> Source:
    """What `--sequence`, `--producer` or `--epoch` names; an error if it is no extractor."""
    form, _, argument = text.partition(":")
    spelled: Any = {form: argument or form == "offset" or None}
    why = "no header:NAME, json:PATH, field:PATH, value:utf8, bytes:0:8, offset or custom:module:function"
    try:
        spelled = yaml.safe_load(text) if text.startswith("{") else spelled
        if isinstance(spelled, dict) and (role == "sequence" or not {"offset", "debezium"} & spelled.keys()):
            return Source.of(Extractor.model_validate(spelled))
    except ValidationError as error:
        why = error.errors()[0]["msg"]
    except yaml.YAMLError:
        pass
    raise UsageError(
        f"--{role} names nothing that the config knows.",
        where=f"--{role}",
        observed=shortened(text, 200),
        expected=why,
        next_step="For example header:seq or json:$.seq; a whole extractor too: '{header: seq, encoding: int64}'.",
    )


def _parse(asked: Asked, sections: Sequence[Section]) -> Settings:
    """Read a config; without the variables that would override it, so that its own text is in order."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    settings = configs.parse(texts.config_text(sections), asked.config, environ=environ)
    exit_codes.known_secrets.update(secret_texts(settings))
    return settings


def _choose(options: Sequence[Option], ask: Ask | None) -> Option | None:
    """The first of the options; of several, the one that a person takes."""
    if ask is None or len(options) < 2:  # noqa: PLR2004 -- one needs no choice
        return options[0] if options else None
    shown = options[:_MOST_OFFERED]
    lines = [f"  {number}  {printable(each.label)}: {each.describe()}" for number, each in enumerate(shown, start=1)]
    sys.stderr.write("\nSeveral fit as the sequence:\n" + "\n".join(lines) + "\n")
    while True:
        answered = ask(f"Which one, 1 to {len(shown)}", "1").strip()
        if answered.isdecimal() and 1 <= int(answered) <= len(shown):
            return shown[int(answered) - 1]
        sys.stderr.write(f"A number from 1 to {len(shown)}.\n")
