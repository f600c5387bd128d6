"""Print results: a table for people, CSV, JSON and Parquet for programs. Only results go to stdout."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.errors import UsageError
from lakehouse.escape import brief, csv_text, json_text, printable, shortened

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from rich.table import Table
    from rich.text import Text

    from lakehouse.machine.doctor import Finding

MAX_TABLE_ROWS = 1000
_NO_WIDTH = 10_000
_COMFORTABLE_WIDTH = 100
_MODE = 0o777
_SECONDS = "%Y-%m-%d %H:%M:%S"


def write(text: str) -> None:
    """Write a result to stdout, ending in a newline. Newlines are kept: the caller has escaped any foreign text."""
    _put(printable(text, keeps="\n"))


def _put(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    r"""Convert a value to JSON types: bytes that are not UTF-8 to `0x` and hexadecimal digits, a data class to an object.

    >>> plain({"key": b"A", "value": b"\xff", "amount": Decimal("1.5")})
    {'key': 'A', 'value': '0xff', 'amount': 1.5}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {str(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if is_dataclass(value):
        return {name.rstrip("_"): plain(part) for name, part in vars(value).items()}
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return f"0x{value.hex()}"
        case date() | time():
            return value.isoformat()
        case Decimal() if Decimal(repr(float(value))) == value:  # it survives the round trip through JSON
            return float(value)
        case float() if math.isfinite(value):
            return value
        case _:
            return str(value)


def cell(value: Any) -> str:
    """Return a value as text: empty for null, JSON for nested values.

    >>> cell(None), cell([{"key": "seq", "value": b"7"}]), cell(True)
    ('', '[{"key": "seq", "value": "7"}]', 'true')
    """
    found = plain(value)
    if found is None:
        return ""
    return found if isinstance(found, str) else json_text(found)


def shown(value: Any) -> str:
    r"""Return a value as text for people: truncated, with control characters escaped.

    >>> shown("red\x1b[31m"), shown("x" * 3000)[-22:]
    ('red\\x1b[31m', 'xx… (3,000 characters)')
    """
    return printable(shortened(cell(value)))


def moment(value: datetime | None) -> str:
    """Return a time in UTC, to the second; empty for null.

    >>> moment(datetime(2026, 11, 21, 9, 0, 5, 123))
    '2026-11-21 09:00:05 UTC'
    """
    return f"{value:{_SECONDS}} UTC" if value else ""


def decided(decision: dict[str, Any]) -> str:
    """Return a decision in words.

    >>> decided({"decision": "released", "decided_by": "ann", "decided_at": None, "reason": "looked at"})
    'released by ann: looked at'
    """
    when = f", {moment(decision['decided_at'])}" if decision["decided_at"] else ""
    return f"{decision['decision']} by {printable(decision['decided_by'])}{when}: {printable(decision['reason'])}"


def tell(value: Any, text: str, *, as_json: bool) -> None:
    """Print one of our own results in full on stdout, as JSON or text."""
    write_json(value, is_whole=True) if as_json else write(text)


def tell_left_out(shown: int, count: int, what: str) -> None:
    """Print on stderr how many streams or records a list leaves out, if any."""
    if shown < count:
        sys.stderr.write(f"{shown:,} of {count:,} {what}; --limit {count} shows all.\n")


def write_json(value: Any, *, is_whole: bool = False) -> None:
    """Print one JSON value on stdout; long texts are truncated, see `lakehouse.escape`, unless `is_whole`."""
    found = plain(value)
    write(json_text(found if is_whole else brief(found), indent=2))


def write_json_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Stream rows to stdout as a JSON array, one object per row."""
    before = "["
    for row in rows:
        sys.stdout.write(before + "\n" + json_text(dict(zip(columns, map(plain, row), strict=True))))
        before = ","
    write("[]" if before == "[" else "\n]")


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Stream rows to stdout as CSV with a header. Texts are escaped, and cannot act as formulas: see `lakehouse.escape`."""
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow([csv_text(column) for column in columns])
    for row in rows:
        lines.writerow([cell(value) if isinstance(value, int | float | Decimal) else csv_text(cell(value)) for value in row])
    sys.stdout.flush()


def write_parquet(batches: pa.RecordBatchReader, file: Path) -> None:
    """Stream rows to a Parquet file. UsageError if Parquet has no type for a column, or the file cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with whole(file) as unfinished, pq.ParquetWriter(unfinished, batches.schema, compression="zstd") as rows:
            for batch in batches:
                rows.write_batch(batch)
    except pa.ArrowNotImplementedError as error:
        next_step = "Cast the column, for example to VARCHAR."
        raise UsageError("The rows do not fit Parquet.", where=str(file), observed=str(error), next_step=next_step) from error


@contextlib.contextmanager
def whole(file: Path, *, mode: int | None = None) -> Iterator[Path]:
    """Yield a path to write to, which replaces the file at the end; UsageError if that fails, and the file stays unchanged.

    A replaced file keeps its mode; a new one gets `mode`, or the umask's. A pipe or device is written directly.
    """
    place = file.resolve()
    is_replaced = place.is_file() or not place.exists()
    unfinished = place
    try:
        if is_replaced:  # under an unguessable name: no link can be waiting there
            unfinished = place.with_name(f".{place.name}.{secrets.token_hex(8)}.unfinished")
            unfinished.touch(exist_ok=False)
        yield unfinished
        if is_replaced:
            mode = place.stat().st_mode & _MODE if place.exists() else mode
            if mode is not None:
                unfinished.chmod(mode)
            unfinished.replace(place)
    except OSError as error:
        raise UsageError("The file cannot be written.", where=str(file), observed=error.strerror or str(error)) from error
    finally:
        if unfinished != place:
            unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def into(file: Path | None) -> Iterator[None]:
    """Redirect stdout to a file within the block; None does nothing. UsageError if the file cannot be written."""
    if file is None:
        yield
        return
    with whole(file) as unfinished, unfinished.open("w", encoding="utf-8") as text, contextlib.redirect_stdout(text):
        yield


def write_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print checks on stdout, as lines or JSON; a failed one with what was expected and comes next."""
    if as_json:
        write_json(findings)
        return
    width = max(len(each.name) for each in findings) + 2
    for each in findings:
        lines = [f"{'ok' if each.ok else 'NO'}  {shown(each.name):<{width}}{shown(each.observed)}"]
        if not each.ok:
            lines += [f"{'':<{width + 4}}expected: {shown(each.expected)}", f"{'':<{width + 4}}next: {shown(each.next_step)}"]
        write("\n".join(lines))


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None, is_exact: bool = False
) -> None:
    """Print a table on stdout: at most a thousand rows, long values truncated, and times to the second unless `is_exact`.

    A table wider than the terminal, or than a hundred columns in a file, breaks its headings into lines. On a terminal that
    is still too narrow, each row becomes a list of its columns.
    """
    from rich.console import Console
    from rich.text import Text

    cells: list[list[Text]] = []  # Text, not str: square brackets in a value are not markup
    in_utc: set[int] = set()
    left = iter(rows)
    for row in islice(left, MAX_TABLE_ROWS):
        times = set() if is_exact else {place for place, value in enumerate(row) if isinstance(value, datetime)}
        in_utc |= times
        texts = [f"{value:{_SECONDS}}" if place in times else shown(value) for place, value in enumerate(row)]
        cells.append([Text(text, justify=_side(value)) for text, value in zip(texts, row, strict=True)])
    left_out = sum(1 for _ in left)
    columns = [printable(f"{name} (UTC)" if place in in_utc else name) for place, name in enumerate(columns)]
    is_terminal = sys.stdout.isatty()
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=Console().width if is_terminal else _NO_WIDTH)
    view = _grid(columns, cells)
    width = console.width if is_terminal else _COMFORTABLE_WIDTH
    measured = Console(width=_NO_WIDTH)
    if measured.measure(view).maximum > width:
        view = _grid([_stacked(name, place, cells) for place, name in enumerate(columns)], cells, between=0)
    if is_terminal and measured.measure(view).maximum > width:
        view = _list(columns, cells)
    console.print(view)
    text = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO from above
    lines = [line.rstrip() for line in text.rstrip().lstrip("\n").split("\n")]
    _put("\n".join([*(["", printable(title)] if title else []), *lines]))  # the cells are escaped; the styles are rich's
    if left_out:
        sys.stderr.write(f"{left_out:,} more rows; JSON or CSV shows them.\n")


