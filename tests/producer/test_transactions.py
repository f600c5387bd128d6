"""Senders with a `transactional.id`: Kafka shuts out older ones, and the count goes on without a store."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from tidemark_producer import Counter, Given, InUse, Sender, Stopped, last_accepted

from tests.support.topics import records_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bronze.dev_broker.broker import LocalBroker

SECONDS = 30


@pytest.fixture
def name(topic: Callable[..., str]) -> str:
    """A topic."""
    return topic(2)


@pytest.fixture
def config(broker: LocalBroker, name: str) -> dict[str, Any]:
    """Settings of a transactional client."""
    return {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "transactional.id": name, "log_level": 0}


def counting(config: dict[str, Any], name: str) -> Sender:
    return Sender(config, "shop", Counter(after=lambda: last_accepted(config, name, "shop")))


def numbers(broker: LocalBroker, name: str) -> list[tuple[int, int]]:
    return sorted(record.position for record in records_of(broker.bootstrap_servers, name))


def test_what_is_committed_is_counted_on_and_what_is_aborted_leaves_a_gap(
    broker: LocalBroker, config: dict[str, Any], name: str
) -> None:
    with counting(config, name) as sender:
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
    assert numbers(broker, name) == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 5)]
    with counting(config, name) as sender, sender.transaction():
        assert sender.send(name, b"v", b"k").done() is False
    assert numbers(broker, name)[-1] == (1, 6)


def test_given_numbers_of_an_aborted_transaction_are_sent_again(broker: LocalBroker, config: dict[str, Any], name: str) -> None:
    with Sender(config, "shop", Given()) as sender:
        for is_last in (False, True):
            try:
                with sender.transaction():
                    for sequence in (3, 4):
                        sender.send(name, b"v", b"k", sequence=sequence)
                    assert is_last
            except AssertionError:
                continue
        assert sender.acknowledged == (1, 4)
    assert numbers(broker, name) == [(1, 3), (1, 4)]


def test_a_refused_record_aborts_its_transaction_and_the_next_one_goes_through(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str], name: str
) -> None:
    compacted = topic(1, {"cleanup.policy": "compact"})
    with Sender({**config, "error_cb": lambda _: None}, "shop", Given()) as sender:

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
    assert numbers(broker, name) == [(1, 1)]
    assert numbers(broker, compacted) == [(1, 2)]


def test_a_sender_that_started_later_shuts_out_the_first_whose_open_transaction_is_gone(
    broker: LocalBroker, config: dict[str, Any], name: str
) -> None:
    first = counting(config, name)
    with first.transaction():
        first.send(name, b"first", b"k")

    def overtaken() -> None:
        with first.transaction():
            first.send(name, b"lost", b"k")
            first.flush(SECONDS)
            with counting(config, name) as second, second.transaction():
                second.send(name, b"second", b"k")

    with pytest.raises(InUse):
        overtaken()
    for act in (lambda: first.send(name, b"v", b"k"), lambda: first.transaction().__enter__()):
        with pytest.raises(InUse):
            act()
    first.close()
    found = records_of(broker.bootstrap_servers, name)
    assert [(record.value, record.position) for record in found] == [(b"first", (1, 0)), (b"second", (1, 1))]
