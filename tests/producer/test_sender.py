"""What a sender hands over to a real broker, and what it does when a delivery fails."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from tidemark_producer import (
    Counter,
    Exhausted,
    FileStore,
    Given,
    Headers,
    InUse,
    OutOfOrder,
    Position,
    Sender,
    Sent,
    StateLost,
    Stopped,
    UnsafeSetting,
)

from tests.support.producing import KIT_PATH, start
from tests.support.topics import records_of, twice_or_falling

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bronze.dev_broker.broker import LocalBroker

SECONDS = 30
LAST = 2**63 - 1
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "log.connection.close": False, "error_cb": lambda _: None}


@pytest.fixture
def config(broker: LocalBroker) -> dict[str, Any]:
    """Settings of a client that says little."""
    return {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 1}


def counting(path: Path) -> Counter:
    return Counter(FileStore(path / "numbers"), new=True)


def alter(broker: LocalBroker, topic: str, name: str, value: str) -> None:
    """Change a setting of a topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def numbers(broker: LocalBroker, topic: str) -> list[tuple[int, int]]:
    return [record.position for record in records_of(broker.bootstrap_servers, topic)]


def test_a_record_arrives_with_its_headers_and_its_future_says_where(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(3)
    with Sender(config, "shöp", counting(tmp_path)) as sender:
        first = sender.send(
            name,
            "ten",
            "ann",
            partition=1,
            headers={"kind": "payment", "none": None, "empty": b""},
            timestamp=1_700_000_000_000,
        )
        second = sender.send(name, b"\x00\xff", partition=2)
        assert first.result(SECONDS) == Sent(name, 1, 0, 1, 0)
        assert second.result(SECONDS) == Sent(name, 2, 0, 1, 1)
        sender.flush(SECONDS)
        assert sender.acknowledged == (1, 1)
    found = {record.value: record for record in records_of(broker.bootstrap_servers, name)}
    ours = [("producer", "shöp".encode()), ("epoch", b"1"), ("seq", b"0")]
    assert found[b"ten"].headers == [("kind", b"payment"), ("none", None), ("empty", b""), *ours]
    assert (found[b"ten"].key, found[b"\x00\xff"].key) == (b"ann", None)
    assert found[b"\x00\xff"].headers[2] == ("seq", b"1")


def test_headers_have_the_names_that_a_reader_wants_and_those_left_out_are_not_sent(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(1)
    with Sender(config, "shop", Given(), headers=Headers(None, None, "n")) as sender:
        sender.send(name, b"v", b"k", sequence=17)
    with Sender(config, "shop", Given(), headers=Headers(None, None, None)) as sender:
        sender.send(name, b"18", b"k", sequence=18)
    assert [record.headers for record in records_of(broker.bootstrap_servers, name)] == [[("n", b"17")], []]


@pytest.mark.parametrize("headers", [("", "epoch", "seq"), ("n", "n", "seq"), (None, "x", "x")])
def test_names_of_headers_differ_and_are_not_empty(headers: tuple[str | None, ...]) -> None:
    with pytest.raises(ValueError, match="Headers"):
        Headers(*headers)


@pytest.mark.parametrize("name", ["", "x" * 1_025, "\ud800"])
def test_a_producer_has_a_name_that_a_reader_can_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"name has 1 to|surrogates"):
        Sender(NOWHERE, name, counting(tmp_path))


def test_values_keys_and_header_names_of_any_size_arrive_as_they_are(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1, {"max.message.bytes": "8000000"})
    given: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (None, None, []),
        (b"", b"", [("", b"")]),
        (b"v" * 5_000_000, b"k" * 300_000, [("h" * 100_000, b"x" * 100_000)]),
        (b"a\0b", b"\0", [("same", b"1"), ("same", b"2"), ("\N{SNOWMAN}", None)]),
        (b"many", b"k", [(f"h{index}", b"") for index in range(200)]),
    ]
    with Sender({**config, "message.max.bytes": 8_000_000}, "shop", counting(tmp_path)) as sender:
        for value, key, headers in given:
            sender.send(name, value, key, partition=0, headers=headers)
    found = records_of(broker.bootstrap_servers, name)
    assert [(record.value, record.key, record.headers[:-3]) for record in found] == given
    assert [record.position for record in found] == [(1, number) for number in range(len(given))]


