"""Measures change events to Bronze and to Silver, with the position as Debezium writes it and with a sequence in a header."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.loads import Silent, settings_of
from bench.shapes import Shape
from bench.sitting import Sitting, require
from bench.topics import HEADER, PARTITIONS
from bench.whole import TO_BRONZE
from bronze.ingest import ingest
from lakehouse.extract.sources import Sources
from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from silver.load import steps
from silver.rules import Rules
from silver.state.tables import create_tables
from tidemark.extras.demo.broker import create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.loads import Place

IN_EVENT, IN_HEADER = "change events of 1 kB by their position", "those by header"
LOAD = "Silver load"
SEQUENCES = {IN_EVENT: {"debezium": "postgres"}, IN_HEADER: {"header": HEADER}}

_EVENT = (
    '{"before":null,"after":{"id":%d,"note":"%s"},"source":{"version":"3.6.1.Final","connector":"postgresql","name":"shop",'
    '"ts_ms":1559033904863,"snapshot":"false","db":"shop","sequence":"[\\"%d\\",\\"%d\\"]","schema":"public","table":"t",'
    '"txId":%d,"lsn":%d,"xmin":null},"op":"c","ts_ms":1559033904863,"transaction":{"id":"%d","total_order":%d}}'
)


def measure(sitting: Sitting, place: Place, records: int, rounds: int) -> None:
    """Send a topic of change events, and take it in, in turns, with each sequence.

    Raises:
        WrongResultError: A load did not accept all records.
    """
    records = records // PARTITIONS * PARTITIONS
    sitting.tell(f"Events: sending {records:,} change events")
    create_topic(place.servers, "events", PARTITIONS)
    kafka = {"kafka.bootstrap.servers": place.servers, "topic": "events", "includeHeaders": "true"}
    _events(place.spark, records).write.format("kafka").options(**kafka).save()
    for pattern in SEQUENCES:
        _take_in(Sitting(), place, pattern, records)
    for _ in range(rounds):
        turn = sitting.start_round()
        for pattern in sorted(SEQUENCES, reverse=turn % 2 == 0):
            _take_in(sitting, place, pattern, records)


def _events(spark: SparkSession, records: int) -> DataFrame:
    """Inserts as Debezium writes them, ten in a transaction, with a sequence in a header too."""
    made = Shape("", 0, has_gaps=False).records(spark, records)
    transaction = F.floor(F.col("offset") / 10)
    lsn, commit = 24_000_000 + F.col("offset") * 120, 24_000_000 + transaction * 1_200
    note = F.concat(F.hex("value"), F.sha2("value", 512), F.sha2(F.reverse("value"), 512))
    columns = (F.col("offset"), note, commit, lsn, transaction, lsn, transaction, F.col("offset") % 10 + 1)
    return made.select("partition", "key", "headers", F.format_string(_EVENT, *columns).cast("binary").alias("value"))


def _take_in(sitting: Sitting, place: Place, pattern: str, records: int) -> None:
    """Ingest the topic into a new Bronze, which reads the sequences, and load it."""
    root = place.folder / "events"
    settings = settings_of(place, "events", root, sequence=SEQUENCES[pattern])
    run, rules = Run("bench", Lakehouse(root=str(root)), Silent()), Rules.of(settings)
    create_tables(place.spark, run, rules)

    def load() -> int:
        done = steps.load_once(place.spark, run, rules)
        return done.counts["accepted"] if done else 0

    sitting.measure(pattern, TO_BRONZE, records, lambda: ingest(place.spark, run, settings.kafka, Sources.of(settings)))
    require(f"accepted, {pattern}", observed=sitting.measure(pattern, LOAD, records, load), expected=records)
    shutil.rmtree(root)
