"""The sender by librdkafka, with or without the producer kit. It takes the arguments of `Sender.java`, and `kit` or not."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from tidemark_producer import Given, Sender, Stopped

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tidemark_producer import Sent

_ACKNOWLEDGED, _REFUSED, _UNSENT = 1, 2, 3
_MOST_RECOVERIES = 20
_SLICE_SECONDS = 10.0


class Plain:
    """librdkafka's own producer."""

    def __init__(self, properties: dict[str, str], topic: str, first: int, records: int, most_open: int) -> None:
        self._producer = Producer(properties)
        self._topic, self._first = topic, first
        self.fates = bytearray([_UNSENT]) * records
        self._open, self._most_open = 0, most_open

    def send(self, number: int) -> None:
        """Send one record, once there is room."""
        while self._open >= self._most_open:
            self._producer.poll(0.1)
        self._open += 1
        self.fates[number - self._first] = 0
        text = b"%d" % number
        self._producer.produce(self._topic, text, text, 0, on_delivery=partial(self._note, number))
        self._producer.poll(0)

    def _note(self, number: int, error: KafkaError | None, _message: Message) -> None:
        self.fates[number - self._first] = _REFUSED if error else _ACKNOWLEDGED
        self._open -= 1

    def flush(self) -> None:
        """Wait until every record is acknowledged or refused."""
        while self._producer.flush(_SLICE_SECONDS):
            pass


class Kit:
    """The producer kit, which also numbers the records by headers. After a failed delivery it recovers and goes on."""

    def __init__(self, properties: dict[str, str], topic: str, first: int, records: int, most_open: int) -> None:
        del properties["delivery.timeout.ms"]  # the kit sets it, without an end
        self._sender = Sender(properties, "chaos", Given())
        self._topic, self._first = topic, first
        self.fates = bytearray([_UNSENT]) * records
        self._room = Semaphore(most_open)
        self._recoveries = 0

    def send(self, number: int) -> None:
        """Send one record, once there is room."""
        self._room.acquire()
        self.fates[number - self._first] = 0
        text = b"%d" % number
        while True:
            try:
                future = self._sender.send(self._topic, text, text, partition=0, sequence=number)
            except Stopped:
                self._recover()
            else:
                future.add_done_callback(self._note_delivery)
                return

    def flush(self) -> None:
        """Wait until every record is acknowledged."""
        while True:
            try:
                return self._sender.flush()
            except Stopped:
                self._recover()

    def _recover(self) -> None:
        while True:
            self._recoveries += 1
            if self._recoveries > _MOST_RECOVERIES:
                raise RuntimeError(f"The sender stopped for the {self._recoveries}th time.")
            try:
                again = self._sender.recover()
            except Stopped:
                continue
            for sent in again:
                self._note(sent)
            return

    def _note_delivery(self, future: Future[Sent]) -> None:
        if future.exception() is None:
            self._note(future.result())
        self._room.release()

    def _note(self, sent: Sent) -> None:
        self.fates[sent.sequence - self._first] = _ACKNOWLEDGED


def main() -> None:
    """Send, and write down the fate of each record."""
    file, topic, *numbers, rate, fates, sender_name = sys.argv[1:]
    first, records, flushed, struck_at, most_open = map(int, numbers)
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    sender = (Kit if sender_name == "kit" else Plain)(properties, topic, first, records, most_open)
    started = 0.0
    for nth in range(records):
        try:
            sender.send(first + nth)
        except KafkaException:  # fatal: an idempotent client ends where a new leader lacks records
            break
        if nth + 1 == flushed:
            sender.flush()
            started = time.monotonic()
        if nth + 1 == struck_at:
            sys.stdout.write(f"sent {nth + 1}\n")
            sys.stdout.flush()
        ahead = started + (nth - flushed) / float(rate) - time.monotonic() if float(rate) else 0
        if ahead > 0.001 and nth > flushed:
            time.sleep(ahead)
    sender.flush()
    Path(fates).write_bytes(bytes(sender.fates))


if __name__ == "__main__":
    main()
