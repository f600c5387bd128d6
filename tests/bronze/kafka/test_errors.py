"""What Spark's Kafka source says when it fails, word for word as it was seen, and what a person is told."""

import pytest
from pyspark.errors import PySparkException

from bronze.kafka.errors import Corrupt, corrupt_batch, failure
from lakehouse.errors import AnotherWriterError, SourceError
from lakehouse.settings.pipeline import Kafka

_OF_KAFKA = "org.apache.kafka.common.errors."
_NO_TOPIC = "UnknownTopicOrPartitionException: This server does not host this topic-partition."
_NO_LOGIN = "SaslAuthenticationException: Authentication failed: Invalid username"
_NO_RIGHT = "TopicAuthorizationException: Not authorized to access topics: [t]"
_NO_ANSWER = "TimeoutException: Timed out waiting for a node assignment. Call: listNodes"
_LOST = (
    "Some data may have been lost because they are not available in Kafka any more;\n"
    "either the data was aged out by Kafka or the topic may have been deleted before all the data in the\n"
    "topic was processed.\n"
    "If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.\nReason: "
)
_WENT_BACK = "Partition t-0 offset was changed from 1000 to 10"
_GONE = "Partitions Set(u-0) have been deleted"
_UNREAD = "Could not read records in offset [10, 110) for topic partition t-0"
_NOPE = "Invalid value NOPE for configuration security.protocol: String must be one of: PLAINTEXT"
_ASSIGNED = "Specified: Set(t-0) Assigned: Set(t-0, t-1)"
_NOT_ALL = "assertion failed: If startingOffsets contains specific offsets, you must specify all TopicPartitions.\n"
_CUT_OFF = "Incomplete log file in the offset commit log"
_TOO_FAR = "Record at topic t partition 0 offset 4 has timestamp value 1795254019000000000"
_WRONG_CHECKSUM = "Record batch for partition t-0 at offset 10 is invalid, cause: Record is corrupt (stored crc = 1)"
_UNDECODED = "Received exception when fetching the next record from t-0"
_BROKEN_HEADER = "Encountered corrupt message when fetching offset 10 for topic-partition t-0"
_NO_ROOM = "java.io.IOException: No space left on device"
_WRITE_FAILED = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/bronze_records. SQLSTATE: 58030"
_LOGIN = 'x.PlainLoginModule required username="ada" password="hunter2";'
_KAFKA = Kafka(bootstrap_servers="broker:9092", topics=("t",), properties={"sasl.jaas.config": _LOGIN})


def translated(cause: str, *, trace: str = "") -> SourceError | AnotherWriterError:
    said = (
        f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {cause} SQLSTATE: XXKST\n=== Streaming Query ==="
    )
    error = PySparkException(said)
    of_java = "org.apache.spark.sql.streaming.StreamingQueryException"
    vars(error)["_stackTrace"] = f"{of_java}: {cause}\n\tat x.Y.z(Y.java:1)\n{trace}"
    return failure(error, _KAFKA, "/lake/_checkpoints/bronze_records")


# What Spark says, the part of it that is repeated, what we say, and what to do.
FAILURES = [
    (_OF_KAFKA + _NO_TOPIC, _NO_TOPIC, "does not exist", "kafka.topics"),
    (_OF_KAFKA + _NO_LOGIN, _NO_LOGIN, "rejects the login", "kafka.properties"),
    (_OF_KAFKA + _NO_RIGHT, _NO_RIGHT, "denies the right to read", "rights"),
    (_OF_KAFKA + _NO_ANSWER, _NO_ANSWER, "did not answer in time", "security.protocol"),
    (f"{_LOST}{_WENT_BACK}.\nThis could be either 1) a user error", _WENT_BACK, "went back", "tidemark topic accept"),
    (f"{_LOST}{_GONE}.", _GONE, "is gone", "kafka.topics"),
    (f"{_LOST}{_UNREAD}\nwith consumer group g.", _UNREAD, "no longer has records", "tidemark topic accept"),
    (_NOT_ALL + _ASSIGNED, _ASSIGNED, "lacks a partition", "-2"),
    (_NOPE, _NOPE, "refuses its configuration", "kafka.properties"),
    (
        f"java.lang.IllegalStateException: {_CUT_OFF}",
        _CUT_OFF,
        "empty or cut off",
        "the folder /lake/_checkpoints/bronze_records",
    ),
    ("Something new.", "Something new.", "Reading Kafka into Bronze failed", "the next run"),
]
# A stack trace, the part of it that is repeated, and what we say.
TRACES = [
    (f"x.KafkaIllegalStateException: {_LOST}{_UNREAD}\nwith consumer group g.", _UNREAD, "no longer has records"),
    (f"x.Y: [KAFKA_MALFORMED_RECORD_TIMESTAMP] {_TOO_FAR} that overflows when converting", _TOO_FAR, "outside Spark's range"),
    (f"k.K: {_UNDECODED}. If needed, please seek\nCaused by: k.K: {_WRONG_CHECKSUM}", _WRONG_CHECKSUM, "corrupt"),
    (f"k.K: {_UNDECODED}. If needed, please seek\nCaused by: java.io.IOException: odd", _UNDECODED, "corrupt"),
    (f"k.K: {_BROKEN_HEADER}", _BROKEN_HEADER, "corrupt"),
    (f"a.B: outer\n\tat a.C(C.java:1)\nCaused by: {_NO_ROOM}", _NO_ROOM, "Reading Kafka into Bronze failed"),
]


