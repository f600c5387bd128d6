"""Measures how long records take from Kafka to audited Gold, at a steady rate, with `run --every`.

The time starts at Kafka's timestamp of a record and ends at the commit to `gold_stream_health` that publishes it.
Sender, broker and loop share the machine.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from deltalake import DeltaTable

from bench.loads import write_config
from bench.machine import cpu_seconds, machine
from bench.markdown import table
from bench.topics import PARTITIONS, record_of
from lakehouse.table import GOLD_RECORDS, GOLD_STREAM_HEALTH
from tidemark.extras.demo.broker import LocalBroker, create_topic

if TYPE_CHECKING:
    from subprocess import Popen

_TOPIC = "fresh"
_MINUTE = 60
_TICK_SECONDS = 0.01
_LATEST_SECONDS = 2.0
_GAP_AFTER = 100
_PERCENTILES = (50, 95, 99)
_DRAIN_SECONDS = 120
_HEAD = ("minute", "records", "publishes", *(f"p{each} s" for each in _PERCENTILES), "lag, records", "cores of the loop")


class Publish(NamedTuple):
    """A commit that published records: its time in seconds since 1970, and the timestamps of its records."""

    at: float
    sent_at: pa.ChunkedArray


def send(servers: str, rate: int, seconds: float) -> None:
    """Send `rate` records a second, to each partition in turn. One sequence in a hundred is left out.

    Raises:
        TimeoutError: The machine is too slow for the rate.
    """
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000})
    started, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - started) < seconds:
        due = int(elapsed * rate)
        if due - sent > rate * _LATEST_SECONDS:
            raise TimeoutError(f"this machine does not send {rate:,} records a second: {due - sent:,} are late")
        for nth in range(sent, due):
            number = nth // PARTITIONS
            record = record_of(nth % PARTITIONS, number + number // _GAP_AFTER)
            producer.produce(_TOPIC, record.value, record.key, record.partition, headers=[*record.headers])
        sent = due
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    producer.flush()


def publishes(root: Path) -> list[Publish]:
    """Return what Gold published, in order."""
    published_at = {}
    for file in (root / GOLD_STREAM_HEALTH / "_delta_log").glob("*.json"):
        for action in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            if "gate_run_id" in (metadata := action.get("commitInfo", {}).get("userMetadata", "")):
                published_at[json.loads(metadata)["gate_run_id"]] = file.stat().st_mtime
    rows = DeltaTable(root / GOLD_RECORDS).to_pyarrow_dataset().to_table(columns=["gate_run_id", "timestamp"])
    seconds = pc.divide(rows["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.float64()), 1e6)
    found = [Publish(at, seconds.filter(pc.equal(rows["gate_run_id"], name))) for name, at in published_at.items()]
    return sorted(found, key=lambda each: each.at)


def by_minute(found: list[Publish], ends: list[float], cores: list[float]) -> Iterator[tuple[str, ...]]:
    """Yield a row of `_HEAD` for each minute, and one for all after the first. `ends` has the start and each minute's end."""
    everything = pa.chunked_array([each for publish in found for each in publish.sent_at.chunks], pa.float64())
    spans = [*pairwise(ends), (ends[1], ends[-1])]
    names, used = [*map(str, range(1, len(ends))), "2 on"], [*cores, sum(cores[1:]) / len(cores[1:])]
    for name, (begin, end), busy in zip(names, spans, used, strict=True):
        inside = [each for each in found if begin <= each.at < end]
        ages = pa.chunked_array([pc.subtract(each.at, each.sent_at) for each in inside if len(each.sent_at)], pa.float64())
        sent = pc.sum(pc.less(everything, end)).as_py() or 0
        lag = sent - sum(len(each.sent_at) for each in found if each.at < end)
        percentiles = pc.quantile(ages, [each / 100 for each in _PERCENTILES]).to_pylist()
        shown = ["" if each is None else f"{each:.1f}" for each in percentiles]
        yield name, f"{len(ages):,}", f"{len(inside)}", *shown, f"{lag:,}", f"{busy:.2f}"


def measure(servers: str, root: Path, *, rate: int, minutes: int, every: float) -> str:
    """Run the loop while the sender sends; return the table."""
    create_topic(servers, _TOPIC, PARTITIONS)
    config = write_config(servers, _TOPIC, root)
    run = [sys.executable, "-m", "tidemark", "run", "--config", str(config), "-q", "--json"]
    send(servers, PARTITIONS, 1)  # the first run, which creates the tables, needs records; the sender sends them again
    with (root / "runs.jsonl").open("w") as results, _running([*run, "--every", str(every)], results) as loop:
        while not (root / GOLD_STREAM_HEALTH / "_delta_log").exists():
            _require_alive(loop)
            time.sleep(1)
        options = ["--send", servers, "--rate", str(rate), "--minutes", str(minutes)]
        with _running([sys.executable, "-m", "bench.fresh", *options]) as sender:
            ends, used = [time.time()], [cpu_seconds(loop.pid)]
            for _ in range(minutes):
                time.sleep(max(0.0, ends[0] + len(ends) * _MINUTE - time.time()))
                _require_alive(loop)
                ends.append(time.time())
                used.append(cpu_seconds(loop.pid))
            if sender.wait(_MINUTE):
                raise SystemExit("the sender did not hold its rate")
    with suppress(subprocess.TimeoutExpired):  # records that are not published would count as never sent
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, timeout=_DRAIN_SECONDS)
    cores = [(after - before) / _MINUTE for before, after in pairwise(used)]
    return table(_HEAD, by_minute(publishes(root), ends, cores))


@contextmanager
def _running(command: list[str], output: IO[str] | None = None) -> Iterator[Popen[bytes]]:
    process = subprocess.Popen(command, stdout=output)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.wait()


def _require_alive(loop: Popen[bytes]) -> None:
    if loop.poll() is not None:
        raise SystemExit(f"the loop ended with {loop.returncode}")


def main() -> None:
    """Measure one rate, or send as a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.fresh", description=__doc__)
    parser.add_argument("--rate", type=int, default=20_000, help="records a second (%(default)s)")
    parser.add_argument("--minutes", type=int, default=30, help="at least 2 (%(default)s)")
    parser.add_argument("--every", type=float, default=1, help="the loop's own option (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep tables and results there")
    parser.add_argument("--send", metavar="SERVERS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.send:
        send(given.send, given.rate, given.minutes * _MINUTE)
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-fresh-") as folder, LocalBroker() as broker:
        root = given.keep or Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        print(f"{given.rate:,} records/s, {given.minutes} minutes; {machine()}\n")
        print(measure(broker.bootstrap_servers, root, rate=given.rate, minutes=given.minutes, every=given.every))


if __name__ == "__main__":
    main()
