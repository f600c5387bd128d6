"""A topic that breaks, on a real broker: created anew, its records expired, its partitions added, its checkpoint damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from bronze.dev_broker.broker import create_topic
from bronze.ingest import ingest
from jobs.readers import topics
from lakehouse.errors import OffsetsExpiredError, SourceError, TopicRecreatedError, UsageError
from lakehouse.settings.pipeline import Kafka, Settings
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS
from pipelines import medallion
from pipelines.job import Job
from silver.state.request import Request, Wanted
from tests.support.kafka import Sent, delete_records, delete_topic, send, send_transaction
from tests.support.small_config import small_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Row, SparkSession

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.run.context import Run

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def kafka_of(broker: LocalBroker, *topics: str, **others: Any) -> Kafka:
    return Kafka(bootstrap_servers=broker.bootstrap_servers, topics=topics, **others)


def settings_of(run: Run, broker: LocalBroker, *topics: str, **more: Any) -> Settings:
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": list(topics)}
    config = small_config(str(run.lakehouse.root), pipeline=run.pipeline, kafka=kafka, **more)
    return Settings.model_validate(config, context={"folder": Path()})


def numbered(*sequences: int, partition: int = 0) -> list[Sent]:
    return [Sent(b"%d" % each, headers=[("seq", b"%d" % each)], partition=partition) for each in sequences]


def read(spark: SparkSession, run: Run, table: str, *order: str) -> list[Row]:
    return spark.read.table(run.table(table).sql).orderBy(*order).collect()


def offsets(spark: SparkSession, run: Run) -> list[tuple[str, int, int]]:
    rows = read(spark, run, BRONZE_RECORDS, "topic", "partition", "offset")
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def accept(
    spark: SparkSession, run: Run, settings: Settings, topic: str, *, is_dry_run: bool = False, reason: str = "known"
) -> dict[str, Any]:
    request = Request("accept", reason, "ann", wanted=Wanted(topic=topic))
    return medallion.decide(Job.on(spark, settings, run.report), request, is_dry_run=is_dry_run)


def load(spark: SparkSession, run: Run, settings: Settings) -> dict[str, Any]:
    """Bronze and Silver."""
    return {stage: medallion.run(Job.on(spark, settings, run.report), stage)[stage] for stage in ("bronze", "silver")}


def anew(servers: str, topic: str) -> None:
    delete_topic(servers, topic)
    create_topic(servers, topic, 1)


def test_without_topic_ids_a_topic_that_is_shorter_than_before_is_refused(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, servers = topic(), broker.bootstrap_servers
    # A store that only Java reads: librdkafka cannot look, and over PLAINTEXT nobody needs it.
    kafka = kafka_of(broker, name, properties={"ssl.truststore.location": "/no/such/store.jks"})
    send(servers, name, numbered(1, 2, 3))
    ingest(spark, run, kafka)
    report: Any = run.report
    assert report.named("bronze.topic_ids_unknown") == [{"why": "librdkafka cannot read a JKS file as ssl.truststore.location"}]
    anew(servers, name)
    send(servers, name, numbered(1))
    for _ in range(2):
        with pytest.raises(TopicRecreatedError, match="went back") as refused:
            ingest(spark, run, kafka)
        assert refused.value.observed == f"Partition {name}-0 offset was changed from 3 to 1"
        shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    assert len(offsets(spark, run)) == 3


def test_added_partitions_and_topics_are_read_from_their_beginning(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, joining, servers = topic(), topic(), broker.bootstrap_servers
    send(servers, name, numbered(1))
    ingest(spark, run, kafka_of(broker, name))
    admin = AdminClient({"bootstrap.servers": servers})
    for partitions in (2, 3):  # with a checkpoint, and without
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)
        send(servers, name, [*numbered(partitions), *numbered(1, 2, partition=partitions - 1)])
        assert ingest(spark, run, kafka_of(broker, name)).records == 3
        shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    send(servers, joining, numbered(1, 2, 3))
    delete_records(servers, joining, before=1)  # what was gone before it joined is no loss
    send(servers, name, numbered(4))
    ingest(spark, run, kafka_of(broker, name))
    assert ingest(spark, run, kafka_of(broker, name, joining)).records == 2
    assert [each[1:] for each in offsets(spark, run) if each[0] == name] == [
        *((0, each) for each in range(4)),
        *((1, each) for each in range(2)),
        *((2, each) for each in range(2)),
    ]


def lose(*files: str) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        for pattern in files:
            for file in [*checkpoint.glob(pattern), *checkpoint.glob(f"{Path(pattern).parent}/.{Path(pattern).name}.crc")]:
                file.unlink(missing_ok=True)

    return damage


def empty(file: str) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        lose(file)(checkpoint)
        (checkpoint / file).touch()

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], None], bool]] = {
    "the last commit is gone": (lose("commits/2"), True),
    "the last offsets are gone": (lose("offsets/2"), False),
    "the last offsets and commit are gone: put back from a backup": (lose("offsets/2", "commits/2"), False),
    "the metadata are gone": (lose("metadata"), False),
    "the last offsets are empty": (empty("offsets/2"), False),
    "all but the metadata is gone": (lose("offsets/*", "commits/*", "sources/0/*"), False),
}


def test_a_checkpoint_that_is_lost_in_part_loses_nothing_and_repeats_nothing(
    spark: SparkSession, run_at: Callable[[Path], Run], tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, original = topic(), run_at(tmp_path / "original")
    kafka = kafka_of(broker, name)
    for number in range(3):
        send(broker.bootstrap_servers, name, numbered(number))
        ingest(spark, original, kafka)
    send(broker.bootstrap_servers, name, numbered(3, 4))
    for number, (what, (damage, is_used)) in enumerate(DAMAGES.items()):
        run = run_at(tmp_path / str(number))
        shutil.copytree(tmp_path / "original", tmp_path / str(number))
        damage(Path(run.lakehouse.folder("_checkpoints/bronze_records")))
        ingest(spark, run, kafka)
        assert offsets(spark, run) == [(name, 0, each) for each in range(5)], what
        assert Path(run.lakehouse.folder("_checkpoints/bronze_records-2")).exists() == (not is_used), what
        report: Any = run.report
        assert bool(report.named("bronze.checkpoint_set_aside")) == (not is_used), what

    # Spark's reader does not list an empty file, so this is not seen before Spark itself meets it.
    run = run_at(tmp_path / "empty")
    shutil.copytree(tmp_path / "original", tmp_path / "empty")
    checkpoint = Path(run.lakehouse.folder("_checkpoints/bronze_records"))
    empty("commits/2")(checkpoint)
    with pytest.raises(SourceError, match="empty or cut off") as refused:
        ingest(spark, run, kafka)
    assert f"Remove the folder {checkpoint}" in str(refused.value)
    shutil.rmtree(checkpoint)
    assert ingest(spark, run, kafka).records == 2


def test_expired_offsets_are_named_exactly_and_gone_on_from_when_that_is_in_the_ledger(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, servers = topic(2), broker.bootstrap_servers
    settings = settings_of(run, broker, name)
    send(servers, name, [*numbered(1, 2), *numbered(1, partition=1)])
    send_transaction(servers, name, numbered(3), commit=False)  # offsets 2 and 3: read, and not in Bronze
    load(spark, run, settings)
    send(servers, name, [*numbered(3, 4, 5), *numbered(2, partition=1)])  # offsets 4 to 6
    delete_records(servers, name, before=6)

    for _ in range(2):
        with pytest.raises(OffsetsExpiredError, match="no longer has records") as refused:
            ingest(spark, run, settings.kafka)
        assert refused.value.observed == f"{name} partition 0: offsets 4 to 5, 2 in all, are gone"
        assert f"tidemark topic accept {name}" in str(refused.value.next_step)
    with pytest.raises(UsageError, match=r"kafka\.topics does not name"):
        accept(spark, run, settings, "other")
    lost = [{"partition": 0, "first_offset": 4, "last_offset": 5}]
    assert accept(spark, run, settings, name, is_dry_run=True)["lost"] == lost
    assert accept(spark, run, settings, name, reason="retention was too short")["load_seq"] == 2
    load(spark, run, settings)

    assert offsets(spark, run) == [(name, 0, 0), (name, 0, 1), (name, 0, 6), (name, 1, 0), (name, 1, 1)]
    ledger = [row for row in read(spark, run, SILVER_LOADS, "load_seq") if row["kind"] == "accept"]
    assert [(row["partition"], row["high_watermark_after"], row["reason"]) for row in ledger] == [
        (0, 2, "retention was too short")
    ]
    assert json.loads(ledger[0]["request"])["accepted"]["lost"] == lost
    first, noted = topics.known(run.lakehouse)
    assert (first["cause"], first["stored_as"], first["lost"]) == ("begun", name, None)
    assert (noted["cause"], noted["load_seq"], noted["accepted_by"], noted["lost"]) == ("expired", 2, "ann", lost)
    assert topics.ranges(noted["lost"]) == "partition 0: 4 to 5"
    assert medallion.verify(Job.on(spark, settings, run.report))["ok"]


def test_a_topic_that_was_created_anew_goes_on_as_a_new_incarnation_however_many_records_it_has(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    servers, names = broker.bootstrap_servers, [topic() for _ in range(3)]
    settings = settings_of(run, broker, *names, policies={"topics": {names[0]: {"late": "accept"}}})
    for name in names:
        send(servers, name, numbered(1, 2))
    load(spark, run, settings)
    for name, sent in zip(names, ([1], [1, 2], [3, 1, 2, 3]), strict=True):  # fewer, as many, more
        anew(servers, name)
        send(servers, name, numbered(*sent))

    with pytest.raises(TopicRecreatedError, match="created anew") as refused:
        medallion.run(Job.on(spark, settings, run.report))
    assert [name in str(refused.value.next_step) for name in names] == [True, True, True]
    assert len(offsets(spark, run)) == 6
    planned = accept(spark, run, settings, names[0], is_dry_run=True)
    assert (planned["cause"], planned["stored_as"], planned["load_seq"]) == ("recreated", f"{names[0]}@2", 2)
    done = [accept(spark, run, settings, name) for name in names]
    assert [each["load_seq"] for each in done] == [2, 3, 4]
    assert accept(spark, run, settings, names[0])["cause"] is None, "asked again there is nothing to do"
    medallion.run(Job.on(spark, settings, run.report))

    kept = [(row["topic"], row["sequence"]) for row in read(spark, run, SILVER_RECORDS, "topic", "offset")]
    fewer, equal, more = names
    assert kept == sorted(
        [(name, each) for name in names for each in (1, 2)]
        + [(f"{fewer}@2", 1), (f"{equal}@2", 1), (f"{equal}@2", 2), (f"{more}@2", 3)]
    )
    marks = {row["topic"]: (row["high_watermark"], row["last_offset"]) for row in read(spark, run, SILVER_WATERMARKS, "topic")}
    assert marks == {
        **dict.fromkeys(names, (2, 1)),
        f"{fewer}@2": (1, 0),
        f"{equal}@2": (2, 1),
        f"{more}@2": (3, 3),
    }
    ledger = read(spark, run, SILVER_LOADS, "load_seq", "topic")
    decided = [(row["load_seq"], row["topic"], row["reason"], row["requested_by"]) for row in ledger if row["kind"] == "accept"]
    assert decided == [(number, name, "known", "ann") for number, name in enumerate(names, start=2)]
    asked = json.loads(ledger[3]["request"])["accepted"]
    assert (asked["cause"], asked["incarnation"], asked["old_topic_id"]) == ("recreated", 2, done[0]["old_topic_id"])
    assert done[0]["old_topic_id"] != done[0]["new_topic_id"]
    assert medallion.verify(Job.on(spark, settings, run.report), is_deep=True)["ok"]

    # Lost with its checkpoint, the new incarnation goes on as well.
    shutil.rmtree(Path(run.lakehouse.folder("_checkpoints")))
    send(servers, fewer, numbered(1, 0))
    result = load(spark, run, settings)
    assert (result["bronze"]["records"], result["silver"]["duplicate"], result["silver"]["late"]) == (2, 1, 1)
    assert len(read(spark, run, SILVER_RECORDS, "offset")) == 11, (
        "the policies of the topic are those of each incarnation: late is accepted"
    )
