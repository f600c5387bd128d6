"""What a sender hands over to a real broker, also by the programs of the documents, and what it does when a delivery fails."""

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tidemark_producer
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from tidemark_producer import Counter, FileStore, Given, InUse, OutOfOrder, Position, Sender, Sent, Stopped

from tests.support.producing import Kit, start
from tests.support.topics import twice_or_falling

ROOT = Path(__file__).parents[2]
OUTBOX = [(1, "ann", "10.00"), (2, "bob", "25.00"), (3, "ann", "5.00")]
SECONDS = 30
LAST = 2**63 - 1
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "log.connection.close": False, "error_cb": lambda _: None}


def counting(path: Path) -> Counter:
    return Counter(FileStore(path / "numbers"), new=True)


def alter(servers: str, topic: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def test_a_record_arrives_with_its_headers_and_its_future_names_its_place(kit: Kit) -> None:
    name, made = kit.topic(3), list[dict[str, Any]]()

    def factory(settings: dict[str, Any]) -> Producer:
        made.append(settings)
        return Producer(settings)

    with Sender(kit.config, "shöp", kit.counter(), factory=factory) as sender:
        headers = {"kind": "payment", "none": None, "empty": b""}
        first = sender.send(name, "ten", "ann", partition=1, headers=headers, timestamp=1_700_000_000_000)
        second = sender.send(name, b"\x00\xff", partition=2)
        assert first.result(SECONDS) == Sent(name, 1, 0, 1, 0)
        assert second.result(SECONDS) == Sent(name, 2, 0, 1, 1)
        sender.flush(SECONDS)
        assert sender.acknowledged == (1, 1)
    assert [settings["enable.idempotence"] for settings in made] == [True]
    found = {record.value: record for record in kit.records(name)}
    ours = [("producer", "shöp".encode()), ("epoch", b"1"), ("seq", b"0")]
    assert found[b"ten"].headers == [("kind", b"payment"), ("none", None), ("empty", b""), *ours]
    assert (found[b"ten"].key, found[b"\x00\xff"].key) == (b"ann", None)
    assert found[b"\x00\xff"].headers[2] == ("seq", b"1")


def test_headers_and_producers_have_names_that_a_reader_can_read(tmp_path: Path) -> None:
    for headers in (("", "epoch", "seq"), ("n", "n", "seq"), (None, "x", "x")):
        with pytest.raises(ValueError, match="Headers"):
            tidemark_producer.Headers(*headers)
    for name in ("", "x" * 1_025, "\ud800"):
        with pytest.raises(ValueError, match=r"name has 1 to|surrogates"):
            Sender(NOWHERE, name, counting(tmp_path))


def test_values_keys_and_header_names_of_any_size_arrive_as_they_are(kit: Kit) -> None:
    name = kit.topic(1, {"max.message.bytes": "8000000"})
    given: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (None, None, []),
        (b"", b"", [("", b"")]),
        (b"v" * 5_000_000, b"k" * 300_000, [("h" * 100_000, b"x" * 100_000)]),
        (b"a\0b", b"\0", [("same", b"1"), ("same", b"2"), ("\N{SNOWMAN}", None)]),
        (b"many", b"k", [(f"h{index}", b"") for index in range(200)]),
    ]
    with kit.sender(settings={"message.max.bytes": 8_000_000}) as sender:
        for value, key, headers in given:
            sender.send(name, value, key, partition=0, headers=headers)
    found = kit.records(name)
    assert [(record.value, record.key, record.headers[:-3]) for record in found] == given
    assert [record.position for record in found] == [(1, number) for number in range(len(given))]


def test_a_record_that_the_client_refuses_uses_no_number(kit: Kit) -> None:
    name = kit.topic(1)
    with kit.sender() as sender:
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
    assert kit.positions(name) == [(1, 0), (1, 1)]


