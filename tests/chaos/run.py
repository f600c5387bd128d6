"""`make chaos` repeats the article's experiment with Silver and writes `docs/chaos.md`. An interrupted sitting continues."""

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow as pa

from bench.machine import machine
from lakehouse.machine.jars import pinned
from tests.chaos import cluster, results
from tests.chaos.cluster import UnfitError
from tests.chaos.lab import Lab, Ran, StuckError, start_lab
from tests.chaos.results import Planned, Row, plan
from tests.faults.report import log

PAGE = Path(__file__).parents[2] / "docs" / "chaos.md"
CSV = PAGE.with_name("chaos") / "runs.csv"
_ROWS = Path("build/chaos.csv")
_ATTEMPTS, _BATCH = 3, 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="runs of each of the article's settings (%(default)s)")
    parser.add_argument("--others", type=int, default=1, help="runs of every other setting (%(default)s)")
    parser.add_argument("--anew", action="store_true", help="remove the rows so far")
    parser.add_argument("--write", action="store_true", help="write docs/chaos.md and its CSV from the rows")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the brokers as on Ctrl-C
    if options.anew:
        _ROWS.unlink(missing_ok=True)
    # The kit's runs last: they are numbered by headers, so they need a pipeline of their own.
    planned = sorted(plan(options.runs, options.others), key=lambda each: each.Sender == "kit")
    for _ in range(_ATTEMPTS):
        done = {row.topic for row in results.read(_ROWS)}
        if left := [each for each in planned if each.topic not in done]:
            with start_lab() as lab:
                _make_runs(lab, left)
    rows = results.read(_ROWS)
    missed = results.missed_marks(rows)
    for each in missed:
        log(f"MISSED: {each}")
    if options.write:
        shutil.copyfile(_ROWS, CSV)
        PAGE.write_text(page(rows, missed), encoding="utf-8")
    log(f"{len(rows)} runs, {len(missed)} missed marks")
    return 1 if missed else 0


def _make_runs(lab: Lab, left: Sequence[Planned]) -> None:
    from lakehouse.spark.session import open_session

    pending: list[Ran] = []
    for nth, planned in enumerate(left, 1):
        is_fit, said = True, f"{nth} of {len(left)}: {planned.topic}"
        try:
            pending.append(lab.run(planned))
            log(f"{said}: {pending[-1].log.jumps()}")
        except (StuckError, UnfitError, TimeoutError) as error:
            log(f"{said} failed: {error}")
            is_fit = isinstance(error, StuckError)
        if pending and (len(pending) >= _BATCH or nth == len(left) or not is_fit):
            rows = lab.through_tables(open_session("tidemark-chaos"), pending)
            results.append(_ROWS, rows)
            log(f"{len(rows)} topics through the tables, {sum(bool(row.Wrong) for row in rows)} of them wrong")
            pending = []
        if not is_fit:
            return


def page(rows: Sequence[Row], missed: Sequence[str]) -> str:
    """The template `page.md`, filled from the rows by the queries of `page.sql`. `missed` are the marks that the rows miss."""
    wrong = [f"- {row.topic}: {row.Wrong}" for row in rows if row.Wrong]
    right, showing = results.named_share(rows)
    jar = next(name for name in pinned("broker") if name.startswith("kafka-clients-"))
    texts = {
        "right": right,
        "showing": showing,
        "marks": "\n\nMISSED MARKS:\n\n" + "\n".join(f"- {each}" for each in missed) if missed else "All marks are met.",
        "wrong": "IT DOES NOT HOLD IN:\n\n" + "\n".join(wrong) if wrong else f"It holds in all {len(rows)} runs.",
        "kafka_version": jar.removeprefix("kafka-clients-").removesuffix(".jar"),
        "machine": "; ".join(f"{name} {value}" for name, value in machine().items()),
        "settings": len({*results.of_article(), *results.matrix()}),
    }
    said = ("is_of_article", "shows", "is_named")
    runs = pa.Table.from_pylist([{**asdict(row), **{name: getattr(row, name) for name in said}} for row in rows])
    with duckdb.connect() as database:
        database.register("runs", runs)
        database.execute(Path(__file__).with_name("page.sql").read_text(encoding="utf-8"))
        for view in ("sittings", "totals"):
            texts |= database.table(view).fetch_arrow_table().to_pylist()[0]
        tables = {name: _table(database.table(name)) for name in ("article", "order_says")}
        tables |= {fault: _table(database.sql(f"FROM with_fault('{fault}')")) for fault in results.FAULTS}
    template = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    return template.format(**texts, **tables, cluster=cluster, results=results)


def _table(found: duckdb.DuckDBPyRelation) -> str:
    lines = [[name.strip() for name in found.columns], ["---"] * len(found.columns), *found.fetchall()]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
