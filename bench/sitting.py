"""One sitting: times each measurement, watches the machine meanwhile, and checks each result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.console import Console

from bench.machine import QUIET_CORES, Usage, load_average, others_cores
from bench.peers.sizes import Watch

if TYPE_CHECKING:
    from typing import TypeVar

    Result = TypeVar("Result")


class WrongResultError(Exception):
    """A result is wrong, so its time means nothing."""


@dataclass(frozen=True)
class Measurement:
    """One thing done once, on an input.

    Attributes:
        round: In which round, from 1.
        records: How many records it took in.
        seconds: Wall time.
        cpu_seconds: CPU time of this benchmark's processes; None where it cannot be known.
        others_cores: What others used meanwhile, in cores; None where it cannot be known.
        peak_bytes: The most resident memory of the process tree that did it; None where nobody looked.
    """

    name: str
    pattern: str
    round: int
    records: int
    seconds: float
    cpu_seconds: float | None
    others_cores: float | None
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Fact:
    """Something that was counted on an input, not timed."""

    name: str
    pattern: str
    value: float
    unit: str


@dataclass(frozen=True)
class RoundStart:
    """The machine before a round; see `Measurement` for others_cores."""

    round: int
    load_average: float
    others_cores: float | None


@dataclass
class Sitting:
    """What was measured and counted so far, in order, and the machine before each round."""

    measurements: list[Measurement] = field(default_factory=list)
    starts: list[RoundStart] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    _console: Console = field(default_factory=lambda: Console(stderr=True))

    def start_round(self) -> int:
        """Look at the machine before a round; the round's number."""
        start = RoundStart(len(self.starts) + 1, load_average(), others_cores())
        self.starts.append(start)
        self.tell(f"Round {start.round}: load average {start.load_average}, others {_cores(start.others_cores)}")
        return start.round

    def measure(
        self, name: str, pattern: str, records: int, work: Callable[[], Result], *, watched: int | None = None
    ) -> Result:
        """Do something and keep how long it took; of a watched process, also the memory, with all below it."""
        os.sync()  # so that nobody pays for what was written before
        with nullcontext() if watched is None else Watch(watched) as watch:
            before, started = Usage.now(), time.perf_counter()
            result = work()
            seconds, after = time.perf_counter() - started, Usage.now()
        lost, peak = (watch.lost_cpu_seconds, watch.peak_bytes) if watch else (0.0, None)
        cpu, others = None, None
        if before and after:
            after = replace(after, own=after.own + lost)
            cpu, others = after.own - before.own, before.others_cores(after)
        self.measurements.append(Measurement(name, pattern, len(self.starts), records, seconds, cpu, others, peak))
        self.tell(f"  {name}, {pattern}: {seconds:.2f} s")
        return result

    def count(self, name: str, pattern: str, value: float, unit: str) -> None:
        """Keep something that was counted."""
        self.facts.append(Fact(name, pattern, value, unit))
        self.tell(f"  {name}, {pattern}: {value:,.1f} {unit}")

    def tell(self, text: str) -> None:
        """Say how far it is."""
        self._console.print(text, style="dim", highlight=False)

    def disturbances(self) -> list[str]:
        """Why the figures do not count: each moment at which others used too much of the machine, or nobody knows."""
        looks = [(f"before round {start.round}", start.others_cores) for start in self.starts]
        looks += [(f"{each.name}, {each.pattern}, round {each.round}", each.others_cores) for each in self.measurements]
        return [f"{what}: {_cores(cores)}" for what, cores in looks if cores is None or cores > QUIET_CORES]


def require(what: str, *, observed: object, expected: object) -> None:
    """Raise unless a result is what it has to be.

    Raises:
        WrongResultError: It is not.
    """
    if observed != expected:
        raise WrongResultError(f"{what}: observed {observed}, expected {expected}")


def _cores(cores: float | None) -> str:
    return "unknown" if cores is None else f"{cores:.2f} cores"
