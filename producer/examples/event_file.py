"""Sends the lines of a growing file, each under its number. It may be killed and started again at any moment.

    python event_file.py localhost:9092 events events.jsonl

Kafka itself says at the start which lines it has, and those are skipped. A line is sent once it ends with a newline. A new
file of the same name needs a higher epoch.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from tidemark_producer import Given, Sender, last_accepted


def follow(config: dict[str, Any], topic: str, file: Path, *, partition: int = 0, epoch: int = 1, once: bool = False) -> None:
    """Send a file's lines to one partition, so that the sender knows which are there. With `once`, stop at the file's end."""
    name = file.name
    numbers = Given(epoch, accepted=lambda: {topic: last_accepted(config, topic, name)})
    with file.open("rb") as lines, Sender(config, name, numbers) as sender:
        number = 0
        while True:
            place = lines.tell()
            line = lines.readline()
            if line.endswith(b"\n"):
                number += 1
                sender.send(topic, line.rstrip(b"\n"), key=name, partition=partition, sequence=number)
            elif once:
                return
            else:
                lines.seek(place)
                time.sleep(0.2)


def main() -> None:
    """Follow a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers")
    parser.add_argument("topic")
    parser.add_argument("file", type=Path)
    parser.add_argument("--partition", type=int, default=0)
    parser.add_argument("--epoch", type=int, default=1)
    parser.add_argument("--once", action="store_true", help="end at the end of the file")
    given = parser.parse_args()
    config = {"bootstrap.servers": given.brokers}
    follow(config, given.topic, given.file, partition=given.partition, epoch=given.epoch, once=given.once)


if __name__ == "__main__":
    main()
