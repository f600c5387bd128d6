"""Kafka behind TLS, a login and rights: from `init` to Gold, and what is said where one of them is wrong."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ask
from tests.support.kafka import sequenced
from tests.support.secured_broker import (
    OAUTH,
    PASSWORDS,
    READER,
    SecuredBroker,
    make_certificate,
    make_truststore,
    secured_broker,
)
from tests.support.small_config import write_config
from tidemark.commands import main

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

LOGIN, TOPIC, HIDDEN = "TESTS_KAFKA_LOGIN", "orders", "payrolls"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        for name in (TOPIC, HIDDEN):
            broker.create_topic(name, sequenced(1, 2, 3, 2, 3))
        broker.let_read(TOPIC)
        yield broker


def log_in(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    monkeypatch.setenv(LOGIN, f'{module} required username="{READER}" password="{escaped}";')


@pytest.fixture
def properties(secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    log_in(monkeypatch, PASSWORDS[READER])
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"${{env:{LOGIN}}}",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.authority),
    }


def checked(config: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]], str]:
    capsys.readouterr()
    code = main(["check", "--config", str(config), "--json"])
    printed = capsys.readouterr()
    return code, {each["name"]: each for each in json.loads(printed.out)}, printed.out + printed.err


@pytest.mark.usefixtures("spark")
def test_a_topic_goes_from_init_to_gold(secured: SecuredBroker, properties: dict[str, str], tmp_path: Path, asked: Ask) -> None:
    file = tmp_path / "tidemark.yml"
    options = [part for name, value in properties.items() for part in ("--property", f"{name}={value}")]
    place = ["--brokers", secured.bootstrap_servers, "--topic", TOPIC, "--root", str(tmp_path / "lake")]
    assert main(["init", *place, *options, "--config", str(file)]) == 0
    assert f"${{env:{LOGIN}}}" in file.read_text()
    assert asked(file, "check")

    assert main(["run", "--config", str(file)]) == 0

    assert asked(file, "sql", "SELECT sequence FROM gold_records ORDER BY sequence") == [{"sequence": n} for n in (1, 2, 3)]
    assert asked(file, "status", "--lag")["lag"][0]["lag"] == 0


@pytest.mark.usefixtures("spark")
def test_a_strange_certificate_a_missing_right_and_a_wrong_password_are_named(
    secured: SecuredBroker,
    properties: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def config(topic: str, **more: str) -> Path:
        kafka = {"bootstrap_servers": secured.bootstrap_servers, "topics": [topic], "properties": properties | more}
        return write_config(tmp_path, root=str(tmp_path / "lake"), kafka=kafka)

    unknown = tmp_path / "unknown.pem"
    make_certificate(tmp_path / "other.p12", unknown)
    found = checked(config(TOPIC, **{"ssl.truststore.location": str(unknown)}), capsys)[1]
    assert "no connection by TLS" in found["topics"]["observed"]
    assert found["bronze"]["observed"].startswith("Kafka rejects the login.")

    file = config(HIDDEN)
    code, found, _ = checked(file, capsys)
    assert (code, found[f"topic {HIDDEN}"]["ok"]) == (1, False)
    assert main(["run", "--config", str(file)]) == 1
    assert HIDDEN in capsys.readouterr().err

    log_in(monkeypatch, "swordfish")
    file = config(TOPIC)
    code, found, printed = checked(file, capsys)
    assert (code, found["topics"]["ok"]) == (1, False)
    assert "the login was refused (SASL authentication error" in found["topics"]["observed"]
    assert found["bronze"]["observed"].startswith("Kafka rejects the login.")
    assert main(["run", "--config", str(file)]) == 1
    said = capsys.readouterr()
    assert "uthentication" in said.err
    assert "swordfish" not in printed + said.out + said.err


@pytest.mark.usefixtures("spark")
def test_what_librdkafka_cannot_ask_the_java_client_asks(
    secured: SecuredBroker, properties: dict[str, str], tmp_path: Path, asked: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "for-java"
    secured.create_topic(name, sequenced(1, 2))
    secured.let_read(name)
    truststore = make_truststore(secured.authority, tmp_path / "trust.jks")
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="{READER}";'}

    def config(lacking: dict[str, str], **more: Any) -> Path:
        kafka = {"bootstrap_servers": secured.bootstrap_servers, "topics": [name], "properties": properties | lacking}
        return write_config(tmp_path, root=str(tmp_path / "lake"), kafka={**kafka, **more})

    for lacking, said in ((truststore, "JKS"), (login, "no such login")):
        code, found, printed = checked(config(lacking), capsys)
        assert (code, found["topics"]["ok"], found["bronze"]["ok"]) == (0, True, True), printed
        assert said in found["topics"]["observed"]
    file = config(login)
    assert main(["run", "--config", str(file)]) == 0
    secured.send(name, sequenced(3, 4, 5))
    assert asked(file, "status", "--lag")["lag"][0]["lag"] == 3
    secured.delete_records(name, before=4)

    assert main(["run", "--config", str(file)]) == 1
    assert f"{name} partition 0: offsets 2 to 3, 2 in all, are gone" in capsys.readouterr().err
    code, found, _ = checked(file, capsys)
    assert (code, found["bronze"]["ok"]) == (1, False)
    assert "offsets 2 to 3" in found["bronze"]["observed"]
    lost = [{"partition": 0, "first_offset": 2, "last_offset": 3}]
    assert asked(file, "topic", "accept", name, "--reason", "known")["lost"] == lost
    assert main(["run", "--config", str(file)]) == 0
    assert asked(file, "sql", "SELECT sequence FROM gold_records ORDER BY 1") == [{"sequence": n} for n in (1, 2, 5)]

    file = config(login, on_unreadable_topic="skip", topics=[name, HIDDEN])
    secured.send(name, sequenced(6))
    capsys.readouterr()
    assert main(["run", "--config", str(file), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["exit_code"], printed["gold"]["records"]) == (1, 1)
    assert [each["topic"] for each in printed["bronze"]["skipped"]] == [HIDDEN]
    assert main(["status", "--config", str(file)]) == 0
    assert f"Skipped: topic {HIDDEN}" in capsys.readouterr().out
