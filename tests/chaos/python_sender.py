"""The sender by librdkafka, with or without the producer kit. Its one argument is what it is to do, as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

_ACKNOWLEDGED, _REFUSED, _UNSENT = 1, 2, 3


class Plain:
    """librdkafka's producer as it is."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._producer = Producer(asked["properties"])
        self._topic: str = asked["topic"]
        self._fates = bytearray([_UNSENT]) * asked["records"]
        self._open, self._most_open = 0, asked["open"]

    def send(self, place: int, number: bytes) -> None:
        """Send one record, once there is room."""
        while self._open >= self._most_open:
            self._producer.poll(0.1)
        self._open += 1
        self._fates[place] = 0

        def note(error: KafkaError | None, _message: Message) -> None:
            self._fates[place] = _REFUSED if error else _ACKNOWLEDGED
            self._open -= 1

        self._producer.produce(self._topic, number, number, 0, on_delivery=note)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all is acknowledged or given up."""
        while self._producer.flush(10):
            pass

    def end(self) -> bytes:
        """What became of each record."""
        self.flush()
        return bytes(self._fates)


def main() -> None:
    """Send, and write down what became of each record."""
    asked = json.loads(sys.argv[1])
    sender = Plain(asked)
    started = 0.0
    for nth in range(asked["records"]):
        try:
            sender.send(nth, b"%d" % (asked["first"] + nth))
        except KafkaException:  # fatal: an idempotent client that the new leader does not know ends, rather than to reorder
            break
        if nth + 1 == asked["flushed"]:
            sender.flush()
            started = time.monotonic()
        if nth + 1 == asked["told"]:
            sys.stdout.write(f"sent {nth + 1}\n")
            sys.stdout.flush()
        if asked["rate"] > 0 and nth > asked["flushed"]:
            ahead = started + (nth - asked["flushed"]) / asked["rate"] - time.monotonic()
            if ahead > 0.001:
                time.sleep(ahead)
    Path(asked["fates"]).write_bytes(sender.end())


if __name__ == "__main__":
    main()
