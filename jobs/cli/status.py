"""The command that shows a pipeline's state."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jobs.process.context import load_settings
from jobs.process.options import DEFAULT_CONFIG, MOST_ROWS, AsJson, ConfigFile, Limit, Overrides
from lakehouse.table import Lakehouse


def status(
    *,
    lag: Annotated[bool, typer.Option("--lag", help="Ask Kafka, too, how far Silver is behind.")] = False,
    limit: Limit = MOST_ROWS,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show watermarks, classes, the gate's verdict and Gold."""
    from jobs.process.output import write_json
    from jobs.readers import status as reading

    settings = load_settings(config, overrides)
    found = reading.status(settings.pipeline, Lakehouse.of(settings), most_streams=limit)
    if lag:
        from jobs.readers.lag import with_lag

        sys.stderr.write(f"Asking {settings.kafka.bootstrap_servers} for the ends of its partitions.\n")
        found = with_lag(found, settings.kafka)
    write_json(found) if as_json else reading.write_status(found)
    if found.get("topics_not_found"):
        raise typer.Exit(1)
