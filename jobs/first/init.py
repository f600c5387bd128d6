"""`tidemark init`: look at a sample of a topic, say what could be sequence, producer and epoch, write a config."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from bronze.kafka import sample as kafka_sample
from jobs.first import answer, config_text, registered
from jobs.first.config_text import Section
from jobs.first.look import Look
from jobs.first.registered import Registered
from jobs.process import exit_codes, output
from jobs.process.atomic_file import whole
from jobs.process.options import command_line
from lakehouse.config import load as configs
from lakehouse.config.mistakes import ConfigMistakesError
from lakehouse.config.sources import PREFIX
from lakehouse.errors import RegistryError, UsageError
from lakehouse.escape import printable, shortened
from lakehouse.extract.sources import Source
from lakehouse.settings.extractor import Extractor
from lakehouse.settings.secrets import smells_of_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bronze.kafka.sample import Sampled
    from jobs.first.findings import Option
    from lakehouse.settings.pipeline import Settings

    Ask = Callable[[str, str | None], str]

_MOST_OFFERED = 9
_REGISTRY_KEYS = ("username", "password", "ca", "cert", "key")
_ROOT = "./lakehouse"
_NO_REGISTRY = (
    "Start it, or correct --registry. With a login: --registry-property 'username=${env:REGISTRY_USER}' "
    "--registry-property 'password=${env:REGISTRY_PASSWORD}'. Without --registry, init says what the rest of the records has."
)
_PLAIN_PASSWORD = re.compile(r"password\s*=\s*[\"']?(?!\$\{)[^\s\"';]", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|secret):[^}]+\}")
_UNDECIDED = Section({"sequence": {"offset": True}})


@dataclass(frozen=True)
class Asked:
    """The options of the command line. On a terminal, `init` prompts for missing brokers, topics, root and registry.

    Attributes:
        is_forced: Whether a file that is there is replaced.
        records: How many records are read.
        given_properties: Kafka client properties as `NAME=VALUE`.
        roles: What was named as `sequence`, `producer` and `epoch`, as `header:seq`; None for what is to be found.
        registry: The URL of the schema registry.
        registry_properties: Keys of `value.registry` as `NAME=VALUE`.
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
        keys = _pairs("--registry-property", self.registry_properties, _REGISTRY_KEYS)
        if keys and not self.registry:
            raise UsageError(
                "--registry-property is given without --registry.",
                where="--registry-property",
                expected="both, or --registry alone",
                next_step="Name the registry: --registry http://localhost:8081.",
            )
        return {"url": self.registry, **keys} if self.registry else {}


def init(asked: Asked, *, ask: Ask | None, as_json: bool) -> int:
    """Look at a sample of the topics, say what was found, and write a config that runs; `ask` asks a person.

    Returns:
        0 if the config was written, 1 if nothing fits as the sequence.

    Raises:
        UsageError: An option is missing or wrong, or the file is there.
        SourceError: The topic cannot be read.
        RegistryError: A schema registry is named, and cannot be asked.
    """
    _require_free(asked.config, is_forced=asked.is_forced)
    _ = asked.registry_keys, asked.given  # wrong ones are named before anybody is asked
    asked = _complete(asked, ask)
    settings = _parse(asked, [*config_text.place(asked), _UNDECIDED])
    sys.stderr.write(f"Reading a sample of {', '.join(asked.topics)} at {settings.kafka.bootstrap_servers!s}.\n")
    sample = kafka_sample.require(settings.kafka, asked.records)
    if not asked.registry and ask is not None and registered.schema_ids(sample.records):
        asked = replace(asked, registry=ask("The schema registry's URL; nothing for none", "").strip())
    look = Look.at(sample, asked, _ask_registry(asked, sample.records) if asked.registry else Registered())
    chosen = _choose(look.options, None if as_json or "sequence" in asked.given else ask) or look.of_most()
    of_values, commands = list[Section](), list[str]()
    if chosen is not None:
        of_values = config_text.of_values(look)
        sections = config_text.sections(look, chosen, of_values)
        _parse(asked, sections)  # a config that cannot be read is written by nobody
        _write(asked, config_text.text(sections))
        commands = [command_line(name, asked.config) for name in ("check", "plan", "run")]
    if as_json:
        written = str(asked.config) if chosen else None
        output.write_json({**answer.as_json(look, chosen, of_values), "config": written, "next": commands})
    else:
        output.write(answer.text(look, chosen, of_values, commands))
    return int(chosen is None)


