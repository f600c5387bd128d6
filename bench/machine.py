"""The machine that the figures come from, and whether anything else ran on it meanwhile."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_CORES = 0.5
"""What other processes may use, in cores, for a figure to count."""

_PROC = Path("/proc")
_IDLE = (3, 4)  # of the fields of /proc/stat: idle, iowait
_GUEST = 8  # guest time is contained in user time already
# After the name: state; parent; user and system time, own and of children that ended.
_STATE, _PARENT, _TIMES = 0, 1, slice(11, 15)
_ZOMBIE = "Z"


class Process(NamedTuple):
    """A process: its CPU time has that of the children that it waited for; nobody has waited for one that has ended."""

    parent: int
    ticks: int
    has_ended: bool


@dataclass(frozen=True)
class Usage:
    """CPU seconds so far: of this process and all below it, and of the whole machine with the time that its host stole."""

    at: float
    own: float
    everything: float

    @classmethod
    def now(cls) -> Usage | None:
        """The usage so far; None where there is no /proc to read it from."""
        if not (_PROC / "stat").exists():
            return None
        tick = os.sysconf("SC_CLK_TCK")
        fields = [int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:]]
        busy = sum(fields[:_GUEST]) - sum(fields[place] for place in _IDLE)
        return cls(time.monotonic(), cpu_seconds(os.getpid()), busy / tick)

    def others_cores(self, later: Usage) -> float:
        """How many cores everything but this benchmark used, from here to a later moment."""
        everything, own = later.everything - self.everything, later.own - self.own
        return max(0.0, everything - own) / max(later.at - self.at, 1e-9)


def others_cores(seconds: float = 3.0) -> float | None:
    """How many cores others use just now, looked at for some seconds; None where that cannot be known."""
    before = Usage.now()
    time.sleep(seconds)
    after = Usage.now()
    return before.others_cores(after) if before and after else None


def load_average() -> float:
    """The load average of the last minute, this benchmark's own share included."""
    return round(os.getloadavg()[0], 2)


def machine() -> dict[str, object]:
    """What a reader needs to know about the machine and the versions."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory": f"{memory_gib:.0f} GiB",
        "Python": platform.python_version(),
        "Spark": version("pyspark"),
        "Delta": version("delta-spark"),
        "system": f"{platform.system()} {platform.machine()}",
    }


def conditions(spark: SparkSession) -> dict[str, object]:
    """The machine, and how much of it a session has."""
    known = machine()
    return {**known, "memory": f"{known['memory']}, {spark.conf.get('spark.driver.memory')} for Spark"}


def resident_bytes(root: int) -> int:
    """The memory that a process and all below it hold just now; pages that two of them share count twice."""
    return sum(held_bytes(pid) for pid in tree(root, dict(processes())))


def held_bytes(pid: int) -> int:
    """The memory that one process holds just now; 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def cpu_seconds(root: int) -> float:
    """The CPU time of a process and all below it, so far."""
    known = dict(processes())
    return sum(known[pid].ticks for pid in tree(root, known) if pid in known) / os.sysconf("SC_CLK_TCK")


def tree(root: int, known: Mapping[int, Process]) -> Iterator[int]:
    """A process and all below it, of those that `processes` knows."""
    below: dict[int, list[int]] = {}
    for pid, process in known.items():
        below.setdefault(process.parent, []).append(pid)
    left = [root]
    while left:
        pid = left.pop()
        yield pid
        left += below.get(pid, [])


def processes() -> Iterator[tuple[int, Process]]:
    """Each process by its id."""
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                # The name is in brackets and may hold brackets.
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                ticks = sum(int(field) for field in fields[_TIMES])
                yield int(folder.name), Process(int(fields[_PARENT]), ticks, fields[_STATE] == _ZOMBIE)
