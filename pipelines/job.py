"""A command's input to `pipelines.medallion`: settings, a report, and a Spark session that opens on first use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.protocol import bronze_owner
from lakehouse.run.context import Run
from lakehouse.run.lock import locked, require_no_run
from lakehouse.settings import formats
from lakehouse.spark import session, storage_errors
from lakehouse.table import Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Report, SchemaRegistry
    from lakehouse.settings.pipeline import Settings


class Job:
    """One command on one pipeline, or several runs of it in succession. Opens the session when `spark` is first read."""

    def __init__(self, settings: Settings, report: Report, open_spark: Callable[[], SparkSession]) -> None:
        self.settings = settings
        self.report = report
        self._open_spark = open_spark

    @classmethod
    def on(cls, spark: SparkSession, settings: Settings, report: Report) -> Job:
        """A job on an open session."""
        return cls(settings, report, lambda: spark)

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        return self._open_spark()

    @cached_property
    def registry(self) -> SchemaRegistry | None:
        """The schema registry, which caches its answers."""
        return formats.load("registry").SchemaRegistry(self.settings.registry) if self.settings.registry is not None else None

    def telling(self, report: Report) -> Job:
        """The same job on the same session, with another report."""
        return Job(self.settings, report, lambda: self.spark)

    def new_run(self) -> Run:
        """Return a run of the pipeline with a new identifier."""
        return Run(self.settings.pipeline, Lakehouse.of(self.settings), self.report, registry=self.registry)

    @contextlib.contextmanager
    def alone(self, run: Run, *, wait_seconds: float = 0) -> Iterator[None]:
        """Exclude other writers from the run's lakehouse.

        The session opens before the lock is taken, because a JVM takes seconds to start. Without a wait, the lock is also tried
        before that.

        Raises:
            TableStateError: The tables belong to another pipeline.
            AnotherWriterError: Another run is still writing after `wait_seconds`.
            StorageError: The disk is full, or refuses access.
        """
        if not wait_seconds:
            require_no_run(run.lakehouse)
        _ = self.spark
        with storage_errors_named(run.lakehouse), locked(run.lakehouse, wait_seconds=wait_seconds):
            self.require_own(run)
            yield

    def require_own(self, run: Run) -> None:
        """Require that the tables belong to this pipeline, and that commits are put-if-absent. Every writer calls it first.

        Raises:
            TableStateError: The tables belong to another pipeline.
            ToolError: The tables are in S3, and the session would overwrite another writer's commit.
        """
        session.require_log_store(self.spark, run.lakehouse)
        bronze_owner.read_owner(self.spark, run)


@contextlib.contextmanager
def storage_errors_named(lakehouse: Lakehouse) -> Iterator[None]:
    """Raise a StorageError instead of the error of a disk that is full or refuses access."""
    try:
        yield
    except (OSError, *SPARK_ERRORS) as error:
        failure = storage_errors.failure(error, lakehouse)
        if failure is None:
            raise
        raise failure from error
