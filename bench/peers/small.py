"""Small loads: a thousand records more, again and again, for the peers that go on from where they stopped."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from bench import truth
from bench.peers.job import FOLLOW, INGEST, PREPARE, STOP, Job
from bench.peers.measure import Ready, clean, count, open_peer
from bench.peers.outcome import SmallLoad
from bench.peers.process import PeerFailedError
from bench.peers.registry import CLEAN, PEERS
from bench.sitting import require
from bench.topics import PARTITIONS, plan_topic, send_more, send_topic
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.peers.job import Answer
    from bench.peers.measure import Bench
    from bench.peers.registry import Peer
    from bench.topics import Topic

NAME = "small loads"
RECORDS = 1_000
LOADS = ("copy", "commits", "ours", "merge", "within_watermark")
"""Peers that load what a table gained."""
FOLLOWERS = ("streams", "streams_exactly_once")
"""Peers that run on, and forward what comes."""

_WAIT_SECONDS = 60.0


def measure(bench: Bench, wanted: set[str], loads: int, history: int) -> list[SmallLoad]:
    """Small loads of all peers that are wanted and do any.

    Args:
        bench: Where they run.
        wanted: The peers.
        loads: How many loads of each.
        history: How many records each has taken in before.

    Raises:
        WrongResultError: A peer's result is not exact in the end.
        PeerFailedError: A peer failed.
    """
    by_name = {peer.name: peer for peer in PEERS if peer.name in wanted}
    found = list(_of_tables(bench, [by_name[name] for name in LOADS if name in by_name], loads, history))
    for name in FOLLOWERS:
        if name in by_name:
            found += _of_follower(bench, by_name[name], loads, history)
    return found


def _of_tables(bench: Bench, peers: list[Peer], loads: int, history: int) -> Iterator[SmallLoad]:
    """All in one session and on one Bronze, taking turns; the clock runs once Bronze has the records."""
    if not peers:
        return
    topic = plan_topic("small-loads", history // PARTITIONS * PARTITIONS)
    send_topic(bench.servers, topic)
    root = bench.folder / "bronze-small-loads"
    ingest = Job(INGEST, servers=bench.servers, topic=topic.name, root=str(root))
    with ExitStack() as stack:
        process = open_peer(bench, peers[0], stack).process
        version = process.ask(ingest).version
        jobs = [bench.job(peer, Ready(CLEAN, topic, root / BRONZE_RECORDS)) for peer in peers]
        answers: dict[str, Answer] = {}
        for job in jobs:
            process.ask(replace(job, do=PREPARE))
            answers[job.peer] = process.ask(job)
        for nth in range(loads):
            topic = _send(bench, topic)
            read, version = version, process.ask(ingest).version
            for job in jobs[nth % len(jobs) :] + jobs[: nth % len(jobs)]:
                started = time.perf_counter()
                answers[job.peer] = process.ask(replace(job, after_version=read))
                yield SmallLoad(job.peer, time.perf_counter() - started)
        for job in jobs:
            counts = count(bench, job, answers[job.peer], topic)
            require(f"the result of {loads} small loads of {job.peer}", observed=counts.is_exact, expected=True)
            clean(bench, job)


def _of_follower(bench: Bench, peer: Peer, loads: int, history: int) -> Iterator[SmallLoad]:
    """The clock runs from when Kafka has the records to when a consumer has read the last one, committed."""
    topic = plan_topic(f"small-{peer.name.replace('_', '-')}", history // PARTITIONS * PARTITIONS)
    send_topic(bench.servers, topic)
    with ExitStack() as stack:
        process = open_peer(bench, peer, stack).process
        job = bench.job(peer, Ready(CLEAN, topic, bench.folder))
        process.ask(replace(job, do=FOLLOW))
        consumer = _consumer(bench.servers, job.output)
        stack.callback(consumer.close)
        _take(consumer, topic.records)
        for _ in range(loads):
            topic = _send(bench, topic)
            started = time.perf_counter()
            _take(consumer, RECORDS)
            yield SmallLoad(peer.name, time.perf_counter() - started)
        process.ask(replace(job, do=STOP))
        counts = truth.count(topic, truth.of_topic(bench.servers, job.output))
        require(f"the result of {loads} small loads of {peer.name}", observed=counts.is_exact, expected=True)
        clean(bench, job)


def _send(bench: Bench, topic: Topic) -> Topic:
    """Send a thousand records more; the topic as it is then."""
    first = max(topic.unique) + 1
    send_more(bench.servers, topic.name, first, RECORDS)
    return replace(topic, unique=tuple(unique + RECORDS // PARTITIONS for unique in topic.unique))


def _consumer(servers: str, topic: str) -> Consumer:
    config = {"bootstrap.servers": servers, "group.id": f"{topic}-latency", "isolation.level": "read_committed", "log_level": 3}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    return consumer


def _take(consumer: Consumer, records: int) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while records > 0:
        taken = consumer.consume(min(records, RECORDS), 0.1)
        records -= sum(message.error() is None for message in taken)
        if time.monotonic() > deadline:
            raise PeerFailedError(f"{records} records did not come within {_WAIT_SECONDS:g} s")
