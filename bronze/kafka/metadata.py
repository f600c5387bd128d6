"""Topic metadata from the brokers: ids, partitions, and the offsets that Kafka holds.

Uses librdkafka, without Spark. If librdkafka lacks the login, uses a session's Java client: `bronze.kafka.java_client`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # its stubs do not export it

from lakehouse.escape import printable, shortened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bronze.kafka.java_client import JavaClient
    from lakehouse.settings.pipeline import Kafka

C = TypeVar("C")

EARLIEST, LATEST = -2, -1
"""Spark's numbers for a partition's earliest offset, and for the offset of its next record."""
WORDS = {"earliest": EARLIEST, "latest": LATEST}
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_FIRST, _END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call] # it has no annotations
_NO_ANSWER = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}  # noqa: SLF001 -- their public names
_UNSEEN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}
_REFUSALS = {
    KafkaError._AUTHENTICATION: "the login was refused",  # noqa: SLF001 -- as above
    KafkaError._SSL: "no connection by TLS",  # noqa: SLF001 -- as above
    KafkaError._RESOLVE: "the address is not known",  # noqa: SLF001 -- as above
}
_AROUND_REASON = re.compile(r"^\w+://[^ ]*: | \(after .*\)$", re.DOTALL)
_LONGEST_REASON = 300
_SECONDS = 10
_ATTEMPTS = 3
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that a broker without ids (before Kafka 2.8) gives to every topic."""

_SAME_NAME = {
    *("security.protocol", "client.id", "client.dns.lookup", "sasl.mechanism", "sasl.kerberos.service.name"),
    *("ssl.key.password", "ssl.keystore.password", "ssl.cipher.suites"),
}
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_NEEDLESS = {"ssl.truststore.type", "ssl.keystore.type", "ssl.truststore.password", "ssl.protocol", "ssl.enabled.protocols"}
_LOGIN = re.compile(r"\s*[\w.]+\.(?:Plain|Scram)LoginModule\s+required\s+(.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))")


class LookError(Exception):
    """The brokers cannot be asked or read. The text shows no configuration except the brokers' addresses."""


class LoginError(LookError):
    """librdkafka lacks this login, which the Java client may have."""


@dataclass(frozen=True)
class Seen:
    """A topic as the brokers describe it; `topic_id` is None if they have no ids."""

    topic_id: str | None
    partitions: tuple[int, ...]


