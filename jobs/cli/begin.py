"""The commands before a first run: init and check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from jobs.process.options import DEFAULT_CONFIG, AsJson

MOST_SAMPLED = 4_000
_ROLE = "As header:NAME, json:PATH, value:utf8, bytes:0:8; else what the sample shows."
Sample = Annotated[
    int, typer.Option("--sample", metavar="RECORDS", min=2, max=100_000, help="How many records are looked at, at most.")
]


def init(
    *,
    brokers: Annotated[str | None, typer.Option("--brokers", metavar="HOST:PORT", help="Kafka's brokers.")] = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic. May be repeated.")] = None,
    root: Annotated[
        str | None, typer.Option("--root", metavar="FOLDER", help="Where the tables go: a folder, or s3://bucket/path.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A Kafka client property; secrets as ${env:NAME}."),
    ] = None,
    sequence: Annotated[str | None, typer.Option("--sequence", metavar="WHERE", help=_ROLE)] = None,
    producer: Annotated[str | None, typer.Option("--producer", metavar="WHERE", help="The same for the producer.")] = None,
    epoch: Annotated[str | None, typer.Option("--epoch", metavar="WHERE", help="The same for the epoch.")] = None,
    sample: Sample = MOST_SAMPLED,
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The file to write.")] = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
) -> int:
    """Look at a topic, and write a config for it.

    Says what fits as sequence, producer and epoch, and why the rest does not. Ends with 1 if nothing fits as the sequence.
    """
    from jobs.first.init import Asked
    from jobs.first.init import init as look

    def ask(question: str, default: str | None) -> str:
        answer: str = typer.prompt(question, default=default, err=True)
        return answer

    roles = {"sequence": sequence, "producer": producer, "epoch": epoch}
    asked = Asked(brokers, topic or [], root, config, force, sample, properties or [], roles)
    return look(asked, ask=ask if sys.stdin.isatty() and not as_json else None, as_json=as_json)
