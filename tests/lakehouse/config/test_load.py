"""Loading: precedence, places, overlays, what is shown, and that the documentation names every key."""

import json
import re
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

from lakehouse.config.keys import all_keys, dotted
from lakehouse.config.load import ConfigMistakesError, load, redacted, show_yaml
from lakehouse.config.sources import RESERVED
from lakehouse.errors import ConfigError
from lakehouse.settings.gate import Budget
from tests.support.small_config import write_text

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")

MINIMAL = """\
pipeline: incidents
kafka:
  bootstrap_servers: localhost:9092
  topics: [incidents]
lakehouse: {root: ./lake}
sequence: {header: seq}
"""


def test_the_documented_example_is_accepted_and_what_is_shown_of_it_loads_again(tmp_path: Path) -> None:
    example = PAGE.partition("```yaml\n")[2].partition("```")[0]
    sql = tmp_path / "sql" / "incidents_by_day.sql"
    sql.parent.mkdir()
    sql.write_text("SELECT 1")
    settings = load(write_text(tmp_path, example), environ={"KAFKA_PASSWORD": "hunter2"})
    assert settings.lakehouse.root == str(tmp_path / "lakehouse")
    assert settings.gold.models[0].sql == sql
    assert settings.gate.budgets["late"].warn == 5
    assert settings.value is not None
    assert settings.value.schema_ == "id STRING, amount DOUBLE"
    assert settings.kafka.client_properties()["sasl.mechanism"] == "SCRAM-SHA-512"

    without_secret = re.sub(r"sasl\.jaas\.config: .*", "client.id: a", example)
    text = without_secret.replace("kafka:\n", "kafka:\n  max_offsets_per_trigger: null\n")
    unlimited = load(write_text(tmp_path, text), environ={})
    assert load(write_text(tmp_path, show_yaml(unlimited)), environ={}) == unlimited
    assert yaml.safe_load(show_yaml(unlimited)) == redacted(unlimited)


def test_policies_of_topics_are_shown_as_written_and_load_again(tmp_path: Path) -> None:
    own = {"orders.v1": {"max_jump": None}, "2024": {"late": "accept", "max_quarantined_share": 0.1}, "incidents": {}}
    text = MINIMAL.replace("[incidents]", "[incidents, orders.v1, 2024]")
    settings = load(write_text(tmp_path, f"{text}policies: {json.dumps({'max_jump': 100, 'topics': own})}\n"), environ={})
    assert yaml.safe_load(show_yaml(settings))["policies"]["topics"] == own
    again = load(write_text(tmp_path, show_yaml(settings)), environ={})
    assert again == settings
    assert again.policies.own_values("max_quarantined_share") == {"2024": 0.1}


def test_policies_of_topics_are_set_by_flag_and_variable(tmp_path: Path) -> None:
    text = MINIMAL.replace("[incidents]", "[incidents, orders.v1, Big]") + "policies: {topics: {incidents: {}}}\n"
    environ = {"TIDEMARK_POLICIES__TOPICS__INCIDENTS__LATE": "accept", "TIDEMARK_POLICIES__MAX_JUMP": "9"}
    flags = {"orders.v1.max_jump": "null", "orders.v1.late": "drop", "Big": "{max_jump: 3}"}
    overrides = {f"policies.topics.{name}": value for name, value in flags.items()}
    settings = load(write_text(tmp_path, text), environ=environ, overrides=overrides)
    assert {topic: (own.late, own.max_jump) for topic, own in settings.policies.topics.items()} == {
        "incidents": ("accept", 9),
        "orders.v1": ("drop", None),
        "Big": ("quarantine", 3),
    }