def test_a_given_number_rises_and_needs_a_partition_that_a_resend_would_choose_again(kit: Kit) -> None:
    name = kit.topic(3)
    with kit.sender(Given(epoch=3)) as sender:
        with pytest.raises(ValueError, match="drawn by chance"):
            sender.send(name, b"v", sequence=1)
        assert sender.send(name, b"v", b"", sequence=5).result(SECONDS).sequence == 5
        sender.send(name, b"v", b"k", partition=1, sequence=LAST)
        for sequence, error in ((LAST, OutOfOrder), (5, OutOfOrder), (-1, OutOfOrder), (LAST + 1, tidemark_producer.Exhausted)):
            with pytest.raises(error):
                sender.send(name, b"v", b"k", sequence=sequence)
    assert sorted(kit.positions(name)) == [(3, 5), (3, LAST)]
    with kit.sender(Given(), {"partitioner": "murmur2"}) as sender:
        assert sender.send(name, b"v", sequence=2).result(SECONDS).sequence == 2


def test_a_record_that_kafka_has_is_not_sent_again(kit: Kit) -> None:
    name = kit.topic(2)
    with kit.sender(Given(accepted={name: {0: Position(1, 5), 1: None}})) as sender:
        known = sender.send(name, b"v", b"k", partition=0, sequence=4)
        assert known.result(0) == Sent(name, 0, None, 1, 4)
        assert sender.acknowledged == (1, 4)
        sender.send(name, b"v", b"k", partition=1, sequence=5)
        sender.send(name, b"v", b"k", partition=0, sequence=6)
    assert kit.positions(name) == [(1, 6), (1, 5)]


def test_threads_share_a_sender_and_numbers_rise_in_every_partition(kit: Kit) -> None:
    name = kit.topic(4)
    small = {"queue.buffering.max.messages": 50}  # so that threads wait for a place, and for each other
    numbers = Counter(FileStore(kit.folder / "numbers"), block=7, new=True)
    with kit.sender(numbers, small) as sender, ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda number: sender.send(name, b"%d" % (number // 100), b"%d" % (number % 100)), range(800)))
    assert sorted(future.result(0).sequence for future in sent) == list(range(800))
    found = kit.records(name)
    assert twice_or_falling(found) == ([], [])
    assert len(found) == 800


def test_coroutines_wait_for_records_and_cannot_take_them_back(kit: Kit) -> None:
    name = kit.topic(1)

    async def send(sender: Sender) -> list[Sent]:
        waiting = [asyncio.wrap_future(sender.send(name, b"v", b"k")) for _ in range(100)]
        waiting[7].cancel()
        answered = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), SECONDS)
        assert isinstance(answered[7], asyncio.CancelledError)
        return [answer for answer in answered if isinstance(answer, Sent)]

    with kit.sender() as sender:
        assert len(asyncio.run(send(sender))) == 99
        future = sender.send(name, b"v", b"k")
        assert not future.cancel()
    assert len(kit.positions(name)) == 101


class Refusing:
    """A compacted topic, which refuses a record without a key, with a sender of 10 records to a batch."""

    def __init__(self, kit: Kit) -> None:
        self.name = kit.topic(1, {"cleanup.policy": "compact"})
        self.kit = kit
        self.sender = kit.sender(settings={"batch.num.messages": 10, "linger.ms": 50, "error_cb": lambda _: None})

    def sequences(self) -> list[int]:
        return [sequence for _, sequence in self.kit.positions(self.name)]

    def send(self, count: int, bad: set[int] = frozenset()) -> list[Any]:  # type: ignore[assignment]  # it is only read
        return [
            self.sender.send(self.name, b"%d" % number, None if number in bad else b"%d" % number, partition=0)
            for number in range(count)
        ]


@pytest.fixture
def refusing(kit: Kit) -> Refusing:
    return Refusing(kit)


