"""A topic that breaks, on a real broker: recreated, its records expired, its partitions added, its checkpoint damaged."""

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from bronze import ingest as ingesting
from bronze.ingest import ingest
from bronze.kafka.metadata import LookError
from bronze.progress import checkpoint, topic_registry
from bronze.progress.topic_registry import Growth
from lakehouse.delta import tables
from lakehouse.errors import OffsetsExpiredError, SourceError, TopicRecreatedError, UsageError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Kafka, Settings
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from pipelines import medallion
from pipelines.job import Job
from silver.state.request import RecordFilter, Request
from tests.bronze.test_ingest import kafka_of
from tests.conftest import RunAt, Runs, Topics
from tests.support.kafka import add_partitions, delete_records, delete_topic, send, send_transaction, sequenced
from tests.support.small_config import small_config
from tidemark.extras.demo.broker import LocalBroker, create_topic
from tidemark.readers import topics


def job_of(spark: SparkSession, run: Run, broker: LocalBroker, *topics: str, **more: Any) -> Job:
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": list(topics)}
    config = small_config(str(run.lakehouse.root), pipeline=run.pipeline, kafka=kafka, **more)
    return Job.on(spark, Settings.model_validate(config, context={"folder": Path()}), run.report)


def read(spark: SparkSession, run: Run, table: str, *order: str) -> list[Row]:
    return spark.read.table(run.table(table).sql).orderBy(*order).collect()


def offsets(spark: SparkSession, run: Run) -> list[tuple[str, int, int]]:
    rows = read(spark, run, BRONZE_RECORDS, "topic", "partition", "offset")
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def accept(
    job: Job, topic: str, *, is_dry_run: bool = False, reason: str = "known", numbering: str | None = "new"
) -> dict[str, Any]:
    request = Request("accept", reason, "ann", wanted=RecordFilter(topic=topic))
    return medallion.decide(job, request, is_dry_run=is_dry_run, numbering=numbering)


def load(job: Job) -> dict[str, Any]:
    return {stage: medallion.run(job, stage)[stage] for stage in ("bronze", "silver")}


