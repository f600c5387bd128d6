"""The Kafka part of the settings: where the records come from, and with which client properties."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator, SecretStr, ValidationInfo, field_serializer, field_validator

from lakehouse.settings.base import Model, Text, Whole, refusal
from lakehouse.settings.secrets import KEEP_SECRET, MASK, MASK_SECRET, MASKED, Secret, mask, smells_of_secret

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"([A-Za-z0-9_]+://)?(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_HIGHEST_PORT = 65_535
_EARLIEST_AND_LATEST = -2

# Spark's Kafka source sets or forbids these itself; passed through, they would be ignored or break our guarantees.
_OWNED = {
    "bootstrap.servers": "Write it as kafka.bootstrap_servers.",
    "key.deserializer": "Leave it out: Bronze keeps the bytes as they are.",
    "value.deserializer": "Leave it out: Bronze keeps the bytes. To decode values: value: {format: json, schema: ...}.",
    "key.serializer": "Leave it out: nothing is written to Kafka.",
    "value.serializer": "Leave it out: nothing is written to Kafka.",
    "enable.auto.commit": "Leave it out: progress is kept with the tables, never in a consumer group.",
    "auto.offset.reset": "Use kafka.starting_offsets; later runs go on from what Bronze holds.",
    "interceptor.classes": "Leave it out: Spark refuses interceptors, they could change records.",
}
_NAME = re.compile(r"[a-z0-9._-]+")
_ISOLATION = "isolation.level"

Start = Literal["earliest", "latest"]


def _servers(text: str) -> str:
    for server in text.split(","):
        found = _SERVER.fullmatch(server.strip())
        if not found or not 0 < int(found[3]) <= _HIGHEST_PORT:
            raise refusal(
                "this is no list of servers",
                expected="host:port, several separated by commas",
                next_step="Write it like broker-1:9092,broker-2:9092; an IPv6 address goes in brackets.",
            )
    return text


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise refusal(
            "this is no name of a topic",
            expected="1 to 249 letters, digits, points, underscores or hyphens; no pattern",
            next_step="Write each topic's exact name, for example topics: [incidents, payments].",
        )
    return name


def _property_name(name: str) -> str:
    if name.startswith("kafka."):
        raise refusal(
            "Spark's prefix does not belong here",
            expected="the Kafka client's own property name",
            next_step=f"Write it without the prefix: {name.removeprefix('kafka.')}.",
        )
    if not _NAME.fullmatch(name):
        # Spark lower-cases names: in another case, a property would pass the checks here and reach the client all the same.
        raise refusal(
            "this is no name of a property",
            expected="small letters, digits, points, hyphens and underscores",
            next_step=f"Every Kafka property has a name like that: {name.strip().lower()!r}.",
        )
    if name in _OWNED:
        raise refusal("Tidemark sets this property itself", expected="any other client property", next_step=_OWNED[name])
    return name


def _property_value(value: object) -> object:
    if not isinstance(value, (str, SecretStr)):
        raise refusal(
            "this is no text", expected="one value, as text", next_step='Put it in quotes, for example "true" or "500".'
        )
    return value


def _starting_offsets(value: Any) -> Any:
    if (start := _start(value)) is not None:
        return start
    starts = {topic: _start(each) or _offsets(each) for topic, each in value.items()} if isinstance(value, dict) else {}
    if not starts or None in starts.values():
        raise refusal(
            "this is no starting point",
            expected="earliest, latest, a time from 1970 on with its offset from UTC, or for every topic one of these or an "
            "offset for every partition (-2 is its earliest, -1 its latest)",
            next_step='Write it like starting_offsets: 2026-09-20T00:00Z, or {incidents: {"0": 1500, "1": -2}}.',
        )
    return starts


def _start(value: object) -> str | None:
    """A start by a word or a time, the time in UTC; None if it is neither."""
    if not isinstance(value, str) or value in get_args(Start):
        return str(value) if isinstance(value, str) else None
    try:
        at = datetime.fromisoformat(value)
        return at.astimezone(UTC).isoformat() if at.tzinfo and at.timestamp() >= 0 else None
    except (ValueError, OverflowError):
        return None


def _offsets(value: object) -> dict[str, int] | None:
    if not isinstance(value, dict) or not value or not all(_is_offset(*each) for each in value.items()):
        return None
    return {str(partition): offset for partition, offset in value.items()}


def _is_offset(partition: object, offset: object) -> bool:
    is_whole = isinstance(offset, int) and not isinstance(offset, bool) and offset >= _EARLIEST_AND_LATEST
    return is_whole and re.fullmatch("[0-9]+", str(partition)) is not None


class Kafka(Model):
    """Where the records come from."""

    bootstrap_servers: Annotated[str, AfterValidator(_servers), KEEP_SECRET, MASK_SECRET] = Field(
        description="the brokers, host:port, separated by commas", examples=["localhost:9092"]
    )
    topics: tuple[Annotated[str, AfterValidator(_topic), KEEP_SECRET, MASK_SECRET], ...] = Field(
        description="a list of topics, by their exact names", examples=["[incidents]"]
    )
    starting_offsets: Annotated[str | dict[str, str | dict[str, int]], PlainValidator(_starting_offsets)] = Field(
        default="earliest",
        description="where the first run starts: earliest, latest, a time, or one of these or offsets per topic",
        examples=["earliest"],
    )
    max_offsets_per_trigger: Whole | None = Field(
        default=1_000_000, description="the most records that Bronze takes in one step; null for no limit", examples=["1000000"]
    )
    commit_group: Text | None = Field(
        default=None,
        description="a consumer group whose offsets follow Silver, for tools that show its lag; nothing is read from it",
        examples=["tidemark-incidents"],
    )
    properties: dict[
        Annotated[str, AfterValidator(_property_name)],
        Annotated[SecretStr | str, PlainValidator(_property_value), MASKED],
    ] = Field(default={}, description="Kafka client properties by their own names", examples=["{security.protocol: SASL_SSL}"])

    @field_validator("topics")
    @classmethod
    def _topics_differ(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        # Not min_length: pydantic counts without the invalid names, and would report an empty list as a second mistake.
        if not topics:
            raise refusal("no topic is listed", expected="at least one topic", next_step="For example topics: [incidents]")
        if len(set(topics)) < len(topics):
            raise refusal("a topic is listed twice", expected="each topic once", next_step="Remove the second mention.")
        return topics

    @field_validator("starting_offsets")
    @classmethod
    def _starts_every_topic(
        cls, start: str | dict[str, str | dict[str, int]], info: ValidationInfo
    ) -> str | dict[str, str | dict[str, int]]:
        topics = info.data.get("topics")
        if isinstance(start, dict) and topics is not None and set(start) != set(topics):
            raise refusal(
                "the topics here are not those of kafka.topics",
                expected="a start for every topic in kafka.topics, and for no other",
                next_step="Add or remove topics on either side.",
            )
        return start

    @field_validator("properties")
    @classmethod
    def _hide_secrets(cls, properties: dict[str, SecretStr | str]) -> dict[str, SecretStr | str]:
        if properties.get(_ISOLATION, "read_committed") != "read_committed":
            raise refusal(
                "aborted records would be read: one would raise a watermark, and its committed retry be dropped",
                expected="read_committed",
                next_step="Remove the line; read_committed is always set.",
                at=(_ISOLATION,),
            )
        for name, value in properties.items():
            clear = value.get_secret_value() if isinstance(value, SecretStr) else value
            if wrong := refused(name, clear):
                raise refusal(wrong.what, expected=wrong.expected, next_step=wrong.next_step, at=(name,))
        return {
            name: SecretStr(value)
            if isinstance(value, str) and (isinstance(value, Secret) or smells_of_secret(name))
            else value
            for name, value in properties.items()
        }

    @field_serializer("properties")
    def _mask_secrets(self, properties: dict[str, SecretStr | str]) -> dict[str, str]:
        return {name: MASK if isinstance(value, SecretStr) else str(mask(value)) for name, value in properties.items()}

    def start_of(self, topic: str) -> str | dict[str, int]:
        """Where a topic that was never read starts: earliest, latest, a time in ISO 8601, or an offset for each partition."""
        start = self.starting_offsets
        return start[topic] if isinstance(start, dict) else start

    def client_properties(self) -> dict[str, str]:
        """Return a Kafka client's configuration, secrets in plain text: for the client only, never for a message.

        Returns:
            Every property under `properties`, and `bootstrap.servers`.
        """
        clear = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in self.properties.items()
        }
        # Plain str: a client that takes the repr of its configuration would pass on the mask of a Secret.
        return {name: str(value) for name, value in {**clear, "bootstrap.servers": self.bootstrap_servers}.items()}


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WEB = re.compile(r"https?://[^/\s?#]+\S*", re.IGNORECASE)
_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OPTION = re.compile(r"""\s*[^\s=;"']+\s*=\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|[^\s;"']+)""", re.DOTALL)
_MODULE = re.compile(r"\s*([^\s;=]+)\s+(required|requisite|sufficient|optional)(?=[\s;])", re.IGNORECASE)

_FOREIGN = (
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "com.ibm.",
    "org.apache.spark.",
    "org.apache.hadoop.",
    "scala.",
    "groovy.",
)
"""Packages that are always on the class path and hold nothing that a Kafka client needs by name, `_LOGINS` apart."""
_LOGINS = {"com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule"}
"""The Kerberos login modules in these packages."""


@dataclass(frozen=True)
class Refused:
    """Why a property is refused. Never holds its value, which may be a secret."""

    what: str
    expected: str
    next_step: str


def refused(name: str, value: str) -> Refused | None:
    """Return why a property may not have a value, or None if it may.

    >>> refused("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd").what
    'this is no address of a server'
    >>> refused("ssl.truststore.location", "/etc/kafka/trust.jks") is None
    True
    """
    checks = (check(value) for names, check in _CHECKS if names.fullmatch(name))
    return next(checks, None)


def _provider(_value: str) -> Refused:
    next_step = "Write ${env:NAME}, or ${secret:scope/key} on Databricks, into the value itself."
    return Refused("a provider would put other values in place of what is checked here", "no providers", next_step)


def _program(_value: str) -> Refused:
    next_step = "Leave it out, and run the program (kinit) beside Tidemark; the client finds its ticket in the cache."
    return Refused("this names a program, which the client would run", "no program", next_step)


def web_address(value: str) -> Refused | None:
    """Return why a text is no address of a server that the config may name, or None if it is one."""
    if _WEB.fullmatch(value) and not _is_link_local(value):
        return None
    expected = "a URL that starts with https:// or http://, of another host than a link-local one"
    return Refused("this is no address of a server", expected, "Write it like https://login.example.org/oauth2/token.")


def _is_link_local(url: str) -> bool:
    """Whether the host is an address of 169.254.0.0/16 or fe80::/10, where clouds give out a machine's credentials.

    >>> [_is_link_local(f"http://{host}/") for host in ("169.254.169.254", "0xa9fea9fe", "[::ffff:a9fe:1]", "example.org")]
    [True, True, True, False]
    """
    try:
        host = ipaddress.ip_address(_host(url))
    except ValueError:
        return False
    return (getattr(host, "ipv4_mapped", None) or host).is_link_local


def _host(url: str) -> str:
    """The URL's host; an IPv4 address in any of the forms that resolvers take (2852039166, 0xa9fea9fe) in the usual one."""
    host = (urlsplit(url).hostname or "").partition("%")[0].removesuffix(".")
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return host


def _path(value: str) -> Refused | None:
    if value and not _SCHEME.match(value) and not _CONTROL.search(value):
        return None
    return Refused("this is no path of a file", "a path on the machine that reads", "Write it like /etc/kafka/truststore.p12.")


def _classes(value: str) -> Refused | None:
    names = [each.strip() for each in value.split(",") if each.strip()]
    if all(_CLASS.fullmatch(name) and not name.startswith(_FOREIGN) for name in names):
        return None
    expected = "classes of Kafka, or of a library that was installed for it"
    return Refused("this names no class that belongs here", expected, "Leave it out, or name the library's own class.")


def _login(value: str) -> Refused | None:
    names = _modules(value)
    if names is None:
        expected = "a login module, required, its options as name=value, and a semicolon at the end"
        return Refused("this cannot be read as a login", expected, "Put values that are not plain words in double quotes.")
    if all(name in _LOGINS or (_CLASS.fullmatch(name) and not name.startswith(_FOREIGN)) for name in names):
        return None
    expected = "a login module of Kafka, of Kerberos, or of a library that was installed for it"
    next_step = "For example org.apache.kafka.common.security.scram.ScramLoginModule."
    return Refused("this module does not log in to Kafka", expected, next_step)


def _modules(value: str) -> list[str] | None:
    """Parse a JAAS text strictly into the login modules that it names; None if it cannot be parsed."""
    names, at = [], 0
    while value[at:].strip():
        found = _MODULE.match(value, at)
        if not found:
            return None
        names.append(found[1].strip("\"'"))
        at = found.end()
        while option := _OPTION.match(value, at):
            at = option.end()
        end = re.compile(r"\s*;").match(value, at)
        if not end:
            return None
        at = end.end()
    return names or None


_CHECKS = (
    (re.compile(r"config\.providers(\..*)?"), _provider),
    (re.compile(r".*\.(cmd|command)"), _program),
    (re.compile(r"sasl\.jaas\.config"), _login),
    (re.compile(r".*\.class(es)?|partition\.assignment\.strategy|metric\.reporters|security\.providers"), _classes),
    (re.compile(r".*\.url"), web_address),
    (re.compile(r".*\.(location|file)"), _path),
)
"""The properties whose value is checked; the first that fits a name decides."""
