"""Topic metadata from the brokers, without Spark: ids, partitions, and the offsets that Kafka holds."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # its stubs do not export it

from lakehouse.escape import printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakehouse.settings.pipeline import Kafka

EARLIEST, LATEST = -2, -1
"""Spark's numbers for a partition's earliest offset, and for the one that its next record gets."""
WORDS = {"earliest": EARLIEST, "latest": LATEST}
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_FIRST, _END = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call] # it has no annotations
_NO_ANSWER = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}  # noqa: SLF001 -- their public names
_REFUSALS = {
    KafkaError._AUTHENTICATION: "the login was refused",  # noqa: SLF001 -- as above
    KafkaError._SSL: "no connection by TLS",  # noqa: SLF001 -- as above
    KafkaError._RESOLVE: "the address is not known",  # noqa: SLF001 -- as above
}
_AROUND_REASON = re.compile(r"^\w+://[^ ]*: | \(after .*\)$", re.DOTALL)
_LONGEST_REASON = 300
_SECONDS = 10
_ATTEMPTS = 3
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that a broker without ids (before Kafka 2.8) gives to every topic."""

_SAME_NAME = {
    "security.protocol",
    "client.id",
    "client.dns.lookup",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.cipher.suites",
    "enable.sasl.oauthbearer.unsecure.jwt",
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
    """The brokers cannot be asked or read. Of the configuration, the text names the brokers alone."""


@dataclass(frozen=True)
class Seen:
    """A topic as the brokers describe it; `topic_id` is None if they have no ids."""

    topic_id: str | None
    partitions: tuple[int, ...]


def client_config(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate a Java client's connection properties to librdkafka's; raise a `LookError` for one without a counterpart.

    >>> client_config({"bootstrap.servers": "b:1", "security.protocol": "SSL", "max.poll.records": "5"})
    {'bootstrap.servers': 'b:1', 'security.protocol': 'SSL'}
    """
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
            raise LookError(f"librdkafka has no {name}")
    return config


def describe_topics(kafka: Kafka, topics: Iterable[str]) -> dict[str, Seen]:
    """Describe topics, except missing or hidden ones: reading them gives the better error. Raises a `LookError`."""
    found: dict[str, Seen] = {}
    admin = client(kafka)
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_SECONDS)
    for topic, asked in described.items():
        try:
            description = asked.result(2 * _SECONDS)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                continue
            raise LookError(_why(kafka, admin, error)) from None
        except TimeoutError as error:
            raise LookError(_why(kafka, admin, error)) from None
        topic_id = str(description.topic_id)
        partitions = tuple(sorted(each.id for each in description.partitions))
        found[topic] = Seen(None if topic_id in ("", "None", _NO_ID) else topic_id, partitions)
    return found


def topic_names(kafka: Kafka) -> list[str]:
    """Return the topics that this login may see, without Kafka's own; raise a `LookError` if no broker can be asked."""
    admin = client(kafka)
    try:
        found = admin.list_topics(timeout=_SECONDS).topics
    except KafkaException as error:
        raise LookError(_why(kafka, admin, error)) from None
    return sorted(name for name in found if not name.startswith("__"))


def bounds(kafka: Kafka, topic: str, partitions: Iterable[int], *, is_committed: bool = False) -> dict[int, tuple[int, int]]:
    """Return the earliest offset of each partition in Kafka, and the offset that its next record will get.

    With `is_committed` a partition ends before a transaction that is still open. Raises a `LookError`.
    """
    places = [TopicPartition(topic, each) for each in partitions]
    isolation = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
    earliest, latest = _listed(kafka, places, _FIRST, isolation), _listed(kafka, places, _END, isolation)
    return {partition: (earliest[partition], latest[partition]) for partition in earliest}


def stable_ends(kafka: Kafka, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Return the last stable offset of each partition, where a committed read ends. Raises as `bounds`."""
    return _listed(kafka, [TopicPartition(topic, each) for each in partitions], _END, IsolationLevel.READ_COMMITTED)


def starts(kafka: Kafka, topic: str, spans: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Return where the settings start each partition of a topic, in offsets that Kafka has. `spans` are its `bounds`.

    A time starts at the first record with that timestamp or a later one, or at the end if there is none. Raises as `bounds`.
    """
    start = kafka.start_of(topic)
    given = {each: named_offset(start, str(each)) for each in spans}
    if isinstance(start, str) and start not in WORDS:  # the answer is -1 where no record is so late
        since = OffsetSpec.for_timestamp(milliseconds(start))
        given = _listed(kafka, [TopicPartition(topic, each) for each in spans], since, IsolationLevel.READ_COMMITTED)
    return {each: {EARLIEST: first, LATEST: end}.get(given[each], given[each]) for each, (first, end) in spans.items()}


def named_offset(start: str | Mapping[str, int], partition: str) -> int:
    """Return the offset that a topic's start gives to a partition; `EARLIEST` for a time, which gives none."""
    return WORDS.get(start, EARLIEST) if isinstance(start, str) else start.get(partition, EARLIEST)


def milliseconds(time: str) -> int:
    """Convert a time of ISO 8601 to a Kafka timestamp, rounded up.

    >>> milliseconds("1970-01-01T00:00:01.0005+00:00"), milliseconds("1970-01-01T00:00:01+00:00")
    (1001, 1000)
    """
    return -((_EPOCH - datetime.fromisoformat(time)) // _MILLISECOND)


def _listed(kafka: Kafka, places: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel) -> dict[int, int]:
    admin, why = client(kafka), ""
    for _ in range(_ATTEMPTS):  # the leader may just have moved
        try:
            listed = admin.list_offsets(dict.fromkeys(places, spec), isolation_level=isolation, request_timeout=_SECONDS)
            return {place.partition: asked.result(2 * _SECONDS).offset for place, asked in listed.items()}
        except (KafkaException, TimeoutError) as error:
            why = _why(kafka, admin, error)
    raise LookError(why)


def _why(kafka: Kafka, admin: Client, error: KafkaException | TimeoutError) -> str:
    if isinstance(error, TimeoutError) or error.args[0].code() in _NO_ANSWER:
        admin.poll(0)  # here it calls back
        no_answer = f"no broker answered at {kafka.bootstrap_servers} within {_SECONDS} s"
        return f"{no_answer}: {admin.refusals[-1]}" if admin.refusals else no_answer
    name: str = error.args[0].name()
    return name


class Client(AdminClient):
    """An admin client that keeps why its connections were refused, without values of the configuration."""

    def __init__(self, config: dict[str, str | int], logger: logging.Logger) -> None:
        self.refusals = refusals = list[str]()

        def keep(error: KafkaError) -> None:
            if error.code() in _REFUSALS:
                reason = shortened(_AROUND_REASON.sub("", error.str()), _LONGEST_REASON)
                refusals.append(f"{_REFUSALS[error.code()]} ({printable(reason)})")

        super().__init__({**config, "error_cb": keep}, logger=logger)  # type: ignore[dict-item]  # its stubs know no callbacks


def client(kafka: Kafka) -> Client:
    """Create an admin client. Keep a reference: garbage-collected too early, it never answers. Raises a `LookError`."""
    quiet = logging.getLogger("tidemark.kafka.look")
    quiet.disabled = True  # librdkafka's log would go to stderr, past the report
    try:
        return Client({**client_config(kafka.client_properties()), "socket.timeout.ms": _SECONDS * 1000}, logger=quiet)
    except KafkaException as error:
        raise LookError(error.args[0].name()) from None  # its text may repeat a value


def _login_properties(jaas: str) -> dict[str, str]:
    found = _LOGIN.fullmatch(jaas)
    options = {name: double or single or bare for name, double, single, bare in _OPTION.findall(found[1])} if found else {}
    if not {"username", "password"} <= options.keys():
        raise LookError("librdkafka has no such login as sasl.jaas.config names")
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", options[name]) for name in ("username", "password")}


def _store(name: str, file: str, kind: str) -> dict[str, str]:
    if kind == "PEM":
        named = ("ssl.ca.location",) if name.startswith("ssl.trust") else ("ssl.certificate.location", "ssl.key.location")
        return dict.fromkeys(named, file)
    if kind == "PKCS12" and name == "ssl.keystore.location":
        return {name: file}
    raise LookError(f"librdkafka cannot read a {kind} file as {name}")
