"""A secret put in the config reaches the Kafka client, and nothing that a person or a log sees."""

import copy
import json
import pickle
import traceback
from pathlib import Path

import pytest

from lakehouse.config.keys import all_keys, dotted
from lakehouse.config.load import ConfigMistakesError, load, redacted, resolve, show_yaml
from lakehouse.config.sources import variable_name
from lakehouse.errors import ConfigError
from lakehouse.settings.extractor import describe
from lakehouse.settings.pipeline import Settings
from lakehouse.settings.secrets import Secret, secret_texts, smells_of_secret
from tests.support.planted import FORMS, PLANTED, SECTIONS, VARIABLE, plant_scopes, planted, secret_keys
from tests.support.small_config import write_config, write_text

SECRET = "hunter2-correct-horse"
ENVIRON = {"PASSWORD": SECRET, "BROKER": "broker-of-the-vault:9092", "ROOT": "/hidden-lake"}

CONFIG = """\
pipeline: incidents
kafka:
  bootstrap_servers: ${env:BROKER}
  topics: [incidents]
  properties:
    sasl.jaas.config: Login required username="ada" password="${env:PASSWORD}";
    client.id: ${env:PASSWORD}
    ssl.truststore.password: written-out-password
    security.protocol: SASL_SSL
lakehouse: {root: "${env:ROOT}/a"}
sequence: {header: "${env:PASSWORD}"}
gate: {expectations: [{expect_x: {note: ["${env:PASSWORD}"]}}]}
watch:
  alerts:
    webhook:
      url: https://hooks.example.org/written-out-password
      headers: {Authorization: Bearer written-out-password, X-Note: "${env:PASSWORD}", X-Plain: seen}
    mail_command: [mail, "${env:PASSWORD}"]
"""
HIDDEN = (SECRET, "broker-of-the-vault", "hidden-lake", "written-out-password")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(write_text(tmp_path, CONFIG), environ=ENVIRON)


def test_the_client_and_the_tables_get_the_real_values(settings: Settings) -> None:
    assert settings.kafka.client_properties() == {
        "bootstrap.servers": "broker-of-the-vault:9092",
        "sasl.jaas.config": f'Login required username="ada" password="{SECRET}";',
        "client.id": SECRET,
        "ssl.truststore.password": "written-out-password",
        "security.protocol": "SASL_SSL",
    }
    assert all(type(value) is str for value in settings.kafka.client_properties().values())
    assert f"{settings.lakehouse.root}/silver_records" == "/hidden-lake/a/silver_records"
    assert settings.sequence.argument == SECRET


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda settings: repr(settings.kafka) + repr(settings.lakehouse) + repr(settings.gate.expectations),
        lambda settings: repr((settings.kafka.bootstrap_servers, settings.lakehouse.root, settings.kafka.properties)),
        lambda settings: describe(settings.sequence.form, settings.sequence.argument, settings.sequence.encoding),
        Settings.model_dump_json,
        lambda settings: json.dumps(settings.model_dump(mode="json")),
        lambda settings: str(settings.model_dump()),
        lambda settings: repr(copy.deepcopy(settings)),
        lambda settings: repr(pickle.loads(pickle.dumps(settings))),  # noqa: S301 -- our own bytes
        lambda settings: json.dumps(redacted(settings)),
        show_yaml,
    ],
)
def test_no_representation_shows_a_secret(settings: Settings, show: object) -> None:
    assert callable(show)
    shown = show(settings)
    assert "********" in shown
    assert not [secret for secret in HIDDEN if secret in shown]


def test_only_what_is_secret_is_masked_when_shown_and_scrubbed_from_logs(settings: Settings) -> None:
    kafka = redacted(settings)["kafka"]
    assert isinstance(kafka, dict)
    hidden = ("sasl.jaas.config", "client.id", "ssl.truststore.password")
    assert kafka["properties"] == {**dict.fromkeys(hidden, "********"), "security.protocol": "SASL_SSL"}
    assert kafka["topics"] == ["incidents"]
    known = secret_texts(settings)
    assert {SECRET, "broker-of-the-vault:9092", "/hidden-lake", "written-out-password"} <= known
    assert not {"SASL_SSL", "incidents", ""} & known


