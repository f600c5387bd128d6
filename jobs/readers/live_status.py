"""`tidemark status --watch`: poll a pipeline that another process runs. Starts no JVM; writes nothing."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb

from jobs.process import output
from jobs.process.options import MOST_ROWS
from jobs.readers.lag import lag_sentence, positions, with_lag
from jobs.readers.status import sentences, status
from lakehouse.contracts.silver import CLASSES
from lakehouse.errors import TidemarkError, UsageError
from lakehouse.escape import brief, json_text, printable
from lakehouse.table import Lakehouse

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from lakehouse.settings.pipeline import Settings

_WINDOW_SECONDS = 60
_OTHER_LINES = 24
"""Lines of the view above and below the partitions."""
_FEWEST_PARTITIONS = 3


class Meter:
    """How fast a number rises.

    >>> meter = Meter()
    >>> for seconds, records in ((0, 100), (10, 100), (20, 400)):
    ...     meter.read(records, at=seconds)
    >>> meter.rates()
    {'since_last_look': 30.0, 'last_minute': 15.0}
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def read(self, value: int, *, at: float) -> None:
        """Record the number at a moment, in seconds of any monotonic clock."""
        self._seen.append((at, value))
        while at - self._seen[0][0] > _WINDOW_SECONDS and len(self._seen) > 2:  # noqa: PLR2004 -- a rate has two ends
            self._seen.popleft()

    def rates(self) -> dict[str, float | None]:
        """Per second, since the previous reading and over the last minute so far; None before the second reading.

        A number that fell, as after a restore, has the rate 0.
        """
        looks = list(self._seen)
        ends = {"since_last_look": looks[-2:], "last_minute": looks}
        return {name: _rate(*part[0], *part[-1]) if len(part) > 1 else None for name, part in ends.items()}


def _rate(from_seconds: float, before: int, to_seconds: float, after: int) -> float:
    return round(max(0, after - before) / max(to_seconds - from_seconds, 1e-3), 1)


