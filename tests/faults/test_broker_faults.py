"""A read is cut short: the broker dies, the disk is full. Nothing is lost, nothing is twice."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from bronze.ingest import ingest
from lakehouse.errors import SourceError, StorageError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Kafka
from lakehouse.table import BRONZE_RECORDS
from tests.faults.conftest import Disk
from tests.support.kafka import Sent, send
from tidemark.extras.demo.broker import LocalBroker, create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.fault]

_TOPIC = "faults"
_RECORDS = 60_000
_STEP = 10_000


class AtProgress:
    """A report that does something once, when the first micro-batch is in the table."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act: Callable[[], object] | None = act

    def event(self, name: str, **_fields: object) -> None:
        if name == "bronze.progress" and self.act is not None:
            act, self.act = self.act, None
            act()


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as started:
        create_topic(started.bootstrap_servers, _TOPIC, 2)
        records = [Sent(b"%d" % number + b"." * 100, partition=number % 2) for number in range(_RECORDS)]
        send(started.bootstrap_servers, _TOPIC, records)
        yield started


def read_all(spark: SparkSession, run: Run, servers: str, *, attempts: int) -> list[str]:
    patience: dict[str, SecretStr | str] = {"default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
    kafka = Kafka(bootstrap_servers=servers, topics=(_TOPIC,), max_offsets_per_trigger=_STEP, properties=patience)
    failures = []
    for _ in range(attempts):
        try:
            ingest(spark, run, kafka)
        except SourceError as error:
            failures.append(str(error))
        else:
            return failures
    raise AssertionError(failures)


def assert_each_once(spark: SparkSession, run: Run) -> None:
    rows = spark.read.table(run.table(BRONZE_RECORDS).sql).select("partition", "offset", "value").toArrow().to_pylist()
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        (partition, offset) for partition in range(2) for offset in range(_RECORDS // 2)
    ]
    assert len({row["value"] for row in rows}) == _RECORDS


def test_a_broker_killed_in_a_read_costs_nothing(spark: SparkSession, new_run: Callable[[], Run], broker: LocalBroker) -> None:
    def die_and_come_back() -> None:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        threading.Timer(3, broker.start).start()

    report = AtProgress(die_and_come_back)
    run = Run("tests", new_run().lakehouse, report)
    read_all(spark, run, broker.bootstrap_servers, attempts=4)
    assert report.act is None
    assert_each_once(spark, run)


def test_a_disk_that_is_full_under_the_checkpoint_in_the_middle_of_a_read_is_named_and_costs_nothing(
    spark: SparkSession, new_run: Callable[[], Run], broker: LocalBroker, tmp_path: Path, disk: Callable[[Path], Disk]
) -> None:
    full = disk(tmp_path / "lakehouse" / "_checkpoints")
    report = AtProgress(full.fill)
    with pytest.raises(StorageError, match=r"A disk is full(.|\n)*No space left on device(.|\n)*for the checkpoint"):
        read_all(spark, Run("tests", new_run().lakehouse, report), broker.bootstrap_servers, attempts=1)
    assert report.act is None
    full.clear()
    assert read_all(spark, new_run(), broker.bootstrap_servers, attempts=1) == []
    assert_each_once(spark, new_run())