def test_what_was_written_out_in_unusual_places_is_masked_and_known(tmp_path: Path) -> None:
    properties = {
        "http.proxy.auth": "ada:hunter1",
        "client.rack": "http://ada:hunter2@proxy/x?sig=hunter3&zone=a&X-Amz-Signature=hunter4",
        "sasl.login.pwd": "hunter5",
        "sasl.login.pass": "hunter6",
    }
    kafka = {"bootstrap_servers": "b:1", "topics": ["t"], "properties": properties}
    headers = {"X-Auth": "hunter7", "X-Auth-User": "hunter8", "X-Api-Key": "hunter9", "X-Plain": "seen"}
    mail = ["curl", "-u", "ada:hunter10", "--password=hunter11", "--auth-password", "hunter12", "-uada:hunter13", "-S"]
    mail += ["smtp-auth-password=hunter14", "-p", "2525", "--mail-from", "ops@example.org"]
    watch = {"alerts": {"webhook": {"url": "https://h/", "headers": headers}, "mail_command": mail}, "state_file": "/s"}
    storage = {"access_key_id": "ada", "secret_access_key": "hunter15", "session_token": "hunter16"}
    registry = {"url": "http://r:8081", "username": "ada", "password": "hunter17"}
    value = {"format": "json", "schema": "id STRING", "registry": registry}
    lakehouse = {"root": "s3a://bucket/lake", "storage": storage}

    settings = load(write_config(tmp_path, root="", lakehouse=lakehouse, kafka=kafka, watch=watch, value=value), environ={})

    shown = show_yaml(settings)
    assert "hunter" not in shown + repr(settings.watch)
    for seen in (
        "secret_access_key: '********'",
        "password: '********'",
        "client.rack: http://********@proxy/x?sig=********&zone=a&X-Amz-Signature=********",
        *("seen", "--mail-from", "ops@example.org", "'2525'"),
    ):
        assert seen in shown
    assert {"ada:hunter1", *(f"hunter{number}" for number in range(2, 18))} <= secret_texts(settings)
    assert settings.watch.alerts.mail_command == tuple(mail)


NO_SECRETS = {"lakehouse.storage.access_key_id", "value.registry.key"}  # names of a key and of a file


def test_a_key_that_is_named_as_a_secret_is_one() -> None:
    assert {name for key in all_keys() if smells_of_secret(name := dotted(key))} <= secret_keys() | NO_SECRETS


@pytest.mark.parametrize("key", SECTIONS)
@pytest.mark.parametrize("form", ["written out", "of a variable"])  # of a scope: the last test of this file
def test_every_secret_is_known_however_it_is_written(tmp_path: Path, key: str, form: str) -> None:
    settings = load(write_config(tmp_path, root="/r", **planted(SECTIONS[key], FORMS[form])), environ={VARIABLE: PLANTED})
    assert any(PLANTED in text for text in secret_texts(settings))
    assert PLANTED not in (shown := show_yaml(settings) + repr(settings) + json.dumps(redacted(settings)))
    assert "********" in shown