def test_after_a_refused_record_nothing_is_delivered_until_recovery_sends_in_order(refusing: Refusing) -> None:
    sender = refusing.sender
    assert sender.recover() == []
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
    assert refusing.sequences() == list(range(min(refused)))
    with pytest.raises(Stopped) as alone:
        sender.recover(timeout=SECONDS)
    assert [failure.position for failure in alone.value.failures] == [(1, 42)]
    with pytest.raises(ValueError, match="Not open"):
        sender.recover(without=[Position(1, 0)])
    again = sender.recover(without=[Position(1, 42)], timeout=SECONDS)
    assert [sent.sequence for sent in again] == list(range(43, 100))
    assert sender.send(refusing.name, b"later", b"k").result(SECONDS).sequence == 100
    sender.close(SECONDS)
    assert sender.acknowledged == (1, 100)
    assert refusing.sequences() == [*range(42), *range(43, 101)]


def test_several_bad_records_are_found_one_by_one(refusing: Refusing) -> None:
    refusing.send(60, bad={5, 6, 59})
    with pytest.raises(Stopped):
        refusing.sender.flush(SECONDS)
    left_out: list[Position] = []
    while len(left_out) < 3:
        with pytest.raises(Stopped) as stopped:
            refusing.sender.recover(without=left_out[-1:], timeout=SECONDS)
        left_out += [failure.position for failure in stopped.value.failures]
    assert left_out == [(1, 5), (1, 6), (1, 59)]
    assert refusing.sender.recover(without=left_out[-1:], timeout=SECONDS) == []
    refusing.sender.close(SECONDS)
    assert refusing.sequences() == sorted(set(range(59)) - {5, 6})


def test_a_refused_record_is_delivered_once_its_cause_is_gone(kit: Kit) -> None:
    name = kit.topic(1, {"max.message.bytes": "2000"})
    with kit.sender(settings={"error_cb": lambda _: None}) as sender:
        for number in range(50):
            sender.send(name, b"x" * (5_000 if number == 20 else 10), b"k")
        with pytest.raises(Stopped, match="MSG_SIZE_TOO_LARGE"):
            sender.flush(SECONDS)
        alter(kit.servers, name, "max.message.bytes", "10000")
        sender.recover(timeout=SECONDS)
        assert sender.acknowledged == (1, 49)
    assert kit.positions(name) == [(1, number) for number in range(50)]


def test_a_stopped_sender_can_be_closed_and_its_futures_name_the_failure(refusing: Refusing) -> None:
    futures = list[Any]()
    with pytest.raises(Stopped, match="INVALID_RECORD"), refusing.sender:  # at the end of the block
        futures += refusing.send(30, bad={3})
    assert isinstance(futures[3].exception(0), Stopped)
    for _ in range(2):
        refusing.sender.close()
    with pytest.raises(Stopped, match="closed"):
        refusing.sender.send(refusing.name, b"v", b"k")
    with pytest.raises(Stopped, match="closed"):
        refusing.sender.recover()


def test_without_a_broker_every_call_ends_at_its_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Sender({**NOWHERE, "queue.buffering.max.messages": 3}, "shop", counting(tmp_path))
    futures = [sender.send("sales", b"v", b"k") for _ in range(3)]
    began = time.monotonic()
    send = partial(sender.send, "sales", b"v", b"k", timeout=0.1)
    for act in (send, partial(sender.flush, 0.1), partial(futures[0].result, 0.1), partial(sender.close, 0.1)):
        with pytest.raises(TimeoutError):
            act()
    assert time.monotonic() - began < 10
    assert [type(future.exception(0)) for future in futures] == [Stopped] * 3

    monkeypatch.setattr("tidemark_producer.sender._LAST_WAIT_SECONDS", 0.1)

    def fail() -> None:
        with Sender(NOWHERE, "shop", counting(tmp_path)) as another:
            another.send("sales", b"v", b"k")
            raise LookupError

    with pytest.raises(LookupError):  # a block that an error ends does not wait, and raises that error
        fail()


