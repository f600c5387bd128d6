"""Real producers and the administration of a real broker, as short as a test wants them."""

import ctypes
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tidemark.extras.demo.producer import Outgoing

_SECONDS = 30
_IN_FLIGHT = 10_000


@dataclass(frozen=True)
class Sent:
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default=())
    partition: int = 0
    timestamp: int = 0  # milliseconds since 1970; 0 is now


def sequenced(*sequences: int, partition: int = 0) -> list[Sent]:
    return [Sent(b"v%d" % number, key=b"k", headers=[("seq", b"%d" % number)], partition=partition) for number in sequences]


def send(bootstrap_servers: str, topic: str, records: Iterable[Sent]) -> int:
    config = {"bootstrap.servers": bootstrap_servers, "message.max.bytes": 8_000_000, "log_level": 3}
    # Idempotent, or a batch that is sent again on a busy machine comes after the one behind it.
    return produce(Producer({**config, "enable.idempotence": True}), topic, records)


def send_outgoing(bootstrap_servers: str, topic: str, records: Iterable[Outgoing]) -> int:
    return send(bootstrap_servers, topic, (Sent(each.value, each.key, each.headers, each.partition) for each in records))


def send_header_name(bootstrap_servers: str, topic: str, name: bytes, *, timestamp: int) -> None:
    """Send a record to partition 0 whose header's name is any bytes, which no client takes but librdkafka itself."""
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*.so*")
    kafka = ctypes.CDLL(str(library))
    for function in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(kafka, function).restype = ctypes.c_void_p
    number, size, text, pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
    why = ctypes.create_string_buffer(512)
    config = pointer(kafka.rd_kafka_conf_new())
    for key, value in (("bootstrap.servers", bootstrap_servers), ("log_level", "3")):
        kafka.rd_kafka_conf_set(config, key.encode(), value.encode(), why, size(512))
    producer = pointer(kafka.rd_kafka_new(number(0), config, why, size(512)))
    headers = pointer(kafka.rd_kafka_headers_new(size(1)))
    kafka.rd_kafka_header_add(headers, name, ctypes.c_ssize_t(len(name)), b"v", ctypes.c_ssize_t(1))
    topic_, partition, flags, value_, at, headers_, end = (number(kind) for kind in (1, 3, 7, 4, 8, 10, 0))
    record = (topic_, text(topic.encode()), partition, number(0), flags, number(2), value_, text(b"named"), size(5))
    assert kafka.rd_kafka_producev(producer, *record, at, ctypes.c_int64(timestamp), headers_, headers, end) == 0
    assert kafka.rd_kafka_flush(producer, number(_SECONDS * 1_000)) == 0
    kafka.rd_kafka_destroy(producer)


def send_transaction(bootstrap_servers: str, topic: str, records: Iterable[Sent], *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"on-{topic}", "log_level": 3})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    produce(producer, topic, records)
    if commit:
        producer.commit_transaction(_SECONDS)
    else:
        producer.abort_transaction(_SECONDS)


def delete_records(bootstrap_servers: str, topic: str, *, before: int) -> None:
    until = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})  # named: collected too early, it would never answer
    admin.delete_records([until])[until].result(_SECONDS)


def delete_topic(bootstrap_servers: str, topic: str) -> None:
    """Remove a topic, and wait until its name is free."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topic])[topic].result(_SECONDS)
    deadline = time.monotonic() + _SECONDS
    while topic in admin.list_topics(timeout=_SECONDS).topics and time.monotonic() < deadline:
        time.sleep(0.1)


def add_partitions(bootstrap_servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_SECONDS)
    while len(admin.list_topics(topic, _SECONDS).topics[topic].partitions) < partitions:
        time.sleep(0.05)  # the controller answers before the broker knows them


def produce(producer: Producer, topic: str, records: Iterable[Sent]) -> int:
    refusals: list[object] = []
    sent = 0
    for sent, record in enumerate(records, start=1):
        if sent % _IN_FLIGHT == 0:
            assert producer.flush(_SECONDS) == 0
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            on_delivery=lambda error, _: refusals.append(error) if error else None,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
    assert producer.flush(_SECONDS) == 0
    assert refusals == []
    return sent