def _require_free(config: Path, *, is_forced: bool) -> None:
    if config.exists() and not is_forced:
        raise UsageError(
            "There is a file already; nothing was written.",
            where=str(config),
            next_step="Name another one with --config, or replace it with --force.",
        )
    folder = config.absolute().parent
    if not folder.is_dir():
        raise UsageError("There is no such folder.", where=str(folder), next_step="Make it, or name another --config.")


def _complete(asked: Asked, ask: Ask | None) -> Asked:
    """Prompt for brokers, topics and root that are missing; an error if there is nobody to ask."""

    def prompt(option: str, question: str, default: str | None) -> str:
        if ask is None:
            next_step = f"Add {option}; on a terminal it is asked for."
            raise UsageError(f"{option} is missing.", where="init", next_step=next_step)
        return ask(question, default)

    brokers = asked.brokers or prompt("--brokers", "Kafka's brokers, host:port", "localhost:9092")
    topics = asked.topics or prompt("--topic", "The topic, or several with commas between", None).replace(",", " ").split()
    if not topics:
        raise UsageError("No topic is named.", where="--topic", next_step="Name one: --topic orders.")
    root = asked.root or (ask("Where the tables go: a folder, or s3://bucket/path", _ROOT) if ask else _ROOT)
    return replace(asked, brokers=brokers, topics=topics, root=root)


def _pairs(option: str, given: Sequence[str], known: Sequence[str] = ()) -> dict[str, str]:
    """The names and values of an option that may be repeated; an error for a secret in plain text."""
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
            # Neither name nor value is repeated whole: others see the command line, and this message may be kept.
            shown = shortened(name, 60)
            raise UsageError(
                "A secret is given in plain text; it would stay in the shell's history and in the file.",
                where=f"{option} {shown}",
                expected="a reference: ${env:NAME}, or ${secret:scope/key} on Databricks",
                next_step=f"Put it into an environment variable, and write {option} '{shown}=${{env:NAME}}'.",
            )
        found[name] = value
    return found


def _ask_registry(asked: Asked, records: Sequence[Sampled]) -> Registered:
    """What the registry that is named says of the sample."""
    value = Section({"value": {"format": "json", "schema": "value STRING", "registry": asked.registry_keys}})
    try:
        registry = _parse(asked, [*config_text.place(asked), _UNDECIDED, value]).registry
        return registered.look(registry, records) if registry else Registered()
    except ConfigMistakesError as error:
        first = error.mistakes[0]
        raise UsageError(
            f"The registry cannot be used: {first.what}.",
            where=f"--registry, or --registry-property: {first.key}",
            observed=first.observed,
            expected=first.expected,
            next_step=first.next_step,
        ) from None
    except RegistryError as error:
        raise RegistryError(
            error.what, where=error.where, observed=error.observed, expected=error.expected, next_step=_NO_REGISTRY
        ) from None


def _extractor(role: str, text: str) -> Source:
    """What `--sequence`, `--producer` or `--epoch` names; an error if it is no extractor."""
    form, _, argument = text.partition(":")
    spelled: Any = {form: argument} if argument else {form: form == "offset" or None}
    why = "no header:NAME, json:PATH, field:PATH, value:utf8, bytes:0:8, offset or custom:module:function"
    try:
        spelled = yaml.safe_load(text) if text.startswith("{") else spelled
        if isinstance(spelled, dict) and not (role != "sequence" and "offset" in spelled):
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
    settings = configs.parse(config_text.text(sections), asked.config, environ=environ)
    exit_codes.known_secrets.update(configs.known_secrets(settings))
    return settings


def _choose(options: Sequence[Option], ask: Ask | None) -> Option | None:
    """The first of the options; of several, the one that a person takes."""
    if ask is None or len(options) < 2:  # noqa: PLR2004 -- one needs no choice
        return options[0] if options else None
    shown = options[:_MOST_OFFERED]
    lines = [f"  {number}  {printable(each.label)}: {each.steps.describe()}" for number, each in enumerate(shown, start=1)]
    sys.stderr.write("\nSeveral fit as the sequence:\n" + "\n".join(lines) + "\n")
    while True:
        answered = ask(f"Which one, 1 to {len(shown)}", "1").strip()
        if answered.isdecimal() and 1 <= int(answered) <= len(shown):
            return shown[int(answered) - 1]
        sys.stderr.write(f"A number from 1 to {len(shown)}.\n")


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
