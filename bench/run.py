"""The benchmark's command: a broker, a session, and all measures of a round one after another, round by round."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import backfill, cold, endless, growth, parts, readers, report, shapes, streams, whole
from bench.checks import ChecksPipeline
from bench.loads import Place, measure_loads
from bench.look import LookPipeline
from bench.machine import conditions, machine
from bench.peers import page, rounds
from bench.peers.programs import versions
from bench.peers.registry import PEERS
from bench.sitting import Sitting, WrongResultError, require
from bench.topics import RESENT_SHARE, plan_topic, send_topic
from bench.verify import VerifyPipeline
from bench.warm import WarmPipeline, measure_help
from bronze.dev_broker.broker import LocalBroker
from lakehouse.spark.session import driver_memory, open_session

if TYPE_CHECKING:
    from collections.abc import Sequence

LOADS, LOOKS, CHECKS, PROOF, WARM, HELP = "loads", "look", "checks", "verify", "warm", "help"
OTHERS = "peers"
_OURS = (LOADS, LOOKS, CHECKS, PROOF, WARM, HELP)
_APART = (parts.SHAPES, parts.GROWTH, parts.STREAMS, parts.COLD, parts.WHOLE, parts.BACKFILL, parts.READERS, parts.ENDLESS)
"""What is measured only where it is asked for by name."""

_FEWEST_RECORDS = 1_000
_MOST_HISTORY = 200_000
_DOCS = Path(__file__).parents[1] / "docs"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its table.

    Returns:
        0; 1 where a result is wrong. A busy machine or a missed mark is said, and is no failure.
    """
    asked = _arguments(argv)
    # Else a broker and a peer would outlive it: only an exception ends what a `with` began.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    wanted = asked.only or [*_OURS, OTHERS]
    try:
        if set(wanted) & set(_OURS):
            _sit_with_ours(asked)
        for name in _APART:
            if name in wanted:
                _sit_with(name, asked)
        if OTHERS in wanted:
            _sit_with_peers(asked)
    except WrongResultError as error:
        Sitting().tell(f"WRONG RESULT. {error}")
        return 1
    return 0


def _sit_with_ours(asked: argparse.Namespace) -> None:
    """What a load costs, as a table."""
    sitting = Sitting()
    known = _sit(asked, sitting)
    report.show(sitting, known)
    if asked.save:
        _keep(asked.save, parts.LOADS, sitting, known)


