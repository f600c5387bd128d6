"""Topics that cannot be read, on a real broker: a batch that rotted on disk, and runs that skip such topics."""

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.sql import Row, SparkSession

from bronze.ingest import ingest
from lakehouse.errors import BatchCorruptError, SourceError, TopicsSkippedError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from lakehouse.table import BRONZE_TOPICS, GOLD_RECORDS, SILVER_LOADS
from pipelines import medallion, refusals
from pipelines.job import Job
from tests.bronze.progress.test_topic_breaks import accept, job_of, load, offsets, read
from tests.conftest import Runs, Topics
from tests.support.kafka import Sent, delete_records, delete_topic, produce, send, sequenced
from tidemark.extras.demo.broker import LocalBroker, create_topic
from tidemark.readers import topics
from tidemark.readers.status import status

_FRAME = struct.Struct(">qi")  # of a batch in a log: its first offset, and the bytes that follow
_ATTRIBUTES, _LAST_OFFSET_DELTA = 22, 23  # where in a batch they are; the first says how it is compressed


class Batch(NamedTuple):
    first_offset: int
    last_offset: int
    start: int  # in the file
    end: int


def send_batch(broker: LocalBroker, topic: str, records: list[Sent]) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1000, "enable.idempotence": True, "log_level": 3}
    produce(Producer(config), topic, records)


def log_of(broker: LocalBroker, topic: str) -> Path:
    """The log of partition 0, as the broker keeps it on this machine."""
    return broker.data_dir / "data" / f"{topic}-0" / f"{0:020}.log"


def batches(broker: LocalBroker, topic: str) -> list[Batch]:
    log, at, found = log_of(broker, topic).read_bytes(), 0, list[Batch]()
    while at + _FRAME.size <= len(log) and (length := _FRAME.unpack_from(log, at)[1]) > 0:
        first, end = _FRAME.unpack_from(log, at)[0], at + _FRAME.size + length
        (delta,) = struct.unpack_from(">i", log, at + _LAST_OFFSET_DELTA)
        found.append(Batch(first, first + delta, at, end))
        at = end
    return found


def corrupt(broker: LocalBroker, topic: str, offset: int, *, at: int = -1) -> None:
    """Flip all bits of a byte in the batch that has an offset: its last byte, or the one `at` a place in it."""
    batch = next(each for each in batches(broker, topic) if each.first_offset <= offset <= each.last_offset)
    with log_of(broker, topic).open("r+b") as log:
        log.seek(batch.end - 1 if at < 0 else batch.start + at)
        (byte,) = log.read(1)
        log.seek(-1, 1)
        log.write(bytes([byte ^ 0xFF]))


