"""The published runs (`tests/support/published.py`), a partition each, through one load. Long blocks of Pulsar repeat only a
thousand numbers; `tests/silver/audit/test_arrival_order.py` has them whole. Timestamps distinguish who sent a block again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.run.context import Run
from pipelines.arrival_order import orders
from silver.audit.arrival_order import diagnose
from silver.load import steps
from silver.rules import Rules
from silver.state import tables
from tests.support.bronze import Record, put, put_spans
from tests.support.published import EXAMPLE, IN_ORDER, KAFKA, KAFKA_CONNECTIONS_KILLED, KAFKA_LEADER_KILLED, PULSAR
from tests.support.small_config import settings_of

pytestmark = pytest.mark.slow

REPLAYED = [*KAFKA, *{run.row.duplicates: run for run in PULSAR}.values(), IN_ORDER, EXAMPLE]
"""Of Pulsar's runs one of each size of its block: many have one of 10,000."""

BY_VALUE = {"value": "utf8"}
SPANS = [published.spans(below=3, again=1_000) for published in REPLAYED]
CLASSES = {
    KAFKA_CONNECTIONS_KILLED.name: (100_970, 8_232, 8_264),
    KAFKA_LEADER_KILLED[0].name: (2_641, 819, 2_449),
    KAFKA_LEADER_KILLED[1].name: (2_613, 791, 2_437),
    **{run.name: (3 + max(1_000, run.row.duplicates), min(1_000, run.row.duplicates), 0) for run in REPLAYED if run in PULSAR},
    IN_ORDER.name: (1_000, 0, 0),
    EXAMPLE.name: (25, 9, 19),
}
"""Accepted, duplicate and late records of each run."""


def test_published_jumps_are_found_and_every_number_is_kept_once_in_its_class(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run, sequence=BY_VALUE, policies={"late": "accept"})
    rules = Rules.of(settings)
    put_spans(spark, run, dict(enumerate(SPANS)))
    arrived = {order.stream[1]: [str(jump) for jump in order.jumps] for order in orders(spark, run, settings)["bronze"]}
    assert arrived == {each: list(published.jumps) for each, published in enumerate(REPLAYED)}
    assert list(arrived) == sorted(arrived)

    tables.create_tables(spark, run, rules)
    steps.load_once(spark, run, rules)

    silver, number = spark.read.table(run.table("silver_records").sql), F.col("sequence")
    found = silver.groupBy("partition").agg(F.count("*"), F.count_distinct(number), F.min(number), F.max(number)).collect()
    sent = [(min(first for first, _ in spans), max(last for _, last in spans)) for spans in SPANS]
    assert {tuple(row) for row in found} == {
        (partition, last - first + 1, last - first + 1, first, last) for partition, (first, last) in enumerate(sent)
    }
    ledger = spark.read.table(run.table("silver_loads").sql).orderBy("partition").collect()
    classes = {REPLAYED[row["partition"]].name: (row["accepted"], row["duplicate"], row["late"]) for row in ledger}
    assert classes == CLASSES
    assert sum(row["records"] for row in ledger) == sum(map(sum, CLASSES.values()))
    assert [row["late_accepted"] for row in ledger] == [row["late"] for row in ledger]


_AT = datetime(2026, 11, 26, 20, tzinfo=UTC)


def sent(partition: int, *numbers: tuple[int, datetime | None]) -> list[Record]:
    made = [(Record.of(offset, number, partition=partition), at) for offset, (number, at) in enumerate(numbers)]
    return [replace(record, timestamp=at) for record, at in made]


@pytest.mark.usefixtures("created_tables")
def test_a_block_is_a_retry_if_it_has_the_timestamps_of_its_first_copy(spark: SparkSession, run: Run) -> None:
    first = [(number, _AT + timedelta(milliseconds=number)) for number in (1, 2, 3)]
    later = [(number, at + timedelta(seconds=9)) for number, at in first]
    unknown = [(number, None) for number, _ in first]
    put(spark, run, [*sent(0, *first, *first), *sent(1, *first, *later), *sent(2, *unknown, *unknown), *sent(3, *first[::2])])

    found = orders(spark, run, settings_of(run))["bronze"]
    contiguous = orders(spark, run, settings_of(run, policies={"contiguous": True}))["bronze"]

    assert {order.stream[1]: [jump.is_retry for jump in order.jumps] for order in found} == {
        0: [True],
        1: [False],
        2: [None],
        3: [None],  # a gap
    }
    named = [["client_retries"], ["resends"], ["resends"], []]
    assert [[finding.name for finding in diagnose(order)] for order in found] == named
    assert [finding.name for finding in diagnose(contiguous[3])] == ["lost"]  # what is missing where nothing may be
