"""Measures a load of 100,000 records on histories of 0.5 to 32 million, and Delta's MERGE on the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import generated, truth
from bench.peers import programs
from bench.peers.job import GENERATE, PREPARE, RUN, Job
from bench.peers.process import PeerFailedError, Process
from bench.peers.registry import PEERS
from bench.sitting import require
from bench.topics import PARTITIONS, Topic

if TYPE_CHECKING:
    from bench.peers.job import Answer
    from bench.sitting import Sitting

GROWN_LOAD, GROWN_MERGE = "Silver load, as history grows", "Delta MERGE, as history grows"
MOST_HISTORY = 32_000_000

_LOAD_RECORDS = 100_000
_SHARES = (64, 16, 4, 1)
"""The histories: a 64th of the largest one, a 16th, a quarter, all of it."""
_WARM_UPS = 2
_STEP_RECORDS = 2_000_000
_SERVERS = "none:9092"


@dataclass(frozen=True)
class Sizes:
    """Records before the middle one of the measured loads, records of a load, and measured loads on each history."""

    histories: tuple[int, ...]
    load: int
    rounds: int

    @classmethod
    def up_to(cls, most_history: int, rounds: int) -> Sizes:
        """The sizes for a largest history.

        >>> Sizes.up_to(32_000_000, 3)
        Sizes(histories=(500000, 2000000, 8000000, 32000000), load=100000, rounds=3)
        >>> Sizes.up_to(640_000, 3)
        Sizes(histories=(10000, 40000, 160000, 640000), load=2496, rounds=3)
        """
        histories = tuple(_even(most_history // share) for share in _SHARES)
        return cls(histories, _even(min(_LOAD_RECORDS, histories[0] // (_WARM_UPS + rounds // 2 + 1))), rounds)

    def before(self, history: int) -> int:
        """How many records are there when a process begins: warming up and half of its loads lead up to the history."""
        return history - (_WARM_UPS + self.rounds // 2) * self.load


def measure(sitting: Sitting, folder: Path, most_history: int, rounds: int) -> None:
    """Grow a pipeline, and measure loads at each size; then the same with MERGE's table.

    Raises:
        WrongResultError: A table does not hold each record once, in order.
        PeerFailedError: A process of ours failed.
    """
    sizes = Sizes.up_to(most_history, rounds)
    _Growing(folder / "ours", "ours", "ours", GROWN_LOAD).measure(sitting, sizes)
    # The history of MERGE's table is appended, which ends in the same rows: merging it would take hours.
    merge = _Growing(folder / "merge", "copy", "merge", GROWN_MERGE)
    try:
        merge.measure(sitting, sizes)
    except PeerFailedError as error:  # the comparison ends there, and ours holds all the same
        sitting.tell(f"  {GROWN_MERGE} FAILED: {error}")


class _Growing:
    """A table that grows: its history comes by one peer, and what is measured by another.

    Each size has a process of its own, for a JVM keeps the memory that it once took; filling has one of its own, too.
    """

    def __init__(self, folder: Path, filler: str, loader: str, name: str) -> None:
        self._root = folder / "lakehouse"
        self._root.mkdir(parents=True)
        self._job = Job(RUN, servers=_SERVERS, topic=generated.TOPIC, root=str(self._root), work=str(folder))
        self._filler, self._loader, self._name = filler, loader, name
        self._folder, self._log = folder, folder / "process.log"
        self._records, self._version = 0, -1
        self._answer: Answer | None = None

    def measure(self, sitting: Sitting, sizes: Sizes) -> None:
        """Grow to each history, and measure loads there."""
        for history in sizes.histories:
            sitting.tell(f"{self._name}: growing to {history:,} records")
            with self._process() as process:
                if not self._records:
                    process.ask(replace(self._job, do=PREPARE, peer=self._filler))
                for records in _steps(sizes.before(history) - self._records):
                    self._load(process, self._filler, self._arrive(process, records))
            with self._process() as process:
                for _ in range(_WARM_UPS):
                    self._load(process, self._loader, self._arrive(process, sizes.load))
                for _ in range(sizes.rounds):
                    sitting.start_round()
                    job = self._arrive(process, sizes.load)
                    sitting.measure(
                        self._name,
                        f"on {history:,}",
                        sizes.load,
                        lambda job=job, process=process: self._load(process, self._loader, job),  # type: ignore[misc] # a lambda's defaults
                        watched=process.pid,
                    )
        self._check()

    def _process(self) -> Process:
        peer = next(peer for peer in PEERS if peer.name == self._loader)
        return Process(programs.command(peer, self._folder), self._log)

    def _arrive(self, process: Process, records: int) -> Job:
        """Append records to Bronze; the job that takes them in."""
        job = replace(self._job, records=records, after_version=self._version)
        self._version = process.ask(replace(job, do=GENERATE, after_records=self._records)).version
        self._records += records
        return job

    def _load(self, process: Process, peer: str, job: Job) -> None:
        self._answer = process.ask(replace(job, peer=peer))

    def _check(self) -> None:
        found = truth.of_table(Path(self._answer.table)) if self._answer else {}
        counts = truth.count(Topic(generated.TOPIC, (self._records // PARTITIONS,) * PARTITIONS), found)
        require(f"the table of {self._name}: {counts}", observed=(counts.rows, counts.is_exact), expected=(self._records, True))


def _steps(records: int) -> Iterator[int]:
    for start in range(0, records, _STEP_RECORDS):
        yield min(_STEP_RECORDS, records - start)


def _even(records: int) -> int:
    """The number, or the next lower one that all partitions have an equal share in."""
    return records // PARTITIONS * PARTITIONS