def test_a_callback_may_read_and_send_but_not_wait(kit: Kit) -> None:
    name, seen = kit.topic(1), list[object]()
    done = threading.Event()

    def called(_: object) -> None:
        try:
            seen.append(sender.acknowledged)
            seen.append(sender.send(name, b"second", b"k"))
            sender.flush()
        except RuntimeError as error:
            seen.append(error)
        done.set()

    with kit.sender() as sender:
        sender.send(name, b"first", b"k").add_done_callback(called)
        assert done.wait(SECONDS)
    assert seen[0] == (1, 0)
    assert "callback" in str(seen[2])


def test_a_failing_callback_of_the_client_stops_the_sender_and_is_named(kit: Kit) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError("in the statistics")

    name = kit.topic(1)
    sender = kit.sender(settings={"statistics.interval.ms": 50, "stats_cb": fail})
    time.sleep(0.5)
    with pytest.raises(Stopped, match="in the statistics"):
        sender.send(name, b"v", b"k")
    sender.close()  # nothing is open


def test_a_second_sender_of_a_name_is_refused_and_the_first_goes_on(kit: Kit) -> None:
    name = kit.topic(1)
    with kit.sender() as sender:
        with pytest.raises(InUse):
            kit.sender()
        shared = Counter(FileStore(kit.folder / "other"), new=True)
        with Sender(kit.config, "shop-2", shared) as another:
            with pytest.raises(InUse):
                Sender(kit.config, "shop-2", shared)
            another.send(name, b"v", b"k").result(SECONDS)
        sender.send(name, b"v", b"k").result(SECONDS)
    with pytest.raises(tidemark_producer.StateLost):
        kit.sender(Counter(FileStore(kit.folder / "new")))
    with pytest.raises(tidemark_producer.UnsafeSetting):
        kit.sender(settings={"acks": 1})
    with pytest.raises(KafkaException):
        kit.sender(settings={"no.such": 1})
    with kit.sender():  # none of the refused ones holds it
        pass


def test_a_fork_is_refused_and_ends_and_the_parent_goes_on(kit: Kit) -> None:
    name = kit.topic(1)
    process = start(FORKING, kit.servers, name, str(kit.folder / "numbers"))
    assert process.communicate(timeout=60) == ("child 0\nparent 0\n", "")
    assert process.returncode == 0
    assert kit.positions(name) == [(1, 0), (1, 1), (2, 0)]


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


def test_a_signal_during_send_gives_out_no_number_twice(kit: Kit) -> None:
    name = kit.topic(1)
    process = start(INTERRUPTED, kit.servers, name, str(kit.folder / "numbers"))
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()  # a process that hangs would take a core from all later tests
    assert (process.returncode, out) == (0, "done\n"), err
    found = kit.records(name)
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


def programs(page: str) -> list[str]:
    found = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"))
    return [program for program in found if "with Sender(" in program]


@pytest.mark.parametrize(
    ("page", "positions"),
    [
        ("docs/producers.md", [[(1, 1), (1, 2), (1, 3)], [(1, 1), (1, 2), (1, 3), (1, 4)], [(1, 0)]]),
        ("producer/README.md", [[(1, 0), (1, 1)]]),
    ],
)
def test_the_programs_of_a_page_send_the_numbers_that_it_names(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, *, page: str, positions: list[list[tuple[int, int]]]
) -> None:
    monkeypatch.chdir(kit.folder)
    shared = kit.topic(1)
    for program, expected in zip(programs(page), positions, strict=True):
        name = kit.topic(1) if "transaction" in program else shared
        known: dict[str, Any] = {key: getattr(tidemark_producer, key) for key in tidemark_producer.__all__}
        known["rows_after"] = lambda begin: [row for row in [*OUTBOX, (4, "bob", "1.00")] if begin is None or row[0] > begin]
        here = program.replace("localhost:9092", kit.servers).replace('"payments"', repr(name))
        exec(compile(here, page, "exec"), known)  # noqa: S102 -- our own page
        assert sorted(kit.positions(name)) == expected
