"""What a peer holds while it runs, and what it leaves behind: memory, files, topics."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bench.machine import processes, resident_bytes, tree

if TYPE_CHECKING:
    from types import TracebackType

    from bench.machine import Process

_LOOK_SECONDS = 0.5


class Watch:
    """Looks at a process tree and a folder twice a second, as long as its `with` block lasts.

    Attributes:
        peak_bytes: The most memory that the tree held at a look.
        peak_folder_bytes: The most bytes that lay in the folder at a look.
    """

    def __init__(self, pid: int, folder: Path | None = None) -> None:
        self.peak_bytes = self.peak_folder_bytes = 0
        self._pid, self._folder = pid, folder
        # A JVM outlives the Python that started it, by a moment: nobody waits for it, and its time would be taken for others'.
        self._seen: dict[int, Process] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _follow(self) -> None:
        self._look()
        while not self._is_over.wait(_LOOK_SECONDS):
            self._look()
        self._look()

    @property
    def lost_cpu_seconds(self) -> float:
        """CPU time of processes of the tree that ended and that no process of it has waited for, the root not included."""
        gone = self._seen.keys() - self._there().keys() - {self._pid}
        return sum(self._seen[pid].ticks for pid in gone) / os.sysconf("SC_CLK_TCK")

    def _there(self) -> dict[int, Process]:
        known = dict(processes())
        return {pid: known[pid] for pid in tree(self._pid, known) if pid in known}

    def _look(self) -> None:
        there = self._there()
        living = {pid for pid, process in there.items() if not process.has_ended}
        # What is gone while its parent lives, that one has waited for: its time is the parent's now.
        self._seen = {pid: each for pid, each in self._seen.items() if pid in there or each.parent not in living} | there
        self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pid))
        if self._folder is not None:
            self.peak_folder_bytes = max(self.peak_folder_bytes, written(self._folder)[0])


def written(folder: Path) -> tuple[int, int]:
    """The bytes and the number of the files below a folder, links not followed; none where there is no folder."""
    total = files = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it is gone meanwhile
                total += (Path(at) / name).lstat().st_size
                files += 1
    return total, files


def topic_bytes(broker_data: Path, name: str) -> tuple[int, int]:
    """What a topic's logs hold, and what those of the topics do that its peer made for itself, which carry its name."""
    own = others = 0
    for partition in broker_data.glob(f"*{name}*"):
        # Only the logs: an index is laid out at its full length beforehand.
        held = sum(log.stat().st_size for log in partition.glob("*.log"))
        if partition.name.rpartition("-")[0] == name:
            own += held
        else:
            others += held
    return own, others