MISTAKES = {
    "the value itself, a topic": ("[incidents]", "['${env:PASSWORD} x', incidents]"),
    "the value itself, a start by topic": ("  topics", "  starting_offsets: {incidents: {0: '${env:PASSWORD}'}}\n  topics"),
    "the value itself, a path of SQL": ("sequence: {", "gold: {models: [{name: a, sql: '${env:PASSWORD}'}]}\nsequence: {"),
    "the value itself, an isolation level": ("client.id", "isolation.level"),
    "the value itself, a severity": ("note: [", "severity: ["),
    "the value itself, a header": ('X-Note: "', 'X-Note: "\u00e9'),
    "written out, as an address": ("https://hooks.example.org/", "hooks.example.org/"),
    "written out, as a header": ("{Authorization: Bearer ", "{Authorization: Bearer \u00e9"),
    "a misspelt key beside it": ("    client.id", "  cliend: 1\n  properties2:\n    client.id"),
    "an unknown key with it": ("topics", "pasword: ${env:PASSWORD}\n  topics"),
    "a wrong type around it": ("client.id: ${env:PASSWORD}", "client.id: [${env:PASSWORD}]"),
    "a property in the wrong form": ("client.id", "kafka.client.id"),
    "an unset variable beside it": ("client.id: ${env:PASSWORD}", "client.id: ${env:PASSWORD}${env:NONE}"),
    "a twice given key": ("client.id", "sasl.jaas.config"),
    "broken YAML after it": ("sequence: {header", "sequence: {{header"),
    "written out, with broken YAML": ("written-out-password", "*written-out-password"),
    "written out, as a tag": ("written-out-password", "!written-out-password"),
}


def require_hidden(error: ConfigError) -> None:
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert not [secret for secret in HIDDEN if secret in told]
    # Not only hidden by the way Python prints: no frame of another error hangs on this one.
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize(("old", "new"), MISTAKES.values(), ids=MISTAKES)
def test_no_error_shows_a_secret(tmp_path: Path, old: str, new: str) -> None:
    assert old in CONFIG
    with pytest.raises(ConfigError) as raised:
        load(write_text(tmp_path, CONFIG.replace(old, new)), environ=ENVIRON)
    require_hidden(raised.value)


@pytest.mark.parametrize("name", ["TIDEMARK_PASSWORD", "TIDEMARK_KAFKA__PASWORD", *map(variable_name, all_keys())])
def test_a_secret_in_any_variable_is_taken_or_refused_without_being_shown(tmp_path: Path, name: str) -> None:
    try:
        settings = load(write_text(tmp_path, CONFIG), environ={**ENVIRON, name: "${env:PASSWORD}"})
    except ConfigMistakesError as error:
        require_hidden(error)
    else:
        assert not [secret for secret in HIDDEN if secret in show_yaml(settings) + repr(settings)]


def test_a_password_of_digits_set_by_variable_keeps_its_zeros_and_is_masked(tmp_path: Path) -> None:
    settings = load(write_text(tmp_path, CONFIG), environ={**ENVIRON, "TIDEMARK_KAFKA__PROPERTIES__SSL_KEY_PASSWORD": "00420"})
    assert settings.kafka.client_properties()["ssl.key.password"] == "00420"
    assert "420" not in repr(settings)


def test_a_literal_reference_is_written_with_two_dollars() -> None:
    assert resolve("a$${env:X}", {}) == "a${env:X}"
    assert not isinstance(resolve("a$${env:X}", {}), Secret)


def test_a_databricks_secret_is_read_there_and_elsewhere_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIG.replace("client.id: ${env:PASSWORD}", "client.id: ${secret:kafka/password}")
    with pytest.raises(ConfigMistakesError, match="works only there") as raised:
        load(write_text(tmp_path, text), environ=ENVIRON)
    assert "${env:NAME}" in raised.value.mistakes[0].next_step

    scopes = {("kafka", "password"): SECRET}
    plant_scopes(monkeypatch, lambda scope, key: scopes[scope, key])
    settings = load(write_text(tmp_path, text), environ=ENVIRON)
    assert settings.kafka.client_properties()["client.id"] == SECRET
    assert SECRET not in repr(settings)
    with pytest.raises(ConfigMistakesError, match="cannot be read \\(KeyError\\)"):
        load(write_text(tmp_path, text.replace("kafka/password", "kafka/none")), environ=ENVIRON)
