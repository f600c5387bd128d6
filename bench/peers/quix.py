"""Quix Streams, the Python streaming floor: the highest sequence of each key in its state, exactly once from topic to topic.

It runs in an environment of its own, so nothing here imports what that one lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quixstreams import Application  # type: ignore[import-not-found]  # in its own environment only

from bench.peers.job import RUN, Answer

if TYPE_CHECKING:
    from bench.peers.job import Job

_HEADER = "seq"


def do(job: Job) -> Answer:
    """Take in all records of the topic, and end."""
    if job.do == RUN:
        _take_in_all(job)
    return Answer()


def _take_in_all(job: Job) -> None:
    app = Application(
        broker_address=job.servers,
        consumer_group=job.output,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=str(job.state),
        loglevel="WARNING",
    )
    source = app.topic(job.topic, key_deserializer="bytes", value_deserializer="bytes")
    sink = app.topic(job.output, key_serializer="bytes", value_serializer="bytes")
    left = job.records

    def is_new(_value: bytes, _key: bytes, _timestamp: int, headers: Any, state: Any) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            app.stop()  # after this record
        sequence = int(dict(headers)[_HEADER])
        if sequence <= state.get("highest", 0):
            return False
        state.set("highest", sequence)
        return True

    app.dataframe(source).filter(is_new, stateful=True, metadata=True).to_topic(sink)
    app.run()