def client_config(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate a Java client's connection properties to librdkafka's; raise a `LoginError` for one without a counterpart."""
    config = {"bootstrap.servers": properties["bootstrap.servers"]}
    for name, value in properties.items():
        if not name.startswith(("security.", "sasl.", "ssl.", "client.")) or name in _NEEDLESS:
            continue
        if name in _SAME_NAME:
            config[name] = value
        elif name in _RENAMED:
            config[_RENAMED[name]] = value
        elif name == "sasl.jaas.config":
            config.update(_login_properties(value))
        elif name == "ssl.endpoint.identification.algorithm":
            config[name] = value or "none"
        elif name in ("ssl.truststore.location", "ssl.keystore.location"):
            config.update(_store(name, value, properties.get(name.replace("location", "type"), "JKS").upper()))
        elif not name.startswith("client."):
            raise LoginError(f"librdkafka has no {name}")
    return config


def describe_topics(kafka: Kafka, topics: Iterable[str], spark: SparkSession | None = None) -> dict[str, Seen]:
    """Describe topics, except missing or hidden ones, because reading those gives a better error.

    Without a session, raises a `LoginError` if librdkafka lacks the login. Raises a `LookError` if no broker can be asked.
    """
    return _client(kafka, spark).describe(list(topics))


def bounds(
    kafka: Kafka, topic: str, partitions: Iterable[int], spark: SparkSession | None = None, *, is_committed: bool = False
) -> dict[int, tuple[int, int]]:
    """Return the earliest offset of each partition in Kafka, and the offset that its next record will get.

    With `is_committed` a partition ends before a transaction that is still open. Raises as `describe_topics`.
    """
    admin, named = _client(kafka, spark), list(partitions)
    earliest, latest = (admin.offsets(topic, named, at, is_committed=is_committed) for at in (EARLIEST, LATEST))
    return {partition: (earliest[partition], latest[partition]) for partition in earliest}


def starts(kafka: Kafka, topic: str, partitions: Iterable[int], spark: SparkSession | None = None) -> dict[int, int]:
    """Return where the settings start each partition of a topic, in offsets that Kafka has. Raises as `bounds`.

    A time starts at the first record with that timestamp or a later one, or at the end if there is none.
    """
    start, spans = kafka.start_of(topic), bounds(kafka, topic, partitions, spark, is_committed=True)
    given = {each: named_offset(start, each) for each in spans}
    if isinstance(start, str) and start not in WORDS:  # the answer is -1 if all records are earlier
        given = _client(kafka, spark).offsets(topic, list(spans), milliseconds(start), is_committed=True)
    return {each: {EARLIEST: first, LATEST: end}.get(given[each], given[each]) for each, (first, end) in spans.items()}


def named_offset(start: str | Mapping[str, int], partition: int) -> int:
    """Return the offset that a topic's start gives to a partition; `EARLIEST` for a time, which names none."""
    return WORDS.get(start, EARLIEST) if isinstance(start, str) else start.get(str(partition), EARLIEST)


def milliseconds(time: str) -> int:
    """Convert a time of ISO 8601 to a Kafka timestamp, rounded up.

    >>> milliseconds("1970-01-01T00:00:01.0005+00:00"), milliseconds("1970-01-01T00:00:01+00:00")
    (1001, 1000)
    """
    return -((_EPOCH - datetime.fromisoformat(time)) // _MILLISECOND)


class Client(AdminClient):
    """librdkafka's admin client. It keeps why its connections were refused, without values of the configuration."""

    def __init__(self, config: dict[str, str | int], logger: logging.Logger) -> None:
        self.refusals = refusals = list[str]()
        self._servers = config["bootstrap.servers"]

        def keep(error: KafkaError) -> None:
            if error.code() in _REFUSALS:
                reason = shortened(_AROUND_REASON.sub("", error.str()), _LONGEST_REASON)
                refusals.append(f"{_REFUSALS[error.code()]} ({printable(reason)})")

        super().__init__({**config, "error_cb": keep}, logger=logger)  # type: ignore[dict-item]  # its stubs know no callbacks

    def describe(self, topics: list[str]) -> dict[str, Seen]:
        """Describe the topics that exist and that this login may see."""
        found: dict[str, Seen] = {}
        for topic, asked in self.describe_topics(TopicCollection(topics), request_timeout=_SECONDS).items():
            try:
                description = asked.result(2 * _SECONDS)
            except (KafkaException, TimeoutError) as error:
                if isinstance(error, KafkaException) and error.args[0].code() in _UNSEEN:
                    continue
                raise LookError(self.why(error)) from None
            topic_id = str(description.topic_id)
            partitions = tuple(sorted(each.id for each in description.partitions))
            found[topic] = Seen(None if topic_id in ("", "None", NO_ID) else topic_id, partitions)
        return found

    def offsets(self, topic: str, partitions: list[int], at: int, *, is_committed: bool) -> dict[int, int]:
        """Return each partition's offset at `EARLIEST`, `LATEST`, or a time in milliseconds; -1 if all records are earlier."""
        spec = {EARLIEST: _FIRST, LATEST: _END}.get(at) or OffsetSpec.for_timestamp(at)
        asked = dict.fromkeys((TopicPartition(topic, each) for each in partitions), spec)
        isolation, why = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED, ""
        for _ in range(_ATTEMPTS):  # the leader may just have moved
            try:
                listed = self.list_offsets(asked, isolation_level=isolation, request_timeout=_SECONDS)
                return {place.partition: answer.result(2 * _SECONDS).offset for place, answer in listed.items()}
            except (KafkaException, TimeoutError) as error:
                why = self.why(error)
        raise LookError(why)

    def why(self, error: KafkaException | TimeoutError) -> str:
        """Say why the brokers could not be asked."""
        if isinstance(error, TimeoutError) or error.args[0].code() in _NO_ANSWER:
            self.poll(0)  # runs the callback
            no_answer = f"no broker answered at {self._servers} within {_SECONDS} s"
            return f"{no_answer}: {self.refusals[-1]}" if self.refusals else no_answer
        return str(error.args[0].name())


def client(kafka: Kafka) -> Client:
    """Create an admin client. Keep a reference: garbage-collected too early, it never answers. Raises a `LoginError`."""
    return connect(Client, {**client_config(kafka.client_properties()), "socket.timeout.ms": _SECONDS * 1000})


def connect(kind: Callable[..., C], config: Mapping[str, str | int | bool]) -> C:
    """Create a client of librdkafka without its log, which would go to stderr, past the report. Raises a `LoginError`."""
    quiet = logging.getLogger("tidemark.kafka")
    quiet.disabled = True
    try:
        return kind(config, logger=quiet)
    except KafkaException as error:
        raise LoginError(error.args[0].name()) from None  # its text may repeat a value


def _client(kafka: Kafka, spark: SparkSession | None) -> Client | JavaClient:
    try:
        return client(kafka)
    except LoginError as error:
        if spark is None:
            raise
        from bronze.kafka.java_client import JavaClient  # imports pyspark

        return JavaClient(kafka, spark, str(error))


def _login_properties(jaas: str) -> dict[str, str]:
    found = _LOGIN.fullmatch(jaas)
    options = {name: double or single or bare for name, double, single, bare in _OPTION.findall(found[1])} if found else {}
    if not {"username", "password"} <= options.keys():
        raise LoginError("librdkafka has no such login as sasl.jaas.config names")
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", options[name]) for name in ("username", "password")}


def _store(name: str, file: str, kind: str) -> dict[str, str]:
    if kind == "PEM":
        named = ("ssl.ca.location",) if name.startswith("ssl.trust") else ("ssl.certificate.location", "ssl.key.location")
        return dict.fromkeys(named, file)
    if kind == "PKCS12" and name == "ssl.keystore.location":
        return {name: file}
    raise LoginError(f"librdkafka cannot read a {kind} file as {name}")
