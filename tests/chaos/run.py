"""`make chaos`: the article's experiment again, and Silver's result.

A run sends 150,000 numbers to a topic of its own on three brokers; near the 50,000th a fault strikes the topic's leader.
Batches of runs go through the pipeline together. Each run's row is added to a CSV file, so an interrupted sitting continues.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos import page, results
from tests.chaos.cluster import UnfitError
from tests.chaos.lab import start_kafka_lab
from tests.chaos.pulsar.lab import start_pulsar_lab
from tests.chaos.senders import StuckError
from tests.chaos.setting import PULSAR, RECORDS, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.lab import Lab, Ran
    from tests.chaos.setting import Planned

_ATTEMPTS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Make the runs that the file lacks, and check the marks of all.

    Returns:
        0; 1 if a mark is missed.
    """
    options = _options(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the brokers as on Ctrl-C
    file = Path(options.results)
    if options.anew:
        file.unlink(missing_ok=True)
    planned = [] if options.judge else plan(options.runs, options.others, options.pulsar)
    chosen = [each for each in planned if any(fnmatchcase(each.topic, pattern) for pattern in options.only)]
    # The kit's runs last: they are numbered by headers, so they need a pipeline of their own.
    chosen.sort(key=lambda each: each.setting.sender == "kit")
    for _ in range(_ATTEMPTS):
        done = {row.topic for row in results.read(file)}
        left = [each for each in chosen if each.topic not in done]
        for start, is_pulsar in ((start_kafka_lab, False), (start_pulsar_lab, True)):
            if own := [each for each in left if (each.setting.sender == PULSAR) is is_pulsar]:
                with start() as lab:
                    _make_runs(lab, own, file, records=options.records, batch=options.batch)
    rows = results.read(file)
    missed = results.missed_marks(rows)
    for each in missed:
        _print(f"MISSED: {each}")
    if options.write:
        page.CSV.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, page.CSV)
        page.PAGE.write_text(page.page(rows, missed), encoding="utf-8")
    right, showing = results.named_share(rows)
    _print(f"{len(rows)} runs, {len(missed)} missed marks; order names the cause in {right} of {showing} runs with traces")
    return 1 if missed else 0


def _make_runs(lab: Lab, left: Sequence[Planned], file: Path, *, records: int, batch: int) -> None:
    """Make runs on one cluster until all are made, or the cluster does not recover."""
    from lakehouse.spark.session import open_session

    pending: list[Ran] = []
    spark = None
    for nth, planned in enumerate(left, 1):
        is_fit = True
        try:
            pending.append(lab.run(planned, records))
            columns = pending[-1].columns
            shown = ", ".join(f"{name} {columns[name]}" for name in ("Seconds", "MsgsWithDups", "DJB", "JF", "JB", "Missing"))
            _print(f"{nth} of {len(left)}: {planned.topic}: {shown}")
        except (StuckError, UnfitError, TimeoutError) as error:
            _print(f"{nth} of {len(left)}: {planned.topic} failed: {error}")
            is_fit = isinstance(error, StuckError)
        if pending and (len(pending) >= batch or nth == len(left) or not is_fit):
            started = time.monotonic()
            spark = spark or open_session("tidemark-chaos")
            rows = lab.through_tables(spark, pending)
            results.append(file, rows)
            wrong = sum(bool(row.Wrong) for row in rows)
            _print(f"{len(rows)} topics through the tables in {time.monotonic() - started:.0f} s, {wrong} of them wrong")
            pending = []
        if not is_fit:
            return


def _print(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="runs of each of the article's settings (%(default)s)")
    parser.add_argument("--others", type=int, default=1, help="runs of every other setting (%(default)s)")
    parser.add_argument("--pulsar", type=int, default=0, help="runs of each of the article's settings of Pulsar (%(default)s)")
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", default=["*"], help="only runs with such names: 'java-*-off-5-*-1'"
    )
    parser.add_argument("--records", type=int, default=RECORDS, help="records of a run (%(default)s)")
    parser.add_argument("--batch", type=int, default=20, help="runs that go through the pipeline together (%(default)s)")
    parser.add_argument("--results", default="build/chaos.csv", help="the rows so far (%(default)s)")
    parser.add_argument("--anew", action="store_true", help="remove the rows so far")
    parser.add_argument("--judge", action="store_true", help="make no run")
    parser.add_argument("--write", action="store_true", help="write docs/chaos.md and its CSV from the rows")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
