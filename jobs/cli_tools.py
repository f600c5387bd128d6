"""The commands beside the pipeline: config, jars and broker."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from jobs.common import DEFAULT_CONFIG, ConfigFile, Overrides, lakehouse_of, load_settings
from lakehouse.errors import UsageError
from lakehouse.report import printable

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
QuarantineClass = Literal["late", "collision", "invalid", "jump", "fenced"]
TopicArgument = Annotated[str, typer.Argument(help="The Kafka topic.")]
PartitionArgument = Annotated[int, typer.Argument(min=0, help="The partition.")]
OffsetArgument = Annotated[int, typer.Argument(min=0, help="The offset of the record.")]
BrokerFolder = Annotated[Path | None, typer.Option("--folder", help="Where the broker keeps its records.")]


def group(description: str) -> typer.Typer:
    """A group of commands, with help in plain text."""
    # Plain help: typer's markup would take the brackets of `kafka.topics=[a]` for its own, and costs a fifth of a second.
    width = {"max_content_width": 110}
    return typer.Typer(help=description, add_completion=False, rich_markup_mode=None, context_settings=width)


config_app = group("Look at a pipeline's config.")
jars_app = group("The JVM jars: fetched once, used offline from then on.")
watermark_app = group("The watermarks: the highest accepted sequence of each stream.")
quarantine_app = group("What was kept out of Silver and waits for a decision.")
broker_app = group("A local Kafka broker for development. Never for data that matters.")


@config_app.callback(invoke_without_command=True)
@jars_app.callback(invoke_without_command=True)
@watermark_app.callback(invoke_without_command=True)
@quarantine_app.callback(invoke_without_command=True)
@broker_app.callback(invoke_without_command=True)
def need_command(context: typer.Context) -> None:
    """Show the help, and end as a wrong command line does, where no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(UsageError.exit_code)


@config_app.command("show")
def config_show(*, config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Print the settings that are in force, defaults included, secrets masked."""
    from jobs.show import tell
    from lakehouse import config as configs

    settings = load_settings(config, overrides)
    tell(configs.redacted(settings), configs.show_yaml(settings), as_json=as_json)


@config_app.command("check")
def config_check(*, config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check the config whole; nothing is started."""
    from jobs.show import tell

    settings = load_settings(config, overrides)
    found = {"config": str(config), "pipeline": settings.pipeline, "ok": True}
    tell(found, f"{config}: pipeline {settings.pipeline} is in order.", as_json=as_json)


@jars_app.command("fetch")
def jars_fetch(
    conf: Annotated[str | None, typer.Argument(metavar="[spark|broker]", help="One set only.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Fetch the JVM jars into the cache, in the locked versions; no network where they are there."""
    from jobs.show import tell
    from lakehouse import jars

    folder = str(jars.fetch(conf))
    tell({"folder": folder}, folder, as_json=as_json)


@watermark_app.command("show")
def watermark_show(*, config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show each stream's watermark: where its producer can go on."""
    from jobs.show import write_json
    from jobs.status import status, write_streams

    settings = load_settings(config, overrides)
    streams = status(settings.pipeline, lakehouse_of(settings.lakehouse))["streams"]
    write_json(streams) if as_json else write_streams(streams)


@quarantine_app.command("list")
def quarantine_list(
    *,
    kind: Annotated[
        QuarantineClass | None, typer.Option("--class", help="One class only: late, collision, invalid, jump, fenced.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="One topic only.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="One partition only.")] = None,
    producer: Annotated[str | None, typer.Option("--producer", help="One producer only.")] = None,
    days: Annotated[float | None, typer.Option("--older-than", metavar="DAYS", min=0, help="What waits so long.")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """List the records that wait, by class, stream and age."""
    from jobs import quarantine
    from jobs.show import write_json

    settings = load_settings(config, overrides)
    wanted = quarantine.Wanted(kind, topic, partition, producer, days)
    found = quarantine.held(lakehouse_of(settings.lakehouse), wanted)
    write_json(found) if as_json else quarantine.write_held(found)


@quarantine_app.command("show")
def quarantine_show(
    topic: TopicArgument,
    partition: PartitionArgument,
    offset: OffsetArgument,
    *,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show a record's bytes as Bronze holds them, and why it is where it is."""
    from jobs.show import cell, write, write_json
    from jobs.why import why_with_record, write_why

    lakehouse = lakehouse_of(load_settings(config, overrides).lakehouse)
    told, raw = why_with_record(lakehouse, topic, partition, offset)
    if as_json:
        write_json({**told, "record": raw})
        return
    write_why(told)
    write("\n".join(["", *(f"{name:<12} {printable(cell(value))}" for name, value in raw.items())]))


@broker_app.command("up")
def broker_up(*, folder: BrokerFolder = None, as_json: AsJson = False) -> None:
    """Start a local Kafka broker that goes on running, or name the one that runs."""
    from bronze import local_broker
    from jobs.show import tell

    state = local_broker.up(folder)
    text = f"{state.bootstrap_servers}  (process {state.pid}, records in {state.data_dir})"
    tell(asdict(state), text, as_json=as_json)


@broker_app.command("down")
def broker_down(*, folder: BrokerFolder = None, as_json: AsJson = False) -> None:
    """End the local broker; its records stay."""
    from bronze import local_broker
    from jobs.show import tell

    state = local_broker.down(folder)
    text = f"Ended {state.bootstrap_servers}; its records stay in {state.data_dir}." if state else "No broker was running."
    tell(asdict(state) if state else None, text, as_json=as_json)
