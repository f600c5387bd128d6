"""The commands around the pipeline: config, jars and broker."""

from __future__ import annotations

import functools
import inspect
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jobs.process.context import is_quiet, is_verbose, load_settings
from jobs.process.options import DEFAULT_CONFIG, AsJson, BrokerFolder, ConfigFile, Overrides
from lakehouse.errors import UsageError

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="On stderr, only what failed.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="On stderr, each event as a line, and Spark's warnings.")]


_OPTIONS = (("quiet", Quiet), ("verbose", Verbose))


class Commands(typer.Typer):
    """Commands that all take --quiet and --verbose."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """See `typer.Typer.command`."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(function, eval_str=True)
            kind = inspect.Parameter.KEYWORD_ONLY
            own = [inspect.Parameter(each, kind, default=False, annotation=option) for each, option in _OPTIONS]

            @functools.wraps(function)
            def told(*arguments: Any, quiet: bool, verbose: bool, **more: Any) -> Any:
                is_quiet.set(quiet)
                is_verbose.set(verbose)
                return function(*arguments, **more)

            vars(told)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), *own])
            super(Commands, self).command(name, **options)(told)
            return function

        return add


def group(description: str, kind: type[TyperGroup] = TyperGroup, *, has_completion: bool = False) -> typer.Typer:
    """A group of commands, with help in plain text."""
    # Plain help: typer's markup would interpret the brackets of `kafka.topics=[a]`, and costs 0.2 s.
    context = {"max_content_width": 110, "help_option_names": ["-h", "--help"]}
    return Commands(cls=kind, help=description, add_completion=has_completion, rich_markup_mode=None, context_settings=context)


config_app = group("Look at a pipeline's config.")
jars_app = group("The JVM jars: fetched once, used offline from then on.")
broker_app = group("A local Kafka broker for development. Never for data that matters.")


@config_app.callback(invoke_without_command=True)
@jars_app.callback(invoke_without_command=True)
@broker_app.callback(invoke_without_command=True)
def need_command(context: typer.Context) -> None:
    """Show the help and exit as for a wrong command line, if no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(UsageError.exit_code)


@config_app.command("show")
def config_show(*, config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Print the settings that are in force, defaults included, secrets masked."""
    from jobs.process.output import tell
    from lakehouse.config import load as configs

    settings = load_settings(config, overrides)
    tell(configs.redacted(settings), configs.show_yaml(settings), as_json=as_json)


@config_app.command("check")
def config_check(*, config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check the config whole; nothing is started."""
    from jobs.process.output import tell
    from pipelines import preflight

    settings = load_settings(config, overrides)
    preflight.require(settings)
    found = {"config": str(config), "pipeline": settings.pipeline, "ok": True}
    tell(found, f"{config}: pipeline {settings.pipeline} is in order.", as_json=as_json)


@jars_app.command("fetch")
def jars_fetch(
    conf: Annotated[
        str | None, typer.Argument(metavar="spark|broker|s3|azure|google", help="One set only; those of stores, only so.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Fetch the JVM jars into the cache, in the locked versions; no network where they are there."""
    from jobs.process.output import tell
    from lakehouse.machine import jars
    from lakehouse.machine.storage_jar import storage_jar

    folder = str(jars.fetch(conf))
    if conf != "broker":
        storage_jar()
    tell({"folder": folder}, folder, as_json=as_json)


@jars_app.command("archive")
def jars_archive(*, as_json: AsJson = False) -> None:
    """Make an archive of the classes that Spark loads here, so that a session starts sooner: a minute, 200 MB."""
    from jobs.process.output import tell
    from lakehouse.machine import class_archive

    with tempfile.TemporaryDirectory() as folder:
        # -P: a folder `tidemark` where this is called is not ours.
        demo = [sys.executable, "-P", "-c", "from tidemark.cli import main; raise SystemExit(main())", "demo"]
        file = str(class_archive.make([*demo, "--records", "2000", "--into", folder]))
    tell({"file": file}, file, as_json=as_json)


@broker_app.command("up")
def broker_up(
    *,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Its port here; by default the former one, or a free one.")
    ] = None,
    folder: BrokerFolder = None,
    as_json: AsJson = False,
) -> None:
    """Start a local Kafka broker that goes on running, or name the one that runs."""
    from bronze.dev_broker import broker
    from jobs.process.output import tell

    state = broker.up(folder, port)
    text = f"{state.bootstrap_servers}  (process {state.pid}, records in {state.data_dir})"
    tell(asdict(state), text, as_json=as_json)


@broker_app.command("topic")
def broker_topic(
    name: Annotated[str, typer.Argument(help="The topic's name.")],
    *,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions it has.")] = 1,
    folder: BrokerFolder = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic on the local broker that runs."""
    from bronze.dev_broker import broker
    from jobs.process.output import tell

    state = broker.require_running(folder)
    broker.create_topic(state.bootstrap_servers, name, partitions)
    found = {"topic": name, "partitions": partitions, "bootstrap_servers": state.bootstrap_servers}
    tell(found, f"Created {name} with {partitions:,} partitions at {state.bootstrap_servers}.", as_json=as_json)


@broker_app.command("down")
def broker_down(*, folder: BrokerFolder = None, as_json: AsJson = False) -> None:
    """End the local broker; its records stay."""
    from bronze.dev_broker import broker
    from jobs.process.output import tell

    state = broker.down(folder)
    text = f"Ended {state.bootstrap_servers}; its records stay in {state.data_dir}." if state else "No broker was running."
    tell(asdict(state) if state else None, text, as_json=as_json)
