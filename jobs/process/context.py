"""The start of every command: settings from its flags, a report, and a job with both."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.process import exit_codes
from lakehouse.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Report
    from lakehouse.settings.pipeline import Settings
    from lakehouse.table import Lakehouse
    from pipelines.job import Job


def load_settings(config: Path, overrides: list[str] | None) -> Settings:
    """Load and validate the settings that the flags name.

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
    from lakehouse.run.reporting import open_report

    with open_report(secrets=exit_codes.known_secrets) as report:
        yield report


def open_session(lakehouse: Lakehouse, report: Report, app_name: str) -> SparkSession:
    """Open a Spark session for a lakehouse. It closes when the process ends; a platform's own session stays open.

    Raises:
        ToolError: Java or the jars are missing.
    """
    started = time.monotonic()
    report.event("spark.starting")
    from lakehouse.spark.session import open_session as open_spark

    spark = open_spark(app_name, lakehouse)
    report.event("spark.finished", version=spark.version, seconds=round(time.monotonic() - started, 1))
    exit_codes.open_sessions.append(spark)
    return spark


@contextlib.contextmanager
def open_job(config: Path, overrides: list[str] | None) -> Iterator[Job]:
    """Open a job with the settings that the flags name.

    Raises:
        ConfigError: See `load_settings`.
    """
    from lakehouse.table import Lakehouse
    from pipelines.job import Job

    settings = load_settings(config, overrides)
    with reporting() as report:
        yield Job(settings, report, partial(open_session, Lakehouse.of(settings), report, f"tidemark {settings.pipeline}"))
