"""Translates failures of Spark's Kafka source into errors that say what to do. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.errors import AnotherWriterError, BatchCorruptError, OffsetsExpiredError, SourceError, TopicRecreatedError
from lakehouse.run.reporting import scrubber
from lakehouse.settings.secrets import secret_texts
from lakehouse.spark.storage_errors import whole_text

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Kafka


class _Failure(NamedTuple):
    """A kind of failure. The error shows the match of `sign` or its group `shown`. `{checkpoint}` becomes the folder's name."""

    sign: str
    what: str
    expected: str
    next_step: str
    error: type[SourceError] = SourceError


class Place(NamedTuple):
    """A record's place in Kafka."""

    topic: str
    partition: int
    offset: int


class Corrupt(NamedTuple):
    """A batch that cannot be decoded; `offset` is its first one, or None if Kafka's client does not name it."""

    topic: str
    partition: int
    offset: int | None


_MALFORMED = r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value -?\d+"

WENT_BACK = _Failure(
    r"Partition \S+ offset was changed from \d+ to \d+",
    "A topic's offsets went back: it was deleted and recreated, or its end was cut off.",
    "the topic that Bronze was read from",
    "Nothing was read, because its offsets would repeat known ones. To continue with it as a new incarnation: `tidemark topic "
    "accept TOPIC --reason ...`, with --same-numbering if its records have their old numbers, else with --new-numbering. If "
    "only kafka.starting_offsets was too high for a first run, correct it and remove the folder {checkpoint}.",
    TopicRecreatedError,
)
GONE = _Failure(
    r"Partitions [^\n]* have been deleted|Cannot find initial offsets for partitions[^\n]*"
    r"|Some of partitions in Kafka topic\(s\) have been lost[^\n]*",
    "A topic or partition that Bronze was read from is gone.",
    "every partition that was read before",
    "If the topic was deleted on purpose, remove it from kafka.topics: the next run continues with the others. If it was "
    "recreated: `tidemark topic accept TOPIC --reason ...`, with --same-numbering if its records have their old numbers, else "
    "with --new-numbering.",
)
EXPIRED = _Failure(
    r"Could not read records in offset \[\d+, \d+\) for topic partition \S+"
    r"|Starting offset for \S+ was \d+ but consumer reset[^\n]*"
    r"|Added partition \S+ starts from \d+ instead of 0|OffsetOutOfRangeException[^\n]*",
    "Kafka no longer has records that were not read yet.",
    "every record after the last one in Bronze: retention.ms longer than the pause between runs",
    "Lengthen retention.ms. To continue, and record the loss in the ledger: `tidemark topic accept TOPIC --reason ...`.",
    OffsetsExpiredError,
)
_PLACE = r"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
_WRONG_CHECKSUM = rf"Record batch for partition {_PLACE} at offset (?P<offset>\d+) is invalid"
_NOT_DECODED = (
    rf"Encountered corrupt message when fetching offset \d+ for topic-partition {_PLACE}",
    rf"Received exception when fetching the next record from {_PLACE}",  # also around a wrong checksum
)
CORRUPT = _Failure(
    f"(?P<shown>{_WRONG_CHECKSUM}[^\n]*)",
    "A batch of the log is corrupt.",
    "batches with the checksum that they were written with",
    "Another replica may have an intact copy: make it the leader, and run again. To continue without the batch, and record "
    "the loss in the ledger: `tidemark topic accept TOPIC --reason ...`.",
    BatchCorruptError,
)
UNLIKE_PARTITIONS = _Failure(
    r"Specified: [^\n]*Assigned: [^\n]*",
    "kafka.starting_offsets lacks a partition, or names one too many.",
    "an offset for every partition of every topic",
    "Name them all; -2 is a partition's earliest offset, -1 its latest.",
)

MISSING = _Failure(
    r"UnknownTopicOrPartitionException[^\n]*",
    "A topic does not exist.",
    "every topic of kafka.topics on this cluster",
    "Correct kafka.topics, or create the topic. A topic that this login may not see looks the same.",
)
NO_RIGHT = _Failure(
    r"(Topic|Group|Cluster)AuthorizationException[^\n]*|Not authorized to access [^\n]*",
    "Kafka denies the right to read.",
    "the right to read and describe every topic, and consumer groups that begin with spark-kafka-source",
    "Grant the rights, or set group.id under kafka.properties to a permitted group.",
)

_KINDS = (
    MISSING,
    _Failure(
        r"(Sasl|Ssl)AuthenticationException[^\n]*|SSLHandshakeException[^\n]*",
        "Kafka rejects the login.",
        "a successful authentication",
        "Check security.protocol, sasl.*, ssl.* and the secrets under kafka.properties.",
    ),
    NO_RIGHT,
    WENT_BACK,
    GONE,
    EXPIRED,
    CORRUPT,
    *(CORRUPT._replace(sign=f"(?P<shown>{sign})") for sign in _NOT_DECODED),
    _Failure(
        f"(?P<shown>{_MALFORMED})",
        "A record's timestamp is outside Spark's range, and the record cannot be read without Spark.",
        "milliseconds since 1970; or brokers that librdkafka can read from the machine that this program runs on",
        "Run Bronze once on a machine that reaches the brokers, not over Spark Connect, with properties that librdkafka has: "
        "this run reads the record, and later runs continue after it. The producer sends microseconds or nanoseconds: correct "
        "it, and set message.timestamp.after.max.ms on the topic, so that the broker refuses such records.",
    ),
    UNLIKE_PARTITIONS,
    _Failure(
        r"Incomplete log file[^\n]*|Malformed log file[^\n]*",
        "A file of the checkpoint is empty or cut off.",
        "whole files in {checkpoint}",
        "Remove the folder {checkpoint}: the next run continues after the records in Bronze.",
    ),
    _Failure(
        r"Failed to (?:create new KafkaAdminClient|construct kafka consumer).*\nCaused by: (?P<shown>[^\n]*)"
        r"|Invalid value [^\n]*|ConfigException[^\n]*|Kafka option '[^']*' is not supported",
        "The Kafka client refuses its configuration.",
        "properties that the Kafka client knows, with valid values",
        "Correct kafka.properties; the names are those of Kafka's consumer configuration.",
    ),
    _Failure(
        r"(Timeout|Disconnect|BrokerNotAvailable)Exception[^\n]*",
        "A Kafka broker was reached but did not answer in time.",
        "an answer within default.api.timeout.ms",
        "Check that security.protocol is what this port speaks, and that the addresses which the broker advertises "
        "(advertised.listeners) can be reached from here.",
    ),
)
_OF_TOPICS = (NO_RIGHT, WENT_BACK, GONE, EXPIRED, *(kind for kind in _KINDS if kind.error is BatchCorruptError))
"""Failures of single topics. Their texts name the topics."""