def test_what_the_client_refuses_costs_no_number(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    with Sender(config, "shop", counting(tmp_path)) as sender:
        sender.send(name, b"0", b"k").result(SECONDS)
        with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
            sender.send(name, b"x" * 2_000_000, b"k")
        with pytest.raises(KafkaException, match="UNKNOWN_PARTITION"):
            sender.send(name, b"x", b"k", partition=7)
        for wrong in ({"value": 5}, {"value": b"", "headers": [("n", 5)]}, {"value": b"", "headers": [(5, b"")]}):
            with pytest.raises((TypeError, ValueError)):
                sender.send(name, key=b"k", **wrong)
        for reserved in ("producer", "epoch", "seq"):
            with pytest.raises(ValueError, match=reserved):
                sender.send(name, b"x", b"k", headers={reserved: b"7"})
        with pytest.raises(ValueError, match="zero"):
            sender.send(name, b"x", b"k", headers={"seq\0": b"7"})
        with pytest.raises(UnicodeEncodeError):
            sender.send(name, "\ud800", b"k")
        with pytest.raises(OverflowError):
            sender.send(name, b"x", b"k", timestamp=2**70)
        assert sender.send(name, b"1", b"k").result(SECONDS).sequence == 1
    assert numbers(broker, name) == [(1, 0), (1, 1)]


def test_numbers_that_do_not_rise_are_refused_before_they_are_sent(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(2)
    with Sender(config, "shop", Given(epoch=3)) as sender:
        for sequence in (5, 9, LAST):
            sender.send(name, b"v", b"k", partition=sequence % 2, sequence=sequence)
        for sequence in (LAST, 9, -1):
            with pytest.raises(OutOfOrder):
                sender.send(name, b"v", b"k", sequence=sequence)
        with pytest.raises(Exhausted):
            sender.send(name, b"v", b"k", sequence=LAST + 1)
    assert sorted(numbers(broker, name)) == [(3, 5), (3, 9), (3, LAST)]


def test_a_given_number_needs_a_partition_that_a_resend_finds_again(config: dict[str, Any], topic: Callable[..., str]) -> None:
    name = topic(3)
    with Sender(config, "shop", Given()) as sender:
        with pytest.raises(ValueError, match="drawn by chance"):
            sender.send(name, b"v", sequence=1)
        assert sender.send(name, b"v", b"", sequence=1).result(SECONDS).sequence == 1
    with Sender({**config, "partitioner": "murmur2"}, "shop", Given()) as sender:
        assert sender.send(name, b"v", sequence=2).result(SECONDS).sequence == 2


def test_what_kafka_has_already_is_not_sent_again(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(2)
    with Sender(config, "shop", Given(accepted={name: {0: Position(1, 5), 1: None}})) as sender:
        known = sender.send(name, b"v", b"k", partition=0, sequence=4)
        assert known.result(0) == Sent(name, 0, None, 1, 4)
        assert sender.acknowledged == (1, 4)
        sender.send(name, b"v", b"k", partition=1, sequence=5)
        sender.send(name, b"v", b"k", partition=0, sequence=6)
    assert numbers(broker, name) == [(1, 6), (1, 5)]


def test_threads_share_a_sender_and_numbers_rise_in_every_partition(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(4)
    small = {**config, "queue.buffering.max.messages": 50}  # so that threads wait for a place, and for each other
    with (
        Sender(small, "shop", Counter(FileStore(tmp_path / "numbers"), block=7, new=True)) as sender,
        ThreadPoolExecutor(8) as pool,
    ):
        sent = [
            future
            for futures in pool.map(
                lambda thread: [sender.send(name, b"%d" % thread, b"%d" % number) for number in range(100)], range(8)
            )
            for future in futures
        ]
    assert sorted(future.result(0).sequence for future in sent) == list(range(800))
    found = records_of(broker.bootstrap_servers, name)
    assert twice_or_falling(found) == ([], [])
    assert len(found) == 800


def test_coroutines_wait_for_records_and_cannot_take_them_back(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)

    async def send(sender: Sender) -> list[Sent]:
        waiting = [asyncio.wrap_future(sender.send(name, b"v", b"k")) for _ in range(100)]
        waiting[7].cancel()
        answered = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), SECONDS)
        assert isinstance(answered[7], asyncio.CancelledError)
        return [answer for answer in answered if isinstance(answer, Sent)]

    with Sender(config, "shop", counting(tmp_path)) as sender:
        assert len(asyncio.run(send(sender))) == 99
        future = sender.send(name, b"v", b"k")
        assert not future.cancel()
    assert len(numbers(broker, name)) == 101


class Refusing:
    """A compacted topic, which refuses a record without a key, with a sender of 10 records to a batch."""

    def __init__(self, broker: LocalBroker, config: dict[str, Any], name: str, folder: Path) -> None:
        self.broker, self.name = broker, name
        batched = {**config, "batch.num.messages": 10, "linger.ms": 50, "error_cb": lambda _: None}
        self.sender = Sender(batched, "shop", counting(folder))

    def send(self, count: int, bad: set[int] = frozenset()) -> list[Any]:  # type: ignore[assignment]  # it is only read
        """Send records into partition 0; those that are bad have no key."""
        return [
            self.sender.send(self.name, b"%d" % number, None if number in bad else b"%d" % number, partition=0)
            for number in range(count)
        ]


@pytest.fixture
def refusing(broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path) -> Refusing:
    """A topic that refuses records."""
    return Refusing(broker, config, topic(1, {"cleanup.policy": "compact"}), tmp_path)


def test_behind_a_refused_record_nothing_is_delivered_until_all_is_sent_again_in_order(refusing: Refusing) -> None:
    sender = refusing.sender
    futures = refusing.send(100, bad={42})
    with pytest.raises(Stopped, match="INVALID_RECORD") as stopped:
        sender.flush(SECONDS)
    refused = {failure.position.sequence for failure in stopped.value.failures}
    assert 42 in refused
    assert len(refused) <= 10  # the batch
    assert sender.acknowledged == (1, min(refused) - 1)
    assert [position.sequence for position in stopped.value.open] == list(range(min(refused), 100))
    with pytest.raises(Stopped):
        futures[42].result(SECONDS)
    with pytest.raises(Stopped):
        sender.send(refusing.name, b"later", b"k")
    assert [sequence for _, sequence in numbers(refusing.broker, refusing.name)] == list(range(min(refused)))
    with pytest.raises(Stopped) as alone:
        sender.recover(timeout=SECONDS)
    assert [failure.position for failure in alone.value.failures] == [(1, 42)]
    again = sender.recover(without=[Position(1, 42)], timeout=SECONDS)
    assert [sent.sequence for sent in again] == list(range(43, 100))
    assert sender.send(refusing.name, b"later", b"k").result(SECONDS).sequence == 100
    sender.close(SECONDS)
    assert sender.acknowledged == (1, 100)
    assert [sequence for _, sequence in numbers(refusing.broker, refusing.name)] == [*range(42), *range(43, 101)]


def test_several_bad_records_are_found_one_by_one(refusing: Refusing) -> None:
    refusing.send(60, bad={5, 6, 37})
    with pytest.raises(Stopped):
        refusing.sender.flush(SECONDS)
    left_out: list[Position] = []
    while len(left_out) < 3:
        with pytest.raises(Stopped) as stopped:
            refusing.sender.recover(without=left_out[-1:], timeout=SECONDS)
        left_out += [failure.position for failure in stopped.value.failures]
    refusing.sender.recover(without=left_out[-1:], timeout=SECONDS)
    refusing.sender.close(SECONDS)
    assert left_out == [(1, 5), (1, 6), (1, 37)]
    assert [sequence for _, sequence in numbers(refusing.broker, refusing.name)] == sorted(set(range(60)) - {5, 6, 37})


def test_what_was_refused_goes_through_once_its_cause_is_gone(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1, {"max.message.bytes": "2000"})
    with Sender({**config, "error_cb": lambda _: None}, "shop", counting(tmp_path)) as sender:
        for number in range(50):
            sender.send(name, b"x" * (5_000 if number == 20 else 10), b"k")
        with pytest.raises(Stopped, match="MSG_SIZE_TOO_LARGE"):
            sender.flush(SECONDS)
        alter(broker, name, "max.message.bytes", "10000")
        sender.recover(timeout=SECONDS)
        assert sender.acknowledged == (1, 49)
    assert numbers(broker, name) == [(1, number) for number in range(50)]


def test_what_is_left_out_has_to_be_open_and_without_a_failure_nothing_happens(refusing: Refusing) -> None:
    sender = refusing.sender
    sender.send(refusing.name, b"v", b"k").result(SECONDS)
    assert sender.recover() == []
    refusing.send(1, bad={0})
    with pytest.raises(Stopped):
        sender.flush(SECONDS)
    with pytest.raises(ValueError, match="Not open"):
        sender.recover(without=[Position(1, 0)])
    assert sender.recover(without=[Position(1, 1)], timeout=SECONDS) == []
    sender.send(refusing.name, b"v", b"k").result(SECONDS)
    sender.close()


def test_a_sender_that_stopped_can_be_closed_and_says_to_its_futures_what_failed(refusing: Refusing) -> None:
    futures = refusing.send(30, bad={3})
    with pytest.raises(Stopped, match="INVALID_RECORD"):
        refusing.sender.close(SECONDS)
    assert isinstance(futures[3].exception(0), Stopped)
    for _ in range(2):
        refusing.sender.close()
    with pytest.raises(Stopped, match="closed"):
        refusing.sender.send(refusing.name, b"v", b"k")
    with pytest.raises(Stopped, match="closed"):
        refusing.sender.recover()


def test_a_broker_that_is_not_there_stops_nobody_who_does_not_want_to_wait(tmp_path: Path) -> None:
    sender = Sender({**NOWHERE, "queue.buffering.max.messages": 3}, "shop", counting(tmp_path))
    futures = [sender.send("sales", b"v", b"k") for _ in range(3)]
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        sender.send("sales", b"v", b"k", timeout=0.1)
    with pytest.raises(TimeoutError):
        sender.flush(0.1)
    with pytest.raises(TimeoutError):
        futures[0].result(0.1)
    with pytest.raises(TimeoutError):
        sender.close(0.1)
    assert time.monotonic() - began < 10
    assert [type(future.exception(0)) for future in futures] == [Stopped] * 3
    with Sender(NOWHERE, "shop", Counter(FileStore(tmp_path / "numbers"))):
        pass


def test_a_block_left_by_an_error_ends_and_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemark_producer.sender._LAST_WAIT_SECONDS", 0.1)
    sender = Sender(NOWHERE, "shop", counting(tmp_path))

    def fail() -> None:
        with sender:
            sender.send("sales", b"v", b"k")
            raise LookupError

    with pytest.raises(LookupError):
        fail()


def test_a_block_in_which_a_delivery_failed_does_not_end_in_silence(refusing: Refusing) -> None:
    with pytest.raises(Stopped, match="INVALID_RECORD"), refusing.sender:
        refusing.send(30, bad={3})


def test_a_callback_may_look_and_send_but_not_wait(config: dict[str, Any], topic: Callable[..., str], tmp_path: Path) -> None:
    name, told = topic(1), list[object]()
    done = threading.Event()

    def called(_: object) -> None:
        try:
            told.append(sender.acknowledged)
            told.append(sender.send(name, b"second", b"k"))
            sender.flush()
        except RuntimeError as error:
            told.append(error)
        done.set()

    with Sender(config, "shop", counting(tmp_path)) as sender:
        sender.send(name, b"first", b"k").add_done_callback(called)
        assert done.wait(SECONDS)
    assert told[0] == (1, 0)
    assert "callback" in str(told[2])


def test_a_callback_of_the_client_that_fails_stops_the_sender_and_is_named(
    config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError("in the statistics")

    name = topic(1)
    sender = Sender({**config, "statistics.interval.ms": 50, "stats_cb": fail}, "shop", counting(tmp_path))
    time.sleep(0.5)
    with pytest.raises(Stopped, match="in the statistics"):
        sender.send(name, b"v", b"k")
    sender.close()  # nothing is open


def test_a_second_sender_of_a_name_is_refused_and_the_first_goes_on(
    config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    with Sender(config, "shop", counting(tmp_path)) as sender:
        with pytest.raises(InUse):
            Sender(config, "shop", counting(tmp_path))
        shared = Counter(FileStore(tmp_path / "other"), new=True)
        with Sender(config, "shop-2", shared) as another:
            with pytest.raises(InUse):
                Sender(config, "shop-2", shared)
            another.send(name, b"v", b"k").result(SECONDS)
        sender.send(name, b"v", b"k").result(SECONDS)
    with pytest.raises(StateLost):
        Sender(config, "shop", Counter(FileStore(tmp_path / "new")))
    with pytest.raises(UnsafeSetting):
        Sender({**config, "acks": 1}, "shop", counting(tmp_path))
    with pytest.raises(KafkaException):
        Sender({**config, "no.such": 1}, "shop", counting(tmp_path))
    with Sender(config, "shop", counting(tmp_path)):  # none of the refused ones holds it
        pass


def test_a_fork_is_refused_and_ends_and_the_parent_goes_on(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    done = subprocess.run(
        [sys.executable, "-c", FORKING, broker.bootstrap_servers, name, str(tmp_path / "numbers")],
        env={**os.environ, "PYTHONPATH": KIT_PATH},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "child 0\nparent 0\n", "")
    assert numbers(broker, name) == [(1, 0), (1, 1), (2, 0)]


FORKING = """
import os, sys
from tidemark_producer import Counter, FileStore, Forked, InUse, Sender
servers, topic, path = sys.argv[1:]
def make():
    return Sender({"bootstrap.servers": servers}, "shop", Counter(FileStore(path), new=True))
with make() as sender:
    sender.send(topic, b"v", b"k")
    child = os.fork()
    if child == 0:
        begin = lambda: sender.transaction().__enter__()
        for act in (lambda: sender.send(topic, b"v", b"k"), sender.flush, sender.recover, begin):
            try:
                act()
            except Forked:
                continue
            sys.exit(7)
        try:
            make()
            sys.exit(8)
        except InUse:
            pass
        del sender
        print("child", 0)
        sys.exit(0)  # with all that Python does at its end
    assert os.waitpid(child, 0)[1] == 0
    sender.send(topic, b"v", b"k").result(30)
with make() as sender:
    sender.send(topic, b"v", b"k").result(30)
print("parent", 0)
"""


def test_a_signal_in_the_middle_of_sending_gives_no_number_out_twice(
    broker: LocalBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    process = start(INTERRUPTED, broker.bootstrap_servers, name, str(tmp_path / "numbers"))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "done\n"), err
    found = records_of(broker.bootstrap_servers, name)
    assert twice_or_falling(found) == ([], [])
    assert len(found) > 100


INTERRUPTED = """
import gc, signal, sys
from tidemark_producer import Counter, FileStore, Sender
servers, topic, path = sys.argv[1:]
class Interrupted(BaseException):
    pass
def interrupt(*_):
    raise Interrupted
signal.signal(signal.SIGALRM, interrupt)
gc.disable()  # a finalizer would swallow the signal
with Sender({"bootstrap.servers": servers}, "shop", Counter(FileStore(path), new=True)) as sender:
    for number in range(80):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001 + number % 7 / 5_000)
            for _ in range(2_000):
                sender.send(topic, b"v", b"k")
        except (Interrupted, TypeError):  # the client takes one within `produce` for a wrong header
            pass
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupted:
            pass
print("done")
"""


def test_errors_go_to_another_process_as_they_are() -> None:
    error = Stopped("It stopped.", [], [Position(1, 2)])
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 -- made one line above
    assert (str(again), again.open) == (str(error), ((1, 2),))


def test_a_factory_makes_the_client(config: dict[str, Any], topic: Callable[..., str], tmp_path: Path) -> None:
    made: list[dict[str, Any]] = []

    def factory(settings: dict[str, Any]) -> Producer:
        made.append(settings)
        return Producer(settings)

    with Sender(config, "shop", counting(tmp_path), factory=factory) as sender:
        sender.send(topic(1), b"v", b"k")
    assert [settings["enable.idempotence"] for settings in made] == [True]
