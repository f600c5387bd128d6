"""The command line. Results go to stdout, progress and errors to stderr; commands that need no Spark start no JVM.

Heavy imports are in the commands that need them: `tidemark --help` answers within half a second.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lakehouse import __version__
from tidemark.commands.begin import check, doctor, init
from tidemark.commands.look import order, report, sql, status, why
from tidemark.commands.recovery import maintain, rebuild, restore, verify
from tidemark.commands.requests import erase, gate_app, quarantine_app, topic_app, watermark_app
from tidemark.commands.tools import Call, broker_app, config_app, group, jars_app, need_command
from tidemark.process.context import is_quiet, is_verbose
from tidemark.process.exit_codes import exit_code_of, invoke
from tidemark.process.options import Limit
from tidemark.process.output import MAX_TABLE_ROWS
from tidemark.runner.once import run_once
from tidemark.runner.summary import Stage, with_first_streams, write_minute, write_plan, write_result

_EVERY = "Run again when Kafka has new records, and at the latest after so many seconds."


class _Sections(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 -- as typer calls it
        """Write each section as a list of its own, all as wide as the widest."""
        width = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                limit = formatter.width - width - 6
                formatter.write_dl([(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in names])


_PURPOSE = "Kafka to Bronze, Silver and Gold Delta tables, each record exactly once."
app = group("tidemark", _PURPOSE, _Sections, has_completion=True)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context, *, version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False
) -> None:
    if version:
        typer.echo(f"tidemark {__version__}")
        raise typer.Exit
    need_command(context)


def demo(
    *,
    into: Annotated[Path | None, typer.Option("--into", help="The folder for tables and configs; else a new one.")] = None,
    records: Annotated[int, typer.Option("--records", min=80, help="Records of the second stream.")] = 200_000,
) -> None:
    """Show it all on a real local Kafka broker.

    Runs the pipeline twice and compares what the tables hold with what was sent.
    """
    from tidemark.extras.demo.run import run_demo

    run_demo(into, records=records)


def run(
    *,
    call: Call,
    every: Annotated[float | None, typer.Option("--every", metavar="SECONDS", min=0, help=_EVERY)] = None,
    stage: Annotated[Stage | None, typer.Option("--stage", help="One stage only.")] = None,
) -> int:
    """Run the pipeline: Bronze, Silver, the gate, Gold.

    With --every, prints a line a minute instead of each run; with --json, a line a run.
    """
    from tidemark.extras.watch.after_run import keep_freshness, listening
    from tidemark.runner.loop import run_every

    show = partial(write_result, as_json=call.as_json)
    is_by_minute = every is not None and stage is None and not call.as_json
    if is_by_minute and not is_verbose.get():
        is_quiet.set(True)

    def on_result(result: dict[str, Any]) -> None:
        if not is_by_minute or result["gate"].get("warned"):
            show(result)

    def on_failure(failed: dict[str, Any]) -> None:
        if call.as_json:
            show(failed)

    def on_minute(minute: dict[str, Any]) -> None:
        if is_by_minute:
            write_minute(minute, every=every)
        keep_freshness(job.settings, minute["freshness_seconds"])

    with call.job() as job:
        if every is not None:
            with listening(job.settings, job.report):
                return run_every(
                    job, seconds=every, stage=stage, on_result=on_result, on_failure=on_failure, on_minute=on_minute
                )
        result = run_once(job, stage=stage, on_failure=on_failure)
    show(result)
    return 0


def plan(*, limit: Limit = MAX_TABLE_ROWS, call: Call) -> None:
    """Say what the next Silver load would do; load nothing."""
    from pipelines import medallion

    with call.job() as job:
        planned = medallion.plan(job)
    call.show(with_first_streams(planned, limit), write_plan)


_COMMANDS: dict[str, tuple[Any, ...]] = {
    "Begin": (demo, init, check, doctor, config_app, jars_app, broker_app),
    "Run": (run, plan),
    "Look": (status, report, sql, why, order, topic_app, watermark_app),
    "Decide": (quarantine_app, gate_app),
    "Keep": (verify, maintain, erase, restore, rebuild),
}
SECTIONS = {title: [getattr(each, "__name__", "") or each.info.name for each in own] for title, own in _COMMANDS.items()}
"""The commands in the order of the help."""
for _each in [each for own in _COMMANDS.values() for each in own]:
    app.add_typer(_each) if isinstance(_each, typer.Typer) else app.command()(_each)


def main(argv: list[str] | None = None) -> int:
    """Run a command line.

    Returns 0 done, 1 error, 2 usage or config, 3 the gate failed, 4 another writer won, 5 the breaker opened; 130 or 143.
    """
    return exit_code_of(lambda: invoke(app, argv, program="tidemark"))
