"""The commands that look: status, why, order, sql and report."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lakehouse.errors import UsageError
from lakehouse.escape import printable, shortened
from lakehouse.settings import formats
from lakehouse.table import Lakehouse
from tidemark.commands.tools import Call
from tidemark.process import output as show
from tidemark.process.options import Limit, Offset, Partition, Topic

if TYPE_CHECKING:
    from silver.audit.arrival_order import Order

OrderFormat = Literal["table", "csv", "json"]
Format = Literal["table", "csv", "json", "parquet"]
_DEFAULT_FORMAT = "By default a table on a terminal, in a file what its name ends in, else CSV."
_BY_SUFFIX: dict[str, Format] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


def status(
    *,
    lag: Annotated[bool, typer.Option("--lag", help="Ask Kafka, too, how far Silver is behind.")] = False,
    limit: Limit = show.MAX_TABLE_ROWS,
    call: Call,
) -> None:
    """Show watermarks, classes, the gate's verdict and Gold."""
    from tidemark.readers import status as reading

    settings = call.settings()
    found = reading.status(settings.pipeline, Lakehouse.of(settings), topics=settings.kafka.topics, most_streams=limit)
    if lag:
        from tidemark.readers.lag import with_lag

        sys.stderr.write(f"Asking {settings.kafka.bootstrap_servers} for the ends of its partitions.\n")
        found = with_lag(found, settings)
    call.show(found, reading.write_status)
    if found.get("topics_not_found"):
        raise typer.Exit(1)


def why(topic: Topic, partition: Partition, offset: Offset, *, call: Call) -> None:
    """Say what became of one record, and by which rule."""
    from tidemark.readers.why import why as explain
    from tidemark.readers.why import write_why

    call.show(explain(Lakehouse.of(call.settings()), topic, partition, offset), write_why)


def order(
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="One topic only.")] = None,
    call: Call,
    form: Annotated[OrderFormat, typer.Option("--format", help="The first jumps and a table; CSV; all as JSON.")] = "table",
) -> None:
    """Show how each stream arrived: jumps and duplicate blocks.

    Reads Bronze, in the order of arrival, and Silver, in the order of what was kept.
    """
    from pipelines.arrival_order import orders

    with call.job() as job:
        found = orders(job.spark, job.new_run(), job.settings, topic=topic)
    write_order(found, "json" if call.as_json else form)


ORDER_COLUMNS = ("Layer", "Topic", "Partition", "Producer", "Received", "MsgsWithDups", "DJF", "DJB", "JF", "JB")
_MOST_JUMPS, _MOST_STREAMS = 20, 100
_ORDER_COLUMNS_MEAN = (
    "MsgsWithDups are records whose number was read before. A jump is where the next number does not follow: JF forward\n"
    "and JB backward to a number that was not read before, DJF and DJB to one that was, where a block of duplicates begins."
)


def order_rows(found: dict[str, list[Order]]) -> list[list[Any]]:
    """Return a row per layer and stream, with the columns `ORDER_COLUMNS`."""
    return [
        [layer, *order.stream, order.received, order.duplicates, *(order.count(kind) for kind in ("DJF", "DJB", "JF", "JB"))]
        for layer, orders in found.items()
        for order in orders
    ]


def write_order(found: dict[str, list[Order]], form: str) -> None:
    """Print arrival orders on stdout: a table with the first jumps of each stream, CSV, or JSON with all of them.

    The terms and columns are those of the article "Testing Producer Deduplication in Apache Kafka and Apache Pulsar".
    """
    if form == "json":
        show.write_json({layer: [_plain_order(order, layer) for order in orders] for layer, orders in found.items()})
    elif form == "csv":
        show.write_csv(ORDER_COLUMNS, order_rows(found))
    else:
        _write_order_text(found)


def _plain_order(order: Order, layer: str) -> dict[str, Any]:
    from silver.audit.arrival_order import diagnose

    findings = [finding._asdict() for finding in diagnose(order)] if layer == "bronze" else []
    return {**asdict(order), "diagnosis": findings}


