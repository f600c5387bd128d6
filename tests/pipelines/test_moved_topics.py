"""Topics that move, on a real broker: created again, over other partitions, cut at the end; nothing is doubled or lost."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.dev_broker.broker import LocalBroker, create_topic
from bronze.kafka import metadata
from lakehouse.errors import TopicRecreatedError, UsageError
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_TOPICS, SILVER_LOADS, SILVER_RECORDS
from pipelines import bronze_to_silver, medallion
from silver.load import planner, recover, steps
from silver.rules import Rules
from silver.state.request import RecordFilter, Request
from tests.bronze.progress.test_topic_breaks import accept, job_of, load, read
from tests.support.kafka import Sent, delete_topic, send, sequenced


def recreate(servers: str, name: str, partitions: int = 1) -> None:
    delete_topic(servers, name)
    create_topic(servers, name, partitions)


def counts(result: dict[str, Any]) -> tuple[int, ...]:
    return tuple(result["silver"][name] for name in ("accepted", "duplicate", "late", "collision"))


def test_a_copied_topic_with_its_old_numbers_is_continued(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
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
    rebuilt = medallion.rebuild(job, is_applied=False, reason="trial", by="ann")
    assert rebuilt["changes"] == []


def test_a_log_that_lost_its_end_is_named_so_and_continued(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name, servers = topic(), broker.bootstrap_servers
    job = job_of(spark, run, broker, name)
    send(servers, name, sequenced(*range(1, 101)))
    load(job)
    # A broker cannot be asked to lose records: the topic that lacks them is a new one, and Bronze has its id.
    recreate(servers, name)
    send(servers, name, sequenced(*range(1, 91), *range(101, 106)))
    topic_id = metadata.describe_topics(job.settings.kafka, [name])[name].topic_id
    spark.sql(f"UPDATE {run.table(BRONZE_TOPICS).sql} SET topic_id = '{topic_id}'").collect()

    with pytest.raises(TopicRecreatedError, match=r"log lost its end, .*the topic is the same one") as broken:
        load(job)
    assert f"tidemark topic accept {name} --same-numbering" in str(broken.value.next_step)
    with pytest.raises(UsageError, match="log lost its end"):
        accept(job, name, numbering=None)
    accepted = accept(job, name, numbering="same")
    assert (accepted["cause"], accepted["is_cut"]) == ("recreated", True)
    medallion.run(job, "bronze")
    rules = bronze_to_silver.rules_of(spark, run, job.settings)
    planned = planner.plan(spark, run, rules, recover.recover(spark, run, rules))
    assert planned is not None
    steps.claim(spark, run, planned)  # and here the process dies
    repeated: Any = medallion.run(job, "silver")
    assert (repeated["silver"]["repeated"], counts(repeated)) == ([3], (5, 90, 0, 0))
    assert len(read(spark, run, SILVER_RECORDS, "offset")) == 105


def sent_by(producer: str, *sequences: int, partition: int = 0, epoch: int = 0) -> list[Sent]:
    headers = [("producer", producer.encode()), ("epoch", b"%d" % epoch)]
    return [replace(each, headers=[*each.headers, *headers]) for each in sequenced(*sequences, partition=partition)]


def test_producers_over_other_partitions_move_twice_and_nothing_is_doubled(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str]
) -> None:
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
