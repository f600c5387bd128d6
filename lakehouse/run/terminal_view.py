"""The live view of a run on a terminal: one line per stage, with its counts, redrawn in place."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from lakehouse.escape import printable
from lakehouse.run.context import BOUND, WORKING, bind

_ENDS = frozenset({"finished", "failed"})
_REDRAWS_PER_SECOND = 5
_LONGEST_TEXT = 40
_NOT_SHOWN = {*BOUND, "seconds"}


@dataclass
class _Stage:
    """One line of the view: a stage, its latest event, its progress since then, and all its numbers so far."""

    what: str = ""
    moving: str = ""
    numbers: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None


class LiveReport:
    """Draws events into the line of their stage (`silver` for `silver.claimed`), until another stage begins."""

    def __init__(self, scrub: Callable[[object], object], console: Console | None = None) -> None:
        self.bound: dict[str, object] = {}
        self._scrub = scrub
        self._console = console or Console(stderr=True, highlight=False)
        self._stages: dict[str, _Stage] = {}
        self._live: Live | None = None
        self._spinner = Spinner("line")

    def event(self, name: str, **fields: object) -> None:
        """Show an event; `run.started` begins a new view. Events about a single partition are for the log only."""
        bind(self.bound, name, fields)
        if "partition" in fields:
            return
        stage_name, _, what = name.partition(".")
        if stage_name == "run":
            self._show_run(what, fields)
            return
        stage = self._stage(stage_name)
        if what == WORKING:
            stage.moving = f"task {fields['tasks_done']:,} of {fields['tasks']:,}"
            return
        stage.what, stage.moving = what.replace("_", " "), ""
        shown = {key: self._scrub(value) for key, value in fields.items() if key not in _NOT_SHOWN}
        stage.numbers.update(_numbers(shown))
        if what in _ENDS:
            stage.ended = time.monotonic()

    def _show_run(self, what: str, fields: Mapping[str, object]) -> None:
        if what == "started":
            self.close()
            title = " ".join(str(self._scrub(self.bound[key])) for key in BOUND if key in self.bound)
            self._console.print(Text(printable(title), style="bold"))
        elif what == "failed":
            if self._stages:
                list(self._stages.values())[-1].what = what
            self.close()
            if "message" in fields:
                message = printable(str(self._scrub(fields["message"])), keeps="\n")
                self._console.print(Text(f"tidemark: {message}"), soft_wrap=True)

    def close(self) -> None:
        """Draw the view one last time and leave it on the screen."""
        self._end_stages()
        if self._live is not None:
            self._live.stop()
        self._live = None
        self._stages = {}

    def __rich__(self) -> Table:
        view = Table.grid(padding=(0, 1))
        view.add_column(width=1)
        view.add_column(no_wrap=True)
        view.add_column(ratio=1, overflow="fold")
        view.add_column(justify="right", no_wrap=True)
        for name, stage in list(self._stages.items()):
            numbers = [f"{label} {value}" for label, value in stage.numbers.items()]
            line = Text(printable(" · ".join(filter(None, [stage.what, stage.moving, *numbers]))))
            end = Text("x", style="red") if stage.what == "failed" else Text("-", style="green")
            seconds = Text(f"{(stage.ended or time.monotonic()) - stage.started:.1f} s")
            view.add_row(end if stage.ended else self._spinner, Text(name, style="bold"), line, seconds)
        return view

    def _stage(self, name: str) -> _Stage:
        if self._live is None:
            # Stdout holds results, and must not be redirected into the view on stderr.
            self._live = Live(self, console=self._console, refresh_per_second=_REDRAWS_PER_SECOND, redirect_stdout=False)
            self._live.start()
        if name not in self._stages:
            self._end_stages()
            self._stages[name] = _Stage()
        return self._stages[name]

    def _end_stages(self) -> None:
        for stage in self._stages.values():
            stage.ended = stage.ended or time.monotonic()


def _numbers(fields: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and values to show: numbers, zeros only as counts of records, and short texts."""
    for name, value in fields.items():
        label = prefix + name.replace("_", " ")
        if isinstance(value, dict):
            yield from _numbers(value, prefix=f"{label} ")
        elif isinstance(value, bool) or value is None or (value == 0 and label != "records"):
            continue
        elif isinstance(value, int):
            yield label, f"{value:,}"
        elif isinstance(value, float):
            yield label, f"{value:,.1f}"
        elif isinstance(value, str) and len(value) <= _LONGEST_TEXT:  # a longer text would push the numbers off the line
            yield label, value
