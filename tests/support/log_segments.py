"""The log of a topic's partition as a broker keeps it on this machine: its batches, and a byte of one that flips."""

import struct
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from tests.support.kafka import Sent, produce
from tidemark.extras.demo.broker import LocalBroker

_FRAME = struct.Struct(">qi")  # the first offset, and the bytes that follow
_LAST_OFFSET_DELTA = 23  # where in a batch it is


class Batch(NamedTuple):
    first_offset: int
    last_offset: int
    start: int  # in the file
    end: int


def send_batch(broker: LocalBroker, topic: str, records: list[Sent]) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1000, "enable.idempotence": True, "log_level": 3}
    produce(Producer(config), topic, records)


def batches(broker: LocalBroker, topic: str, partition: int = 0) -> list[Batch]:
    log, at, found = _file(broker, topic, partition).read_bytes(), 0, list[Batch]()
    while at + _FRAME.size <= len(log) and (length := _FRAME.unpack_from(log, at)[1]) > 0:
        first, end = _FRAME.unpack_from(log, at)[0], at + _FRAME.size + length
        (delta,) = struct.unpack_from(">i", log, at + _LAST_OFFSET_DELTA)
        found.append(Batch(first, first + delta, at, end))
        at = end
    return found


def corrupt(broker: LocalBroker, topic: str, offset: int, partition: int = 0, *, at: int = -1) -> Batch:
    """Flip all bits of a byte in the batch that has an offset: its last byte, or the one `at` a place in it."""
    batch = next(each for each in batches(broker, topic, partition) if each.first_offset <= offset <= each.last_offset)
    with _file(broker, topic, partition).open("r+b") as log:
        log.seek(batch.end - 1 if at < 0 else batch.start + at)
        (byte,) = log.read(1)
        log.seek(-1, 1)
        log.write(bytes([byte ^ 0xFF]))
    return batch


def _file(broker: LocalBroker, topic: str, partition: int) -> Path:
    return broker.data_dir / "data" / f"{topic}-{partition}" / f"{0:020}.log"
