"""What a sitting comes to: medians, spread and marks, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.machine import QUIET_CORES
from bench.sitting import (
    BARE_COMMITS,
    BRONZE,
    CHECKED,
    CLEAN,
    COPY,
    HELP,
    LOOK,
    NOTHING,
    RECOVERY,
    SILVER,
    SQL,
    UNCHECKED,
    VERIFY,
    WARM,
    Fact,
    Measurement,
    RoundStart,
    Sitting,
)
from bench.topics import NONE, RESENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

BASE = {SILVER: COPY, LOOK: CLEAN, CHECKED: UNCHECKED, WARM: BARE_COMMITS}
"""What a measure is held against, in the same round and on the same input."""

MOST_COMMITS_TIMES = 1.5
MOST_COPY_TIMES = {NONE: 1.1, RESENT: 1.2}
MOST_TIMES = {LOOK: 2.0, CHECKED: 1.1, WARM: MOST_COMMITS_TIMES}
TARGET_SECONDS = {WARM: 4.0, NOTHING: 1.0, HELP: 0.5, VERIFY: 20.0, RECOVERY: 5.0, SQL: 1.0}
"""The marks: a load of Silver by what is resent, and others, times their base; and seconds."""

_WIDTH = 140
_SHOWN = 8
_ORDER = (BRONZE, COPY, SILVER, CLEAN, LOOK, UNCHECKED, CHECKED, RECOVERY, VERIFY, SQL, BARE_COMMITS, WARM, NOTHING, HELP)


@dataclass(frozen=True)
class Figure:
    """What one measure comes to over its rounds.

    Attributes:
        name: What was done.
        pattern: On which input.
        records: How many records it took in.
        times: Wall times in seconds, one per round.
        cpu_seconds: The median of its CPU times; None where they cannot be known.
        times_base: The median over rounds of its time held against its base's of the same round; None where it has none.
    """

    name: str
    pattern: str
    records: int
    times: tuple[float, ...]
    cpu_seconds: float | None
    times_base: float | None

    @property
    def seconds(self) -> float:
        """The median of the wall times."""
        return median(self.times)

    @property
    def records_per_second(self) -> float | None:
        """Throughput; None where nothing flows, or so little that it says nothing."""
        return self.records / self.seconds if self.name in (BRONZE, COPY, SILVER) else None

    @property
    def marks(self) -> list[tuple[str, str, bool]]:
        """Each mark: what it has to be, what it is, and whether that is met."""
        found = []
        if self.times_base is not None:
            most = MOST_COPY_TIMES[self.pattern] if self.name == SILVER else MOST_TIMES[self.name]
            found.append((f"at most {most:g} times {BASE[self.name]}", f"{self.times_base:.2f} times", self.times_base <= most))
        if (target := TARGET_SECONDS.get(self.name)) is not None:
            found.append((f"at most {target:g} s", f"{self.seconds:.2f} s", self.seconds <= target))
        return found


def figures(measurements: Sequence[Measurement]) -> list[Figure]:
    """The medians of a sitting's measurements, one figure per measure and pattern."""
    times = {(each.name, each.pattern, each.round): each.seconds for each in measurements}
    found = []
    for (_, pattern), each in groupby(sorted(measurements, key=_place), key=_place):
        rounds = list(each)
        cpu = [one.cpu_seconds for one in rounds if one.cpu_seconds is not None]
        bases = [times.get((BASE.get(one.name, ""), pattern, one.round)) for one in rounds]
        ratios = [one.seconds / base for one, base in zip(rounds, bases, strict=True) if base is not None]
        found.append(
            Figure(
                rounds[0].name,
                pattern,
                rounds[0].records,
                tuple(one.seconds for one in rounds),
                median(cpu) if cpu else None,
                median(ratios) if ratios else None,
            )
        )
    return found


def show(sitting: Sitting, conditions: Mapping[str, object]) -> None:
    """Print the table with its conditions, and a warning where the machine was busy."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print("; ".join(f"{name} {value}" for name, value in conditions.items()), highlight=False)
    starts = ", ".join(f"{start.load_average}" for start in sitting.starts)
    console.print(f"Load average before each round (this benchmark's own share included): {starts}", highlight=False)
    console.print(_table(figures(sitting.measurements)))
    disturbances = sitting.disturbances()
    if disturbances:
        console.print(
            f"[bold red]WARNING: these figures do not count.[/] Others used more than {QUIET_CORES} cores at "
            f"{len(disturbances)} of {len(sitting.starts) + len(sitting.measurements)} looks:",
            highlight=False,
        )
        more = [f"and {len(disturbances) - _SHOWN} more"] if len(disturbances) > _SHOWN else []
        for each in disturbances[:_SHOWN] + more:
            console.print(f"  {each}", highlight=False)


def save(file: Path, sitting: Sitting, conditions: Mapping[str, object]) -> None:
    """Keep the raw numbers as JSON."""
    raw = {
        "conditions": conditions,
        "is_valid": not sitting.disturbances(),
        "rounds": [asdict(start) for start in sitting.starts],
        "measurements": [asdict(measurement) for measurement in sitting.measurements],
        "facts": [asdict(fact) for fact in sitting.facts],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(raw, indent=2) + "\n", encoding="utf-8")


def load(file: Path) -> tuple[Sitting, dict[str, object]]:
    """The raw numbers that a file keeps, and the conditions under which they came."""
    raw = json.loads(file.read_text(encoding="utf-8"))
    sitting = Sitting(
        [Measurement(**each) for each in raw["measurements"]],
        [RoundStart(**each) for each in raw["rounds"]],
        [Fact(**each) for each in raw["facts"]],
    )
    return sitting, raw["conditions"]


def _table(rows: Sequence[Figure]) -> Table:
    table = Table(title="Medians over the rounds; every result was checked")
    for name in ("measure", "input"):
        table.add_column(name)
    for name in ("seconds", "least to most", "CPU s", "records/s", "times base"):
        table.add_column(name, justify="right")
    table.add_column("mark")
    for row in rows:
        table.add_row(
            row.name,
            row.pattern,
            f"{row.seconds:.2f}",
            f"{min(row.times):.2f} to {max(row.times):.2f}",
            _number(row.cpu_seconds, "{:.1f}"),
            _number(row.records_per_second, "{:,.0f}"),
            _number(row.times_base, "{:.2f}"),
            _verdict(row),
        )
    return table


def _verdict(row: Figure) -> str:
    return "; ".join(f"[green]{text}: met[/]" if is_met else f"[red]{text}: missed[/]" for text, _, is_met in row.marks)


def _number(number: float | None, form: str) -> str:
    return "" if number is None else form.format(number)


def _place(measurement: Measurement) -> tuple[int, str]:
    return _ORDER.index(measurement.name), measurement.pattern