def _sit_with(name: str, asked: argparse.Namespace) -> None:
    """A part of its own: in a new folder, with a session and a broker where it needs them."""
    sitting, started = Sitting(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        _measure(name, asked, sitting, Path(folder))
        took = f"{(time.monotonic() - started) / 60:.0f} minutes"
        into = asked.save or Path(folder) / "docs"
        driver = backfill.DRIVER_MEMORY if name == parts.BACKFILL else driver_memory()
        _keep(into, name, sitting, {"in all": took, **machine(), "driver": driver})
        print(parts.section(into, name))


def _measure(name: str, asked: argparse.Namespace, sitting: Sitting, folder: Path) -> None:
    if name == parts.GROWTH:
        growth.measure(sitting, folder, asked.most_history, asked.rounds)
    elif name == parts.BACKFILL:
        backfill.measure(sitting, folder, asked.backfill_records)
    elif name == parts.SHAPES:
        spark = open_session("tidemark-bench")
        shapes.measure(sitting, spark, folder, asked.records, asked.rounds)
        spark.stop()
    elif name == parts.READERS:
        spark = open_session("tidemark-bench")
        readers.measure(sitting, spark, folder, asked.history, asked.rounds)
        spark.stop()
    elif name == parts.COLD:
        with LocalBroker() as broker:
            cold.measure(sitting, broker.bootstrap_servers, folder, asked.rounds)
    else:
        with LocalBroker() as broker:
            place = Place(open_session("tidemark-bench"), broker.bootstrap_servers, folder)
            if name == parts.STREAMS:
                streams.measure(sitting, place, asked.streams, asked.rounds)
            elif name == parts.ENDLESS:
                endless.measure(sitting, place, asked.runs)
            else:
                whole.measure(sitting, place, asked.records, asked.rounds)
            place.spark.stop()


def _keep(folder: Path, name: str, sitting: Sitting, known: dict[str, object]) -> None:
    """Keep a part's raw numbers, and write the page anew from all that are kept."""
    report.save(parts.file_of(folder, name), sitting, known)
    page.write(folder)


def _sit_with_peers(asked: argparse.Namespace) -> None:
    """What others use instead, as a page."""
    sitting = Sitting()
    wanted = rounds.Asked(asked.records, asked.rounds, asked.peers or (), asked.small_loads)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, LocalBroker() as broker:
        started = time.monotonic()
        found = rounds.run(wanted, sitting, broker, Path(folder))
        took = f"{(time.monotonic() - started) / 60:.0f} minutes"
        into = asked.save or Path(folder) / "docs"
        known = {"rounds": asked.rounds, "taken in first": wanted.taken_in_first, "in all": took}
        page.save(into, sitting, found, {**known, **machine(), **versions()})
        print((into / page.PAGE).read_text(encoding="utf-8"))
    for each in found.outcomes:
        if each.peer.startswith("ours"):
            require(f"{each.peer} on {each.input}: {each.counts}", observed=each.is_as_promised, expected=True)
    require("ours that failed", observed=[name for name in found.failures if name.startswith("ours")], expected=[])


def _sit(asked: argparse.Namespace, sitting: Sitting) -> dict[str, object]:
    """Do the rounds; the conditions under which they were done."""
    wanted = asked.only or _OURS
    history = plan_topic("history", min(asked.records, _MOST_HISTORY))
    topics = [plan_topic(name, asked.records, resent_share=share) for name, share in RESENT_SHARE.items()]
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, LocalBroker() as broker:
        place = Place(open_session("tidemark-bench"), broker.bootstrap_servers, Path(folder))
        known = {"records": f"{asked.records:,}", "rounds": asked.rounds, **conditions(place.spark)}
        for topic in [history, *topics] if LOADS in wanted else [history]:
            sitting.tell(f"Sending {topic.records:,} records, pattern {topic.name}")
            send_topic(place.servers, topic)
        sitting.tell("Warming up")
        if LOADS in wanted:
            measure_loads(place, Sitting(), history)
        looked = LookPipeline(place, asked.history) if LOOKS in wanted else None
        checked = ChecksPipeline(place, asked.history) if CHECKS in wanted else None
        proved = VerifyPipeline(place, asked.history) if PROOF in wanted else None
        pipeline = WarmPipeline(place, history) if WARM in wanted else None
        for _ in range(asked.rounds):
            sitting.start_round()
            for topic in topics if LOADS in wanted else []:
                measure_loads(place, sitting, topic)
            if looked:
                looked.measure(sitting)
            if checked:
                checked.measure(sitting)
            if proved:
                proved.measure(sitting)
            if pipeline:
                pipeline.measure(sitting)
        if HELP in wanted:
            measure_help(sitting)
        place.spark.stop()
    return known


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="records of each topic (%(default)s)")
    parser.add_argument("--history", type=int, default=1_000_000, help="records in Silver, for look and verify (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (%(default)s)")
    everything = (*_OURS, *_APART, OTHERS)
    parser.add_argument("--only", nargs="+", choices=everything, help=f"measure only these; {', '.join(_APART)} only so")
    parser.add_argument("--most-history", type=int, default=growth.MOST_HISTORY, help="for growth (%(default)s)")
    parser.add_argument("--streams", type=int, default=streams.MOST_STREAMS, help="the most of them (%(default)s)")
    parser.add_argument("--backfill-records", type=int, default=backfill.RECORDS, help="in one load (%(default)s)")
    parser.add_argument("--runs", type=int, default=endless.RUNS, help="for endless (%(default)s)")
    parser.add_argument("--peers", nargs="+", choices=[peer.name for peer in PEERS], help="of the peers only these")
    parser.add_argument(
        "--small-loads", type=int, default=rounds.Asked.small_loads, help="loads of 1,000 records for each peer (%(default)s)"
    )
    parser.add_argument(
        "--save",
        nargs="?",
        const=_DOCS,
        type=Path,
        metavar="FOLDER",
        help="keep the raw numbers in a folder, docs if none is named, and write the page there",
    )
    asked = parser.parse_args(argv)
    if asked.records < _FEWEST_RECORDS or asked.rounds < 1:
        parser.error(f"at least {_FEWEST_RECORDS} records and one round, please")
    return asked


if __name__ == "__main__":
    sys.exit(main())