def test_corrupt_batches_are_named_and_then_accepted(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name = topic(2)
    job = job_of(spark, run, broker, name)
    for start in range(0, 50, 10):
        send_batch(broker, name, sequenced(*range(start, start + 10)))
    send_batch(broker, name, sequenced(*range(100, 110), partition=1))
    assert [each[:2] for each in batches(broker, name)] == [(start, start + 9) for start in range(0, 50, 10)]
    corrupt(broker, name, 15)
    corrupt(broker, name, 35)

    named = f"{name} partition 0: offsets 10 to 19, 10 in all, cannot be decoded"
    for _ in range(2):
        with pytest.raises(BatchCorruptError) as refused:
            load(job)
        assert refused.value.observed == named
        assert f"`tidemark topic accept {name} --reason" in str(refused.value.next_step)
    found = refusals.find(job)["bronze"]
    assert (found and found.observed) == named

    lost = [{"partition": 0, "first_offset": start, "last_offset": start + 9} for start in (10, 30)]
    planned = accept(job, name, is_dry_run=True)
    assert (planned["cause"], planned["lost"], planned["numbering"]) == ("corrupt", lost, None)
    assert offsets(spark, run) == []
    assert accept(job, name, reason="a disk died")["load_seq"] == 1
    read_before = [(name, 0, each) for each in (*range(10), *range(20, 30))]
    assert offsets(spark, run) == read_before
    load(job)
    rest = [*((name, 0, each) for each in range(40, 50)), *((name, 1, each) for each in range(10))]
    assert offsets(spark, run) == [*read_before, *rest]
    assert accept(job, name)["cause"] is None

    ledger = [row for row in read(spark, run, SILVER_LOADS, "load_seq") if row["kind"] == "accept"]
    assert [(row["partition"], row["reason"]) for row in ledger] == [(0, "a disk died")]
    assert json.loads(ledger[0]["request"])["accepted"]["lost"] == lost
    noted = topics.known(run.lakehouse)[-1]
    assert (noted["cause"], noted["lost"], noted["accepted_by"]) == ("corrupt", lost, "ann")
    result: Any = medallion.run(job)
    assert result["gold"]["records"] == 40
    assert medallion.verify(job, is_deep=True)["ok"]


def test_a_batch_may_rot_once_bronze_has_all_of_it(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name = topic()
    job = job_of(spark, run, broker, name)
    send_batch(broker, name, sequenced(*range(10)))
    send_batch(broker, name, sequenced(*range(10, 20)))
    kafka = job.settings.kafka.model_copy(update={"starting_offsets": {name: {"0": 13}}})
    started = Job.on(spark, job.settings.model_copy(update={"kafka": kafka}), run.report)
    corrupt(broker, name, 5)
    corrupt(broker, name, 15, at=_ATTRIBUTES)
    with pytest.raises(BatchCorruptError) as refused:
        load(started)
    assert refused.value.topics == (name,)
    assert f"{name} partition 0: offsets 13 to 19, 7 in all" in str(refused.value.observed)
    assert accept(started, name)["lost"] == [{"partition": 0, "first_offset": 13, "last_offset": 19}]
    send(broker.bootstrap_servers, name, sequenced(20))
    load(started)
    assert offsets(spark, run) == [(name, 0, 20)]
    assert refusals.find(started)["bronze"] is None


def skipping(job: Job) -> Job:
    kafka = job.settings.kafka.model_copy(update={"on_unreadable_topic": "skip"})
    return Job.on(job.spark, job.settings.model_copy(update={"kafka": kafka}), job.report)


def published(spark: SparkSession, run: Run) -> set[tuple[str, int]]:
    return {(row["topic"], row["sequence"]) for row in read(spark, run, GOLD_RECORDS, "offset")}


def skipped_in(settings: Settings, run: Run) -> dict[str, str]:
    found = status(run.pipeline, run.lakehouse, topics=settings.kafka.topics)["skipped_topics"]
    return {each["topic"]: each["reason"] for each in found}


def noted(spark: SparkSession, run: Run) -> list[Row]:
    return read(spark, run, BRONZE_TOPICS, "known_since")


def test_only_unreadable_topics_are_skipped(spark: SparkSession, new_run: Runs, broker: LocalBroker, topic: Topics) -> None:
    whole, rotten, expired, recreated, missing = topic(), topic(), topic(), topic(), "to-come"
    run, servers = new_run(), broker.bootstrap_servers
    job = skipping(job_of(spark, run, broker, whole, rotten, expired, recreated, missing))
    for name in (whole, rotten, expired, recreated):
        send(servers, name, sequenced(1))
    report: Any = run.report

    def skips(*names: str) -> TopicsSkippedError:
        report.seen.clear()
        with pytest.raises(TopicsSkippedError) as raised:
            medallion.run(job)
        assert raised.value.exit_code == 1
        assert set(raised.value.topics) == set(names)
        assert {str(each["topic"]) for each in report.named("bronze.topic_failed")} == set(names)
        assert skipped_in(job.settings, run).keys() == set(names)
        return raised.value

    first = skips(missing)
    assert "does not exist" in str(first.observed)
    of_first = {(name, 1) for name in (whole, rotten, expired, recreated)}
    assert published(spark, run) == of_first

    send_batch(broker, rotten, sequenced(2, 3))
    corrupt(broker, rotten, 1)
    send(servers, rotten, sequenced(4))
    send(servers, expired, sequenced(2, 3))
    delete_records(servers, expired, before=2)
    delete_topic(servers, recreated)
    create_topic(servers, recreated, 1)
    send(servers, recreated, sequenced(1, 2))
    send(servers, whole, sequenced(2))
    failed = skips(rotten, expired, recreated, missing)
    for said in ("offsets 1 to 2, 2 in all, cannot be decoded", "offsets 1 to 1, 1 in all, are gone", "deleted and recreated"):
        assert said in str(failed.observed)
    assert published(spark, run) == of_first | {(whole, 2)}

    rows = noted(spark, run)
    send(servers, whole, sequenced(3))
    skips(rotten, expired, recreated, missing)
    queries = [each for each in report.named("bronze.started") if "from_version" in each]
    assert len(queries) == 1, "what is known to be unreadable costs no failed query"
    assert noted(spark, run) == rows
    assert published(spark, run) == of_first | {(whole, 2), (whole, 3)}

    for name in (rotten, expired, recreated):
        accept(job, name, numbering="same")
    create_topic(servers, missing, 1)
    send(servers, missing, sequenced(1))
    medallion.run(job)
    assert skipped_in(job.settings, run) == {}
    after = {(rotten, 4), (expired, 3), (f"{recreated}@2", 2), (missing, 1)}
    assert published(spark, run) == of_first | {(whole, 2), (whole, 3)} | after
    assert medallion.verify(job, is_deep=True)["ok"]
    medallion.run(job)
    delete_topic(servers, missing)


def test_where_no_topic_can_be_read_silver_goes_on(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(), broker.bootstrap_servers
    job = skipping(job_of(spark, run, broker, name))
    send(servers, name, sequenced(1, 2))
    medallion.run(job, "bronze")
    send_batch(broker, name, sequenced(3))
    corrupt(broker, name, 2)
    with pytest.raises(TopicsSkippedError):
        medallion.run(job)
    assert published(spark, run) == {(name, 1), (name, 2)}
    accept(job, name)
    medallion.run(job)
    assert skipped_in(job.settings, run) == {}

    gone = job_of(spark, run, broker, "no-such-topic", "nor-this")
    with pytest.raises(TopicsSkippedError, match="does not exist"):
        medallion.run(skipping(gone))
    kafka = job.settings.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(SourceError, match="No Kafka broker answers"):
        ingest(spark, run, kafka)
