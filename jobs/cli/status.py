"""The command that shows a pipeline's state, once or repeatedly."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jobs.process.context import load_settings
from jobs.process.options import DEFAULT_CONFIG, MOST_ROWS, AsJson, ConfigFile, Limit, Overrides
from lakehouse.errors import UsageError
from lakehouse.table import Lakehouse

_SECONDS = 2.0


def status(
    *,
    lag: Annotated[bool, typer.Option("--lag", help="Ask Kafka, too, how far Silver is behind.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, with lag and rates.")] = False,
    every: Annotated[
        float | None, typer.Option("--every", metavar="SECONDS", min=0.1, help="With --watch: from look to look; 2.")
    ] = None,
    limit: Limit = MOST_ROWS,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show watermarks, classes, the gate's verdict and Gold."""
    if every is not None and not watch:
        raise UsageError("--every goes with --watch.", where="status", next_step="Add --watch, or leave --every out.")
    settings = load_settings(config, overrides)
    if watch:
        from jobs.readers import live_status

        live_status.watch(settings, seconds=every or _SECONDS, as_json=as_json)
        return
    from jobs.process.output import write_json
    from jobs.readers import status as reading

    found = reading.status(settings.pipeline, Lakehouse.of(settings), most_streams=limit)
    if lag:
        from jobs.readers.lag import with_lag

        sys.stderr.write(f"Asking {settings.kafka.bootstrap_servers} for the ends of its partitions.\n")
        found = with_lag(found, settings.kafka)
    write_json(found) if as_json else reading.write_status(found)
    if found.get("topics_not_found"):
        raise typer.Exit(1)
