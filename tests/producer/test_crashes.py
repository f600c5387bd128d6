"""Senders that are killed while they send to a real broker, for each source of numbers."""

import time

import pytest

from tests.support.producing import RESUMING, Kit, in_row, kills, run_and_kill, start
from tests.support.topics import accepted, twice_or_falling

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


@pytest.mark.parametrize("named", ["named", "by key"])
def test_resumed_given_numbers_leave_each_record_once_above_the_watermark(kit: Kit, named: str) -> None:
    name = kit.topic(3)
    for seed in range(KILLS):
        run_and_kill(seed, RESUMING, kit.servers, name, str(10**9), named)
    reached = max(record.position[1] for record in kit.records(name)) + 1
    process = start(RESUMING, kit.servers, name, str(reached), named)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.endswith("done\n")
    found = kit.records(name)
    kept = accepted(found)
    assert sorted(record.position[1] for record in kept) == list(range(reached))
    assert all(record.value == b"%d" % record.position[1] for record in kept)