FROM_OUTSIDE: list[tuple[dict[str, str], dict[str, str], str, object]] = [
    ({"TIDEMARK_KAFKA__TOPICS": "[a, b]"}, {}, "kafka.topics", ("a", "b")),
    ({"TIDEMARK_POLICIES__MAX_JUMP": "12"}, {}, "policies.max_jump", 12),
    ({"TIDEMARK_GATE__BUDGETS__LATE_SHARE__WARN": "0.5"}, {}, "gate.budgets", {"late_share": Budget(warn=0.5)}),
    ({"TIDEMARK_GATE__DATA_DOCS": "true"}, {}, "gate.data_docs", True),
    ({}, {"kafka.starting_offsets": '{"incidents": {"0": -2}}'}, "kafka.starting_offsets", {"incidents": {"0": -2}}),
    # Text is taken as it is.
    ({"TIDEMARK_KAFKA__BOOTSTRAP_SERVERS": "[::1]:9092"}, {}, "kafka.bootstrap_servers", "[::1]:9092"),
    ({"TIDEMARK_PIPELINE": "0123"}, {}, "pipeline", "0123"),
    ({}, {"kafka.properties.client.id": "true # no comment"}, "kafka.properties", {"client.id": "true # no comment"}),
    ({"TIDEMARK_KAFKA__PROPERTIES__SASL_MECHANISM": "PLAIN"}, {}, "kafka.properties", {"sasl.mechanism": "PLAIN"}),
    (dict.fromkeys(RESERVED, "x"), {}, "pipeline", "incidents"),
    # A flag wins over a variable.
    (
        {"TIDEMARK_KAFKA__BOOTSTRAP_SERVERS": "env:1"},
        {"kafka.bootstrap_servers": "flag:1"},
        "kafka.bootstrap_servers",
        "flag:1",
    ),
    # A whole section is replaced, and then refined.
    ({"TIDEMARK_SEQUENCE__ENCODING": "int32", "TIDEMARK_SEQUENCE": '{bytes: "0:4"}'}, {}, "sequence.argument", "0:4"),
]


@pytest.mark.parametrize(("environ", "flags", "setting", "value"), FROM_OUTSIDE)
def test_variables_and_flags_are_yaml_where_text_is_not_wanted(
    tmp_path: Path, environ: dict[str, str], flags: dict[str, str], setting: str, value: object
) -> None:
    settings = load(write_text(tmp_path, MINIMAL), environ=environ, overrides=flags)
    assert attrgetter(setting)(settings) == value


def test_text_in_the_file_is_taken_as_written_and_anchors_are_understood(tmp_path: Path) -> None:
    text = MINIMAL.replace("[incidents]", "&t [123, on]").replace("{header: seq}", "{bytes: 4:12}")
    text = text.replace("localhost:9092", "localhost:9092\n  properties: {a.b: 0123, c.d: yes, e.f: true}")
    settings = load(write_text(tmp_path, text + "gate: {expectations: [{expect_x: {value_set: *t}}]}\n"), environ={})
    assert settings.kafka.topics == ("123", "on")
    assert (settings.sequence.bytes_range, settings.sequence.encoding) == ("4:12", "int64")
    assert settings.kafka.properties == {"a.b": "0123", "c.d": "yes", "e.f": "true"}
    assert settings.gate.expectations[0].arguments == {"value_set": [123, "on"]}


def test_all_mistakes_are_reported_together_with_their_lines(tmp_path: Path) -> None:
    text = MINIMAL.replace("localhost:9092", "localhost").replace("{header: seq}", "{header: seq, offset: true}")
    file = write_text(tmp_path, text + "polices: {}\n")
    with pytest.raises(ConfigMistakesError) as raised:
        load(file, environ={"TIDEMARK_GATE__DATA_DOCS": "maybe"}, overrides={"policies.max_jump": "0"})
    assert {(mistake.key, mistake.place) for mistake in raised.value.mistakes} == {
        ("kafka.bootstrap_servers", f"{file}:3"),
        ("sequence", f"{file}:6"),
        ("polices", f"{file}:7"),
        ("gate.data_docs", "environment variable TIDEMARK_GATE__DATA_DOCS"),
        ("policies.max_jump", "flag policies.max_jump"),
    }
    assert raised.value.exit_code == 2
    assert "has 5 mistakes" in str(raised.value)


def test_a_file_that_is_missing_a_folder_or_not_utf8_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "latin.yml").write_bytes(b"pipeline: caf\xe9\n")
    for name, said in {"none.yml": "--config FILE", "latin.yml": "UTF-8", "": "cannot be read"}.items():
        with pytest.raises(ConfigError, match=said) as raised:
            load(tmp_path / name, environ={})
        assert raised.value.where == str(tmp_path / name)


def test_the_documentation_names_every_key() -> None:
    keys = {dotted(path) for path in all_keys()} | {"gold.models[].name", "gold.models[].sql"}
    keys = {re.sub(r"^(producer|epoch)\.\w+$", r"\1", key) for key in keys}
    keys = {re.sub(r"^gate\.budgets\.\w+\.", "gate.budgets.MEASURE.", key) for key in keys}
    keys = {re.sub(r"^gate\.budgets\.(?!MEASURE)(\w+)$", r"\1", key) for key in keys}
    assert keys - set(re.findall(r"`([^`\n]+)`", PAGE)) == set()
