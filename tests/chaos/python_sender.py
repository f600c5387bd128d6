"""The sender by librdkafka, with or without the producer kit. Its one argument is what it is to do, as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tidemark_producer import Sent

_ACKNOWLEDGED, _REFUSED, _UNSENT = 1, 2, 3
_MOST_RECOVERIES = 20
_SLICE_SECONDS = 10.0


class Plain:
    """librdkafka's producer as it is."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._producer = Producer(asked["properties"])
        self._topic: str = asked["topic"]
        self._fates = bytearray([_UNSENT]) * asked["records"]
        self._open, self._most_open = 0, asked["open"]

    def send(self, place: int, number: int) -> None:
        """Send one record, once there is room."""
        while self._open >= self._most_open:
            self._producer.poll(0.1)
        self._open += 1
        self._fates[place] = 0

        def note(error: KafkaError | None, _message: Message) -> None:
            self._fates[place] = _REFUSED if error else _ACKNOWLEDGED
            self._open -= 1

        text = b"%d" % number
        self._producer.produce(self._topic, text, text, 0, on_delivery=note)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all is acknowledged or given up."""
        while self._producer.flush(_SLICE_SECONDS):
            pass

    def end(self) -> bytes:
        """What became of each record."""
        self.flush()
        return bytes(self._fates)


class Kit:
    """The producer kit, which numbers the records by headers too. After a delivery that failed it recovers, and goes on."""

    def __init__(self, asked: dict[str, Any]) -> None:
        from tidemark_producer import Given, Sender

        # The kit sets retries and deliveries without an end itself.
        properties = {name: value for name, value in asked["properties"].items() if name != "message.timeout.ms"}
        self._sender = Sender(properties, "chaos", Given())
        self._topic: str = asked["topic"]
        self._first: int = asked["first"]
        self._fates = bytearray([_UNSENT]) * asked["records"]
        self._room = Semaphore(asked["open"])
        self._recoveries = 0

    def send(self, place: int, number: int) -> None:
        """Send one record, once there is room."""
        from tidemark_producer import Stopped

        self._room.acquire()
        self._fates[place] = 0
        text = b"%d" % number
        while True:
            try:
                future = self._sender.send(self._topic, text, text, partition=0, sequence=number)
            except Stopped:
                self._recover()
            else:
                future.add_done_callback(self._note_delivery)
                future.add_done_callback(lambda _: self._room.release())
                return

    def flush(self) -> None:
        """Wait until all is acknowledged."""
        from tidemark_producer import Stopped

        while True:
            try:
                self._sender.flush()
            except Stopped:
                self._recover()
            else:
                return

    def end(self) -> bytes:
        """What became of each record."""
        self.flush()
        self._sender.close()
        return bytes(self._fates)

    def _recover(self) -> None:
        from tidemark_producer import Stopped

        while True:
            self._recoveries += 1
            if self._recoveries > _MOST_RECOVERIES:
                raise RuntimeError(f"It stopped for the {self._recoveries}th time.")
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

    def _note(self, sent: Sent) -> None:
        self._fates[sent.sequence - self._first] = _ACKNOWLEDGED


def main() -> None:
    """Send, and write down what became of each record."""
    asked = json.loads(sys.argv[1])
    sender = (Kit if asked["is_kit"] else Plain)(asked)
    started = 0.0
    for nth in range(asked["records"]):
        try:
            sender.send(nth, asked["first"] + nth)
        except KafkaException:  # fatal: where a new leader lacks records, an idempotent client ends
            break
        if nth + 1 == asked["flushed"]:
            sender.flush()
            started = time.monotonic()
        if nth + 1 == asked["told"]:
            sys.stdout.write(f"sent {nth + 1}\n")
            sys.stdout.flush()
        ahead = started + (nth - asked["flushed"]) / asked["rate"] - time.monotonic() if asked["rate"] else 0
        if ahead > 0.001 and nth > asked["flushed"]:
            time.sleep(ahead)
    Path(asked["fates"]).write_bytes(sender.end())


if __name__ == "__main__":
    main()
