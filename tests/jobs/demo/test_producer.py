"""The demo's input, really sent: Bronze holds exactly what the plan says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tidemark_producer import Headers

from bronze.ingest import ingest
from jobs.demo.events import EVENTS_TOPIC, events, plan_events
from jobs.demo.producer import (
    INCIDENTS_TOPIC,
    expected,
    incidents,
    produce,
    produce_numbered,
    send_events,
    send_incidents,
    sequence_of,
)
from lakehouse.errors import SourceError
from lakehouse.settings.pipeline import Kafka
from lakehouse.table import BRONZE_RECORDS
from tests.support.topics import records_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.run.context import Run

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_bronze_holds_what_the_demo_says_it_sent(spark: SparkSession, run: Run, broker: LocalBroker) -> None:
    sent = expected(2_000)
    assert send_incidents(broker.bootstrap_servers) + send_events(broker.bootstrap_servers, 2_000) == sent.records == 2_015
    kafka = Kafka(bootstrap_servers=broker.bootstrap_servers, topics=(INCIDENTS_TOPIC, EVENTS_TOPIC))
    assert ingest(spark, run, kafka).records == sent.records
    assert sum(sent.classes.values()) == 2_000
    assert sent.incidents == {"A": [1, 6, 7, 8], "B": [2, 5, 9, 11], "C": [3, 4, 10]}
    rows = spark.read.table(run.table(BRONZE_RECORDS).sql).orderBy("offset").collect()
    assert [row["value"] for row in rows if row["topic"] == INCIDENTS_TOPIC and row["partition"] == 1] == [
        record.value for record in incidents() if record.partition == 1
    ]
    planned = Counter(record.partition for record in events(plan_events(2_000)))
    assert Counter(row["partition"] for row in rows if row["topic"] == EVENTS_TOPIC) == planned


def test_what_arrives_of_producers_that_crash_is_the_plan_record_by_record(
    broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, sent = topic(2), list(events(plan_events(1_000, partitions=2)))
    assert produce_numbered(broker.bootstrap_servers, name, sent, sequence_of, Headers(None, None, "seq")) == 1_000
    arrived = records_of(broker.bootstrap_servers, name)
    for partition in range(2):
        planned = [(each.key, each.value, each.headers) for each in sent if each.partition == partition]
        found = [each for each in arrived if each.partition == partition]
        assert [(each.key, each.value, each.headers) for each in found] == planned


def test_records_that_the_broker_refuses_are_an_error(broker: LocalBroker, topic: Callable[..., str]) -> None:
    with pytest.raises(SourceError, match="could not be sent"):
        produce(broker.bootstrap_servers, topic(1), (record for record in incidents() if record.partition == 1))
    small = topic(1, {"cleanup.policy": "delete", "max.message.bytes": "100"})
    first = [record for record in events(plan_events(100)) if record.partition == 0]
    with pytest.raises(SourceError, match="could not be sent"):
        produce_numbered(broker.bootstrap_servers, small, first, sequence_of, Headers(None, None, "seq"))
