"""Topics that move, on a real broker: created again, cut at the end, with more partitions; nothing is doubled or lost."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from bronze import ingest
from bronze.kafka import metadata
from bronze.progress import topic_registry
from lakehouse.errors import TidemarkError, TopicRecreatedError, UsageError
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_TOPICS, SILVER_LOADS, SILVER_RECORDS
from pipelines import bronze_to_silver, medallion
from pipelines.job import Job
from pipelines.recover.rebuild import rebuild
from silver.load import planner, recover, steps
from silver.rules import Rules
from silver.state.request import RecordFilter, Request, Reset
from tests.bronze.progress.test_start_offsets import OF_0_2
from tests.bronze.progress.test_topic_breaks import accept, job_of, load, read
from tests.conftest import Topics
from tests.support.kafka import Sent, add_partitions, delete_topic, send, sequenced
from tidemark.extras.demo.broker import LocalBroker, create_topic
from tidemark.readers import topics
from tidemark.readers.status import status, write_status
from tidemark.readers.why import why, write_why


def recreate(servers: str, name: str, partitions: int = 1) -> None:
    delete_topic(servers, name)
    create_topic(servers, name, partitions)


def counts(result: dict[str, Any]) -> tuple[int, ...]:
    return tuple(result["silver"][name] for name in ("accepted", "duplicate", "late", "collision"))


def claim_a_load_and_die(spark: SparkSession, run: Run, job: Job) -> None:
    medallion.run(job, "bronze")
    rules = bronze_to_silver.rules_of(spark, run, job.settings)
    planned = planner.plan(spark, run, rules, recover.recover(spark, run, rules))
    assert planned is not None
    steps.claim(spark, run, planned)


def test_a_copied_topic_with_its_old_numbers_is_continued(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    name, other, servers = topic(), topic(), broker.bootstrap_servers
    job = job_of(spark, run, broker, name, other)
    send(servers, name, sequenced(*range(1, 101)))
    send(servers, other, sequenced(1))
    medallion.run(job)
    recreate(servers, name)
    send(servers, name, sequenced(*range(1, 111)))
    with pytest.raises(TopicRecreatedError) as broken:
        medallion.run(job)
    assert f"tidemark topic accept {name} --same-numbering" in str(broken.value.next_step)
    assert "--new-numbering" in str(broken.value.next_step)
    with pytest.raises(UsageError, match="deleted and recreated") as asked:
        accept(job, name, numbering=None)
    assert asked.value.expected == "--same-numbering or --new-numbering"
    accepted = accept(job, name, numbering="same")
    assert (accepted["stored_as"], accepted["numbering"], accepted["is_cut"]) == (f"{name}@2", "same", False)

    result: Any = medallion.run(job)
    assert counts(result) == (10, 100, 0, 0)
    assert result["gold"]["records"] == 10
    send(servers, name, sequenced(110, 50, 111))
    assert counts(load(job)) == (1, 2, 0, 0)

    rows = Counter(row["sequence"] for row in read(spark, run, SILVER_RECORDS, "offset") if row["topic"] != other)
    assert rows == Counter(range(1, 112))
    claims = {row["load_seq"]: Rules.from_json(row["rules"]).continues for row in read(spark, run, SILVER_LOADS, "load_seq")}
    assert list(claims.values()) == [(), (), ((f"{name}@2", (name,)),), ((f"{name}@2", (name,)),)]
    (asked,) = {row["request"] for row in read(spark, run, SILVER_LOADS, "load_seq") if row["request"] is not None}
    assert json.loads(asked)["accepted"]["numbering"] == "same"
    assert medallion.verify(job, is_deep=True)["ok"]
    rebuilt = rebuild(job.spark, job.new_run(), job.settings, apply=False, reason="trial", by="ann")
    assert rebuilt["changes"] == []

    again, lakehouse = f"{name}@2", run.lakehouse
    moved = [{"topic": name, "stored_as": name, "incarnation": 1, "numbering": None}]
    moved.append({"topic": name, "stored_as": again, "incarnation": 2, "numbering": "same"})
    assert status("tests", lakehouse)["incarnations"] == moved
    assert [(row["stored_as"], row["numbering"]) for row in topics.known(lakehouse) if row["topic"] == name] == [
        *((name, None), (again, "same"))
    ]
    first, copied, own = (why(lakehouse, *place) for place in ((name, 0, 49), (again, 0, 49), (again, 0, 110)))
    assert why(lakehouse, other, 0, 0)["incarnation"] is None
    assert first["incarnation"] == {**moved[0], "same_offset": [again]}
    assert (copied["class"], copied["sequence"]) == ("duplicate", 50)
    assert copied["incarnation"] == {**moved[1], "same_offset": [name]}
    winners = [tuple(each["winner"][key] for key in ("topic", "offset", "table", "load_seq")) for each in (copied, own)]
    assert winners == [(name, 49, "silver_records", 1), (again, 109, "silver_records", 3)]
    with pytest.raises(TidemarkError, match=f"another one has(.|\n)*tidemark why {again} 0 105"):
        why(lakehouse, name, 0, 105)
    capsys.readouterr()
    for each in (first, copied):
        write_why(each)
    write_status(status("tests", lakehouse))
    printed = capsys.readouterr().out
    for said in (
        f"this record is of incarnation 1, {name}.\nAnother incarnation has that offset too: `tidemark why {again} 0 49`.\n",
        f"this record is of incarnation 2, {again}, with the same numbering as the one before.\n",
        f"The record that was there first: topic {name}, partition 0, offset 49, in silver_records, load 1.\n",
        f"Topic {name} has several incarnations: now incarnation 2, {again}, with the same numbering as the one before.\n",
    ):
        assert said in printed


def test_a_log_that_lost_its_end_is_continued(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(), broker.bootstrap_servers
    job = job_of(spark, run, broker, name)
    send(servers, name, sequenced(*range(1, 101)))
    load(job)
    # A broker cannot be asked to lose records: the topic that lacks them is a new one, and Bronze has its id.
    recreate(servers, name)
    send(servers, name, sequenced(*range(1, 91), *range(101, 106)))
    topic_id = metadata.describe_topics(job.settings.kafka, [name])[name].topic_id
    spark.sql(f"UPDATE {run.table(BRONZE_TOPICS).sql} SET topic_id = '{topic_id}'").collect()

    with pytest.raises(TopicRecreatedError, match=r"log lost records .*the topic is the same") as broken:
        load(job)
    assert f"tidemark topic accept {name} --same-numbering" in str(broken.value.next_step)
    with pytest.raises(UsageError, match="log lost records"):
        accept(job, name, numbering=None)
    accepted = accept(job, name, numbering="same")
    assert (accepted["cause"], accepted["is_cut"]) == ("recreated", True)
    claim_a_load_and_die(spark, run, job)
    repeated: Any = medallion.run(job, "silver")
    assert (repeated["silver"]["repeated"], counts(repeated)) == ([3], (5, 90, 0, 0))
    assert len(read(spark, run, SILVER_RECORDS, "offset")) == 105


def test_a_load_knows_the_numbering_that_another_run_accepted_after_it_began(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, servers = topic(), broker.bootstrap_servers
    job = job_of(spark, run, broker, name)
    send(servers, name, sequenced(1, 2, 3))
    load(job)
    recreate(servers, name)
    send(servers, name, sequenced(1, 2, 3, 4))

    def after_another_run(*args: Any) -> recover.Recovered:
        monkeypatch.undo()
        accept(job, name, numbering="same")
        medallion.run(job, "bronze")
        return recover.recover(*args)

    monkeypatch.setattr(recover, "recover", after_another_run)
    result = {"silver": bronze_to_silver.run(spark, run, job.settings)}  # without the lock on a local folder
    assert counts(result) == (1, 3, 0, 0)


def test_the_same_numbering_needs_epochs_in_records(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(), broker.bootstrap_servers
    job = job_of(spark, run, broker, name)
    send(servers, name, sequenced(1, 2))
    load(job)
    medallion.decide(job, Request("reset", "a new run", "ann", reset=Reset(name, 0, is_new_epoch=True)))
    send(servers, name, sequenced(1))
    assert counts(load(job)) == (1, 0, 0, 0)
    recreate(servers, name)
    send(servers, name, sequenced(1, 2, 1))  # a copy: no record says which epoch it is of

    with pytest.raises(UsageError, match="its records lack it") as refused:
        accept(job, name, numbering="same")
    assert (refused.value.observed, refused.value.expected) == ("1 streams with a declared epoch", "none")
    assert [row["cause"] for row in topics.known(run.lakehouse)] == ["begun"]
    assert accept(job, name, numbering="new")["stored_as"] == f"{name}@2"
    assert counts(load(job)) == (2, 1, 0, 0)


def sent_by(producer: str, *sequences: int, partition: int = 0, epoch: int = 0) -> list[Sent]:
    headers = [("producer", producer.encode()), ("epoch", b"%d" % epoch)]
    return [replace(each, headers=[*each.headers, *headers]) for each in sequenced(*sequences, partition=partition)]


def test_producers_move_twice_and_nothing_is_doubled(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(2), broker.bootstrap_servers
    more = {"producer": {"header": "producer"}, "epoch": {"header": "epoch"}, "policies": {"max_quarantined_share": 1}}
    job = job_of(spark, run, broker, name, **more)
    send(servers, name, [*sent_by("a", 1, 2, 3, 5), *sent_by("b", 1, 2, partition=1), *sent_by("b", 1, partition=1, epoch=1)])
    load(job)
    medallion.decide(job, Request("retire", "quiet", "ann", wanted=RecordFilter(days=0)))
    send(servers, name, [*sent_by("a", 4, 6), *sent_by("b", 2, partition=1, epoch=1)])
    medallion.run(job, "bronze")  # the load has records from before and after the move

    def move(partitions: int, records: Iterable[Sent]) -> tuple[int, ...]:
        recreate(servers, name, partitions)
        send(servers, name, records)
        accept(job, name, numbering="same")
        return counts(load(job))

    other = replace(sent_by("a", 3, partition=1)[0], value=b"other")
    copied = [
        *sent_by("a", 1, 2, 3, partition=2),
        *sent_by("a", 4, 6, 7, partition=1),  # 4 was late in the same load
        other,
        *sent_by("b", 1, 2, 3, partition=0),  # 3 was never read, and is older than the epoch of the rest
        *sent_by("b", 1, 2, 3, partition=0, epoch=1),
    ]
    # Accepted: a6 and b2 of epoch 1 before the move; then a7, b3 of epoch 0 and b3 of epoch 1.
    assert move(3, copied) == (5, 9, 1, 1)
    send(servers, name, [*sent_by("a", 6, 7, partition=1), *sent_by("b", 2, 3, partition=0, epoch=1)])
    assert counts(load(job)) == (0, 4, 0, 0)
    assert move(1, [*sent_by("a", *range(1, 9)), *sent_by("b", 1, 2, 3), *sent_by("b", 1, 2, 3, 4, epoch=1)]) == (2, 13, 0, 0)

    released = medallion.decide(job, Request("release", "seen", "ann"))
    assert (released["classes"], released["left"]) == ({"late": 1}, {"already_kept": 1})
    numbers = [(row["producer"], row["epoch"], row["sequence"]) for row in read(spark, run, SILVER_RECORDS, "offset")]
    of_a = [("a", 0, sequence) for sequence in range(1, 9)]
    assert sorted(numbers) == sorted(
        [*of_a, *(("b", 0, each) for each in (1, 2, 3)), *(("b", 1, each) for each in (1, 2, 3, 4))]
    )
    assert medallion.verify(job, is_deep=True)["ok"]


def keyed(numbers: Iterable[int], partitions: int, *, producer: str | None = None, epoch: int = 0) -> list[Sent]:
    """Records whose keys choose their partitions, as a partitioner does."""
    named = [("producer", producer.encode()), ("epoch", b"%d" % epoch)] if producer else []
    return [
        Sent(b"v%d" % each, b"k%d" % each, [("seq", b"%d" % each), *named], partition=crc32(b"k%d" % each) % partitions)
        for each in numbers
    ]


def grown_in_claims(spark: SparkSession, run: Run, topic: str) -> list[Any]:
    claims = {row["load_seq"]: Rules.from_json(row["rules"]) for row in read(spark, run, SILVER_LOADS, "load_seq")}
    return [dict(rules.grown).get(topic) for rules in claims.values()]


def test_keyed_records_sent_again_after_a_topic_got_partitions_are_duplicates(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, servers = topic(2), broker.bootstrap_servers
    job = job_of(spark, run, broker, name)
    send(servers, name, keyed(range(1, 201), 2))
    medallion.run(job)
    add_partitions(servers, name, 4)
    send(servers, name, keyed(range(1, 201), 4))
    result: Any = medallion.run(job)
    assert counts(result) == (0, 200, 0, 0)
    other = replace(keyed([7], 4)[0], value=b"other", partition=3)
    send(servers, name, [*keyed(range(190, 211), 4), other])
    assert counts(load(job)) == (10, 11, 0, 1)
    report: Any = run.report
    (added,) = report.named("silver.partitions_added")
    assert [added[each] for each in ("topic", "before", "partitions", "numbering")] == [name, 2, 4, "per_topic"]

    monkeypatch.setattr(ingest, "_SENDERS_LEARN", timedelta(0))
    for first in (211, 221):  # the load that decides all that was sent before; then the mark is set
        send(servers, name, keyed(range(first, first + 10), 4))
        assert counts(load(job)) == (10, 0, 0, 0)
    *_, last, marked = grown_in_claims(spark, run, name)
    assert [(each.mark, each.is_last) for each in (last, marked)] == [(None, True), ((0, 220), False)]
    send(servers, name, keyed(range(180, 240), 4))
    assert counts(load(job)) == (9, 51, 0, 0)

    rows = Counter(row["sequence"] for row in read(spark, run, SILVER_RECORDS, "offset"))
    assert rows == Counter(range(1, 240))
    assert medallion.verify(job, is_deep=True)["ok"]
    assert rebuild(job.spark, job.new_run(), job.settings, apply=False, reason="trial", by="ann")["changes"] == []


def test_epochs_are_compared_after_two_growths(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(2), broker.bootstrap_servers
    more = {"producer": {"header": "producer"}, "epoch": {"header": "epoch"}, "policies": {"max_quarantined_share": 1}}
    job = job_of(spark, run, broker, name, **more)

    def sent(partitions: int, *, up_to: int = 20) -> list[Sent]:
        epochs = [("a", 0, range(1, 21)), ("a", 1, range(1, up_to + 1)), ("b", 0, range(1, up_to + 1))]
        records = [keyed(numbers, partitions, producer=producer, epoch=epoch) for producer, epoch, numbers in epochs]
        return [record for of_producer in records for record in of_producer]

    def take() -> tuple[int, int, int]:
        done = load(job)["silver"]
        return done["accepted"], done["duplicate"] + done["fenced"], done["late"] + done["collision"]

    send(servers, name, sent(2))
    assert take() == (60, 0, 0)
    medallion.decide(job, Request("retire", "quiet", "ann", wanted=RecordFilter(days=0)))
    add_partitions(servers, name, 3)
    send(servers, name, sent(3, up_to=25))
    assert take() == (10, 60, 0)
    add_partitions(servers, name, 5)
    send(servers, name, sent(5, up_to=30))
    assert take() == (10, 70, 0)
    numbers = Counter((row["producer"], row["epoch"], row["sequence"]) for row in read(spark, run, SILVER_RECORDS, "offset"))
    assert set(numbers.values()) == {1}
    assert len(numbers) == 80
    grown = [each and (each.before, each.partitions) for each in grown_in_claims(spark, run, name)]
    assert grown == [None, None, (2, 3), (3, 5)]
    assert medallion.verify(job, is_deep=True)["ok"]


def test_partitions_that_count_for_themselves_are_not_compared(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics
) -> None:
    servers, before = broker.bootstrap_servers, {topic(partitions): partitions for partitions in (2, 1)}
    job = job_of(spark, run, broker, *before)
    for name, partitions in before.items():
        for partition in range(partitions):
            send(servers, name, sequenced(*range(1, 31 - partition), partition=partition))
    load(job)
    for name, partitions in before.items():
        add_partitions(servers, name, 3)
        for partition in range(partitions, 3):
            send(servers, name, sequenced(*range(1, 6), partition=partition))
        send(servers, name, sequenced(30, 31, 32))
    assert counts(load(job)) == (4 + 5 + 10, 2, 0, 0)
    report: Any = run.report
    added = {
        each["topic"]: (each["numbering"], "sent again" in each["compared"]) for each in report.named("silver.partitions_added")
    }
    assert added == dict(zip(before, (("per_partition", True), (None, True)), strict=True))


def test_a_backlog_is_compared_if_the_config_says_so(spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics) -> None:
    name, servers = topic(2), broker.bootstrap_servers
    job = job_of(spark, run, broker, name, policies={"numbering": "per_topic"})
    send(servers, name, keyed(range(1, 101), 2))
    medallion.run(job, "bronze")
    add_partitions(servers, name, 4)
    send(servers, name, keyed(range(1, 111), 4))
    claim_a_load_and_die(spark, run, job)
    repeated: Any = medallion.run(job, "silver")
    assert (repeated["silver"]["repeated"], counts(repeated)) == ([1], (110, 100, 0, 0))


@pytest.mark.parametrize("is_of_0_2", [False, True])
def test_partitions_added_during_a_read_or_after_the_last_one_of_0_2_are_compared(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Topics, monkeypatch: pytest.MonkeyPatch, *, is_of_0_2: bool
) -> None:
    name, servers, read_available = topic(2), broker.bootstrap_servers, ingest._read_available
    job = job_of(spark, run, broker, name, policies={"numbering": "per_topic"})
    send(servers, name, keyed(range(1, 51), 2))

    def grow() -> None:
        add_partitions(servers, name, 4)
        send(servers, name, keyed(range(1, 61), 4))

    def read_after_growth(*given: Any) -> dict[int, int] | None:
        grow()
        return read_available(*given)

    with monkeypatch.context() as patched:
        if is_of_0_2:
            patched.setattr(topic_registry, "TOPICS", OF_0_2)
        medallion.run(job)
    if is_of_0_2:
        grow()
    else:
        monkeypatch.setattr(ingest, "_read_available", read_after_growth)
    assert counts(load(job)) == (10, 50, 0, 0)
    growth = topic_registry.read(spark, run)[name].growth
    assert growth is not None
    assert (growth.before, growth.partitions) == (2, 4)
