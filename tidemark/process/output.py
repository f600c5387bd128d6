"""Print results: a table for people, CSV, JSON and Parquet for programs. Only results go to stdout."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
import secrets
import sys
from dataclasses import is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakehouse.errors import UsageError
from lakehouse.escape import brief, csv_text, json_text, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from rich.table import Table

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
    r"""Convert a value to JSON types. Bytes become text if they are UTF-8, else `0x` and hexadecimal digits.

    A data class becomes an object of its fields, `class_` as `class`.

    >>> plain({"key": b"A", "value": b"\xff", "amount": Decimal("1.5")})
    {'key': 'A', 'value': '0xff', 'amount': 1.5}
    """
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
                shown: Any = value.decode()
            except UnicodeDecodeError:
                shown = f"0x{value.hex()}"
        case date() | time():
            shown = value.isoformat()
        case Decimal():
            # A number if it survives the round trip through JSON, else its digits as text.
            shown = float(value) if Decimal(repr(float(value))) == value else str(value)
        case float():
            shown = value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            shown = value
        case _:
            shown = str(value)
    return shown


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


def tell(value: Any, text: str, *, as_json: bool) -> None:
    """Print one of our own results in full on stdout, as JSON or text."""
    if as_json:
        write_json(value, is_whole=True)
    else:
        write(text)


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
    lines.writerows([_csv_cell(value) for value in row] for row in rows)
    sys.stdout.flush()


def _csv_cell(value: Any) -> str:
    return cell(value) if isinstance(value, int | float | Decimal) else csv_text(cell(value))


def write_parquet(batches: pa.RecordBatchReader, file: Path) -> None:
    """Stream rows to a Parquet file.

    Raises:
        UsageError: Parquet has no type for one of the columns, or the file cannot be written.
    """
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
    """Yield a path to write to, which replaces the file at the end; on failure the file stays unchanged.

    A replaced file keeps its mode; a new one gets `mode`, or the umask's. A pipe or device is written directly.

    Raises:
        UsageError: The file cannot be written.
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

    A table wider than the terminal, or than a hundred columns in a file, breaks its headings into lines. On a terminal too
    narrow even for that, each row becomes a list of its columns.
    """
    from rich.console import Console

    cells: list[list[tuple[str, Any]]] = []
    left_out = 0
    in_utc: set[int] = set()
    for row in rows:
        if len(cells) < MAX_TABLE_ROWS:
            times = set() if is_exact else {place for place, value in enumerate(row) if isinstance(value, datetime)}
            in_utc |= times
            texts = [f"{value:{_SECONDS}}" if place in times else shown(value) for place, value in enumerate(row)]
            cells.append([(text, _side(value)) for text, value in zip(texts, row, strict=True)])
        else:
            left_out += 1
    columns = [printable(f"{name} (UTC)" if place in in_utc else name) for place, name in enumerate(columns)]
    is_terminal = sys.stdout.isatty()
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=Console().width if is_terminal else _NO_WIDTH)
    view = _grid(columns, cells)
    width = console.width if is_terminal else _COMFORTABLE_WIDTH
    if _width(view) > width:
        view = _grid([_stacked(name, place, cells) for place, name in enumerate(columns)], cells, between=0)
    if is_terminal and _width(view) > width:
        view = _list(columns, cells)
    console.print(view)
    text = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO from above
    lines = [line.rstrip() for line in text.rstrip().lstrip("\n").split("\n")]
    _put("\n".join([*(["", printable(title)] if title else []), *lines]))  # the cells are escaped; the styles are rich's
    if left_out:
        sys.stderr.write(f"{left_out:,} more rows; JSON or CSV shows them.\n")


def _grid(columns: Sequence[str], cells: list[list[tuple[str, Any]]], between: int = 1) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, between))
    for column in columns:
        view.add_column(Text(column), overflow="fold")
    for row in cells:
        # Text, not str: square brackets in a value are not markup.
        view.add_row(*[Text(text, justify=side) for text, side in row])
    return view


def _width(view: Table) -> int:
    from rich.console import Console

    return Console(width=_NO_WIDTH).measure(view).maximum


def _stacked(heading: str, place: int, cells: list[list[tuple[str, Any]]]) -> str:
    """Break a heading after underscores and at spaces to the width of the cells below it."""
    parts = re.findall(r"[^_ ]+_?|_", heading) or [heading]
    width = max([*map(len, parts), *(len(row[place][0]) for row in cells)], default=0)
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}{'' if lines[-1].endswith('_') or not lines[-1] else ' '}{part}"
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return "\n".join(lines)


def _list(columns: Sequence[str], cells: list[list[tuple[str, Any]]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    view = Table.grid(padding=(0, 2))
    view.add_column(no_wrap=True)
    view.add_column(overflow="fold")
    for number, row in enumerate(cells, start=1):
        view.add_row(Text(f"row {number}", style="bold"), "")
        for column, (text, _) in zip(columns, row, strict=True):
            view.add_row(Text(column), Text(text))
    return view


def _side(value: Any) -> Any:
    return "right" if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else "left"
