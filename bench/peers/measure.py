"""Measures one peer at a time: starts its process, warms it up, gives it its inputs and counts its results."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count as numbers
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from bench import truth
from bench.peers import programs
from bench.peers.figures import Outcome
from bench.peers.job import PREPARE, RUN, Job
from bench.peers.process import Process
from bench.peers.registry import FROM_BRONZE, TO_DELTA, TO_TOPIC
from bench.peers.sizes import Watch, topic_bytes, written
from bench.sitting import Sitting
from bench.topics import PARTITIONS
from bench.truth import Counts
from lakehouse.table import BRONZE_RECORDS
from tidemark.extras.demo.broker import create_topic

if TYPE_CHECKING:
    from contextlib import ExitStack

    from bench.peers.job import Answer
    from bench.peers.registry import Input, Peer
    from bench.topics import Topic


@dataclass(frozen=True)
class Ready:
    """An input that waits to be taken in: its topic, and the Bronze that holds it. If not timed, its result alone counts."""

    input: Input
    topic: Topic
    bronze: Path
    is_timed: bool = False


@dataclass(frozen=True)
class Bench:
    """Where the peers run, and their outcomes. Every process takes in the warm-ups first."""

    sitting: Sitting
    servers: str
    broker_data: Path
    folder: Path
    warm_ups: Sequence[Ready]
    outcomes: list[Outcome] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=numbers)

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
    """A peer's process that has taken in the warm-ups."""

    peer: Peer
    process: Process


def open_peer(bench: Bench, peer: Peer, stack: ExitStack) -> Open:
    """Start a peer's process and let it take in the warm-ups.

    Raises:
        PeerFailedError: It failed.
        ToolError: What it needs could not be had.
    """
    command = programs.command(peer, bench.folder)  # fetches and compiles
    jobs = [bench.job(peer, ready) for ready in bench.warm_ups]
    process = stack.enter_context(Process(command, bench.folder / f"{peer.name}.log"))
    for job in jobs:
        process.ask(replace(job, do=PREPARE))
        process.ask(job)
    for job in jobs:
        clean(bench, job)
    return Open(peer, process)


def measure(bench: Bench, opened: Open, ready: Ready, copier: Open | None) -> None:
    """One run of a peer on an input; after a peer from topic to topic also the copy to Delta, in which rows are counted.

    Raises:
        PeerFailedError: It failed.
        WrongResultError: Its result holds what was never sent.
    """
    job = bench.job(opened.peer, ready)
    opened.process.ask(replace(job, do=PREPARE))
    answer, outcome = _timed(bench, opened, job, ready)
    if copier is None or opened.peer.way != TO_TOPIC:
        bench.outcomes.append(replace(outcome, counts=count(answer, ready.topic)))
    else:
        output = replace(ready, topic=replace(ready.topic, name=job.output))
        copying = bench.job(copier.peer, output)
        answer, copied = _timed(bench, copier, copying, output)
        counts = count(answer, output.topic)
        bench.outcomes.extend(replace(each, counts=counts) for each in (outcome, _added(outcome, copied)))
        clean(bench, copying)
    bench.sitting.tell(f"    {bench.outcomes[-1].counts}")
    clean(bench, job)


def _timed(bench: Bench, opened: Open, job: Job, ready: Ready) -> tuple[Answer, Outcome]:
    """A run and what it took; its rows are not counted yet."""
    sitting = bench.sitting if ready.is_timed else Sitting()
    with Watch(opened.process.pid, job.state) as watch:
        answer = sitting.measure(opened.peer.title, ready.input.name, ready.topic.records, lambda: opened.process.ask(job))
    bytes_written, files = written(Path(job.work))
    topic, logs = topic_bytes(bench.broker_data, job.output) if opened.peer.way == TO_TOPIC else (0, 0)
    taken = sitting.measurements[-1]
    return answer, Outcome(
        peer=opened.peer.name,
        input=ready.input.name,
        round=len(sitting.starts),
        records=ready.topic.records,
        late=ready.topic.late,
        seconds=taken.seconds,
        cpu_seconds=taken.cpu_seconds,
        peak_bytes=watch.peak_bytes,
        written_bytes=bytes_written + topic + logs,
        written_files=files,
        state_bytes=(written(Path(answer.state))[0] if answer.state else watch.peak_folder_bytes) + logs,
        counts=Counts(0, 0, 0, 0),
    )


def _added(outcome: Outcome, copied: Outcome) -> Outcome:
    """A run from topic to topic and the copy of its topic, one after the other."""
    cpu = None if outcome.cpu_seconds is None or copied.cpu_seconds is None else outcome.cpu_seconds + copied.cpu_seconds
    return replace(
        outcome,
        peer=outcome.peer + TO_DELTA,
        seconds=outcome.seconds + copied.seconds,
        cpu_seconds=cpu,
        peak_bytes=outcome.peak_bytes + copied.peak_bytes,
        written_bytes=outcome.written_bytes + copied.written_bytes,
        written_files=outcome.written_files + copied.written_files,
        state_bytes=outcome.state_bytes + copied.state_bytes,
    )


def count(answer: Answer, topic: Topic) -> Counts:
    """Count the rows of a result against the plan of its topic.

    Raises:
        WrongResultError: It holds what was never sent.
    """
    held = truth.held_in(Path(answer.rejects)) if answer.rejects else None
    return truth.count(topic, truth.of_table(Path(answer.table)), held)


def clean(bench: Bench, job: Job) -> None:
    """Remove what a run left: its folder, and every topic that carries its name."""
    shutil.rmtree(job.work, ignore_errors=True)  # a peer may be removing files of its own there
    admin = AdminClient({"bootstrap.servers": bench.servers, "log_level": 3})
    left = [name for name in admin.list_topics(timeout=30).topics if job.output in name]
    for done in admin.delete_topics(left).values() if left else ():
        done.result()
