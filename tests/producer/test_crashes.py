"""Senders that are killed while they send to a real broker: one test for each source of numbers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.examples import examples
from tests.support.producing import RESUMING, in_row, killed_after_its_word, start
from tests.support.topics import accepted, records_of, twice_or_falling

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bronze.dev_broker.broker import LocalBroker

pytestmark = pytest.mark.fault

KILLS = examples(2, 40)

# Sends for ever, in one of the ways to number; says `on` once the first record is in Kafka.
SENDING = """
import itertools, sqlite3, sys
from tidemark_producer import Counter, FileStore, Given, Sender, SqlStore, last_accepted
way, servers, topic, path = sys.argv[1:]
config = {"bootstrap.servers": servers, "linger.ms": 1, "queue.buffering.max.messages": 3000}
row = SqlStore(lambda: sqlite3.connect(path), paramstyle=sqlite3.paramstyle)
numbers = {
    "epoch": lambda: Counter(FileStore(path), new=True),
    "block": lambda: Counter(FileStore(path), block=100, new=True),
    "row": lambda: Counter(row, block=100, new=True),
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
def test_no_number_is_in_kafka_twice_and_none_falls_within_a_partition(
    broker: LocalBroker, topic: Callable[..., str], tmp_path: Path, way: str
) -> None:
    name, path = topic(3), tmp_path / "numbers"
    if way == "row":
        in_row(path)
    for seed in range(KILLS):
        killed_after_its_word(seed, SENDING, way, broker.bootstrap_servers, name, str(path))
    found = records_of(broker.bootstrap_servers, name)
    assert twice_or_falling(found) == ([], [])
    assert len({record.position[0] for record in found}) == (KILLS if way == "epoch" else 1)
    if way == "transactions":
        sequences = sorted(record.position[1] for record in found)
        assert sequences == list(range(len(sequences)))  # without a gap: what is not committed was never there


def test_a_counter_whose_file_is_lost_at_each_crash_goes_on_behind_what_kafka_has(
    broker: LocalBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, path = topic(3), tmp_path / "numbers"
    for seed in range(KILLS):
        killed_after_its_word(seed, SENDING, "lost", broker.bootstrap_servers, name, str(path))
        path.unlink()
        time.sleep(0.5)  # until what the killed one had on its way has arrived or not
    assert twice_or_falling(records_of(broker.bootstrap_servers, name)) == ([], [])


@pytest.mark.parametrize("named", ["named", "by key"])
def test_given_numbers_that_are_resumed_leave_each_record_once_behind_the_watermark(
    broker: LocalBroker, topic: Callable[..., str], named: str
) -> None:
    name = topic(3)
    for seed in range(KILLS):
        killed_after_its_word(seed, RESUMING, broker.bootstrap_servers, name, str(10**9), named)
    reached = max(record.position[1] for record in records_of(broker.bootstrap_servers, name)) + 1
    process = start(RESUMING, broker.bootstrap_servers, name, str(reached), named)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.endswith("done\n")
    found = records_of(broker.bootstrap_servers, name)
    kept = accepted(found)
    assert sorted(record.position[1] for record in kept) == list(range(reached))
    assert all(record.value == b"%d" % record.position[1] for record in kept)
