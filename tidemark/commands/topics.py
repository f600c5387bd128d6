"""The commands for topics: list them, and accept a break."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.table import Lakehouse
from tidemark.commands.tools import Call, group, need_command
from tidemark.process.options import By, DryRun, Reason, TopicArgument
from tidemark.process.requests import named_reason

if TYPE_CHECKING:
    from bronze.progress.topic_breaks import Break

topic_app = group("The topics that were read. Where one was created anew or lost records: going on with it.")
topic_app.callback(invoke_without_command=True)(need_command)


@topic_app.command("list")
def topic_list(*, call: Call) -> None:
    """List the topics as they were read first, and every break that was accepted."""
    from tidemark.readers import topics

    settings = call.settings()
    found = topics.known(Lakehouse.of(settings))
    call.show(found, topics.write_known)


@topic_app.command("accept")
def topic_accept(
    topic: TopicArgument,
    *,
    same_numbering: Annotated[
        bool | None,
        typer.Option("--same-numbering/--new-numbering", help="Whether a recreated topic has its old numbers."),
    ] = None,
    reason: Reason,
    by: By = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Continue a topic that was recreated, or that lost records before they were read.

    A topic that was recreated, copied or cut needs --same-numbering or --new-numbering. With the same numbering it continues
    the old one: a record that was accepted before with the same key and value is a duplicate, with other content a collision.
    A number must then name one record of its producer in the whole topic. With a new numbering every record counts as new.
    """
    from lakehouse.contracts.bronze import NEW, SAME
    from pipelines import medallion
    from silver.state.request import RecordFilter, Request
    from tidemark.readers import topics

    ask = partial(_ask_numbering, as_json=call.as_json)
    numbering = ask if same_numbering is None else SAME if same_numbering else NEW
    request = Request("accept", *named_reason(reason, by), wanted=RecordFilter(topic=topic))
    with call.job() as job:
        done = medallion.decide(job, request, is_dry_run=dry_run, numbering=numbering)
    call.show(done, topics.write_accepted)


def _ask_numbering(found: Break, *, as_json: bool) -> str | None:
    """Ask on the terminal whether a moved topic has its old numbers; None if nobody can be asked."""
    from bronze.progress.topic_breaks import NUMBERINGS
    from lakehouse.contracts.bronze import NEW, SAME

    if as_json or not sys.stdin.isatty():
        return None
    typer.echo(f"{found.what} {NUMBERINGS}", err=True)
    return SAME if typer.confirm("Same numbering?", default=found.is_cut or None, err=True) else NEW
