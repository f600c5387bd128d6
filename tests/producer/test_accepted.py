"""What Kafka has of a producer is read back, whatever else is in the topic."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer
from tidemark_producer import Given, Headers, Position, Sender, last_accepted

from tests.support.kafka import Sent, delete_records, send, send_header_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from bronze.dev_broker.broker import LocalBroker


@pytest.fixture
def config(broker: LocalBroker) -> dict[str, Any]:
    """Settings of a sender."""
    return {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "transactional.id": "shop", "acks": "all"}


def numbered(*positions: tuple[int, int], producer: str = "shop", partition: int = 0) -> list[Sent]:
    return [
        Sent(b"v", b"k", [("producer", producer.encode()), ("epoch", b"%d" % epoch), ("seq", b"%d" % sequence)], partition)
        for epoch, sequence in positions
    ]


def test_each_partition_has_its_greatest_and_none_where_nothing_is_of_this_producer(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(4)
    mine = numbered((1, 900), (2, 5), (2, 6), (2, 7), (2, 5))
    others = numbered(*((3, number) for number in range(3_000)), producer="another")
    send(
        broker.bootstrap_servers,
        name,
        [*mine, *others, *numbered((2, 99), partition=1), *numbered((9, 9), producer="", partition=2)],
    )
    assert last_accepted(config, name, "shop") == {0: (2, 7), 1: (2, 99), 2: None, 3: None}
    assert last_accepted(config, name, "nobody") == dict.fromkeys(range(4))


def test_a_resend_of_up_to_a_queue_does_not_hide_the_greatest(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(1)
    sent = [*range(5_000), *range(3_001, 4_000), *range(3_001, 4_500)]
    send(broker.bootstrap_servers, name, numbered(*((1, number) for number in sent)))
    assert last_accepted({**config, "queue.buffering.max.messages": 2_000}, name, "shop") == {0: (1, 4_999)}
    assert last_accepted({**config, "queue.buffering.max.messages": 0}, name, "shop") == {0: (1, 4_999)}


def test_records_that_no_sender_made_are_passed_over(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(1)
    ours = ("producer", b"shop"), ("epoch", b"1")
    odd: list[list[tuple[str, bytes | None]]] = [
        [],
        [*ours],
        [*ours, ("seq", None)],
        [*ours, ("seq", b"")],
        [*ours, ("seq", b"9" * 5_000)],
        [*ours, ("seq", b"9223372036854775808")],
        [*ours, ("seq", "\N{ARABIC-INDIC DIGIT SEVEN}".encode())],
        [*ours, ("seq", b"70"), ("seq", b"71")],
        [("producer", None), ("epoch", b"1"), ("seq", b"72")],
        [("producer", b"shop"), ("seq", b"73")],
    ]
    send(broker.bootstrap_servers, name, [*numbered((1, 7)), *(Sent(b"v", b"k", headers) for headers in odd)])
    send_header_name(broker.bootstrap_servers, name, b"\xff\xfe", timestamp=1)
    assert last_accepted(config, name, "shop") == {0: (1, 7)}
    send(broker.bootstrap_servers, name, [Sent(b"v", b"k", [*ours, ("seq", b"8"), ("seq", b"8")])])
    assert last_accepted(config, name, "shop") == {0: (1, 8)}


def test_what_retention_took_away_is_not_seen(broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]) -> None:
    name = topic(1)
    send(broker.bootstrap_servers, name, [*numbered((1, 1), (1, 2)), *numbered((5, 5), producer="another")])
    delete_records(broker.bootstrap_servers, name, before=1)
    assert last_accepted(config, name, "shop") == {0: (1, 2)}
    delete_records(broker.bootstrap_servers, name, before=3)
    assert last_accepted(config, name, "shop") == {0: None}


def test_headers_have_the_senders_names_and_what_is_not_sent_is_not_asked_for(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name, headers = topic(1), Headers(None, None, "n")
    plain = {"bootstrap.servers": broker.bootstrap_servers}
    with Sender(plain, "shop", Given(), headers=headers) as sender:
        sender.send(name, b"v", b"k", sequence=17)
    assert last_accepted(config, name, "shop", headers=headers) == {0: Position(1, 17)}
    with pytest.raises(ValueError, match="sequence"):
        last_accepted(config, name, "shop", headers=Headers(sequence=None))


def test_an_open_transaction_of_anybody_is_waited_for(
    broker: LocalBroker, config: dict[str, Any], topic: Callable[..., str]
) -> None:
    name = topic(1)
    other = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"other-{name}", "log_level": 3})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(name, b"v", b"k", 0)
    assert other.flush(30) == 0
    send(broker.bootstrap_servers, name, numbered((1, 7)))  # committed, and behind an open transaction
    with pytest.raises(TimeoutError, match="transaction"):
        last_accepted(config, name, "shop", timeout=1)

    def commit_later() -> None:
        time.sleep(1)
        other.commit_transaction(30)

    threading.Thread(target=commit_later).start()
    assert last_accepted(config, name, "shop") == {0: (1, 7)}


def test_a_topic_or_a_broker_that_is_not_there_is_an_error(broker: LocalBroker, config: dict[str, Any]) -> None:
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC"):
        last_accepted(config, "no-such-topic", "shop", timeout=3)
    began = time.monotonic()
    with pytest.raises((KafkaException, TimeoutError)):
        last_accepted({**config, "bootstrap.servers": "127.0.0.1:1"}, "sales", "shop", timeout=1)
    assert time.monotonic() - began < 20
