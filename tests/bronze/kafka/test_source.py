"""What Spark's source and librdkafka are given of the config, and the look whether a broker answers."""

import socket
from typing import Any

import pytest

from bronze.kafka.metadata import LookError, client_config
from bronze.kafka.source import reader_options, require_reachable
from lakehouse.errors import SourceError
from lakehouse.settings.pipeline import Kafka

PROMISES = {
    "kafka.bootstrap.servers": "a:1,b:2",
    "subscribe": "one,two",
    "startingOffsets": "earliest",
    "maxOffsetsPerTrigger": "1000000",
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    "kafka.default.api.timeout.ms": "30000",
}
GIVEN = {"client.id": "x", "sasl.password": "hunter2", "max.poll.records": "7"}  # the last one over our default
STARTS = {"one": {"0": 5}, "two": {"0": -2}}
# Settings, the start that is given, and options; None for one that is not set.
OPTIONS: list[tuple[dict[str, object], Any, dict[str, str | None]]] = [
    ({}, "earliest", {**PROMISES}),
    ({"properties": GIVEN}, "earliest", {f"kafka.{name}": value for name, value in GIVEN.items()}),
    ({"properties": {"request.timeout.ms": "60000"}}, "earliest", {"kafka.default.api.timeout.ms": None}),
    ({"max_offsets_per_trigger": None}, "earliest", {"maxOffsetsPerTrigger": None}),
    ({}, STARTS, {"startingOffsets": '{"one": {"0": 5}, "two": {"0": -2}}'}),
    ({"starting_offsets": STARTS}, "latest", {"startingOffsets": "latest"}),
]


@pytest.mark.parametrize(("settings", "start", "expected"), OPTIONS)
def test_an_option_comes_from_the_config(settings: dict[str, object], start: Any, expected: dict[str, str | None]) -> None:
    kafka = Kafka.model_validate({"bootstrap_servers": "a:1,b:2", "topics": ["one", "two"], **settings})
    options = reader_options(kafka, start)
    assert {name: options.get(name) for name in expected} == expected


def test_one_server_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_reachable(f"127.0.0.1:1, PLAINTEXT://127.0.0.1:{server.getsockname()[1]}")


def test_servers_that_do_not_listen_are_all_named() -> None:
    with pytest.raises(SourceError) as refused:
        require_reachable("127.0.0.1:1,[::1]:1,no-such-host.invalid:9092")
    assert "127.0.0.1:1: Connection refused" in str(refused.value.observed)
    assert "::1:1: " in str(refused.value.observed)
    assert "no-such-host.invalid:9092: " in str(refused.value.observed)


_SERVERS = {"bootstrap.servers": "b:1"}
_LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
_KEY = {"ssl.key.password": "secret"}
_STORE = {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "secret"}
_PEM = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem", "ssl.keystore.type": "PEM"}
_FILES = {"ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"}
_CHECK = "ssl.endpoint.identification.algorithm"
CONNECTIONS = [
    ({"max.poll.records": "5", "fetch.min.bytes": "1", "group.id": "g"}, {}),
    (
        {**_LOGIN, "sasl.jaas.config": 'a.b.ScramLoginModule required username="ada" password="p\\"w; x=1";'},
        {**_LOGIN, "sasl.username": "ada", "sasl.password": 'p"w; x=1'},
    ),
    (
        {"sasl.jaas.config": "a.PlainLoginModule required username='$ConnectionString' password=secret;"},
        {"sasl.username": "$ConnectionString", "sasl.password": "secret"},
    ),
    ({**_PEM, "ssl.keystore.location": "/me.pem", **_KEY, _CHECK: ""}, {**_FILES, **_KEY, _CHECK: "none"}),
    ({"ssl.keystore.type": "PKCS12", **_STORE}, _STORE),
]


@pytest.mark.parametrize(("properties", "config"), CONNECTIONS)
def test_what_decides_how_we_connect_is_told_in_librdkafkas_words(properties: dict[str, str], config: dict[str, str]) -> None:
    assert client_config(_SERVERS | properties) == _SERVERS | config


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"},
        {"sasl.jaas.config": "nonsense hunter2"},
        {"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"},
        {"ssl.truststore.location": "/trust.jks", "ssl.truststore.password": "hunter2"},
        {"ssl.truststore.location": "/trust.p12", "ssl.truststore.type": "PKCS12"},
    ],
)
def test_what_librdkafka_cannot_do_is_no_look_and_no_secret_is_told(properties: dict[str, str]) -> None:
    with pytest.raises(LookError) as refused:
        client_config(_SERVERS | properties)
    assert "hunter2" not in str(refused.value)
