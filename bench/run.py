"""The benchmark's command: measures the parts and the peers, each in one sitting, and writes the page."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench import cold, endless, events, growth, page, parts, readers, shapes, small, streams, whole
from bench.loads import Place
from bench.machine import machine
from bench.peers import rounds
from bench.peers.programs import versions
from bench.peers.registry import PEERS
from bench.sitting import Sitting, WrongResultError, require
from lakehouse.spark.session import driver_memory, open_session
from tidemark.extras.demo.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHERS = "peers"
_DEFAULT = (parts.SHAPES, parts.SMALL, OTHERS)
_FEWEST_RECORDS = 1_000
_DOCS = Path(__file__).parents[1] / "docs"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its tables.

    Returns:
        0; 1 if a result is wrong. A busy machine or a missed aim is printed, and is no failure.
    """
    asked = _arguments(argv)
    # Only an exception ends what a `with` began; otherwise a broker and a peer would go on.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if asked.page:
        page.write(asked.save or _DOCS)
        return 0
    try:
        for name in asked.only or _DEFAULT:
            if name == OTHERS:
                _sit_with_peers(asked)
            else:
                _sit_with(name, asked)
    except WrongResultError as error:
        Sitting().tell(f"WRONG RESULT. {error}")
        return 1
    return 0


def _sit_with(name: str, asked: argparse.Namespace) -> None:
    """Measure a part in a new folder."""
    sitting, started = Sitting(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        _measure(name, asked, sitting, Path(folder))
        into = asked.save or Path(folder) / "docs"
        conditions = {parts.DURATION: _minutes(started), **machine(), "driver": driver_memory()}
        parts.save(parts.file_of(into, name), sitting, conditions)
        page.write(into)
        print(parts.costs(into, (name,)))


def _measure(name: str, asked: argparse.Namespace, sitting: Sitting, folder: Path) -> None:
    """Measure a part, with a session and a broker if it needs them."""
    with ExitStack() as stack:
        if name == parts.GROWTH:
            growth.measure(sitting, folder, asked.most_history, asked.rounds)
        elif name == parts.COLD:
            cold.measure(sitting, stack.enter_context(LocalBroker()).bootstrap_servers, folder, asked.rounds)
        elif name == parts.SHAPES:
            shapes.measure(sitting, _session(stack), folder, asked.records, asked.rounds)
        elif name == parts.READERS:
            readers.measure(sitting, _session(stack), folder, asked.history, asked.rounds)
        elif name == parts.STREAMS:
            streams.measure(sitting, Place(_session(stack), "none:9092", folder), asked.streams, asked.rounds)
        else:
            broker = stack.enter_context(LocalBroker())
            place = Place(_session(stack), broker.bootstrap_servers, folder)
            if name == parts.SMALL:
                small.measure(sitting, place, asked.history, asked.rounds)
            elif name == parts.ENDLESS:
                endless.measure(sitting, place, asked.runs)
            elif name == parts.EVENTS:
                events.measure(sitting, place, asked.records, asked.rounds)
            else:
                whole.measure(sitting, place, asked.records, asked.rounds)


def _session(stack: ExitStack) -> SparkSession:
    spark = open_session("tidemark-bench")
    stack.callback(spark.stop)
    return spark


def _sit_with_peers(asked: argparse.Namespace) -> None:
    """Measure the peers, and require that the results of Tidemark are exact."""
    sitting = Sitting()
    wanted = rounds.Asked(asked.records, asked.rounds, asked.peers or ())
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, LocalBroker() as broker:
        started = time.monotonic()
        found = rounds.run(wanted, sitting, broker, Path(folder))
        known = {"rounds": asked.rounds, parts.DURATION: _minutes(started)}
        into = asked.save or Path(folder) / "docs"
        page.save(into, sitting, found, {**known, **machine(), **versions()})
        print(page.peers(into))
    for each in found.outcomes:
        if each.peer.startswith("ours"):
            require(f"{each.peer} on {each.input}: {each.counts}", observed=each.is_as_promised, expected=True)
    require("ours that failed", observed=[name for name in found.failures if name.startswith("ours")], expected=[])


def _minutes(started: float) -> str:
    return f"{(time.monotonic() - started) / 60:.0f} minutes"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="records of each topic (%(default)s)")
    parser.add_argument("--history", type=int, default=1_000_000, help="records in Silver, for small and readers (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (%(default)s)")
    everything = (*(part.name for part in parts.PARTS), OTHERS)
    parser.add_argument("--only", nargs="+", choices=everything, help=f"measure these (by default {', '.join(_DEFAULT)})")
    parser.add_argument("--most-history", type=int, default=growth.MOST_HISTORY, help="for growth (%(default)s)")
    parser.add_argument("--streams", type=int, default=streams.MOST_STREAMS, help="the most of them (%(default)s)")
    parser.add_argument("--runs", type=int, default=endless.RUNS, help="for endless (%(default)s)")
    parser.add_argument("--peers", nargs="+", choices=[peer.name for peer in PEERS], help="of the peers only these")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page from the saved numbers")
    parser.add_argument(
        "--save", nargs="?", const=_DOCS, type=Path, metavar="FOLDER", help="save numbers and page in a folder (default: docs)"
    )
    asked = parser.parse_args(argv)
    if asked.records < _FEWEST_RECORDS or asked.rounds < 1:
        parser.error(f"at least {_FEWEST_RECORDS} records and one round, please")
    return asked


if __name__ == "__main__":
    sys.exit(main())
