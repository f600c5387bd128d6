"""Senders with a `transactional.id`: Kafka shuts out older ones, and the count continues without a store."""

import contextlib

import pytest
from confluent_kafka import KafkaException
from tidemark_producer import Counter, Given, InUse, Sender, Stopped, last_accepted

from tests.support.producing import Kit

SECONDS = 30


@pytest.fixture
def name(kit: Kit) -> str:
    """A topic, and the transactional id of this test's clients."""
    name = kit.topic(2)
    kit.config["transactional.id"] = name
    return name


def counting(kit: Kit, name: str) -> Sender:
    return kit.sender(Counter(after=lambda: last_accepted(kit.config, name, "shop")))


def test_the_count_continues_after_commits_and_an_abort_leaves_a_gap(kit: Kit, name: str) -> None:
    with counting(kit, name) as sender:
        with sender.transaction():
            futures = [sender.send(name, b"v", b"k%d" % number) for number in range(4)]
            assert not futures[0].done()
            before = sender.acknowledged
        assert before is None
        assert [future.result(0).sequence for future in futures] == [0, 1, 2, 3]
        assert sender.acknowledged == (1, 3)

        def fail() -> None:
            with sender.transaction():
                futures.append(sender.send(name, b"v", b"k"))
                sender.flush(SECONDS)
                raise LookupError

        with pytest.raises(LookupError):
            fail()
        assert isinstance(futures[-1].exception(0), Stopped)
        with sender.transaction():
            sender.send(name, b"v", b"k")
        assert sender.acknowledged == (1, 5)
        with pytest.raises(KafkaException, match="_STATE"):
            sender.send(name, b"v", b"k")  # outside
    assert sorted(kit.positions(name)) == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 5)]
    with counting(kit, name) as sender, sender.transaction():
        assert sender.send(name, b"v", b"k").done() is False
    assert max(kit.positions(name)) == (1, 6)


def test_given_numbers_of_an_aborted_transaction_are_sent_again(kit: Kit, name: str) -> None:
    with kit.sender(Given()) as sender:
        for is_last in (False, True):
            try:
                with sender.transaction():
                    for sequence in (3, 4):
                        sender.send(name, b"v", b"k", sequence=sequence)
                    assert is_last
            except AssertionError:
                continue
        assert sender.acknowledged == (1, 4)
    assert sorted(kit.positions(name)) == [(1, 3), (1, 4)]


def test_a_refused_record_aborts_its_transaction_and_the_next_one_commits(kit: Kit, name: str) -> None:
    compacted = kit.topic(1, {"cleanup.policy": "compact"})
    with kit.sender(Given(), {"error_cb": lambda _: None}) as sender:

        def send(key: bytes | None) -> None:
            with sender.transaction():
                sender.send(name, b"v", b"k", sequence=1)
                sender.send(compacted, b"v", key, partition=0, sequence=2)

        with pytest.raises(Stopped, match="INVALID_RECORD"):
            send(None)
        with contextlib.suppress(Stopped):  # librdkafka needs another try: its broker has not heard of the refused one's number
            send(b"k")
        if sender.acknowledged is None:
            send(b"k")
        assert sender.acknowledged == (1, 2)
    assert sorted(kit.positions(name)) == [(1, 1)]
    assert kit.positions(compacted) == [(1, 2)]


def test_a_later_sender_shuts_out_the_first_and_aborts_its_open_transaction(kit: Kit, name: str) -> None:
    first = counting(kit, name)
    with first.transaction():
        first.send(name, b"first", b"k")

    def overtaken() -> None:
        with first.transaction():
            first.send(name, b"lost", b"k")
            first.flush(SECONDS)
            with counting(kit, name) as second, second.transaction():
                second.send(name, b"second", b"k")

    with pytest.raises(InUse):
        overtaken()
    for act in (lambda: first.send(name, b"v", b"k"), lambda: first.transaction().__enter__()):
        with pytest.raises(InUse):
            act()
    first.close()
    found = kit.records(name)
    assert [(record.value, record.position) for record in found] == [(b"first", (1, 0)), (b"second", (1, 1))]
