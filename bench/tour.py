"""Counts the files that one load and one record pass through: what it takes to read the product.

`make tour` prints it. The way of a load is the run of `load_once`; the way of a record is `tidemark run` over a local broker.
A reader follows each pair of caller and callee once. A hop is a call or a return to another file.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

ROOT = Path(__file__).parents[1]
PACKAGES = ("bronze", "expectations", "gold", "jobs", "lakehouse", "pipelines", "silver", "tidemark")
_CONFIG = """\
pipeline: tour
kafka: {{bootstrap_servers: "{servers}", topics: [tour]}}
lakehouse: {{root: ./lake}}
sequence: {{header: seq}}
value: {{format: json, schema: "id BIGINT"}}
"""


@dataclass
class Way:
    """The files that a reader passes through, in the order of the first visit, and the hops between them."""

    files: list[str] = field(default_factory=list)
    hops: int = 0
    _here: str | None = None

    def go(self, file: str) -> None:
        """Read on in a file."""
        if file == self._here:
            return
        self.hops += self._here is not None
        self._here = file
        if file not in self.files:
            self.files.append(file)

    @property
    def back(self) -> int:
        """Hops to a file that had been left before."""
        return self.hops - max(len(self.files) - 1, 0)


class Tour:
    """Follows the calls of one thread, each pair of caller and callee once."""

    def __init__(self) -> None:
        self.record, self.load = Way(), Way()
        self._stack: list[tuple[str, str] | None] = []
        self._seen: set[tuple[tuple[str, str], tuple[str, str]]] = set()
        self._skipped = 0
        self._depth_of_load: int | None = None

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take a profiler's event."""
        if event == "call":
            self._enter(frame)
        elif event == "return" and self._stack:
            self._leave()

    def _enter(self, frame: FrameType) -> None:
        place = _place(frame)
        if self._skipped or place is None:
            self._stack.append(None)
            self._skipped += self._skipped > 0
            return
        caller = next((each for each in reversed(self._stack) if each is not None), ("", ""))
        if (caller, place) in self._seen:
            self._stack.append(None)
            self._skipped = 1
            return
        self._seen.add((caller, place))
        self._stack.append(place)
        if place[1] == "load_once" and place[0].startswith("silver/"):
            self._depth_of_load = len(self._stack)
        self._go(place[0])

    def _leave(self) -> None:
        place = self._stack.pop()
        if self._skipped:
            self._skipped -= 1
            return
        if self._depth_of_load is not None and len(self._stack) < self._depth_of_load:
            self._depth_of_load = None
        caller = next((each for each in reversed(self._stack) if each is not None), None)
        if place is not None and caller is not None:
            self._go(caller[0])

    def _go(self, file: str) -> None:
        self.record.go(file)
        if self._depth_of_load is not None and file.startswith("silver/"):
            self.load.go(file)


def _place(frame: FrameType) -> tuple[str, str] | None:
    """The file and the function, where it is one of the product's."""
    name = frame.f_code.co_filename
    if not name.startswith(f"{ROOT}/"):
        return None
    file = name[len(str(ROOT)) + 1 :]
    is_ours = file.partition("/")[0] in PACKAGES and frame.f_code.co_name != "<module>"
    return (file, frame.f_code.co_qualname) if is_ours else None


def ways() -> Tour:
    """One record from Kafka to Gold, by `tidemark run` on a real broker: the second one, so that no table is created."""
    from confluent_kafka import Producer

    from tidemark.commands import main
    from tidemark.extras.demo.broker import LocalBroker, create_topic

    with tempfile.TemporaryDirectory() as folder, LocalBroker() as broker:
        config = Path(folder, "tidemark.yml")
        config.write_text(_CONFIG.format(servers=broker.bootstrap_servers), encoding="utf-8")
        create_topic(broker.bootstrap_servers, "tour", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        tour = Tour()
        for sequence in (1, 2):
            tour = Tour()
            producer.produce("tour", b'{"id": 1}', key=b"1", headers={"seq": str(sequence)})
            producer.flush()
            sys.setprofile(tour)
            try:
                code = main(["run", "--config", str(config), "--json"])
            finally:
                sys.setprofile(None)
            if code:
                raise SystemExit(code)
    return tour


def main() -> None:
    """Print both ways."""
    tour = ways()
    for title, way in (("one load, in silver", tour.load), ("one record, from Kafka to Gold", tour.record)):
        print(f"\n{title}: {len(way.files)} files, {way.hops} hops, {way.back} of them back to a file that had been left")
        for number, file in enumerate(way.files, 1):
            print(f"  {number:>3} {file}")


if __name__ == "__main__":
    main()
