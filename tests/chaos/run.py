"""`make chaos`: the article's experiment again, and what Silver makes of it.

A run sends 150,000 numbers to a topic of its own on three brokers; near the 50,000th the topic's leader is struck. Every batch
of runs goes through the pipeline at once, and each run's row is added to a CSV file: a sitting that was interrupted goes on
there.
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
from tests.chaos.lab import Lab
from tests.chaos.pulsar.lab import Lab as PulsarLab
from tests.chaos.senders import StuckError
from tests.chaos.setting import PULSAR, RECORDS, plan
from tests.chaos.started import UnfitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.lab import Ran
    from tests.chaos.setting import Planned

_ATTEMPTS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is not in the file yet, and judge all that is.

    Returns:
        0; 1 where a mark does not hold or a run could not be made.
    """
    asked = _arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that brokers are ended as on Ctrl-C
    file = Path(asked.results)
    if asked.anew:
        file.unlink(missing_ok=True)
    if not asked.judge:
        planned = plan(asked.runs, asked.others, asked.pulsar)
        chosen = [each for each in planned if any(fnmatchcase(each.topic, pattern) for pattern in asked.only)]
        for _ in range(_ATTEMPTS):
            done = {row.topic for row in results.read(file)}
            # The kit's last: its records are numbered by headers, so they take a pipeline of their own.
            chosen.sort(key=lambda each: each.setting.sender == "kit")
            left = [each for each in chosen if each.topic not in done]
            for lab, is_pulsar in ((Lab, False), (PulsarLab, True)):
                if own := [each for each in left if (each.setting.sender == PULSAR) is is_pulsar]:
                    _sit(lab, own, file, records=asked.records, batch=asked.batch)
    rows = results.read(file)
    faults = results.faults_of(rows)
    for fault in faults:
        _say(f"NOT AS IT HAS TO BE: {fault}")
    if asked.write:
        page.CSV.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, page.CSV)
        page.PAGE.write_text(page.page(rows, faults), encoding="utf-8")
    right, showing = results.told_share(rows)
    _say(f"{len(rows)} runs, {len(faults)} faults; order tells the setting of {right} of {showing} runs that show anything")
    return 1 if faults else 0


def _sit(lab_of: type[Lab | PulsarLab], left: Sequence[Planned], file: Path, *, records: int, batch: int) -> None:
    """Make runs on one cluster until all are made, or the cluster does not come back."""
    from lakehouse.spark.session import open_session

    with lab_of() as lab:
        pending: list[Ran] = []
        spark = None
        for nth, planned in enumerate(left, 1):
            is_fit = True
            try:
                pending.append(lab.run(planned, records))
                _say(f"{nth} of {len(left)}: {_told(pending[-1])}")
            except (StuckError, UnfitError, TimeoutError) as error:
                _say(f"{nth} of {len(left)}: {planned.topic} could not be made: {error}")
                is_fit = isinstance(error, StuckError)
            if pending and (len(pending) >= batch or nth == len(left) or not is_fit):
                started = time.monotonic()
                spark = spark or open_session("tidemark-chaos")
                rows = lab.through_tables(spark, pending)
                results.append(file, rows)
                wrong = sum(bool(row.Wrong) for row in rows)
                _say(f"{len(rows)} topics through the tables in {time.monotonic() - started:.0f} s, {wrong} of them wrong")
                pending = []
            if not is_fit:
                return


def _told(ran: Ran) -> str:
    jumps = ran.log.jumps()
    shown = ", ".join(f"{name} {count}" for name, count in jumps._asdict().items() if count) or "in order"
    return f"{ran.planned.topic}, {ran.seconds} s: {shown}; missing {ran.sent.missing}"


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="runs of each of the article's settings (%(default)s)")
    parser.add_argument("--others", type=int, default=1, help="runs of every other setting (%(default)s)")
    parser.add_argument("--pulsar", type=int, default=0, help="runs of each of the article's settings of Pulsar (%(default)s)")
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", default=["*"], help="only runs with such names: 'java-*-off-5-*-1'"
    )
    parser.add_argument("--records", type=int, default=RECORDS, help="records of a run (%(default)s)")
    parser.add_argument("--batch", type=int, default=20, help="runs that go through the pipeline at once (%(default)s)")
    parser.add_argument("--results", default="build/chaos.csv", help="the rows so far; a sitting goes on there (%(default)s)")
    parser.add_argument("--anew", action="store_true", help="remove the rows so far")
    parser.add_argument("--judge", action="store_true", help="make no run")
    parser.add_argument("--write", action="store_true", help="write docs/chaos.md and its CSV from the rows")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
