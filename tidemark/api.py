"""The functions of `tidemark`: the commands, called from Python.

Every function takes:

- `config`: the pipeline's YAML file, or its content as a mapping;
- `spark`: the session to use, which is never stopped; without one, the platform's, or one that is started if needed;
- `overrides`: values by dotted key, as `--set` has them: `{"kafka.topics": ["orders"]}`. Texts are read as YAML.

Every function raises a `TidemarkError`: a `ConfigError` if the config is wrong, a `ToolError` if the session lacks Delta, a
`UsageError` for a wrong argument, or what is named there. Progress goes to Python's logger `tidemark`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import QUARANTINED
from lakehouse.errors import TableStateError, UsageError
from lakehouse.run.findings import require_sound
from lakehouse.table import Lakehouse
from silver.state.request import RecordFilter, Request
from tidemark.answers import Fate, Plan, Quarantine, RunResult, Settled, Status, Verification, from_plain
from tidemark.process.output import MAX_TABLE_ROWS
from tidemark.process.requests import named_reason, to_filter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.settings.pipeline import Settings
    from pipelines.job import Job
    from silver.state.request import Kind
    from tidemark.process.context import Config

    Overrides = Mapping[str, object]

_MOST_DAYS = 1_000_000


class NotSoundError(TableStateError):
    """A check of `verify` does not hold. The message is about the first such check; `verification` has all."""

    verification: Verification


def run(
    config: Config, spark: SparkSession | None = None, stage: str | None = None, overrides: Overrides | None = None
) -> RunResult:
    """Run the pipeline once: Bronze, Silver, the gate and Gold, or one `stage` of these. Commits to their tables.

    Raises:
        GateFailedError: A critical expectation was not met; Gold is unchanged.
        AnotherWriterError: Another run is writing.
        BreakerOpenError: The load looks wrong as a whole; nothing of it was written.
        TopicsSkippedError: Topics that cannot be read were skipped; the others were published.
        SourceError: Kafka cannot be read.
        TidemarkError: A stage failed; what earlier stages committed stays, and the next run goes on.
    """
    with _job(config, spark, overrides) as job:
        from tidemark.runner.once import run_once

        return from_plain(RunResult, run_once(job, stage=stage))


def plan(config: Config, spark: SparkSession | None = None, overrides: Overrides | None = None) -> Plan:
    """Preview what the next load of Silver would do to each stream. AnotherWriterError while a run is active.

    Raises:
        TableMissingError: Bronze has not been written yet.
    """
    with _job(config, spark, overrides) as job:
        from pipelines import medallion

        return from_plain(Plan, medallion.plan(job))


def status(
    config: Config,
    spark: SparkSession | None = None,
    *,
    lag: bool = False,
    limit: int | None = MAX_TABLE_ROWS,
    overrides: Overrides | None = None,
) -> Status:
    """Read the pipeline's state from its tables: watermarks, classes, the gate's verdict, Gold. Tables in files need no Spark.

    `lag` asks Kafka how far Silver is behind. At most `limit` streams are listed; None lists all.
    """
    most = _number("limit", limit)
    with _settings(config, spark, overrides) as settings:
        from tidemark.readers import status as reading
        from tidemark.readers.lag import with_lag

        found = reading.status(settings.pipeline, Lakehouse.of(settings), topics=settings.kafka.topics, most_streams=most)
        return from_plain(Status, with_lag(found, settings) if lag else found)


def why(
    config: Config,
    topic: str,
    partition: int,
    offset: int,
    *,
    spark: SparkSession | None = None,
    overrides: Overrides | None = None,
) -> Fate:
    """Explain what became of one record, and by which rule; with the record's bytes.

    Raises:
        TidemarkError: Bronze holds no such record.
    """
    place = _text("topic", topic), _number("partition", partition) or 0, _number("offset", offset) or 0
    with _settings(config, spark, overrides) as settings:
        from tidemark.readers.why import why_with_record

        return from_plain(Fate, why_with_record(Lakehouse.of(settings), *place))


def quarantine(
    config: Config,
    *,
    kind: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    producer: str | None = None,
    older_than_days: float | None = None,
    limit: int | None = MAX_TABLE_ROWS,
    spark: SparkSession | None = None,
    overrides: Overrides | None = None,
) -> Quarantine:
    """List the records that wait for a decision: kept out of Silver, or by an expectation out of Gold.

    `kind` is `late`, `collision`, `invalid`, `jump`, `fenced`, or `unmet`: kept out of Gold. None as `limit` lists all.
    """
    wanted, most = _wanted(kind, topic, partition, None, producer=producer, days=older_than_days), _number("limit", limit)
    with _settings(config, spark, overrides) as settings:
        from tidemark.readers import quarantine as reading

        found, count = reading.held(Lakehouse.of(settings), wanted, most=most)
        return from_plain(Quarantine, {"records": found, "count": count})


def quarantine_release(
    config: Config,
    *,
    reason: str,
    by: str | None = None,
    kind: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    producer: str | None = None,
    older_than_days: float | None = None,
    everything: bool = False,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    overrides: Overrides | None = None,
) -> Settled:
    """Release waiting records into Silver, marked late, or into Gold. The next run audits and publishes them.

    Name one record by topic, partition and offset, several by filters as in `quarantine`, or all by `everything`. `reason` and
    `by`, the user of this machine by default, are kept in `silver_loads`. `dry_run` writes nothing.

    Raises:
        UsageError: It is not clear which records are meant, the reason is empty, or no held record is at the offset.
        AnotherWriterError: Another run is still writing after a minute.
    """
    wanted = _wanted(kind, topic, partition, offset, producer=producer, days=older_than_days)
    request = _request("release", reason, by, wanted, everything=everything)
    return _settled(config, spark, overrides, request, is_dry_run=dry_run)


def quarantine_discard(
    config: Config,
    *,
    reason: str,
    by: str | None = None,
    kind: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    producer: str | None = None,
    older_than_days: float | None = None,
    everything: bool = False,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    overrides: Overrides | None = None,
) -> Settled:
    """Discard waiting records: they stay listed, and in Bronze. Arguments and errors are those of `quarantine_release`."""
    wanted = _wanted(kind, topic, partition, offset, producer=producer, days=older_than_days)
    request = _request("discard", reason, by, wanted, everything=everything)
    return _settled(config, spark, overrides, request, is_dry_run=dry_run)


def verify(
    config: Config, *, deep: bool = False, spark: SparkSession | None = None, overrides: Overrides | None = None
) -> Verification:
    """Prove the tables against each other; `deep` reads every file whole and decides everything again. A run may be active.

    Raises:
        NotSoundError: A check does not hold; the error has all of them.
        TableMissingError: Silver has not been written yet.
    """
    with _job(config, spark, overrides) as job:
        from pipelines import medallion

        found = from_plain(Verification, medallion.verify(job, is_deep=deep))
        try:
            require_sound(found.checks)
        except TableStateError as error:
            parts = {name: getattr(error, name) for name in ("where", "observed", "expected", "next_step")}
            raised = NotSoundError(error.what, **parts)
            raised.verification = found
            raise raised from None
        return found


def sql(config: Config, query: str, *, spark: SparkSession | None = None, overrides: Overrides | None = None) -> pa.Table:
    """Query the tables by their names: in DuckDB's SQL for tables in files, in Spark's for those that a session reads.

    Raises:
        UsageError: It is not SQL, does more than read, or names a table that does not exist.
    """
    with _settings(config, spark, overrides) as settings:
        from tidemark.readers.database import run_query

        with run_query(Lakehouse.of(settings), _text("query", query)) as answer:
            return answer.arrow().read_all()


@contextlib.contextmanager
def _settings(config: Config, spark: SparkSession | None, overrides: Overrides | None) -> Iterator[Settings]:
    from lakehouse.config.load import as_yaml
    from tidemark.process.context import called_from_python, load_settings

    with called_from_python(spark):
        texts = {
            _text("overrides", key): os.fsdecode(value) if isinstance(value, str | os.PathLike) else as_yaml(value, key)
            for key, value in (overrides or {}).items()
        }
        yield load_settings(config, texts)


@contextlib.contextmanager
def _job(config: Config, spark: SparkSession | None, overrides: Overrides | None) -> Iterator[Job]:
    from tidemark.process.context import job_of

    with _settings(config, spark, overrides) as settings, job_of(settings) as job:
        yield job


def _settled(
    config: Config, spark: SparkSession | None, overrides: Overrides | None, request: Request, *, is_dry_run: bool
) -> Settled:
    with _job(config, spark, overrides) as job:
        from pipelines import medallion

        return from_plain(Settled, medallion.decide(job, request, is_dry_run=is_dry_run))


def _request(kind: Kind, reason: str, by: str | None, wanted: RecordFilter, *, everything: bool) -> Request:
    record, filters = RecordFilter(), wanted
    if wanted.offset is not None:
        record = RecordFilter(topic=wanted.topic, partition=wanted.partition, offset=wanted.offset)
        filters = RecordFilter(wanted.kind, producer=wanted.producer, days=wanted.days)
    return Request(kind, *named_reason(reason, by), wanted=to_filter(record, filters, everything=everything))


def _wanted(
    kind: str | None, topic: str | None, partition: int | None, offset: int | None, *, producer: str | None, days: object
) -> RecordFilter:
    if kind not in (None, UNMET, *QUARANTINED):
        raise UsageError("There is no such class.", where="kind", observed=kind, expected=", ".join([*QUARANTINED, UNMET]))
    if days is not None and not (isinstance(days, int | float) and 0 <= days <= _MOST_DAYS):
        raise UsageError("Not a number of days.", where="older_than_days", observed=repr(days), expected="0 to 1,000,000")
    for name, text in (("topic", topic), ("producer", producer)):
        if text is not None:
            _text(name, text)
    return RecordFilter(kind, topic, _number("partition", partition), _number("offset", offset), producer, days)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError("Not a text.", where=name, observed=type(value).__name__, expected="a str")
    return value


def _number(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise UsageError("Not a whole number from 0.", where=name, observed=repr(value), expected="an int, 0 or more")
    return value
