"""The command that shows a pipeline's state."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakehouse.table import Lakehouse
from tidemark.commands.tools import Call
from tidemark.process.options import MOST_ROWS, Limit


def status(
    *,
    lag: Annotated[bool, typer.Option("--lag", help="Ask Kafka, too, how far Silver is behind.")] = False,
    limit: Limit = MOST_ROWS,
    call: Call,
) -> None:
    """Show watermarks, classes, the gate's verdict and Gold."""
    from tidemark.readers import status as reading

    settings = call.settings()
    found = reading.status(settings.pipeline, Lakehouse.of(settings), topics=settings.kafka.topics, most_streams=limit)
    if lag:
        from tidemark.readers.lag import with_lag

        sys.stderr.write(f"Asking {settings.kafka.bootstrap_servers} for the ends of its partitions.\n")
        found = with_lag(found, settings)
    call.show(found, reading.write_status)
    if found.get("topics_not_found"):
        raise typer.Exit(1)
