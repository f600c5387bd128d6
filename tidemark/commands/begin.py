"""The commands before a run: init, check and doctor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidemark.commands.tools import Call
from tidemark.process import output
from tidemark.process.context import load_settings
from tidemark.process.options import DEFAULT_CONFIG, AsJson, OptionalConfigFile, Overrides, command_line

MOST_SAMPLED = 4_000
_ROLE = "As header:NAME, json:PATH, field:PATH, value:utf8, bytes:0:8; else what the sample shows."
_PROPERTY = "A Kafka client property; secrets as ${env:NAME}."
_REGISTRY = "A schema registry: the fields of values behind its ids are looked at."
_REGISTRY_KEY = "A key of value.registry: username, password, ca, cert, key; secrets as ${env:NAME}. May be repeated."
Sample = Annotated[int, typer.Option("--sample", metavar="RECORDS", min=2, max=100_000, help="The most records to look at.")]
Texts = list[str] | None


def init(
    *,
    brokers: Annotated[str | None, typer.Option("--brokers", metavar="HOST:PORT", help="Kafka's brokers.")] = None,
    topic: Annotated[Texts, typer.Option("--topic", metavar="TOPIC", help="A topic. May be repeated.")] = None,
    root: Annotated[str | None, typer.Option("--root", metavar="FOLDER", help="A folder, or s3://bucket/path.")] = None,
    properties: Annotated[Texts, typer.Option("--property", metavar="NAME=VALUE", help=_PROPERTY)] = None,
    sequence: Annotated[str | None, typer.Option("--sequence", metavar="WHERE", help=_ROLE)] = None,
    producer: Annotated[str | None, typer.Option("--producer", metavar="WHERE", help="The same for the producer.")] = None,
    epoch: Annotated[str | None, typer.Option("--epoch", metavar="WHERE", help="The same for the epoch.")] = None,
    registry: Annotated[str | None, typer.Option("--registry", metavar="URL", help=_REGISTRY)] = None,
    registry_properties: Annotated[Texts, typer.Option("--registry-property", metavar="NAME=VALUE", help=_REGISTRY_KEY)] = None,
    sample: Sample = MOST_SAMPLED,
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The file to write.")] = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
) -> int:
    """Look at a topic, and write a config for it.

    Says what fits as sequence, producer and epoch, and why the rest does not. Ends with 1 if nothing fits as the sequence.
    """
    from tidemark.extras.onboarding.init import Asked
    from tidemark.extras.onboarding.init import init as look

    def ask(question: str, default: str | None) -> str:
        answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True)
        return answer

    roles = {"sequence": sequence, "producer": producer, "epoch": epoch}
    registry_options = (registry or "", registry_properties or [])
    asked = Asked(brokers or "", topic or [], root or "", config, force, sample, properties or [], roles, *registry_options)
    return look(asked, ask=ask if sys.stdin.isatty() and not as_json else None, as_json=as_json)


def doctor(*, config: OptionalConfigFile = None, overrides: Overrides = None, as_json: AsJson = False) -> int:
    """Look whether this machine has what is needed.

    With --config, look at all that check looks at. Ends with 1 where something is missing.
    """
    from lakehouse.machine.doctor import diagnose

    if config is not None:
        load_settings(config, overrides)  # a wrong config is a usage error here, and a finding there
        return check(call=Call(config, overrides, as_json))
    findings = diagnose()
    output.write_findings(findings, as_json=as_json)
    return int(not all(finding.ok for finding in findings))


def check(*, sample: Sample = MOST_SAMPLED, call: Call) -> int:
    """Find what the next run would refuse; commit nothing.

    Config, machine, brokers, topics, records, tables, gate and models. Ends with 1 where something is missing.
    """
    from tidemark.extras.onboarding.check import check as look

    findings = look(call.config, call.overrides, most=sample)
    is_ok = all(finding.ok for finding in findings)
    output.write_findings(findings, as_json=call.as_json)
    if is_ok and not call.as_json:
        steps = [command_line(name, call.config) for name in ("run --stage bronze", "plan", "run")]
        output.write("\nNext:\n" + "\n".join(f"  {step}" for step in steps))
    return int(not is_ok)