def test_without_topic_ids_a_topic_that_is_shorter_than_before_is_refused(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, servers = topic(), broker.bootstrap_servers

    def unanswered(*_: object) -> None:
        raise LookError("no answer")

    monkeypatch.setattr(ingesting, "describe_topics", unanswered)
    kafka = kafka_of(broker, name)
    send(servers, name, sequenced(1, 2, 3))
    ingest(spark, run, kafka)
    report: Any = run.report
    assert report.named("bronze.topic_ids_unknown") == [{"why": "no answer"}]
    delete_topic(servers, name)
    create_topic(servers, name, 1)
    send(servers, name, sequenced(1))
    for _ in range(2):
        with pytest.raises(TopicRecreatedError, match="went back") as refused:
            ingest(spark, run, kafka)
        assert refused.value.observed == f"Partition {name}-0 offset was changed from 3 to 1"
        shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    assert len(offsets(spark, run)) == 3


def test_added_partitions_and_topics_are_read_whole(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, joining, servers = topic(), topic(), broker.bootstrap_servers
    send(servers, name, sequenced(1))
    ingest(spark, run, kafka_of(broker, name))
    for partitions in (2, 3):  # with a checkpoint, and without
        add_partitions(servers, name, partitions)
        send(servers, name, [*sequenced(partitions), *sequenced(1, 2, partition=partitions - 1)])
        assert ingest(spark, run, kafka_of(broker, name)).records == 3
        shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    send(servers, joining, sequenced(1, 2, 3))
    delete_records(servers, joining, before=1)  # what was gone before it joined is no loss
    send(servers, name, sequenced(4))
    ingest(spark, run, kafka_of(broker, name))
    assert ingest(spark, run, kafka_of(broker, name, joining)).records == 2
    found = [each[1:] for each in offsets(spark, run) if each[0] == name]
    assert found == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (2, 0), (2, 1)]
    for read in ((name,), (name,), (joining,), (name, joining)):  # a topic leaves the config, and comes back
        send(servers, name, sequenced(5))
        send(servers, joining, sequenced(4))
        ingest(spark, run, kafka_of(broker, *read))
    kept = [each[::2] for each in offsets(spark, run) if each[1] == 0]
    assert kept == sorted([(joining, each) for each in range(1, 7)] + [(name, each) for each in range(8)])


@pytest.mark.parametrize("properties", [{}, {"ssl.truststore.location": "/no/such/store.jks"}], ids=["brokers", "checkpoint"])
def test_added_partitions_are_noticed_and_then_read_until_senders_know_them(
    spark: SparkSession,
    new_run: Runs,
    broker: LocalBroker,
    topic: Topics,
    monkeypatch: pytest.MonkeyPatch,
    *,
    properties: dict[str, str],
) -> None:
    """The brokers say it before the records are read; where librdkafka cannot ask them, the checkpoint does, once they are."""
    name, servers = topic(2), broker.bootstrap_servers
    kafka = kafka_of(broker, name, properties=properties)

    def growth() -> Growth | None:
        return topic_registry.read(spark, new_run())[name].growth

    send(servers, name, sequenced(1))
    ingest(spark, new_run(), kafka)
    add_partitions(servers, name, 3)
    send(servers, name, sequenced(2, partition=2))
    with monkeypatch.context() as patched:
        patched.setattr(ingesting, "write_grown", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):  # it dies once all is read
            ingest(spark, new_run(), kafka)
    found = growth()
    assert found is not None
    assert (found.before, found.partitions, found.is_read) == (2, 3, False)
    ingest(spark, new_run(), kafka)
    assert growth() == found
    monkeypatch.setattr(ingesting, "_SENDERS_LEARN", timedelta(0))
    ingest(spark, new_run(), kafka)
    assert growth() == replace(found, is_read=True)
    add_partitions(servers, name, 4)
    send(servers, name, sequenced(3, partition=3))
    ingest(spark, new_run(), kafka)
    found = growth()
    assert found is not None
    assert (found.before, found.partitions, found.is_read) == (3, 4, False)


@pytest.fixture(scope="module")
def three_batches(
    spark: SparkSession, run_at: RunAt, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Kafka]:
    """The folder of a lakehouse whose Bronze read three records by a query each; the topic has two more by now."""
    folder, servers = tmp_path_factory.mktemp("bronze") / "lakehouse", broker.bootstrap_servers
    create_topic(servers, "three-batches", 1)
    kafka = kafka_of(broker, "three-batches")
    for number in range(3):
        send(servers, "three-batches", sequenced(number))
        ingest(spark, run_at(folder), kafka)
    send(servers, "three-batches", sequenced(3, 4))
    return folder, kafka


def copy_damaged(original: Path, folder: Path, *gone: str, empty: tuple[str, ...] = ()) -> None:
    shutil.copytree(original, folder)
    checkpoint = folder / "_checkpoints" / "bronze_records"
    for pattern in gone:
        for file in [*checkpoint.glob(pattern), *checkpoint.glob(f"{Path(pattern).parent}/.{Path(pattern).name}.crc")]:
            file.unlink(missing_ok=True)
    for file in map(checkpoint.joinpath, empty):
        file.touch()


# Files of a checkpoint that are gone, files that are empty, and the checkpoint that the next run continues with.
DAMAGES: list[tuple[tuple[str, ...], tuple[str, ...], int]] = [
    (("commits/2",), (), 1),
    (("offsets/2",), (), 2),
    (("offsets/2", "commits/2"), (), 2),  # put back from a backup
    (("metadata",), (), 2),
    (("offsets/2",), ("offsets/2",), 2),
    (("offsets/*", "commits/*", "sources/0/*"), (), 2),
]


def test_a_checkpoint_that_is_lost_in_part_loses_nothing_and_repeats_nothing(
    spark: SparkSession, run_at: RunAt, tmp_path: Path, three_batches: tuple[Path, Kafka]
) -> None:
    original, kafka = three_batches
    for nth, (gone, empty, chosen) in enumerate(DAMAGES):
        folder = tmp_path / str(nth)
        copy_damaged(original, folder, *gone, empty=empty)
        run = run_at(folder)
        ingest(spark, run, kafka)
        assert offsets(spark, run) == [("three-batches", 0, each) for each in range(5)], (gone, empty)
        assert (folder / "_checkpoints" / "bronze_records-2").exists() == (chosen == 2), (gone, empty)
        report: Any = run.report
        assert len(report.named("bronze.checkpoint_set_aside")) == chosen - 1, (gone, empty)

    # Spark's reader does not list an empty file, so this is not seen before Spark itself meets it.
    folder = tmp_path / "cut off"
    copy_damaged(original, folder, "commits/2", empty=("commits/2",))
    damaged = folder / "_checkpoints" / "bronze_records"
    with pytest.raises(SourceError, match="empty or cut off") as refused:
        ingest(spark, run_at(folder), kafka)
    assert f"Remove the folder {damaged}" in str(refused.value)
    shutil.rmtree(damaged)
    assert ingest(spark, run_at(folder), kafka).records == 2


def test_what_was_put_back_is_seen_after_many_commits_and_without_the_log(
    spark: SparkSession, run_at: RunAt, tmp_path: Path, three_batches: tuple[Path, Kafka]
) -> None:
    copy_damaged(three_batches[0], tmp_path / "long")
    for nth in range(12):
        tables.set_properties(spark, run_at(tmp_path / "long").table(BRONZE_RECORDS), {"tests.nth": str(nth)})
    copy_damaged(tmp_path / "long", tmp_path / "put back", "offsets/2", "commits/2")
    run, put_back = run_at(tmp_path / "long"), run_at(tmp_path / "put back")
    bronze = run.table(BRONZE_RECORDS)

    def chosen(run: Run, streamed: tables.Streamed | None = None) -> checkpoint.Checkpoint:
        return checkpoint.choose(spark, run, 1, streamed, {}).checkpoint

    def cut_log(folder: str) -> None:
        for commit in range(11):
            (tmp_path / folder / BRONZE_RECORDS / "_delta_log" / f"{commit:020}.json").unlink()

    last, known = tables.streamed(spark, bronze)
    assert known is not None
    assert (known.batch, chosen(run, known).number, chosen(put_back, known).number) == (2, 1, 2)
    cut_log("put back")
    assert tables.streamed(spark, put_back.table(BRONZE_RECORDS)) == (last, None)
    assert (chosen(put_back).number, chosen(put_back).is_begun) == (2, False)
    assert tables.last_batch(spark, put_back.table(BRONZE_RECORDS), known.query_id) == known
    assert [tables.last_batch(spark, bronze, query_id).batch for query_id in (known.query_id, "another")] == [2, -1]

    # A restore is seen where the log has lost the batches that it undid.
    assert chosen(run).number == 1
    spark.sql(f"RESTORE TABLE {bronze.sql} TO VERSION AS OF 1").collect()
    cut_log("long")
    assert tables.streamed(spark, bronze)[1] is None
    assert chosen(run).number == 2


def test_expired_offsets_are_named_and_then_accepted(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(2), broker.bootstrap_servers
    job = job_of(spark, run, broker, name)
    send(servers, name, [*sequenced(1, 2), *sequenced(1, partition=1)])
    send_transaction(servers, name, sequenced(3), commit=False)  # offsets 2 and 3: read, and not in Bronze
    load(job)
    send(servers, name, [*sequenced(3, 4, 5), *sequenced(2, partition=1)])  # offsets 4 to 6
    delete_records(servers, name, before=6)

    for _ in range(2):
        with pytest.raises(OffsetsExpiredError, match="no longer has records") as refused:
            ingest(spark, run, job.settings.kafka)
        assert refused.value.observed == f"{name} partition 0: offsets 4 to 5, 2 in all, are gone"
        assert f"tidemark topic accept {name}" in str(refused.value.next_step)
    with pytest.raises(UsageError, match=r"kafka\.topics does not name"):
        accept(job, "other")
    lost = [{"partition": 0, "first_offset": 4, "last_offset": 5}]
    assert accept(job, name, is_dry_run=True)["lost"] == lost
    assert accept(job, name, reason="retention was too short")["load_seq"] == 2
    load(job)

    assert offsets(spark, run) == [(name, 0, 0), (name, 0, 1), (name, 0, 6), (name, 1, 0), (name, 1, 1)]
    ledger = [row for row in read(spark, run, SILVER_LOADS, "load_seq") if row["kind"] == "accept"]
    accepted = [(row["partition"], row["high_watermark_after"], row["reason"]) for row in ledger]
    assert accepted == [(0, 2, "retention was too short")]
    assert json.loads(ledger[0]["request"])["accepted"]["lost"] == lost
    first, noted = topics.known(run.lakehouse)
    assert (first["cause"], first["stored_as"], first["lost"]) == ("begun", name, None)
    assert (noted["cause"], noted["load_seq"], noted["accepted_by"], noted["lost"]) == ("expired", 2, "ann", lost)
    assert topics.ranges(noted["lost"]) == "partition 0: 4 to 5"
    assert medallion.verify(job)["ok"]


def test_a_recreated_topic_becomes_a_new_incarnation(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    servers, names = broker.bootstrap_servers, [topic() for _ in range(3)]
    job = job_of(spark, run, broker, *names, policies={"topics": {names[0]: {"late": "accept"}}})
    for name in names:
        send(servers, name, sequenced(1, 2))
    load(job)
    for name, sent in zip(names, ([1], [1, 2], [3, 1, 2, 3]), strict=True):  # fewer, as many, more
        delete_topic(servers, name)
        create_topic(servers, name, 1)
        send(servers, name, sequenced(*sent))

    with pytest.raises(TopicRecreatedError, match="deleted and recreated") as refused:
        medallion.run(job)
    assert [name in str(refused.value.next_step) for name in names] == [True, True, True]
    assert len(offsets(spark, run)) == 6
    planned = accept(job, names[0], is_dry_run=True)
    assert (planned["cause"], planned["stored_as"], planned["load_seq"]) == ("recreated", f"{names[0]}@2", 2)
    done = [accept(job, name) for name in names]
    assert [each["load_seq"] for each in done] == [2, 3, 4]
    assert accept(job, names[0])["cause"] is None, "asked again there is nothing to do"
    assert topic_registry.read(spark, run)[names[0]].starts == {0: 0}, "what expires from now on is refused"
    medallion.run(job)

    kept = [(row["topic"], row["sequence"]) for row in read(spark, run, SILVER_RECORDS, "topic", "offset")]
    fewer, equal, more = (f"{name}@2" for name in names)
    of_before = [(name, each) for name in names for each in (1, 2)]
    assert kept == sorted([*of_before, (fewer, 1), (equal, 1), (equal, 2), (more, 3)])
    marks = {row["topic"]: (row["high_watermark"], row["last_offset"]) for row in read(spark, run, SILVER_WATERMARKS, "topic")}
    assert marks == {**dict.fromkeys(names, (2, 1)), fewer: (1, 0), equal: (2, 1), more: (3, 3)}
    ledger = read(spark, run, SILVER_LOADS, "load_seq", "topic")
    decided = [(row["load_seq"], row["topic"], row["reason"], row["requested_by"]) for row in ledger if row["kind"] == "accept"]
    assert decided == [(number, name, "known", "ann") for number, name in enumerate(names, start=2)]
    asked = json.loads(ledger[3]["request"])["accepted"]
    assert (asked["cause"], asked["incarnation"], asked["old_topic_id"]) == ("recreated", 2, done[0]["old_topic_id"])
    assert done[0]["old_topic_id"] != done[0]["new_topic_id"]
    assert medallion.verify(job, is_deep=True)["ok"]

    # Lost with its checkpoint, the new incarnation goes on as well; the topic's policies are those of each incarnation.
    shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    send(servers, names[0], sequenced(1, 0))
    result = load(job)
    assert (result["bronze"]["records"], result["silver"]["duplicate"], result["silver"]["late"]) == (2, 1, 1)
    assert len(read(spark, run, SILVER_RECORDS, "offset")) == 11
