"""The parts of the benchmark: the file of each, and its rows in the page's table of costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench import marks
from bench.markdown import disturbed, table
from bench.sitting import Fact, Measurement, RoundStart, Sitting

if TYPE_CHECKING:
    from pathlib import Path

    from bench.marks import Mark

FOLDER = "benchmarks"  # holds the raw numbers of the parts, next to the page
DURATION = "in all"  # a condition that is saved, and not on the page
SHAPES, SMALL, GROWTH, STREAMS, COLD = "shapes", "small", "growth", "streams", "cold"
WHOLE, EVENTS, READERS, ENDLESS = "whole", "events", "readers", "endless"


@dataclass(frozen=True)
class Part:
    """A part of the benchmark: its name and file, the command that measures it, and its rows in the table."""

    name: str
    command: str
    marks: Callable[[Sitting], list[Mark]]


PARTS = (
    Part(SHAPES, "make bench", marks.of_shapes),
    Part(WHOLE, "make bench-scale", marks.of_whole),
    Part(EVENTS, "make bench-scale", marks.of_events),
    Part(SMALL, "make bench", marks.of_small),
    Part(COLD, "make bench-scale", marks.of_cold),
    Part(GROWTH, "make bench-scale", marks.of_growth),
    Part(STREAMS, "make bench-scale", marks.of_streams),
    Part(READERS, "make bench-scale", marks.of_readers),
    Part(ENDLESS, "make bench-endless", marks.of_endless),
)


def file_of(folder: Path, name: str) -> Path:
    """Where a part's raw numbers are kept."""
    return folder / FOLDER / f"{name}.json"


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
    """The raw numbers of a file, and the conditions under which they were measured."""
    raw = json.loads(file.read_text(encoding="utf-8"))
    sitting = Sitting(
        [Measurement(**each) for each in raw["measurements"]],
        [RoundStart(**each) for each in raw["rounds"]],
        [Fact(**each) for each in raw["facts"]],
    )
    return sitting, raw["conditions"]


def costs(folder: Path, names: tuple[str, ...] = ()) -> str:
    """The table of costs, with a warning and a line on the source for each part; of all parts if none is named."""
    lines: list[tuple[str, ...]] = []
    warnings, conditions = [], {}
    for part in PARTS:
        if names and part.name not in names:
            continue
        if not file_of(folder, part.name).exists():
            lines.append((f"{part.name}: no saved numbers; `{part.command}` measures them", "", "", ""))
            continue
        sitting, conditions[part] = load(file_of(folder, part.name))
        warnings.append(disturbed(sitting.disturbances()))
        lines += [_line(each) for each in part.marks(sitting)]
    text = table(("what", "measured", "aim", "met"), lines, words=4)
    return "\n".join([*filter(None, warnings), text, _sources(conditions)])


def _sources(conditions: Mapping[Part, dict[str, object]]) -> str:
    """A line on each part's file, command and own conditions; then the conditions that all share."""
    if not conditions:
        return ""
    first, *others = conditions.values()
    shared = {
        name: value for name, value in first.items() if name != DURATION and all(each.get(name) == value for each in others)
    }
    lines = []
    for part, each in conditions.items():
        own = {name: value for name, value in each.items() if name not in {*shared, DURATION}}
        where = f"{FOLDER}/{part.name}.json"
        lines.append(f"- [{', '.join([f'{part.name}]({where})', f'`{part.command}`', *filter(None, [in_words(own)])])}")
    return "\n".join([*lines, f"\nConditions: {in_words(shared)}.\n"])


def _line(mark: Mark) -> tuple[str, ...]:
    return (mark.what, mark.measured, mark.mark, {True: "yes", False: "**no**", None: ""}[mark.is_met])


def in_words(conditions: Mapping[str, object]) -> str:
    """Conditions as the page lists them."""
    return ", ".join(f"{name} {value}" for name, value in conditions.items())
