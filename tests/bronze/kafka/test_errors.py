"""What Spark's Kafka source says when it fails, word for word as it was seen, and what a person is told."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from bronze.kafka.errors import failure
from lakehouse.errors import AnotherWriterError, SourceError
from lakehouse.settings.pipeline import Kafka

_LOST = (
    "Some data may have been lost because they are not available in Kafka any more;\n"
    "either the data was aged out by Kafka or the topic may have been deleted before all the data in the\n"
    "topic was processed.\n"
    "If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.\nReason: "
)
_OR = ".\nThis could be either 1) a user error"
_UNREAD = "Could not read records in offset [10, 110) for topic partition t-0"
_NOPE = "Invalid value NOPE for configuration security.protocol: String must be one of: PLAINTEXT"
_ASSIGNED = "you must specify all TopicPartitions.\nSpecified: Set(t-0) Assigned: Set(t-0, t-1)"
_WRITE_FAILED = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/bronze_records. SQLSTATE: 58030"
_KAFKA = Kafka.model_validate(
    {
        "bootstrap_servers": "broker:9092",
        "topics": ["t"],
        "properties": {"sasl.jaas.config": 'x.PlainLoginModule required username="ada" password="hunter2";'},
    }
)


def told(cause: str, *, trace: str = "") -> SourceError | AnotherWriterError:
    message = (
        f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {cause} SQLSTATE: XXKST\n=== Streaming Query ==="
    )
    error = PySparkException(message)
    vars(error)["_stackTrace"] = (
        f"org.apache.spark.sql.streaming.StreamingQueryException: {cause}\n\tat x.Y.z(Y.java:1)\n{trace}"
    )
    return failure(error, _KAFKA, "/lake/_checkpoints/bronze_records")


OF_KAFKA = "org.apache.kafka.common.errors."
# What Spark says, what we say, the end of Spark's words that is repeated, and what to do.
FAILURES = [
    *(
        (f"{OF_KAFKA}{seen}", what, seen, next_step)
        for seen, what, next_step in (
            (
                "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
                "does not exist",
                "kafka.topics",
            ),
            (
                "SaslAuthenticationException: Authentication failed: Invalid username",
                "does not accept who we are",
                "kafka.properties",
            ),
            ("TopicAuthorizationException: Not authorized to access topics: [t]", "does not let us read", "rights"),
            (
                "TimeoutException: Timed out waiting for a node assignment. Call: listNodes",
                "did not answer in time",
                "security.protocol",
            ),
        )
    ),
    *(
        (f"{_LOST}{seen}{more}", what, seen, next_step)
        for seen, more, what, next_step in (
            ("Partition t-0 offset was changed from 1000 to 10", _OR, "went back", "tidemark topic accept"),
            ("Partitions Set(u-0) have been deleted", ".", "is gone", "kafka.topics"),
            (_UNREAD, "\nwith consumer group g.", "no longer has records", "tidemark topic accept"),
        )
    ),
    (
        f"assertion failed: If startingOffsets contains specific offsets, {_ASSIGNED}",
        "does not name every partition",
        "Specified: Set(t-0) Assigned: Set(t-0, t-1)",
        "-2",
    ),
    (_NOPE, "refuses its configuration", _NOPE, "kafka.properties"),
    (
        "java.lang.IllegalStateException: Incomplete log file in the offset commit log",
        "empty or cut off",
        "Incomplete log file in the offset commit log",
        "Remove the folder /lake/_checkpoints/bronze_records",
    ),
    ("Something new.", "Reading Kafka into Bronze failed", "Something new.", "the next run"),
]


@pytest.mark.parametrize(("cause", "what", "observed", "next_step"), FAILURES)
def test_a_failure_says_what_was_seen_and_what_to_do(cause: str, what: str, observed: str, next_step: str) -> None:
    error = told(cause)
    assert isinstance(error, SourceError)
    assert what in error.what
    assert error.where == "topic t at broker:9092"
    assert error.observed == observed
    assert next_step in (error.next_step or "")


def test_a_cause_that_only_the_stack_trace_has_is_found() -> None:
    cause = f"{_UNREAD}\nwith consumer group g."
    error = told(_WRITE_FAILED, trace=f"Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: {_LOST}{cause}")
    assert "no longer has records" in error.what


def test_a_timestamp_that_spark_cannot_hold_names_the_record() -> None:
    observed = "Record at topic t partition 0 offset 4 has timestamp value 1795254019000000000"
    trace = f"Caused by: x.Y: [KAFKA_MALFORMED_RECORD_TIMESTAMP] {observed} that overflows when converting"
    assert told(_WRITE_FAILED, trace=trace).observed == observed


def test_an_unknown_failure_shows_its_innermost_cause() -> None:
    trace = "Caused by: a.B: outer\n\tat a.C(C.java:1)\nCaused by: java.io.IOException: No space left on device"
    assert told(_WRITE_FAILED, trace=trace).observed == "java.io.IOException: No space left on device"


def test_no_secret_is_repeated_whole_or_in_part() -> None:
    trace = (
        "Caused by: org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n"
        'Caused by: a.B: hunter2 in x.PlainLoginModule required username="ada" password="hunter2";'
    )
    error = told("Failed to create new KafkaAdminClient", trace=trace)
    assert "refuses its configuration" in error.what
    assert "hunter2" not in str(error)


def test_two_runs_at_once_are_another_writer() -> None:
    assert isinstance(told("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."), AnotherWriterError)
    assert isinstance(told("[DELTA_CONCURRENT_TRANSACTION] Several queries use this checkpoint."), AnotherWriterError)
