"""The commands that read the tables without Spark: sql and report."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.errors import UsageError
from lakehouse.table import Lakehouse
from tidemark.commands.tools import Call


class Format(StrEnum):
    """Output formats of a query's rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


_BY_SUFFIX = {".csv": Format.CSV, ".json": Format.JSON, ".parquet": Format.PARQUET}


def sql(
    query: Annotated[str | None, typer.Argument(help="SQL over the tables, for example: select * from gold_latest")] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="The query in a file; - for stdin.")] = None,
    call: Call,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Unless given: on a terminal a table, in a file what its name ends in, else CSV."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")] = None,
) -> None:
    """Query the tables in DuckDB's SQL, each by its name. Reads only."""
    from tidemark.process import output as show
    from tidemark.readers.database import run_query

    chosen = Format.JSON if call.as_json else form or _fitting(output)
    if chosen is Format.PARQUET and output is None:
        raise UsageError("Parquet is not for a screen.", where="--format parquet", expected="a file: -o FILE")
    lakehouse = Lakehouse.of(call.settings())
    _require_outside(lakehouse, output)
    with run_query(lakehouse, _asked(query, file)) as found:
        if chosen is Format.PARQUET and output:
            show.write_parquet(found.arrow(), output)
            return
        with show.into(output):
            if chosen is Format.TABLE:
                show.write_table(found.columns, found.rows, is_exact=True)
            elif chosen is Format.CSV:
                show.write_csv(found.columns, found.rows)
            else:
                show.write_json_rows(found.columns, found.rows)


def _asked(query: str | None, file: Path | None) -> str:
    if (query is None) == (file is None):
        expected = "the query as an argument, or -f FILE"
        raise UsageError("It is not clear what is asked.", where="sql", expected=expected)
    if file is None:
        return query or ""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError("The query's file cannot be read.", where=f"-f {file}", observed=str(error)) from None


def report(
    *,
    call: Call,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file.")] = Path("report.html"),
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask Kafka for the ends of its partitions.")] = False,
) -> None:
    """Write a report as one HTML file that anybody can open.

    With --json it prints the facts behind it instead, and writes no file.
    """
    from tidemark.extras.report.facts import facts
    from tidemark.process.output import write, write_json

    settings = call.settings()
    _require_outside(Lakehouse.of(settings), None if call.as_json else output)
    found = facts(settings, Lakehouse.of(settings), asks_kafka=not offline)
    if call.as_json:
        write_json(found)
        return
    from tidemark.extras.report.page import make_report  # with Altair, which takes seconds to import

    write(make_report(found, output))


def _require_outside(lakehouse: Lakehouse, output: Path | None) -> None:
    """Raise a UsageError if the output would replace a table's file, such as a commit. The reports' folder is allowed."""
    root = lakehouse.local_root
    if root is None or output is None:
        return
    root, place = root.resolve(), output.resolve()
    if place.is_relative_to(root) and not place.is_relative_to(root / "_reports"):
        raise UsageError(
            "The file would be among the lakehouse's own.",
            where=str(output),
            expected=f"a place outside {root}, or in its _reports",
            next_step="Choose another place with -o.",
        )


def _fitting(output: Path | None) -> Format:
    if output is not None:
        suffix = output.suffix.lower()
        if suffix and suffix not in _BY_SUFFIX:
            raise UsageError(
                "The file's name does not say its format.",
                where=f"-o {output}",
                observed=suffix,
                expected=f"one of {', '.join(_BY_SUFFIX)}, or --format beside it",
                next_step="Spreadsheets open CSV: -o FILE.csv.",
            )
        return _BY_SUFFIX.get(suffix, Format.CSV)
    return Format.TABLE if sys.stdout.isatty() else Format.CSV