def write_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), *, title: str | None = None, hidden: tuple[Any, ...] = ()
) -> None:
    """Print a table of these columns, by default all, without those that have a value of `hidden` in every row."""
    names = [name for name in columns or rows[0] if not hidden or any(row[name] not in hidden for row in rows)]
    write_table(names, ([row.get(name) for name in names] for row in rows), title=title)


def _grid(columns: Sequence[str], cells: list[list[Text]], between: int = 1) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, between))
    for column in columns:
        view.add_column(Text(column), overflow="fold")
    for row in cells:
        view.add_row(*row)
    return view


def _stacked(heading: str, place: int, cells: list[list[Text]]) -> str:
    """Break a heading after underscores and at spaces to the width of the cells below it."""
    parts = re.findall(r"[^_ ]+_?|_", heading) or [heading]
    width = max(len(text) for text in [*parts, *(row[place].plain for row in cells)])
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}{'' if lines[-1].endswith('_') or not lines[-1] else ' '}{part}"
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return "\n".join(lines)


def _list(columns: Sequence[str], cells: list[list[Text]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    view = Table.grid(padding=(0, 2))
    view.add_column(no_wrap=True)
    view.add_column(overflow="fold")
    for number, row in enumerate(cells, start=1):
        view.add_row(Text(f"row {number}", style="bold"), "")
        for column, text in zip(columns, row, strict=True):
            view.add_row(Text(column), Text(text.plain))
    return view


def _side(value: Any) -> Literal["left", "right"]:
    return "right" if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else "left"