@pytest.mark.parametrize(("cause", "observed", "what", "next_step"), FAILURES)
def test_a_failure_says_what_was_seen_and_what_to_do(cause: str, observed: str, what: str, next_step: str) -> None:
    error = translated(cause)
    assert isinstance(error, SourceError)
    assert what in error.what
    assert error.where == "topic t at broker:9092"
    assert error.observed == observed
    assert next_step in (error.next_step or "")


@pytest.mark.parametrize(("trace", "observed", "what"), TRACES)
def test_a_cause_that_only_the_stack_trace_has_is_found(trace: str, observed: str, what: str) -> None:
    error = translated(_WRITE_FAILED, trace=f"Caused by: {trace}")
    assert what in error.what
    assert error.observed == observed


def test_no_secret_is_repeated_whole_or_in_part() -> None:
    trace = (
        "Caused by: org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n"
        f"Caused by: a.B: hunter2 in {_LOGIN}"
    )
    error = translated("Failed to create new KafkaAdminClient", trace=trace)
    assert "refuses its configuration" in error.what
    assert "hunter2" not in str(error)


@pytest.mark.parametrize("condition", ["CONCURRENT_STREAM_LOG_UPDATE", "DELTA_CONCURRENT_TRANSACTION"])
def test_two_runs_at_once_are_another_writer(condition: str) -> None:
    assert isinstance(translated(f"[{condition}] Several queries use this checkpoint."), AnotherWriterError)


# What Spark says, and the topics that it is about, of t, t-0, u and 110.
ABOUT = [
    (_WENT_BACK, ("t",)),
    ("Partition t-0-1 offset was changed from 3 to 1", ("t-0",)),
    (_UNREAD, ("t",)),
    ("Partitions Set(u-0, t-0-7) have been deleted", ("t-0", "u")),
    ("TopicAuthorizationException: Not authorized to access topics: [u, t]", ("t", "u")),
    ("GroupAuthorizationException: Not authorized to access group: t-0", ()),
    (f"x: {_UNDECODED}. If needed", ("t",)),
    (_NO_TOPIC, ()),
    (_NO_ANSWER, ()),
]


@pytest.mark.parametrize(("cause", "topics"), ABOUT)
def test_an_error_about_some_topics_has_their_names(cause: str, topics: tuple[str, ...]) -> None:
    several = _KAFKA.model_copy(update={"topics": ("t", "t-0", "u", "110")})
    assert set(getattr(failure(PySparkException(cause), several, ""), "topics", ())) == set(topics)
    for unnamed in (_NO_TOPIC, "TopicAuthorizationException: Topic authorization failed."):
        assert set(getattr(failure(PySparkException(unnamed), _KAFKA, ""), "topics", ())) == {"t"}


def test_the_place_of_a_corrupt_batch_is_read_from_the_error_and_from_ours() -> None:
    met = PySparkException(f"k.K: {_UNDECODED}. If needed\nCaused by: k.K: {_WRONG_CHECKSUM}")
    assert corrupt_batch(met) == corrupt_batch(failure(met, _KAFKA, "")) == Corrupt("t", 0, 10)
    assert corrupt_batch(PySparkException(f"{_UNDECODED}. If needed")) == Corrupt("t", 0, None)
    assert corrupt_batch(PySparkException(_BROKEN_HEADER)) == Corrupt("t", 0, None)
    assert corrupt_batch(PySparkException(_UNREAD)) is None
