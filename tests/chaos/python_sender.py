"""The sender by librdkafka, with or without the producer kit. It takes the arguments of `Sender.java`, and `kit` or not."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from tidemark_producer import Given, Sender, Sent, Stopped

_OPEN, _ACKNOWLEDGED, _REFUSED, _UNSENT = range(4)
_MOST_RECOVERIES = 20
T = TypeVar("T")


class Plain:
    def __init__(self, properties: dict[str, str], most_open: int, note: Callable[[int, int], None]) -> None:
        self._producer, self._most_open, self._open, self._note = Producer(properties), most_open, 0, note

    def send(self, topic: str, number: int) -> None:
        while self._open >= self._most_open:
            self._producer.poll(0.1)
        self._open += 1
        text = b"%d" % number
        self._producer.produce(topic, text, text, 0, on_delivery=partial(self._delivered, number))
        self._producer.poll(0)

    def _delivered(self, number: int, error: KafkaError | None, _message: Message) -> None:
        self._note(number, _REFUSED if error else _ACKNOWLEDGED)
        self._open -= 1

    def flush(self) -> None:
        while self._producer.flush(10.0):
            pass


class Kit:
    """The producer kit, which also numbers the records by headers. After a failed delivery it recovers and goes on."""

    def __init__(self, properties: dict[str, str], most_open: int, note: Callable[[int, int], None]) -> None:
        del properties["delivery.timeout.ms"]  # the kit sets it, without an end
        self._sender, self._room, self._note = Sender(properties, "chaos", Given()), Semaphore(most_open), note

    def send(self, topic: str, number: int) -> None:
        self._room.acquire()
        text = b"%d" % number
        sent = self._insist(lambda: self._sender.send(topic, text, text, partition=0, sequence=number))
        sent.add_done_callback(self._delivered)

    def _delivered(self, future: Future[Sent]) -> None:
        if future.exception() is None:
            self._note(future.result().sequence, _ACKNOWLEDGED)
        self._room.release()

    def flush(self) -> None:
        self._insist(self._sender.flush)

    def _insist(self, act: Callable[[], T]) -> T:
        for nth in range(_MOST_RECOVERIES):
            try:
                for sent in self._sender.recover() if nth else ():
                    self._note(sent.sequence, _ACKNOWLEDGED)
                return act()
            except Stopped:
                pass
        raise RuntimeError(f"The sender stopped {_MOST_RECOVERIES} times.")


def main() -> None:
    file, topic, *numbers, rate, fates_file, name = sys.argv[1:]
    first, records, flushed, struck_at, most_open = map(int, numbers)
    properties = dict(line.split("=", 1) for line in Path(file).read_text(encoding="utf-8").splitlines())
    fates, started = bytearray([_UNSENT]) * records, 0.0

    def note(number: int, fate: int) -> None:
        fates[number - first] = fate

    sender = (Kit if name == "kit" else Plain)(properties, most_open, note)
    for nth in range(records):
        try:
            note(first + nth, _OPEN)
            sender.send(topic, first + nth)
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
    Path(fates_file).write_bytes(bytes(fates))


if __name__ == "__main__":
    main()
