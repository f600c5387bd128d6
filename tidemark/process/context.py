"""The start of every command: settings from its flags, a report, and a job with both."""

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
    """Within the block, commands are a library: they use the caller's session, and report to Python's log instead of stderr.

    Without a session, one is opened where it is needed.

    Raises:
        ToolError: The session lacks Delta; see `lakehouse.spark.session.given`.
        TidemarkError: What the block raised, without any secret that this process has resolved.
    """
    token = _is_in_python.set(True)
    try:
        with exit_codes.errors_scrubbed(), _given(spark):
            yield
    finally:
        _is_in_python.reset(token)


def _given(spark: SparkSession | None) -> contextlib.AbstractContextManager[None]:
    if spark is None:
        return contextlib.nullcontext()
    from lakehouse.spark.session import given

    return given(spark)


def load_settings(config: Config, overrides: Sequence[str] | Mapping[str, str] | None) -> Settings:
    """Load and validate the settings from a file or its content; overrides are KEY=VALUE, or values by dotted key.

    Raises a `ConfigError` if the file is missing, or a key, a variable or a flag is wrong.
    """
    from lakehouse.config import load as configs
    from lakehouse.settings.secrets import secret_texts

    laid = dict(overrides) if isinstance(overrides, Mapping) else dict(_pair(text) for text in overrides or [])
    settings = configs.load(config, overrides=laid, environ=os.environ)
    exit_codes.known_secrets.update(secret_texts(settings))
    return settings


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        # The text is not repeated: it may be a password typed without its key.
        raise UsageError(
            "--set needs a key and a value.",
            where="--set",
            observed="no =" if not equals else "nothing before the =",
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
    terminal = False if is_verbose.get() else None
    with open_report(secrets=exit_codes.known_secrets, terminal=terminal, is_quiet=is_quiet.get()) as report:
        yield report


def open_session(lakehouse: Lakehouse, report: Report, app_name: str) -> SparkSession:
    """Open a Spark session for a lakehouse. It closes when the process ends; a platform's own session stays open.

    Raises:
        ToolError: Java or the jars are missing.
    """
    started = time.monotonic()
    report.event("spark.starting")
    from lakehouse.spark.session import open_session as open_spark

    spark = open_spark(app_name, lakehouse, log_level="warn" if is_verbose.get() else "error")
    report.event("spark.finished", version=spark.version, seconds=round(time.monotonic() - started, 1))
    exit_codes.end_with_process(spark)
    return spark


def open_job(config: Config, overrides: Sequence[str] | Mapping[str, str] | None) -> contextlib.AbstractContextManager[Job]:
    """Open a job with the settings of `load_settings`."""
    return job_of(load_settings(config, overrides))


@contextlib.contextmanager
def job_of(settings: Settings) -> Iterator[Job]:
    """Open a job with loaded settings."""
    from lakehouse.table import Lakehouse
    from pipelines.job import Job

    with reporting() as report:
        yield Job(settings, report, lambda: open_session(Lakehouse.of(settings), report, f"tidemark {settings.pipeline}"))