class Looks:
    """Polls a pipeline. Kafka is queried in a thread: brokers that do not answer must not delay what the tables say.

    Args:
        settings: The pipeline's settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._decided, self._arrived = Meter(), Meter()
        self._lag: dict[str, Any] = {"lag": None, "lag_unknown": "not answered yet", "topics_not_found": []}
        self._asking: threading.Thread | None = None

    def look(self, *, is_patient: bool) -> dict[str, Any]:
        """Read `jobs.readers.status.status`, and how fast it changes.

        Args:
            is_patient: Whether to wait for Kafka's answer; otherwise the last one is used.

        Returns:
            The status without `missing`; `looked_at`; `lag`, `lag_unknown` and `topics_not_found` as of Kafka's last answer;
            and `rates`: records that Silver decided and offsets that Kafka gained, per second since the last poll and over the
            last minute.

        Raises:
            TidemarkError: The tables cannot be read.
        """
        at = datetime.now(UTC)
        lakehouse = Lakehouse.of(self._settings)
        found = status(self._settings.pipeline, lakehouse, with_missing=False, most_streams=MOST_ROWS)
        self._decided.read(found["totals"]["records"] if found["totals"] else 0, at=time.monotonic())
        self._ask(found)
        if is_patient and self._asking is not None:
            self._asking.join()
        rates = {"decided": self._decided.rates(), "arrived": self._arrived.rates()}
        return {**found, **self._lag, "looked_at": at, "rates": rates}

    def _ask(self, found: dict[str, Any]) -> None:
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._answer, args=(found,), daemon=True)
            self._asking.start()

    def _answer(self, found: dict[str, Any]) -> None:
        asked = with_lag(found, self._settings.kafka)
        if asked["lag"] is not None:
            self._arrived.read(sum(row["end_offset"] for row in asked["lag"]), at=time.monotonic())
        self._lag = {name: asked[name] for name in self._lag}


def watch(settings: Settings, *, seconds: float, as_json: bool) -> None:
    """Poll until Ctrl-C: redraw a view on the terminal in place, or print a line of JSON per poll.

    Args:
        settings: The pipeline's settings.
        seconds: The pause between polls.
        as_json: Print JSON lines, for programs; needs no terminal.

    Raises:
        UsageError: Stdout is not a terminal and JSON was not asked for, or the tables are not in a folder of this machine.
        KeyboardInterrupt: At Ctrl-C, the only way to end.
    """
    if not as_json and not sys.stdout.isatty():
        raise UsageError(
            "A live view needs a terminal.",
            where="status --watch",
            observed="stdout is a file or a pipe",
            expected="a terminal",
            next_step="Add --json for a line of JSON per look, or leave --watch out for one look.",
        )
    looks = Looks(settings)
    with contextlib.nullcontext() if as_json else _live() as live:
        while True:
            found = _look(looks, is_patient=as_json)
            if live is None:
                output.write(json_text(brief(output.plain(found))))
            else:
                live.update(view(found, lines=live.console.height), refresh=True)
            time.sleep(seconds)


def _look(looks: Looks, *, is_patient: bool) -> dict[str, Any]:
    """Poll once, or say why that failed: a table that maintenance or a restore is changing is readable at a later poll."""
    try:
        return looks.look(is_patient=is_patient)
    except UsageError:
        raise
    except (TidemarkError, duckdb.Error) as error:
        return {"looked_at": datetime.now(UTC), "error": str(error)}


def _live() -> Any:
    from rich.live import Live

    return Live(auto_refresh=False, vertical_overflow="crop")


def view(found: dict[str, Any], *, lines: int) -> RenderableType:
    """Render one poll for a terminal: the partitions furthest behind first, as many as fit.

    Args:
        found: What `Looks.look` returned, or `looked_at` and `error`.
        lines: The terminal's height.
    """
    from rich.console import Group
    from rich.text import Text

    at = f"{found['looked_at']:%H:%M:%S} UTC, Ctrl-C ends it"
    if "error" in found:
        return Group(Text(at), Text(f"The tables cannot be read just now: {printable(found['error'])}", style="red"))
    title = f"Pipeline {found['pipeline']} in {found['lakehouse']}"
    said = [lag_sentence(found), *_rates(found["rates"])]
    if not found["last_load"]:
        said.append("Silver holds no load yet.")
        return Group(Text(printable(title), style="bold"), Text(at), Text("\n".join(said)))
    room = max(_FEWEST_PARTITIONS, lines - _OTHER_LINES)
    return Group(
        Text(printable(title), style="bold"),
        Text(at),
        _partitions(found, room),
        _classes(found),
        Text("\n".join([*said, *map(printable, sentences(found))])),
    )


def _rates(rates: dict[str, dict[str, float | None]]) -> list[str]:
    named = {"decided": "Silver decided {:,.1f} records/s", "arrived": "Kafka gained {:,.1f} offsets/s"}
    told = []
    for name, words in named.items():
        now, minute = rates[name]["since_last_look"], rates[name]["last_minute"]
        if now is not None and minute is not None:
            told.append(f"{words.format(now)} since the last look, {minute:,.1f} over the last minute.")
    return told


def _partitions(found: dict[str, Any], room: int) -> Table:
    known = {place: position._asdict() for place, position in positions(found["partitions"]).items()}
    for row in found["lag"] or []:
        place = row["topic"], row["partition"]
        known[place] = {**row, **known.get(place, {})}
    ordered = sorted(known.items(), key=lambda item: (-item[1].get("lag", 0), item[0]))
    title = "Partitions" if len(ordered) <= room else f"Partitions, {room} of {len(ordered):,}"
    columns = ("high_watermark", "last_offset", "end_offset", "lag")
    rows = [[*place, *(row.get(name) for name in columns)] for place, row in ordered[:room]]
    return _table(title, ("topic", "partition", *columns), rows)


def _classes(found: dict[str, Any]) -> Table:
    names = ["records", *(name for name in CLASSES if found["totals"][name])]
    parts = (("last load", found["last_load"]), ("all loads", found["totals"]))
    return _table("Records by class", ("", *names), [[label, *(part[name] for name in names)] for label, part in parts])


def _table(title: str, columns: tuple[str, ...], rows: list[list[Any]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(Text(printable(column)), justify="left" if column in ("", "topic") else "right", no_wrap=True)
    for row in rows:
        cells = [f"{value:,}" if isinstance(value, int) else output.shown(value) for value in row]
        table.add_row(*map(Text, cells))
    return table
