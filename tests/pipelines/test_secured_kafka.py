"""Kafka behind TLS, a login and rights: from `init` to Gold, and what is said where one of them is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jobs import cli
from tests.support.kafka import sequenced
from tests.support.secured_broker import PASSWORDS, READER, SecuredBroker, make_certificate, secured_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Config = Callable[[str], Path]
    Output = pytest.CaptureFixture[str]

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

LOGIN, TOPIC, HIDDEN = "TESTS_KAFKA_LOGIN", "orders", "payrolls"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        for name in (TOPIC, HIDDEN):
            broker.create_topic(name, sequenced(1, 2, 3, 2, 3))
        broker.let_read(TOPIC)
        yield broker


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the login that the configs refer to."""

    def set_(password: str) -> None:
        escaped = password.replace("\\", "\\\\").replace('"', '\\"')
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        monkeypatch.setenv(LOGIN, f'{module} required username="{READER}" password="{escaped}";')

    set_(PASSWORDS[READER])
    return set_


@pytest.fixture
def config(secured: SecuredBroker, tmp_path: Path) -> Config:
    """Writes a config by `init`, as a newcomer would."""

    def make(topic: str) -> Path:
        file = tmp_path / "tidemark.yml"
        properties = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f"${{env:{LOGIN}}}",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(secured.authority),
        }
        options = [part for name, value in properties.items() for part in ("--property", f"{name}={value}")]
        place = ["--brokers", secured.bootstrap_servers, "--topic", topic, "--root", str(tmp_path / "lake")]
        assert cli.main(["init", *place, *options, "--config", str(file)]) == 0
        return file

    return make


def _checked(config: Path, capsys: Output) -> tuple[int, dict[str, dict[str, Any]], str]:
    capsys.readouterr()
    code = cli.main(["check", "--config", str(config), "--json"])
    printed = capsys.readouterr()
    return code, {each["name"]: each for each in json.loads(printed.out)}, printed.out + printed.err


@pytest.mark.usefixtures("spark")
def test_a_topic_goes_from_init_to_gold(config: Config, asked: Callable[..., Any], capsys: Output) -> None:
    file = config(TOPIC)
    assert f"${{env:{LOGIN}}}" in file.read_text()
    assert _checked(file, capsys)[0] == 0

    assert cli.main(["run", "--config", str(file)]) == 0

    assert asked(file, "sql", "SELECT sequence FROM gold_records ORDER BY sequence") == [{"sequence": n} for n in (1, 2, 3)]
    assert asked(file, "status", "--lag")["lag"][0]["lag"] == 0


@pytest.mark.usefixtures("spark")
def test_a_wrong_password_is_said_and_repeated_nowhere(config: Config, login: Callable[[str], None], capsys: Output) -> None:
    file = config(TOPIC)
    login("swordfish")

    code, found, printed = _checked(file, capsys)
    assert (code, found["topics"]["ok"]) == (1, False)
    assert "the login was refused (SASL authentication error" in found["topics"]["observed"]
    assert cli.main(["run", "--config", str(file)]) == 1
    told = capsys.readouterr()
    assert "uthentication" in told.err
    assert "swordfish" not in printed + told.out + told.err


def test_a_certificate_that_this_machine_does_not_know_is_said(
    config: Config, secured: SecuredBroker, tmp_path: Path, capsys: Output
) -> None:
    file, unknown = config(TOPIC), tmp_path / "unknown.pem"
    make_certificate(tmp_path / "other.p12", unknown)
    file.write_text(file.read_text().replace(str(secured.authority), str(unknown)))
    assert "no connection by TLS" in _checked(file, capsys)[1]["topics"]["observed"]


@pytest.mark.usefixtures("spark")
def test_a_topic_without_the_right_to_read_it_is_named(config: Config, capsys: Output) -> None:
    file = config(TOPIC)
    file.write_text(file.read_text().replace(TOPIC, HIDDEN))

    code, found, _ = _checked(file, capsys)
    assert (code, found[f"topic {HIDDEN}"]["ok"]) == (1, False)
    assert cli.main(["run", "--config", str(file)]) == 1
    assert HIDDEN in capsys.readouterr().err
