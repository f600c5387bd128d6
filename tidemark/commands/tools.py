"""The commands around the pipeline: config, jars and broker."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lakehouse.errors import UsageError
from tidemark.process.context import is_quiet, is_verbose, job_of, load_settings
from tidemark.process.options import DEFAULT_CONFIG, AsJson, BrokerFolder, ConfigFile, Overrides
from tidemark.process.output import tell, write_json

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lakehouse.settings.pipeline import Settings
    from pipelines.job import Job

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="On stderr, only what failed.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="On stderr, each event as a line, and Spark's warnings.")]
_SET_OF_JARS = "One set only. The jars of a store are fetched only by name."


@dataclass(frozen=True)
class Call:
    """The options --config, --set and --json of a command. A command takes them as its parameter `call`."""

    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    as_json: AsJson = False

    def settings(self) -> Settings:
        """Load the settings; see `load_settings`."""
        return load_settings(self.config, self.overrides)

    def job(self) -> AbstractContextManager[Job]:
        """Open a job with the settings."""
        return job_of(self.settings())

    def run_alone(self, do: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """Execute an operation that writes; see `pipelines.medallion.run_alone`."""
        from pipelines import medallion

        with self.job() as job:
            return medallion.run_alone(job, do)

    def show(self, found: Any, write_text: Callable[[Any], None]) -> None:
        """Print a result on stdout: as JSON, or as text."""
        write_json(found) if self.as_json else write_text(found)


def set_output(*, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Set what a command reports on stderr."""
    is_quiet.set(quiet)
    is_verbose.set(verbose)


def _options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]


_OF_CALL, _OF_OUTPUT = _options(Call), _options(set_output)


class Commands(typer.Typer):
    """Commands that all take --quiet and --verbose, and their `call` as the options --config, --set and --json."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """See `typer.Typer.command`."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(function, eval_str=True)
            own = [_OF_CALL if each.name == "call" else [each] for each in signature.parameters.values()]

            @functools.wraps(function)
            def run_command(*arguments: Any, quiet: bool, verbose: bool, **more: Any) -> Any:
                set_output(quiet=quiet, verbose=verbose)
                if "call" in signature.parameters:
                    more["call"] = Call(**{each.name: more.pop(each.name) for each in _OF_CALL})
                return function(*arguments, **more)

            vars(run_command)["__signature__"] = signature.replace(parameters=[*itertools.chain(*own), *_OF_OUTPUT])
            super(Commands, self).command(name, **options)(run_command)
            return function

        return add


def group(name: str, description: str, kind: type[TyperGroup] = TyperGroup, *, has_completion: bool = False) -> typer.Typer:
    """A group of commands, with help in plain text. Without a command it shows the help."""
    # Plain help: typer's markup would interpret the brackets of `kafka.topics=[a]`, and costs 0.2 s.
    context = {"max_content_width": 110, "help_option_names": ["-h", "--help"]}
    options: dict[str, Any] = {"cls": kind, "callback": need_command, "invoke_without_command": True, "rich_markup_mode": None}
    return Commands(name=name, help=description, add_completion=has_completion, context_settings=context, **options)


def need_command(context: typer.Context) -> None:
    """Show the help and exit as for a wrong command line, if no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(UsageError.exit_code)


config_app = group("config", "Look at a pipeline's config.")
jars_app = group("jars", "The JVM jars: fetched once, used offline from then on.")
broker_app = group("broker", "A local Kafka broker for development. Never for data that matters.")


@config_app.command("show")
def config_show(*, call: Call) -> None:
    """Print the settings that are in force, defaults included, secrets masked."""
    from lakehouse.config import load as configs

    settings = call.settings()
    tell(configs.redacted(settings), configs.show_yaml(settings), as_json=call.as_json)


@config_app.command("check")
def config_check(*, call: Call) -> None:
    """Check the config whole; nothing is started.

    A custom extractor is imported: a function whose parameters are columns of bronze_records, such as value, and that
    returns a Column; docs/sequence.md has an example.
    """
    from pipelines import preflight

    settings = call.settings()
    preflight.require_config(settings)
    found = {"config": str(call.config), "pipeline": settings.pipeline, "ok": True}
    tell(found, f"{call.config}: pipeline {settings.pipeline} is in order.", as_json=call.as_json)


@jars_app.command("fetch")
def jars_fetch(
    conf: Annotated[str | None, typer.Argument(metavar="spark|broker|s3|azure|google", help=_SET_OF_JARS)] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Fetch the JVM jars into the cache, in the locked versions; no network where they are there."""
    from lakehouse.machine import jars
    from lakehouse.machine.storage_jar import storage_jar

    folder = str(jars.fetch(conf))
    if conf != "broker":
        storage_jar()
    tell({"folder": folder}, folder, as_json=as_json)


@broker_app.command("up")
def broker_up(
    *,
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="Its port; by default the former, or a free one.")] = None,
    folder: BrokerFolder = None,
    as_json: AsJson = False,
) -> None:
    """Start a local Kafka broker that goes on running, or name the one that runs."""
    from tidemark.extras.demo import broker

    state = broker.up(folder, port)
    text = f"{state.bootstrap_servers}  (process {state.pid}, records in {state.data_dir})"
    tell(state, text, as_json=as_json)


@broker_app.command("topic")
def broker_topic(
    name: Annotated[str, typer.Argument(help="The topic's name.")],
    *,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions it has.")] = 1,
    folder: BrokerFolder = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic on the local broker that runs."""
    from tidemark.extras.demo import broker

    state = broker.require_running(folder)
    broker.create_topic(state.bootstrap_servers, name, partitions)
    found = {"topic": name, "partitions": partitions, "bootstrap_servers": state.bootstrap_servers}
    tell(found, f"Created {name} with {partitions:,} partitions at {state.bootstrap_servers}.", as_json=as_json)


@broker_app.command("down")
def broker_down(*, folder: BrokerFolder = None, as_json: AsJson = False) -> None:
    """End the local broker; its records stay."""
    from tidemark.extras.demo import broker

    state = broker.down(folder)
    text = f"Ended {state.bootstrap_servers}; its records stay in {state.data_dir}." if state else "No broker was running."
    tell(state, text, as_json=as_json)
