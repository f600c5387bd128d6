"""Senders that are killed while they send to a real broker, for each source of numbers; and their records in Gold."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tidemark_producer import Counter, FileStore, Position, Sender

from lakehouse.run.context import Run
from tests.support.producing import RESUMING, Kit, in_row, kills, run_and_kill, start
from tests.support.small_config import write_config
from tests.support.topics import accepted, twice_or_falling
from tidemark.commands import main

pytestmark = pytest.mark.fault

KILLS = kills(40)

# Sends without an end, with one source of numbers; prints `on` once the first record is in Kafka.
SENDING = """
import itertools, sqlite3, sys
from tidemark_producer import Counter, FileStore, Given, Sender, SqlStore, last_accepted
way, servers, topic, path = sys.argv[1:]
config = {"bootstrap.servers": servers, "linger.ms": 1, "queue.buffering.max.messages": 3000}
row = SqlStore(lambda: sqlite3.connect(path), paramstyle=sqlite3.paramstyle)
numbers = {
    "epoch": lambda: Counter(FileStore(path), new=True),
    "block": lambda: Counter(FileStore(path), block=3, new=True),
    "row": lambda: Counter(row, block=3, new=True),
    "transactions": lambda: Counter(after=lambda: last_accepted(config, topic, "shop")),
    "lost": lambda: Counter(FileStore(path), block=100, after=lambda: last_accepted(config, topic, "shop")),
}[way]()
if way == "transactions":
    config["transactional.id"] = topic
with Sender(config, "shop", numbers) as sender:
    for turn in itertools.count():
        if way == "transactions":
            with sender.transaction():
                for number in range(50):
                    sender.send(topic, b"v" * 100, b"%d" % number)
        else:
            for number in range(50):
                first = sender.send(topic, b"v" * 100, b"%d" % number)
            if turn == 0:
                first.result()
        if turn == 0:
            print("on")
"""


@pytest.mark.parametrize("way", ["epoch", "block", "row", "transactions"])
def test_no_number_is_in_kafka_twice_and_numbers_rise_in_a_partition(kit: Kit, way: str) -> None:
    name, path = kit.topic(3), kit.folder / "numbers"
    if way == "row":
        in_row(path)
    for seed in range(KILLS):
        run_and_kill(seed, SENDING, way, kit.servers, name, str(path))
    found = kit.records(name)
    assert twice_or_falling(found) == ([], [])
    assert len({record.position[0] for record in found}) == (KILLS if way == "epoch" else 1)
    if way == "transactions":
        sequences = sorted(record.position[1] for record in found)
        assert sequences == list(range(len(sequences)))  # without a gap: an aborted transaction leaves none


def test_a_counter_whose_file_is_lost_at_each_crash_continues_after_kafkas_last(kit: Kit) -> None:
    name, path = kit.topic(3), kit.folder / "numbers"
    for seed in range(KILLS):
        run_and_kill(seed, SENDING, "lost", kit.servers, name, str(path))
        path.unlink()
        time.sleep(0.5)  # the records that the killed process had on their way arrive within that time
    assert twice_or_falling(kit.records(name)) == ([], [])


def test_resumed_given_numbers_leave_each_record_once_above_the_watermark(kit: Kit) -> None:
    name = kit.topic(3)
    for seed in range(KILLS):
        run_and_kill(seed, RESUMING, kit.servers, name, str(10**9), "named")
    reached = max(record.position[1] for record in kit.records(name)) + 1
    process = start(RESUMING, kit.servers, name, str(reached), "named")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.endswith("done\n")
    found = kit.records(name)
    kept = accepted(found)
    assert sorted(record.position[1] for record in kept) == list(range(reached))
    assert all(record.value == b"%d" % record.position[1] for record in kept)


@pytest.mark.e2e
def test_given_and_counted_numbers_are_in_gold_once(spark: SparkSession, run: Run, kit: Kit, asked: Callable[..., Any]) -> None:
    name, numbers, rows_of = kit.topic(3), kit.folder / "numbers", kit.folder / "kit.db"
    config = write_config(
        kit.folder,
        root=str(kit.folder / "lakehouse"),
        kafka={"bootstrap_servers": kit.servers, "topics": [name]},
        producer={"header": "producer"},
        epoch={"header": "epoch"},
    )
    for seed in range(3):
        run_and_kill(seed, RESUMING, kit.servers, name, str(10**9), "by key")
        if seed == 0:
            assert main(["run", "--config", str(config)]) == 0
    reached = max(record.position[1] for record in kit.records(name)) + 1
    process = start(RESUMING, kit.servers, name, str(reached), "by key")
    assert process.communicate(timeout=60)[0].endswith("done\n")
    for _ in range(2):
        with Sender(kit.config, "counting", Counter(FileStore(numbers), new=True)) as sender:
            for number in range(500):
                sender.send(name, b"v", b"%d" % (number % 3))
    overtaken = Sender(kit.config, "twice", Counter(in_row(rows_of), new=True))
    overtaken.send(name, b"first", b"k").result(30)
    with Sender(kit.config, "twice", Counter(in_row(rows_of))) as second:
        second.send(name, b"second", b"k").result(30)
        overtaken.send(name, b"from a zombie", b"k").result(30)
    overtaken.close()
    assert main(["run", "--config", str(config)]) == 0

    for table in ("silver_records", "gold_records"):
        rows = spark.read.table(run.table(table).sql).select("producer", "epoch", "sequence", "value").collect()
        given = sorted((row["sequence"], bytes(row["value"])) for row in rows if row["producer"] == "shop")
        assert given == [(number, b"%d" % number) for number in range(reached)]
        counted = sorted((row["epoch"], row["sequence"]) for row in rows if row["producer"] == "counting")
        assert counted == [(epoch, number) for epoch in (1, 2) for number in range(500)]
        assert {bytes(row["value"]) for row in rows if row["producer"] == "twice"} == {b"first", b"second"}
    rejected = asked(
        config, "sql", "SELECT producer, class, sum(records) AS records FROM silver_rejects GROUP BY ALL ORDER BY 1, 2"
    )
    assert [(row["producer"], row["class"]) for row in rejected] == [("shop", "duplicate"), ("twice", "fenced")]

    # docs/producers.md: after a store was lost, Silver knows the last number.
    query = (
        f"SELECT epoch, sequence FROM silver_last_accepted WHERE topic = '{name}' AND producer = 'counting' "
        "ORDER BY epoch DESC, sequence DESC LIMIT 1"
    )
    (last,) = asked(config, "sql", query)
    after = Position(last["epoch"], last["sequence"])
    assert after == (2, 499)
    with Sender(kit.config, "counting", Counter(FileStore(kit.folder / "new"), after=after)) as sender:
        assert sender.send(name, b"v", b"k").result(30)[3:] == (3, 0)
