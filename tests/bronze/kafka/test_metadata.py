"""What librdkafka is told of Kafka's client properties for the look at the topics."""

from __future__ import annotations

import pytest

from bronze.kafka.metadata import LookError, client_config

_SERVERS = {"bootstrap.servers": "b:1"}


@pytest.mark.parametrize(
    ("properties", "config"),
    [
        ({"max.poll.records": "5", "fetch.min.bytes": "1", "group.id": "g"}, {}),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": 'a.b.ScramLoginModule required username="ada" password="p\\"w; x=1";',
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ada",
                "sasl.password": 'p"w; x=1',
            },
        ),
        (
            {"sasl.jaas.config": "a.PlainLoginModule required username='$ConnectionString' password=secret;"},
            {"sasl.username": "$ConnectionString", "sasl.password": "secret"},
        ),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/ca.pem",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/me.pem",
                "ssl.key.password": "secret",
                "ssl.endpoint.identification.algorithm": "",
            },
            {
                "ssl.ca.location": "/ca.pem",
                "ssl.certificate.location": "/me.pem",
                "ssl.key.location": "/me.pem",
                "ssl.key.password": "secret",
                "ssl.endpoint.identification.algorithm": "none",
            },
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "secret"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "secret"},
        ),
    ],
)
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
