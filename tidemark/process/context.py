"""The start of every command: settings, a report, a session, and a job with all three."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from lakehouse.errors import UsageError
from tidemark.process import exit_codes

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Report
    from lakehouse.settings.pipeline import Settings
    from lakehouse.table import Lakehouse
    from pipelines.job import Job

    Config = PathLike[str] | str | Mapping[str, Any]

_is_in_python: ContextVar[bool] = ContextVar("is_in_python", default=False)
is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)
is_verbose: ContextVar[bool] = ContextVar("is_verbose", default=False)


@contextlib.contextmanager
def called_from_python(spark: SparkSession | None) -> Iterator[None]:
    """Within the block, commands use the caller's session if there is one, and report to Python's log instead of stderr.

    Errors hold no secret that this process has resolved. ToolError if the session lacks Delta.
    """
    token = _is_in_python.set(True)
    try:
        with exit_codes.errors_scrubbed(), contextlib.ExitStack() as stack:
            if spark is not None:
                from lakehouse.spark.session import given

                stack.enter_context(given(spark))
            yield
    finally:
        _is_in_python.reset(token)


def load_settings(config: Config, overrides: Sequence[str] | Mapping[str, str] | None) -> Settings:
    """Load the settings from a file or its content; ConfigError if they are wrong. Overrides: KEY=VALUE, or values by key."""
    from lakehouse.config import load as configs
    from lakehouse.settings.secrets import secret_texts

    values = dict(overrides if isinstance(overrides, Mapping) else map(_pair, overrides or []))
    settings = configs.load(config, overrides=values, environ=os.environ)
    exit_codes.known_secrets.update(secret_texts(settings))
    return settings


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        # The text is not repeated: it may be a password typed without its key.
        raise UsageError(
            "--set needs a key and a value.",
            where="--set",
            observed="nothing before the =" if equals else "no =",
            expected="KEY=VALUE",
            next_step="Write it like --set kafka.bootstrap_servers=localhost:9092; quote what the shell would take apart.",
        )
    return key.strip(), value


@contextlib.contextmanager
def reporting() -> Iterator[Report]:
    """Open a report that masks the secrets known so far."""
    from lakehouse.run.reporting import PythonLog, open_report

    if _is_in_python.get():
        yield PythonLog(exit_codes.known_secrets)
        return
    is_terminal = False if is_verbose.get() else None
    with open_report(secrets=exit_codes.known_secrets, terminal=is_terminal, is_quiet=is_quiet.get()) as report:
        yield report


def open_session(lakehouse: Lakehouse, report: Report, app_name: str) -> SparkSession:
    """Open a Spark session for a lakehouse; ToolError if Java or the jars are missing. It closes with the process."""
    started = time.monotonic()
    report.event("spark.starting")
    from lakehouse.spark.session import open_session as open_spark

    spark = open_spark(app_name, lakehouse, log_level="warn" if is_verbose.get() else "error")
    report.event("spark.finished", version=spark.version, seconds=round(time.monotonic() - started, 1))
    exit_codes.end_with_process(spark)
    return spark


@contextlib.contextmanager
def job_of(settings: Settings) -> Iterator[Job]:
    """Open a job; its session opens when it is first needed."""
    from lakehouse.table import Lakehouse
    from pipelines.job import Job

    with reporting() as report:
        yield Job(settings, report, lambda: open_session(Lakehouse.of(settings), report, f"tidemark {settings.pipeline}"))
