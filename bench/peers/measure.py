"""One peer at a time: its process is started, warmed up, handed its inputs, measured, and its results are counted."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field, replace
from itertools import count as numbers
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from bench import truth
from bench.peers import programs
from bench.peers.job import PREPARE, RUN, Job
from bench.peers.outcome import Outcome
from bench.peers.process import Process
from bench.peers.registry import FROM_BRONZE, TO_DELTA, TO_TOPIC
from bench.peers.sizes import Watch, topic_bytes, written
from bench.topics import PARTITIONS
from bronze.local_broker import create_topic
from lakehouse.contracts.silver import HELD, LATE
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from bench.peers.job import Answer
    from bench.peers.registry import Input, Peer
    from bench.sitting import Measurement, Sitting
    from bench.topics import Topic
    from bench.truth import Counts

COPIER = "copy_from_kafka"


@dataclass(frozen=True)
class Ready:
    """An input that waits to be taken in.

    Attributes:
        input: Which one.
        topic: Its topic, as it was planned and sent.
        bronze: The Bronze table that holds the topic's records.
    """

    input: Input
    topic: Topic
    bronze: Path


@dataclass(frozen=True)
class Bench:
    """Where the peers run, and what was found.

    Attributes:
        sitting: Times every run, and looks at what others do meanwhile.
        servers: The broker.
        broker_data: Where the broker keeps its logs.
        folder: The peers' folder; a run's part of it is removed after it.
        warm_up: What every process takes in first.
        outcomes: What was found.
    """

    sitting: Sitting
    servers: str
    broker_data: Path
    folder: Path
    warm_up: Ready
    outcomes: list[Outcome] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=numbers)

    def command(self, peer: Peer) -> list[str]:
        """How a peer's process is started.

        Raises:
            ToolError: What it needs could not be fetched, installed or compiled.
        """
        classes = self.folder / "classes"
        classes.mkdir(exist_ok=True)
        return programs.command(peer, classes)

    def job(self, peer: Peer, ready: Ready) -> Job:
        """A run of a peer in a new folder; what it needs there is made, its output topic too."""
        name = f"{peer.name.replace('_', '-')}-{next(self._numbers):05d}"
        work = self.folder / name
        (work / "lakehouse").mkdir(parents=True)
        if peer.way == FROM_BRONZE:
            (work / "lakehouse" / BRONZE_RECORDS).symlink_to(ready.bronze)
        if peer.way == TO_TOPIC:
            create_topic(self.servers, name, PARTITIONS)
        return Job(
            RUN,
            peer=peer.name,
            servers=self.servers,
            topic=ready.topic.name,
            records=ready.topic.records,
            root=str(work / "lakehouse"),
            work=str(work),
            output=name,
        )


@dataclass(frozen=True)
class Open:
    """A peer's process that has taken in the warm-up.

    Attributes:
        peer: The peer.
        process: Its process.
        cold_seconds: From its start to the end of its first job.
    """

    peer: Peer
    process: Process
    cold_seconds: float


def open_peer(bench: Bench, peer: Peer, stack: ExitStack) -> Open:
    """Start a peer's process and let it take in the warm-up, whose result is counted as any other.

    Raises:
        PeerFailedError: It failed.
        ToolError: What it needs could not be had.
    """
    command = bench.command(peer)  # fetches, installs and compiles, which is no part of a start
    job = bench.job(peer, bench.warm_up)
    started = time.perf_counter()
    process = stack.enter_context(Process(command, bench.folder / f"{peer.name}.log"))
    process.ask(replace(job, do=PREPARE))
    process.ask(job)
    cold_seconds = time.perf_counter() - started
    clean(bench, job)
    return Open(peer, process, cold_seconds)


def measure(bench: Bench, opened: Open, ready: Ready, copier: Open | None) -> None:
    """One run of a peer on an input; of a peer from topic to topic also the copy of its topic to Delta.

    Raises:
        PeerFailedError: It failed.
        WrongResultError: Its result holds what was never sent.
    """
    peer, job = opened.peer, bench.job(opened.peer, ready)
    opened.process.ask(replace(job, do=PREPARE))
    answer, watch, taken = _timed(bench, opened, job, ready)
    counts = count(bench, job, answer, ready.topic)
    bytes_written, files = written(Path(job.work))
    topic, logs = topic_bytes(bench.broker_data, job.output) if peer.way == TO_TOPIC else (0, 0)
    state = written(Path(answer.state))[0] if answer.state else watch.peak_folder_bytes
    outcome = Outcome(
        peer.name,
        ready.input.name,
        len(bench.sitting.starts),
        ready.topic.records,
        ready.topic.value_megabytes,
        taken.seconds,
        taken.cpu_seconds,
        opened.cold_seconds,
        watch.peak_bytes,
        bytes_written + topic + logs,
        files,
        state + logs,
        counts,
    )
    bench.outcomes.append(outcome)
    bench.sitting.tell(f"    {counts}")
    if copier is not None and peer.way == TO_TOPIC:
        _copy_on(bench, copier, replace(ready, topic=replace(ready.topic, name=job.output)), outcome)
    clean(bench, job)


def _copy_on(bench: Bench, copier: Open, output: Ready, outcome: Outcome) -> None:
    job = bench.job(copier.peer, output)
    answer, watch, taken = _timed(bench, copier, job, output)
    bytes_written, files = written(Path(job.work))
    cpu = None if outcome.cpu_seconds is None or taken.cpu_seconds is None else outcome.cpu_seconds + taken.cpu_seconds
    bench.outcomes.append(
        replace(
            outcome,
            peer=outcome.peer + TO_DELTA,
            seconds=outcome.seconds + taken.seconds,
            cpu_seconds=cpu,
            cold_seconds=outcome.cold_seconds + copier.cold_seconds,
            peak_bytes=outcome.peak_bytes + watch.peak_bytes,
            written_bytes=outcome.written_bytes + bytes_written,
            written_files=outcome.written_files + files,
            state_bytes=outcome.state_bytes + watch.peak_folder_bytes,
            counts=count(bench, job, answer, output.topic),
        )
    )
    clean(bench, job)


def _timed(bench: Bench, opened: Open, job: Job, ready: Ready) -> tuple[Answer, Watch, Measurement]:
    with Watch(opened.process.pid, job.state) as watch:
        answer = bench.sitting.measure(
            opened.peer.title, ready.input.name, ready.topic.records, lambda: opened.process.ask(job)
        )
    return answer, watch, bench.sitting.measurements[-1]


def count(bench: Bench, job: Job, answer: Answer, topic: Topic) -> Counts:
    """Count what a run has left, against the plan of its topic.

    Raises:
        WrongResultError: It holds what was never sent.
    """
    if not answer.table:
        return truth.count(topic, truth.of_topic(bench.servers, job.output))
    held = truth.held_in(Path(answer.rejects), LATE, HELD) if answer.rejects else None
    return truth.count(topic, truth.of_table(Path(answer.table)), held)


def clean(bench: Bench, job: Job) -> None:
    """Remove what a run left: its folder, and every topic that carries its name."""
    shutil.rmtree(job.work)
    admin = AdminClient({"bootstrap.servers": bench.servers})
    left = [name for name in admin.list_topics(timeout=30).topics if job.output in name]
    for done in admin.delete_topics(left).values() if left else ():
        done.result()
