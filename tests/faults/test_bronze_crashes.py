"""A process that is killed at each crash point of Bronze: the next run reads every record, once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from bronze.dev_broker.broker import LocalBroker, create_topic
from bronze.ingest import ingest
from lakehouse.settings.pipeline import Kafka
from lakehouse.table import BRONZE_RECORDS, BRONZE_TOPICS, SILVER_LOADS
from tests.support.kafka import Sent, delete_records, send
from tests.support.programs import ended
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.fault]

_INGEST = ("jobs.ingest_bronze",)
_ACCEPT = ("jobs.cli", "topic", "accept", "t", "--reason", "known")


def test_killed_at_each_point_of_a_read_and_of_an_acceptance_bronze_holds_every_record_once(
    spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path
) -> None:
    run = new_run()

    def rows(table: str) -> list[Any]:
        return spark.read.table(run.table(table).sql).collect()

    with LocalBroker() as broker:
        servers = broker.bootstrap_servers
        config = write_config(tmp_path, root=str(run.lakehouse.root), kafka={"bootstrap_servers": servers, "topics": ["t"]})
        create_topic(servers, "t", 1)
        for number, point in enumerate(["bronze.created", "bronze.topics_noted", "bronze.started", "bronze.ingested"]):
            send(servers, "t", [Sent(b"%d" % number)])
            assert ended(config, *_INGEST, at=point) == -signal.SIGKILL, point
        assert sorted(row["offset"] for row in rows(BRONZE_RECORDS)) == [0, 1, 2, 3]

        send(servers, "t", [Sent(b"4"), Sent(b"5")])
        delete_records(servers, "t", before=5)
        # Killed between the ledger and Bronze's note, and asked again, it is one decision.
        assert ended(config, *_ACCEPT, at="topic.claimed") == -signal.SIGKILL
        assert ended(config, *_ACCEPT, at="topic.accepted") == -signal.SIGKILL
        assert ended(config, *_ACCEPT) == 0
        ingest(spark, new_run(), Kafka(bootstrap_servers=servers, topics=("t",)))
    assert sorted(row["offset"] for row in rows(BRONZE_RECORDS)) == [0, 1, 2, 3, 5]
    assert sorted(row["cause"] for row in rows(BRONZE_TOPICS)) == ["begun", "expired"]
    assert [(row["load_seq"], row["kind"], row["last_offset"]) for row in rows(SILVER_LOADS)] == [(1, "accept", -1)]
