"""Loading: precedence, places, overlays, what is shown, and that the documentation names every key."""

import os
import re
import time
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

from lakehouse.config.keys import all_keys, dotted
from lakehouse.config.load import ConfigMistakesError, load, redacted, show_yaml
from lakehouse.config.sources import RESERVED
from lakehouse.errors import ConfigError
from lakehouse.settings.gate import Budget

ROOT = Path(__file__).parents[3]

MINIMAL = """\
pipeline: incidents
kafka:
  bootstrap_servers: localhost:9092
  topics: [incidents]
lakehouse: {root: ./lake}
sequence: {header: seq}
"""

# The example of the design, as a user would write it.
WHOLE = """\
pipeline: incidents                    # also the idempotency key of its writes
kafka:
  bootstrap_servers: localhost:9092
  topics: [incidents]
  starting_offsets: earliest
  max_offsets_per_trigger: 1000000
  properties: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512}   # any Kafka client property
lakehouse: {root: ./lakehouse}         # or {catalog: main, schema: tidemark}
sequence: {header: seq}
producer: {header: producer}           # optional
epoch: {header: epoch}                 # optional
value: {format: json, schema: "id STRING, amount DOUBLE"}    # optional: text | json
policies: {late: quarantine, max_jump: null, max_quarantined_share: 0.5}
gate:
  budgets: {duplicate_share: {warn: 0.2}, missing: {warn: 0}, late: {critical: 0}}
  expectations: [{expect_column_values_to_not_be_null: {column: payload.id}}]
gold:
  models: [{name: incidents_by_day, sql: sql/incidents_by_day.sql}]
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "tidemark.yml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_whole_example_is_accepted(tmp_path: Path) -> None:
    sql = tmp_path / "sql" / "incidents_by_day.sql"
    sql.parent.mkdir()
    sql.write_text("SELECT 1")
    settings = load(write(tmp_path, WHOLE), environ={})
    assert settings.lakehouse.root == str(tmp_path / "lakehouse")
    assert settings.gold.models[0].sql == sql
    assert settings.gate.budgets["late"].critical == 0
    assert settings.value is not None
    assert settings.value.schema_ == "id STRING, amount DOUBLE"
    assert settings.kafka.client_properties()["sasl.mechanism"] == "SCRAM-SHA-512"


def test_what_is_shown_loads_to_the_same_settings(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "incidents_by_day.sql").write_text("SELECT 1")
    settings = load(write(tmp_path, WHOLE.replace("1000000", "null")), environ={})
    shown = write(tmp_path, show_yaml(settings))
    assert load(shown, environ={}) == settings
    assert yaml.safe_load(show_yaml(settings)) == redacted(settings)


def test_policies_of_topics_are_shown_as_written_and_load_again(tmp_path: Path) -> None:
    text = MINIMAL.replace("[incidents]", "[incidents, orders.v1, 2024]") + (
        "policies:\n  max_jump: 100\n"
        "  topics: {orders.v1: {max_jump: null}, 2024: {late: accept, max_quarantined_share: 0.1}, incidents: {}}\n"
    )
    settings = load(write(tmp_path, text), environ={})
    assert yaml.safe_load(show_yaml(settings))["policies"]["topics"] == {
        "orders.v1": {"max_jump": None},
        "2024": {"late": "accept", "max_quarantined_share": 0.1},
        "incidents": {},
    }
    again = load(write(tmp_path, show_yaml(settings)), environ={})
    assert again == settings
    assert again.policies.topic_shares == {"2024": 0.1}


def test_policies_of_topics_are_set_by_flag_and_variable(tmp_path: Path) -> None:
    settings = load(
        write(
            tmp_path, MINIMAL.replace("[incidents]", "[incidents, orders.v1, Big]") + "policies: {topics: {incidents: {}}}\n"
        ),
        environ={"TIDEMARK_POLICIES__TOPICS__INCIDENTS__LATE": "accept", "TIDEMARK_POLICIES__MAX_JUMP": "9"},
        overrides={
            "policies.topics.orders.v1.max_jump": "null",
            "policies.topics.orders.v1.late": "drop",
            "policies.topics.Big": "{max_jump: 3}",
        },
    )
    assert {topic: (own.late, own.max_jump) for topic, own in settings.policies.topics.items()} == {
        "incidents": ("accept", 9),
        "orders.v1": ("drop", None),
        "Big": ("quarantine", 3),
    }


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, MINIMAL)
    environ = {"TIDEMARK_PIPELINE": "from_env", "TIDEMARK_KAFKA__BOOTSTRAP_SERVERS": "env:1"}
    settings = load(file, overrides={"kafka.bootstrap_servers": "flag:1"}, environ=environ)
    assert (settings.pipeline, settings.kafka.bootstrap_servers) == ("from_env", "flag:1")
    assert settings.kafka.topics == ("incidents",)


def test_the_process_environment_is_read_when_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TIDEMARK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEMARK_PIPELINE", "from_env")
    assert load(write(tmp_path, MINIMAL)).pipeline == "from_env"


# Variables, flags, and what a setting is then.
FROM_OUTSIDE: list[tuple[dict[str, str], dict[str, str], str, object]] = [
    ({"TIDEMARK_KAFKA__TOPICS": "[a, b]"}, {}, "kafka.topics", ("a", "b")),
    ({"TIDEMARK_POLICIES__MAX_JUMP": "12"}, {}, "policies.max_jump", 12),
    ({"TIDEMARK_GATE__BUDGETS__LATE_SHARE__WARN": "0.5"}, {}, "gate.budgets", {"late_share": Budget(warn=0.5)}),
    ({"TIDEMARK_GATE__DATA_DOCS": "true"}, {}, "gate.data_docs", True),
    (
        {"TIDEMARK_KAFKA__TOPICS": "[a]"},
        {"kafka.starting_offsets": '{"a": {"0": -2}}'},
        "kafka.starting_offsets",
        {"a": {"0": -2}},
    ),
    # Text is taken as it is.
    ({"TIDEMARK_KAFKA__BOOTSTRAP_SERVERS": "[::1]:9092"}, {}, "kafka.bootstrap_servers", "[::1]:9092"),
    ({"TIDEMARK_PIPELINE": "0123"}, {}, "pipeline", "0123"),
    ({}, {"kafka.properties.client.id": "true # no comment"}, "kafka.properties", {"client.id": "true # no comment"}),
    ({"TIDEMARK_KAFKA__PROPERTIES__SASL_MECHANISM": "PLAIN"}, {}, "kafka.properties", {"sasl.mechanism": "PLAIN"}),
    # A whole section is replaced, and then refined.
    ({"TIDEMARK_SEQUENCE__ENCODING": "int32", "TIDEMARK_SEQUENCE": '{bytes: "0:4"}'}, {}, "sequence.argument", "0:4"),
]


@pytest.mark.parametrize(("environ", "flags", "setting", "value"), FROM_OUTSIDE)
def test_variables_and_flags_are_yaml_where_text_is_not_wanted(
    tmp_path: Path, environ: dict[str, str], flags: dict[str, str], setting: str, value: object
) -> None:
    settings = load(write(tmp_path, MINIMAL), environ=environ, overrides=flags)
    assert attrgetter(setting)(settings) == value


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_variables_that_are_no_settings_are_left_alone(tmp_path: Path, name: str) -> None:
    assert load(write(tmp_path, MINIMAL), environ={name: "x"}).pipeline == "incidents"


def test_text_in_the_file_is_taken_as_written(tmp_path: Path) -> None:
    text = MINIMAL.replace("[incidents]", "[123, on]").replace("{header: seq}", "{bytes: 4:12}")
    text += "policies: {max_quarantined_share: 1}\n"
    settings = load(
        write(tmp_path, text.replace("localhost:9092", "localhost:9092\n  properties: {a.b: 0123, c.d: yes, e.f: true}")),
        environ={},
    )
    assert settings.kafka.topics == ("123", "on")
    assert settings.sequence.describe() == "bytes 4:12 (int64)"
    assert settings.kafka.properties == {"a.b": "0123", "c.d": "yes", "e.f": "true"}


def test_anchors_are_understood(tmp_path: Path) -> None:
    text = MINIMAL.replace("[incidents]", "&t [incidents]") + "gate: {expectations: [{expect_x: {value_set: *t}}]}\n"
    assert load(write(tmp_path, text), environ={}).gate.expectations[0].arguments == {"value_set": ["incidents"]}


def test_all_mistakes_are_reported_together_with_their_lines(tmp_path: Path) -> None:
    text = MINIMAL.replace("localhost:9092", "localhost").replace("{header: seq}", "{header: seq, offset: true}")
    file = write(tmp_path, text + "polices: {}\n")
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


def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--config FILE") as raised:
        load(tmp_path / "none.yml", environ={})
    assert raised.value.where == str(tmp_path / "none.yml")


def test_a_file_that_is_not_utf8_or_is_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yml").write_bytes(b"pipeline: caf\xe9\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "latin.yml", environ={})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, environ={})


def test_the_documentation_names_every_key() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\n]+)`", text))
    keys = {dotted(path) for path in all_keys()} | {"gold.models[].name", "gold.models[].sql"}
    keys = {
        re.sub(r"^gate\.budgets\.\w+\.", "gate.budgets.MEASURE.", re.sub(r"^(producer|epoch)\.\w+$", r"\1", key))
        for key in keys
    }
    keys = {re.sub(r"^gate\.budgets\.(?!MEASURE)(\w+)$", r"\1", key) for key in keys}
    assert keys - named == set()


def test_a_few_lines_of_aliases_that_stand_for_billions_of_values_are_refused_at_once(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(10)]
    bomb = "a0: &a0 [x]\n" + "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in pairwise(names))
    started = time.monotonic()

    with pytest.raises(ConfigMistakesError, match="aliases counted each time"):
        load(write(tmp_path, MINIMAL + bomb), environ={})

    assert time.monotonic() - started < 10