def _write_order_text(found: dict[str, list[Order]]) -> None:
    from silver.audit.arrival_order import diagnose

    gaps = 0
    for layer, orders in found.items():
        listed = [(order, [jump for jump in order.jumps if order.is_contiguous or not jump.is_gap]) for order in orders]
        gaps += sum(len(order.jumps) - len(jumps) for order, jumps in listed)
        jumping = [(order, jumps) for order, jumps in listed if jumps]
        for order, jumps in jumping[:_MOST_STREAMS]:
            named = _stream_name(order)
            for jump in jumps[:_MOST_JUMPS]:
                show.write(printable(f"{layer}: {named}, offset {jump.offset}: {jump}"))
            if len(jumps) > _MOST_JUMPS:
                show.write(printable(f"{layer}: {named}: {len(jumps) - _MOST_JUMPS} jumps more"))
        if len(jumping) > _MOST_STREAMS:
            show.write(f"{layer}: {len(jumping) - _MOST_STREAMS:,} streams more with jumps; --format json has all")
    show.write_table(ORDER_COLUMNS, order_rows(found))
    show.write(_ORDER_COLUMNS_MEAN)
    if gaps:
        show.write(f"{gaps:,} of the JF only pass gaps, numbers that were never read, and are not listed. JSON has all.")
    findings = [(order, finding) for order in found["bronze"] for finding in diagnose(order)]
    for order, finding in findings[:_MOST_STREAMS]:
        show.write(printable(f"{_stream_name(order)}: {finding.name}: {finding.evidence}.") + f"\n  {finding.cure}")
    if len(findings) > _MOST_STREAMS:
        show.write(f"{len(findings) - _MOST_STREAMS:,} findings more; --format json has all")


def _stream_name(order: Order) -> str:
    topic, partition, producer = order.stream
    return f"{topic}, partition {partition}" + (f", producer {shortened(producer)}" if producer is not None else "")


def sql(
    query: Annotated[str | None, typer.Argument(help="SQL over the tables, for example: select * from gold_latest")] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="The query in a file; - for stdin.")] = None,
    call: Call,
    form: Annotated[Format | None, typer.Option("--format", help=_DEFAULT_FORMAT)] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")] = None,
) -> None:
    """Query the tables in DuckDB's SQL, each by its name. Reads only."""
    from tidemark.readers.database import run_query

    chosen = "json" if call.as_json else form or _fitting(output)
    if chosen == "parquet" and output is None:
        raise UsageError("Parquet is not for a screen.", where="--format parquet", expected="a file: -o FILE")
    lakehouse = Lakehouse.of(call.settings())
    _require_outside(lakehouse, output)
    with run_query(lakehouse, _asked(query, file)) as found:
        if chosen == "parquet" and output:
            show.write_parquet(found.arrow(), output)
            return
        with show.into(output):
            if chosen == "table":
                show.write_table(found.columns, found.rows, is_exact=True)
            elif chosen == "csv":
                show.write_csv(found.columns, found.rows)
            else:
                show.write_json_rows(found.columns, found.rows)


def _asked(query: str | None, file: Path | None) -> str:
    if (query is None) == (file is None):
        raise UsageError("Exactly one query is needed.", where="sql", expected="the query as an argument, or -f FILE")
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

    settings = call.settings()
    _require_outside(Lakehouse.of(settings), None if call.as_json else output)
    found = facts(settings, Lakehouse.of(settings), asks_kafka=not offline)
    if call.as_json:
        show.write_json(found)
        return
    show.write(formats.load("report").make_report(found, output))  # with Altair, which takes seconds to import


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
                expected=f"one of {', '.join(_BY_SUFFIX)}, or --format as well",
                next_step="Spreadsheets open CSV: -o FILE.csv.",
            )
        return _BY_SUFFIX.get(suffix, "csv")
    return "table" if sys.stdout.isatty() else "csv"
