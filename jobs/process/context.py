"""What every job shares: flags to settings, a session, and a run of the pipeline."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from jobs.process import exit_codes
from lakehouse.errors import TidemarkError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.contracts.gate import Decision
    from lakehouse.run.reporting import OpenReport
    from lakehouse.settings.pipeline import LakehouseSettings, Settings
    from lakehouse.table import Lakehouse
    from silver.audit.arrival_order import Order
    from silver.state.request import Request

ConfigFile = Annotated[
    Path,
    typer.Option("--config", envvar="TIDEMARK_CONFIG", metavar="FILE", help="The pipeline's YAML file."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key of the config, dotted: kafka.topics=[a]. May be repeated."),
]
DEFAULT_CONFIG = Path("tidemark.yml")


def load_settings(config: Path, overrides: list[str] | None) -> Settings:
    """The settings that the flags name, checked whole.

    Raises:
        ConfigError: The file is missing, or something in it, in the environment or in the flags is wrong.
    """
    from lakehouse.config import load as configs

    settings = configs.load(config, overrides=dict(_pair(text) for text in overrides or []), environ=os.environ)
    exit_codes.known_secrets.update(configs.known_secrets(settings))
    return settings


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        # The text is not repeated: somebody may have typed a password without its key.
        raise UsageError(
            "--set needs a key and a value.",
            where="--set",
            observed="no =" if not equals else "nothing before the =",
            expected="KEY=VALUE",
            next_step="Write it like --set kafka.bootstrap_servers=localhost:9092; quote what the shell would take apart.",
        )
    return key.strip(), value


def lakehouse_of(place: LakehouseSettings) -> Lakehouse:
    """Where the settings put the tables."""
    from lakehouse.table import Lakehouse

    return Lakehouse(root=place.root, catalog=place.catalog, schema=place.schema_, volume=place.volume)


@contextlib.contextmanager
def reporting() -> Iterator[OpenReport]:
    """A report that shows none of the secrets known so far."""
    from lakehouse.run.reporting import open_report

    with open_report(secrets=exit_codes.known_secrets) as report:
        yield report


def open_session(settings: Settings, report: OpenReport) -> SparkSession:
    """A Spark session for the pipeline. The process's end closes it; one that a platform brought stays.

    Raises:
        ToolError: Java or the jars are missing.
    """
    started = time.monotonic()
    report.event("spark.starting")
    from lakehouse.spark.session import open_session as open_spark

    spark = open_spark(f"tidemark {settings.pipeline}")
    report.event("spark.finished", version=spark.version, seconds=round(time.monotonic() - started, 1))
    exit_codes.open_sessions.append(spark)
    return spark


def run_once(spark: SparkSession, settings: Settings, report: OpenReport, *, stage: str | None = None) -> dict[str, Any]:
    """Run the pipeline once, all of it or one stage, and keep its result beside the tables, a failure too.

    Returns:
        What `pipelines.medallion.run` returned.

    Raises:
        TidemarkError: The run failed; see its class.
    """
    from jobs.watch.after_run import watching

    report.bound.clear()
    with watching(spark, settings, report) as followed:
        try:
            result = _medallion().run(spark, settings, followed, stage)
        except TidemarkError as error:
            told = {"error": type(error).__name__, "exit_code": error.exit_code, "message": exit_codes.scrub_text(str(error))}
            report.event("run.failed", **told)
            with contextlib.suppress(OSError):  # a full disk, as the error may be
                _keep(settings, {**report.bound, **told})
            raise
        _keep(settings, result)
    return result


def plan_once(spark: SparkSession, settings: Settings, report: OpenReport) -> dict[str, Any]:
    """What the next load of Silver would do, see `pipelines.medallion.plan`; writes no record.

    Raises:
        TidemarkError: The plan cannot be made; see its class.
    """
    return _medallion().plan(spark, settings, report)


def orders_of(
    spark: SparkSession, settings: Settings, report: OpenReport, *, topic: str | None = None
) -> dict[str, list[Order]]:
    """How each stream arrived, see `pipelines.medallion.orders`; writes nothing.

    Raises:
        TidemarkError: Bronze is not there, or cannot be read.
    """
    return _medallion().orders(spark, settings, report, topic)


def decide_once(
    spark: SparkSession, settings: Settings, report: OpenReport, request: Request, *, is_dry_run: bool
) -> dict[str, Any]:
    """Release, discard, reset or accept, see `pipelines.medallion.decide`.

    Raises:
        TidemarkError: It cannot be done; see its class.
    """
    return _medallion().decide(spark, settings, report, request, is_dry_run=is_dry_run)


def gate_shown(spark: SparkSession, settings: Settings, report: OpenReport, *, rows: int) -> dict[str, Any] | None:
    """The last gate run with the rows behind it, see `pipelines.medallion.show_gate`; writes nothing.

    Raises:
        TidemarkError: A table cannot be read.
    """
    return _medallion().show_gate(spark, settings, report, rows=rows)


def decide_gate_once(
    spark: SparkSession, settings: Settings, report: OpenReport, asked: Decision, *, is_dry_run: bool
) -> dict[str, Any]:
    """Release or reject what a failed gate run holds, see `pipelines.operate.gate_decision.decide`.

    Raises:
        TidemarkError: It cannot be done; see its class.
    """
    return _medallion().decide_gate_run(spark, settings, report, asked, is_dry_run=is_dry_run)


def verify_once(spark: SparkSession, settings: Settings, report: OpenReport, *, is_deep: bool) -> dict[str, Any]:
    """Prove the tables against each other, see `pipelines.medallion.verify`; writes nothing.

    Raises:
        TidemarkError: There is no table to look at.
    """
    return _medallion().verify(spark, settings, report, is_deep=is_deep)


def restore_once(
    spark: SparkSession, settings: Settings, report: OpenReport, to: int, *, reason: str, by: str, is_dry_run: bool
) -> dict[str, Any]:
    """Take all tables back to an earlier load, see `pipelines.recover.restore.restore`.

    Raises:
        TidemarkError: It cannot be done; see its class.
    """
    return _medallion().restore(spark, settings, report, to=to, reason=reason, by=by, is_dry_run=is_dry_run)


def rebuild_once(
    spark: SparkSession, settings: Settings, report: OpenReport, *, is_applied: bool, reason: str, by: str
) -> dict[str, Any]:
    """Make Silver anew from Bronze, see `pipelines.recover.rebuild.rebuild`.

    Raises:
        TidemarkError: It cannot be done; see its class.
    """
    return _medallion().rebuild(spark, settings, report, is_applied=is_applied, reason=reason, by=by)


def maintain_once(spark: SparkSession, settings: Settings, report: OpenReport, *, is_dry_run: bool) -> dict[str, Any]:
    """Put every table in order, see `pipelines.medallion.maintain`.

    Raises:
        TidemarkError: A table cannot be read or written.
    """
    return _medallion().maintain(spark, settings, report, is_dry_run=is_dry_run)


def forget_once(spark: SparkSession, settings: Settings, report: OpenReport, key: bytes, *, is_dry_run: bool) -> dict[str, Any]:
    """Bring erasures to their end, see `pipelines.operate.erasure.forget`.

    Raises:
        TidemarkError: It cannot be done; see its class.
    """
    return _medallion().forget(spark, settings, report, key, is_dry_run=is_dry_run)


class _Medallion(Protocol):
    """The entries of `pipelines.medallion`."""

    def run(self, spark: SparkSession, settings: Settings, report: OpenReport, stage: str | None) -> dict[str, Any]: ...

    def plan(self, spark: SparkSession, settings: Settings, report: OpenReport) -> dict[str, Any]: ...

    def orders(
        self, spark: SparkSession, settings: Settings, report: OpenReport, topic: str | None
    ) -> dict[str, list[Order]]: ...

    def decide(
        self, spark: SparkSession, settings: Settings, report: OpenReport, request: Request, *, is_dry_run: bool
    ) -> dict[str, Any]: ...

    def show_gate(self, spark: SparkSession, settings: Settings, report: OpenReport, *, rows: int) -> dict[str, Any] | None: ...

    def decide_gate_run(
        self, spark: SparkSession, settings: Settings, report: OpenReport, asked: Decision, *, is_dry_run: bool
    ) -> dict[str, Any]: ...

    def verify(self, spark: SparkSession, settings: Settings, report: OpenReport, *, is_deep: bool) -> dict[str, Any]: ...

    def restore(
        self, spark: SparkSession, settings: Settings, report: OpenReport, *, to: int, reason: str, by: str, is_dry_run: bool
    ) -> dict[str, Any]: ...

    def rebuild(
        self, spark: SparkSession, settings: Settings, report: OpenReport, *, is_applied: bool, reason: str, by: str
    ) -> dict[str, Any]: ...

    def maintain(self, spark: SparkSession, settings: Settings, report: OpenReport, *, is_dry_run: bool) -> dict[str, Any]: ...

    def forget(
        self, spark: SparkSession, settings: Settings, report: OpenReport, key: bytes, *, is_dry_run: bool
    ) -> dict[str, Any]: ...


def _medallion() -> _Medallion:
    # Late, and after the session: the pipelines import pyspark, and column expressions in them may ask for a session.
    from pipelines import medallion

    return medallion


def run_job(stage: str | None, argv: list[str] | None) -> None:
    """What a thin job does: `--config` and `--set`, then one stage of the pipeline, or all; see `thin_job`.

    Raises:
        TidemarkError: The run failed; see its class.
    """
    what = f"Run {f'the {stage} stage' if stage else 'all stages'} of a pipeline once."
    thin_job(partial(run_once, stage=stage), what, argv)


def thin_job(do: Callable[[SparkSession, Settings, OpenReport], object], what: str, argv: list[str] | None) -> None:
    """Do something with the session of a config, by `--config` and `--set`.

    Returns on success, for a wheel task takes any SystemExit for a failure.

    Raises:
        TidemarkError: It failed; see its class.
        SystemExit: It failed, and this process is a console script: the error's exit code, after its message.
    """

    def job(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None) -> None:
        settings = load_settings(config, overrides)
        with reporting() as report:
            do(open_session(settings, report), settings, report)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=what)(job)
    run = partial(exit_codes.invoke, app, argv, program=Path(sys.argv[0]).name)
    if not exit_codes.is_console_script():
        run()
    elif code := exit_codes.exit_code_of(run):
        sys.exit(code)


def _keep(settings: Settings, result: dict[str, Any]) -> None:
    from lakehouse.run.reporting import save_result

    place = lakehouse_of(settings.lakehouse)
    folder = place.local_folder("_reports")
    # A volume is a folder on the platform only: a client elsewhere has its path, and nothing there.
    is_here = folder is not None and (place.root is not None or folder.parent.is_dir())
    if folder is not None and is_here and "run_id" in result:
        save_result(folder, result)