_ANOTHER_QUERY = re.compile(
    r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using|is already active"
    r"|DELTA_CONCURRENT_\w+|DELTA_(?:METADATA|PROTOCOL)_CHANGED|STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"
)

_UNKNOWN = _Failure(
    r"",
    "Reading Kafka into Bronze failed.",
    "a query that ends when everything available is read",
    "Bronze holds only complete micro-batches, and the next run continues after the last one. If it fails again, see the "
    "cause below.",
)

_JAAS_WORD = re.compile(r"required|optional|requisite|sufficient|username|password|[\w.]+LoginModule")
_SHORTEST_SECRET = 3
_WRAPPING = re.compile(r"^.*?terminated with exception: |( SQLSTATE: \w+)+\s*$", re.DOTALL)


def failure(error: Exception, kafka: Kafka, checkpoint: str) -> SourceError | AnotherWriterError:
    """Translate a failed query's error, without secrets of the settings in it."""
    text = whole_text(error)
    if _ANOTHER_QUERY.search(text):
        return another_reader(checkpoint)
    kind, observed = _kind(text)
    refused = refusal(kind, observed, kafka, checkpoint)
    if kind in _OF_TOPICS:
        named = r"[\[,] ?{}[\],]" if kind is NO_RIGHT else r"(?<![\w.-]){}-\d+(?![\w-]|\.\w)"  # a list, or a partition
        refused.topics = tuple(name for name in kafka.topics if re.search(named.format(re.escape(name)), observed))
    if not refused.topics and len(kafka.topics) == 1 and (kind is MISSING or "TopicAuthorization" in observed):
        refused.topics = kafka.topics  # the text may not name the topic
    return refused


def refusal(kind: _Failure, observed: str, kafka: Kafka, checkpoint: str) -> SourceError:
    """Build the error of a kind of failure, without secrets of the settings in it."""
    scrub = scrubber(_secrets(kafka))
    return kind.error(
        kind.what,
        where=str(scrub(f"topic {', '.join(kafka.topics)} at {kafka.bootstrap_servers}")),
        observed=str(scrub(observed)),
        expected=kind.expected.format(checkpoint=checkpoint),
        next_step=kind.next_step.format(checkpoint=checkpoint),
    )


def another_reader(where: str) -> AnotherWriterError:
    """Build the error for a run that finds another run on the same Bronze."""
    return AnotherWriterError(
        "Another run reads the same topics into the same Bronze at this moment.",
        where=where,
        next_step="Nothing to do: every record is appended once, by one of the two. Schedule one run at a time.",
    )


def malformed_timestamp(error: Exception) -> Place | None:
    """Return the record whose timestamp Spark cannot hold, or None if the read failed for another reason."""
    found = re.search(_MALFORMED, whole_text(error))
    return Place(found[1], int(found[2]), int(found[3])) if found else None


def corrupt_batch(error: Exception) -> Corrupt | None:
    """Return the batch that a read failed on because it cannot be decoded, or None if the read failed for another reason."""
    text = whole_text(error)
    if found := re.search(_WRONG_CHECKSUM, text):
        return Corrupt(found["topic"], int(found["partition"]), int(found["offset"]))
    found = next((found for sign in _NOT_DECODED if (found := re.search(sign, text))), None)
    return Corrupt(found["topic"], int(found["partition"]), None) if found else None


def _secrets(kafka: Kafka) -> set[str]:
    given = secret_texts((kafka.bootstrap_servers, kafka.topics, kafka.properties))
    # Kafka may repeat a part of a JAAS text: the password, or anything in a place where it expected another word.
    words = {word for text in given for word in re.split(r"[\s=;\"']+", text)}
    return given | {word for word in words if len(word) >= _SHORTEST_SECRET and not _JAAS_WORD.fullmatch(word)}


def _kind(text: str) -> tuple[_Failure, str]:
    for kind in _KINDS:
        if found := re.search(kind.sign, text, re.DOTALL):
            return kind, _WRAPPING.sub("", " ".join(found[found.lastgroup or 0].split()))
    return _UNKNOWN, root_cause(text)


def root_cause(text: str) -> str:
    r"""Return the first line of the innermost cause in a Java stack trace, or else of the text.

    >>> root_cause("a.B: outer\n\tat a.C(C.java:1)\nCaused by: d.E: inner\n\tat d.F(F.java:2)\n")
    'd.E: inner'
    >>> root_cause("[STREAM_FAILED] Query [id = 1] terminated with exception: no room SQLSTATE: XXKST\n=== Streaming Query ===")
    'no room'
    """
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    line = causes[-1] if causes else next((line for line in text.splitlines() if line.strip()), "no message")
    return _WRAPPING.sub("", line.strip())
