"""The demo's input, really sent: Bronze holds exactly what the plan says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from bronze.ingest import ingest
from jobs.demo.events import EVENTS_TOPIC, events, plan_events
from jobs.demo.producer import INCIDENTS_TOPIC, incidents, produce, send
from lakehouse.errors import SourceError
from lakehouse.settings.pipeline import Kafka
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.run.context import Run

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_bronze_holds_what_the_demo_says_it_sent(spark: SparkSession, run: Run, broker: LocalBroker) -> None:
    sent = send(broker.bootstrap_servers, records=2_000)
    kafka = Kafka(bootstrap_servers=broker.bootstrap_servers, topics=(INCIDENTS_TOPIC, EVENTS_TOPIC))
    assert ingest(spark, run, kafka).records == sent.records == 2_015
    assert sum(sent.classes.values()) == 2_000
    assert sent.incidents == {"A": [1, 6, 7, 8], "B": [2, 5, 9, 11], "C": [3, 4, 10]}
    rows = spark.read.table(run.table(BRONZE_RECORDS).sql).orderBy("offset").collect()
    assert [row["value"] for row in rows if row["topic"] == INCIDENTS_TOPIC and row["partition"] == 1] == [
        record.value for record in incidents() if record.partition == 1
    ]
    planned = Counter(record.partition for record in events(plan_events(2_000)))
    assert Counter(row["partition"] for row in rows if row["topic"] == EVENTS_TOPIC) == planned


def test_records_that_the_broker_refuses_are_an_error(broker: LocalBroker, topic: Callable[..., str]) -> None:
    with pytest.raises(SourceError, match="could not be sent"):
        produce(broker.bootstrap_servers, topic(1), (record for record in incidents() if record.partition == 1))
