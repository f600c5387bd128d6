"""The Kafka part of the settings: where the records come from, and with which client properties."""

import ipaddress
import re
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, PlainValidator, SecretStr, StringConstraints, ValidationInfo, field_validator

from lakehouse.settings.base import Model, SettingError, Text, Whole, setting
from lakehouse.settings.secrets import HIDES_SECRETS, MASKED, Secret, smells_of_secret

_SERVER = re.compile(r"([A-Za-z0-9_]+://)?(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_HIGHEST_PORT = 65_535
_EARLIEST = -2

# Spark's Kafka source sets or forbids these; passed on, they would be ignored or break a guarantee.
_OWNED = {
    "bootstrap.servers": "Write it as kafka.bootstrap_servers.",
    "key.deserializer": "Leave it out: Bronze keeps the bytes unchanged.",
    "value.deserializer": "Leave it out: Bronze keeps the bytes. To decode values: value: {format: json, schema: ...}.",
    **dict.fromkeys(("key.serializer", "value.serializer"), "Leave it out: nothing is written to Kafka."),
    "enable.auto.commit": "Leave it out: progress is kept with the tables, not in a consumer group.",
    "auto.offset.reset": "Use kafka.starting_offsets; later runs continue after Bronze's records.",
    "interceptor.classes": "Leave it out: Spark refuses interceptors, as they could change records.",
}

Start = Literal["earliest", "latest"]

# Not "." and not "..".
_IS_TOPIC = StringConstraints(pattern=r"^(\.*[A-Za-z0-9_-][A-Za-z0-9._-]*|\.{3,})$", max_length=249)
TopicName = Annotated[str, _IS_TOPIC, HIDES_SECRETS]


def _check_servers(text: str) -> str:
    for server in text.split(","):
        found = _SERVER.fullmatch(server.strip())
        if not found or not 0 < int(found[3]) <= _HIGHEST_PORT:
            next_step = "Write it like broker-1:9092,broker-2:9092; put an IPv6 address in brackets."
            raise SettingError("this is no list of servers", "host:port, several separated by commas", next_step)
    return text


def _check_name(name: str) -> str:
    if name.startswith("kafka."):
        next_step = f"Write it without the prefix: {name.removeprefix('kafka.')}."
        raise SettingError("Spark's prefix does not belong here", "the Kafka client's own property name", next_step)
    if not re.fullmatch(r"[a-z0-9._-]+", name):
        # Spark lower-cases names: a property in capitals would pass these checks and still reach the client.
        expected = "small letters, digits, points, hyphens and underscores"
        raise SettingError("this is no name of a property", expected, f"Write it like {name.strip().lower()!r}.")
    if name in _OWNED:
        raise SettingError("Tidemark sets this property itself", "any other client property", _OWNED[name])
    return name


def _check_value(value: object) -> str:
    if isinstance(value, SecretStr):
        return Secret(value.get_secret_value())
    if not isinstance(value, str):
        raise SettingError("this is no text", "a text", 'Put it in quotes, for example "true" or "500".')
    return value


def _parse_starts(value: Any) -> Any:
    start: Any = _parse_start(value)
    if isinstance(value, dict):
        start = {topic: _parse_start(each) or _parse_offsets(each) for topic, each in value.items()}
    if not start or (isinstance(start, dict) and None in start.values()):
        expected = "earliest, latest, a time from 1970 on with its offset from UTC, or for every topic one of these or an "
        expected += "offset for every partition (-2 is its earliest, -1 its latest)"
        next_step = 'Write it like starting_offsets: 2026-09-20T00:00Z, or {incidents: {"0": 1500, "1": -2}}.'
        raise SettingError("this is no starting point", expected, next_step)
    return start


def _parse_start(value: object) -> str | None:
    """Return `earliest`, `latest`, or a time in UTC; None if the value is none of these."""
    if value in get_args(Start):
        return str(value)
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        return at.astimezone(UTC).isoformat() if at and at.tzinfo and at.timestamp() >= 0 else None
    except (ValueError, OverflowError):
        return None


def _parse_offsets(value: object) -> dict[str, int] | None:
    if not isinstance(value, dict) or not value or not all(_is_offset(*each) for each in value.items()):
        return None
    return {str(partition): offset for partition, offset in value.items()}


def _is_offset(partition: object, offset: object) -> bool:
    is_whole = isinstance(offset, int) and not isinstance(offset, bool) and offset >= _EARLIEST
    return is_whole and re.fullmatch("[0-9]+", str(partition)) is not None


class Kafka(Model):
    """Where the records come from."""

    bootstrap_servers: Annotated[str, AfterValidator(_check_servers), HIDES_SECRETS] = setting(
        ..., "the brokers", "localhost:9092"
    )
    topics: tuple[TopicName, ...] = setting(..., "a list of exact names: letters, digits and . _ -", "[incidents]")
    starting_offsets: Annotated[str | dict[str, str | dict[str, int]], PlainValidator(_parse_starts)] = setting(
        "earliest", "where the first run starts: earliest, latest, a time, or one of these or offsets per topic", "earliest"
    )
    max_offsets_per_trigger: Whole | None = setting(1_000_000, "the most records of a step; null for any", "1000000")
    on_unreadable_topic: Literal["fail", "skip"] = setting("fail", "whether an unreadable topic fails a run or not", "skip")
    commit_group: Text | None = setting(None, "a consumer group with Silver's offsets, for lag tools", "tidemark-incidents")
    properties: dict[
        Annotated[str, AfterValidator(_check_name)],
        Annotated[SecretStr | str, PlainValidator(_check_value), HIDES_SECRETS, MASKED],
    ] = setting({}, "Kafka client properties by their own names", "{security.protocol: SASL_SSL}")

    @field_validator("topics")
    @classmethod
    def _require_different_topics(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        # With min_length, pydantic would report a list of invalid names as empty too.
        if not topics:
            raise SettingError("no topic is listed", "at least one topic", "For example topics: [incidents]")
        if len(set(topics)) < len(topics):
            raise SettingError("a topic is listed twice", "each topic once", "Remove the second mention.")
        return topics

    @field_validator("starting_offsets")
    @classmethod
    def _require_start_of_every_topic(cls, start: str | dict[str, Any], info: ValidationInfo) -> str | dict[str, Any]:
        topics = info.data.get("topics")
        if isinstance(start, dict) and topics is not None and set(start) != set(topics):
            expected = "a start for every topic in kafka.topics, and for no other"
            raise SettingError("the topics differ from kafka.topics", expected, "Correct one of the two.")
        return start

    @field_validator("properties")
    @classmethod
    def _check_and_hide(cls, properties: dict[str, str]) -> dict[str, str]:
        for name, value in properties.items():
            for names, is_right, what, expected, next_step in _CHECKS:
                if re.fullmatch(names, name) and not is_right(value):
                    raise SettingError(what, expected, next_step, at=(name,))
        return {name: Secret(value) if smells_of_secret(name) else value for name, value in properties.items()}

    def start_of(self, topic: str) -> str | dict[str, int]:
        """Return where a new topic starts: `earliest`, `latest`, a time in ISO 8601, or an offset per partition."""
        start = self.starting_offsets
        return start[topic] if isinstance(start, dict) else start

    def client_properties(self) -> dict[str, str]:
        """Return a Kafka client's configuration, with secrets in plain text: never for a message."""
        # Plain str: a client that takes the repr of a Secret would get its mask.
        return {name: str(value) for name, value in {**self.properties, "bootstrap.servers": self.bootstrap_servers}.items()}


def is_web_address(value: str) -> bool:
    """Whether a text is an http or https URL of a host that the config may name."""
    return re.fullmatch(r"(?i)https?://[^/\s?#]+\S*", value) is not None and not _is_link_local(value)


def _is_link_local(url: str) -> bool:
    """Whether the host is in 169.254.0.0/16 or fe80::/10, where clouds return a machine's credentials.

    >>> [_is_link_local(f"http://{host}/") for host in ("169.254.169.254", "0xa9fea9fe", "[::ffff:a9fe:1]", "example.org")]
    [True, True, True, False]
    """
    try:
        host = ipaddress.ip_address(_host(url))
    except ValueError:
        return False
    return (getattr(host, "ipv4_mapped", None) or host).is_link_local


def _host(url: str) -> str:
    """Return a URL's host; an IPv4 address in dotted form, whatever form it has (2852039166, 0xa9fea9fe)."""
    host = (urlsplit(url).hostname or "").partition("%")[0].removesuffix(".")
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return host


def _is_path(value: str) -> bool:
    return bool(value) and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", value) and not re.search(r"[\x00-\x1f\x7f]", value)


_FOREIGN = re.compile(r"(javax?|jdk|sun|com\.sun|com\.ibm|org\.apache\.spark|org\.apache\.hadoop|scala|groovy)\.")
"""Packages that are always on the class path. A Kafka client needs only _LOGINS from them."""
_LOGINS = {f"com.{vendor}.security.auth.module.Krb5LoginModule" for vendor in ("sun", "ibm")}
# No backtracking (`?>`, `*+`): a text must not pass in another reading than Kafka's.
_LOGIN = re.compile(
    r"\s*([^\s;=]+)\s+(?i:required|requisite|sufficient|optional)(?=[\s;])"
    r"""(?>\s*[^\s=;"']+\s*=\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|[^\s;"']+))*+\s*;""",
    re.DOTALL,
)


def _is_class(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*", name) is not None and not _FOREIGN.match(name)


def _are_classes(value: str) -> bool:
    return all(_is_class(name.strip()) for name in value.split(",") if name.strip())


def _are_logins(value: str) -> bool:
    """Whether a text is strict JAAS and names only permitted classes."""
    at = 0
    while value[at:].strip():
        found = _LOGIN.match(value, at)
        name = found[1].strip("\"'") if found else ""
        if found is None or not (name in _LOGINS or _is_class(name)):
            return False
        at = found.end()
    return at > 0


_CHECKS: tuple[tuple[str, Callable[[str], object], str, str, str], ...] = (
    (
        r"isolation\.level",
        "read_committed".__eq__,
        "aborted records would be read: one would raise a watermark, and its committed retry would be dropped",
        "read_committed",
        "Remove the line; read_committed is always set.",
    ),
    (
        r"config\.providers(\..*)?",
        lambda _: False,
        "a provider would replace the values that are checked here",
        "no providers",
        "Write ${env:NAME}, or ${secret:scope/key} on Databricks, into the value itself.",
    ),
    (
        r".*\.(cmd|command)",
        lambda _: False,
        "this names a program, which the client would run",
        "no program",
        "Leave it out, and run the program (kinit) outside Tidemark; the client finds its ticket in the cache.",
    ),
    (
        r"sasl\.jaas\.config",
        _are_logins,
        "this is no login to Kafka",
        "a login module of Kafka, Kerberos or an installed library, required, its options as name=value, and a semicolon",
        "For example org.apache.kafka.common.security.scram.ScramLoginModule; put other than plain words in double quotes.",
    ),
    (
        r".*\.class(es)?|partition\.assignment\.strategy|metric\.reporters|security\.providers",
        _are_classes,
        "this class is not allowed",
        "classes of Kafka, or of a library that was installed for it",
        "Leave it out, or name the library's own class.",
    ),
    (
        r".*\.url",
        is_web_address,
        "this is no address of a server",
        "a URL with https:// or http://, and a host that is not link-local",
        "Write it like https://login.example.org/oauth2/token.",
    ),
    (r".*\.(location|file)", _is_path, "this is no path", "a path on this machine", "Write it like /etc/kafka/truststore.p12."),
)
"""The properties whose value is checked: names, check, what is wrong, expected, next step."""
