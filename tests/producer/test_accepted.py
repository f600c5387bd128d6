"""The last position that Kafka accepted from a producer, whatever else is in the topic."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from tidemark_producer import Given, Headers, Position, last_accepted

from tests.support.kafka import Sent, delete_records, send, send_header_name
from tests.support.producing import Kit


def accepted(
    kit: Kit, topic: str, producer: str = "shop", settings: Mapping[str, Any] | None = None, **options: Any
) -> dict[int, Position | None]:
    config = {**kit.config, "transactional.id": "shop", "acks": "all", **(settings or {})}
    return last_accepted(config, topic, producer, **options)


def numbered(*positions: tuple[int, int], producer: str = "shop", partition: int = 0) -> list[Sent]:
    return [
        Sent(b"v", b"k", [("producer", producer.encode()), ("epoch", b"%d" % epoch), ("seq", b"%d" % sequence)], partition)
        for epoch, sequence in positions
    ]


def test_each_partition_has_its_greatest_position_or_none_as_retention_left_it(kit: Kit) -> None:
    name = kit.topic(4)
    mine = numbered((1, 900), (2, 5), (2, 6), (2, 7), (2, 5))
    others = numbered(*((3, number) for number in range(3_000)), producer="another")
    send(kit.servers, name, [*mine, *others, *numbered((2, 99), partition=1), *numbered((9, 9), producer="", partition=2)])
    assert accepted(kit, name) == {0: (2, 7), 1: (2, 99), 2: None, 3: None}
    assert accepted(kit, name, "nobody") == dict.fromkeys(range(4))
    delete_records(kit.servers, name, before=4)
    assert accepted(kit, name)[0] == (2, 5)
    delete_records(kit.servers, name, before=5)
    assert accepted(kit, name)[0] is None


def test_a_resend_of_up_to_a_queue_does_not_hide_the_greatest(kit: Kit) -> None:
    name = kit.topic(1)
    sent = [*range(5_000), *range(3_001, 4_000), *range(3_001, 4_500)]
    send(kit.servers, name, numbered(*((1, number) for number in sent)))
    assert accepted(kit, name, settings={"queue.buffering.max.messages": 2_000}) == {0: (1, 4_999)}
    assert accepted(kit, name, settings={"queue.buffering.max.messages": 0}) == {0: (1, 4_999)}


def test_records_that_no_sender_made_are_skipped(kit: Kit) -> None:
    name = kit.topic(1)
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
    send(kit.servers, name, [*numbered((1, 7)), *(Sent(b"v", b"k", headers) for headers in odd)])
    send_header_name(kit.servers, name, b"\xff\xfe", timestamp=1)
    assert accepted(kit, name) == {0: (1, 7)}
    send(kit.servers, name, [Sent(b"v", b"k", [*ours, ("seq", b"8"), ("seq", b"8")])])
    assert accepted(kit, name) == {0: (1, 8)}


def test_headers_can_be_renamed_and_left_out_and_a_sequence_is_required(kit: Kit) -> None:
    name, headers = kit.topic(1), Headers(None, None, "n")
    with kit.sender(Given(), headers=headers) as sender:
        sender.send(name, b"v", b"k", sequence=17)
    with kit.sender(Given(), headers=Headers(None, None, None)) as sender:
        sender.send(name, b"18", b"k", sequence=18)
    assert [record.headers for record in kit.records(name)] == [[("n", b"17")], []]
    assert accepted(kit, name, headers=headers) == {0: Position(1, 17)}
    with pytest.raises(ValueError, match="sequence"):
        accepted(kit, name, headers=Headers(sequence=None))


def test_it_waits_for_the_end_of_every_open_transaction(kit: Kit) -> None:
    name = kit.topic(1)
    other = Producer({"bootstrap.servers": kit.servers, "transactional.id": f"other-{name}", "log_level": 3})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(name, b"v", b"k", 0)
    assert other.flush(30) == 0
    send(kit.servers, name, numbered((1, 7)))  # committed, and behind an open transaction
    with pytest.raises(TimeoutError, match="transaction"):
        accepted(kit, name, timeout=1)

    def commit_later() -> None:
        time.sleep(0.3)
        other.commit_transaction(30)

    threading.Thread(target=commit_later).start()
    assert accepted(kit, name) == {0: (1, 7)}


def test_a_missing_topic_or_broker_is_an_error(kit: Kit) -> None:
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC"):
        accepted(kit, "no-such-topic", timeout=3)
    began = time.monotonic()
    with pytest.raises((KafkaException, TimeoutError)):
        accepted(kit, "sales", settings={"bootstrap.servers": "127.0.0.1:1"}, timeout=1)
    assert time.monotonic() - began < 20
