"""Ours, as a peer among the others: a Silver load, and the way from Kafka over Bronze to Silver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.loads import Place, Silent, settings_of
from bench.peers.job import Answer
from bench.sitting import WrongResultError
from bronze.ingest import ingest
from lakehouse.extract.sources import Sources
from lakehouse.run.context import Run
from lakehouse.table import SILVER_RECORDS, SILVER_REJECTS, SILVER_WATERMARKS, Lakehouse
from silver.load import steps
from silver.rules import Rules
from silver.state import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.peers.job import Job
    from lakehouse.settings.pipeline import Settings


def prepare(spark: SparkSession, job: Job) -> None:
    """Create Silver's tables."""
    settings, run = _known(spark, job)
    tables.create_tables(spark, run, Rules.of(settings))


def load_silver(spark: SparkSession, job: Job) -> Answer:
    """One load of what Bronze gained."""
    settings, run = _known(spark, job)
    if steps.load_once(spark, run, Rules.of(settings)) is None:
        raise WrongResultError("Bronze gained nothing, and a load was to be measured")
    return Answer(
        table=_folder(run, SILVER_RECORDS), rejects=_folder(run, SILVER_REJECTS), state=_folder(run, SILVER_WATERMARKS)
    )


def fill_bronze(spark: SparkSession, job: Job) -> Answer:
    """Bronze, as it is when it has all of the topic."""
    settings, run = _known(spark, job)
    return Answer(version=ingest(spark, run, settings.kafka, Sources.of(settings)).to_version)


def ingest_and_load(spark: SparkSession, job: Job) -> Answer:
    """Both stages, one after the other."""
    fill_bronze(spark, job)
    return load_silver(spark, job)


def _known(spark: SparkSession, job: Job) -> tuple[Settings, Run]:
    settings = settings_of(Place(spark, job.servers, Path(job.root)), job.topic, Path(job.root))
    return settings, Run(settings.pipeline, Lakehouse(root=job.root), Silent())


def _folder(run: Run, name: str) -> str:
    return run.table(name).location
