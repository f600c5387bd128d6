"""The settings' models: what they accept, their defaults, and what they say of themselves."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.settings.pipeline import (
    Extractor,
    Gate,
    Kafka,
    LakehouseSettings,
    Policies,
    Settings,
    UserExpectation,
    ValueFormat,
)

KAFKA: dict[str, object] = {"bootstrap_servers": "localhost:9092", "topics": ["incidents"]}
MINIMAL: dict[str, object] = {
    "pipeline": "incidents",
    "kafka": KAFKA,
    "lakehouse": {"root": "/lake"},
    "sequence": {"header": "seq"},
}


def test_what_is_left_out_has_its_documented_default() -> None:
    settings = Settings.model_validate(MINIMAL)
    assert settings.kafka.starting_offsets == "earliest"
    assert settings.kafka.max_offsets_per_trigger == 1_000_000
    assert settings.policies == Policies(late="quarantine", max_jump=None, max_quarantined_share=0.5)
    assert (settings.producer, settings.epoch, settings.value) == (None, None, None)
    gate = settings.gate
    assert (gate.budgets, gate.expectations, gate.data_docs, settings.gold.models) == ({}, (), False, ())


@pytest.mark.parametrize("value", [None, {"format": "text"}, {"format": "json", "schema": "seq BIGINT"}])
def test_a_field_is_read_of_avro_and_protobuf_only(value: object) -> None:
    with pytest.raises(ValidationError, match="values are neither"):
        Settings.model_validate({**MINIMAL, "sequence": {"field": "seq"}, "value": value})


def test_the_schema_of_avro_values_may_be_in_a_file(tmp_path: Path) -> None:
    schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    (tmp_path / "r.avsc").write_text(schema, encoding="utf-8")
    given = {"format": "avro", "schema": "a BIGINT", "avro_schema": "r.avsc"}

    value = ValueFormat.model_validate(given, context={"folder": tmp_path})

    assert value.avro_schema == schema
    assert ValueFormat.model_validate({**given, "avro_schema": schema}) == value
    (tmp_path / "r.avsc").write_text(schema + " " * 1_000_000, encoding="utf-8")
    with pytest.raises(ValidationError, match="its file is too long"):
        ValueFormat.model_validate(given, context={"folder": tmp_path})


def test_a_section_with_nothing_after_it_has_its_defaults() -> None:
    settings = Settings.model_validate({**MINIMAL, "gate": None, "gold": {"models": None}, "producer": None})
    assert settings == Settings.model_validate(MINIMAL)


def test_null_lifts_the_limit_on_offsets_per_trigger() -> None:
    assert Kafka.model_validate({**KAFKA, "max_offsets_per_trigger": None}).max_offsets_per_trigger is None


def test_a_topic_has_the_policies_that_it_names_and_the_others_of_all_topics() -> None:
    own = {"a": {"late": "accept"}, "b": {"max_jump": None, "late": None}, "c": {"max_quarantined_share": 0.2}, "d": {}}
    given = {"late": "drop", "max_jump": 100, "max_quarantined_share": 0.2, "topics": own}

    policies = Policies.model_validate(given)

    assert {topic: (own.late, own.max_jump, own.max_quarantined_share) for topic, own in policies.topics.items()} == {
        "a": ("accept", 100, 0.2),
        "b": ("drop", None, 0.2),
        "c": ("drop", 100, 0.2),
        "d": ("drop", 100, 0.2),
    }
    assert policies.topic_shares == {"c": 0.2}


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings.model_validate(MINIMAL).pipeline = "other"


@pytest.mark.parametrize(
    ("given", "form", "argument", "encoding", "described"),
    [
        ({"header": "seq"}, "header", "seq", "utf8", 'header "seq" (utf8)'),
        ({"header": "seq", "encoding": "int32"}, "header", "seq", "int32", 'header "seq" (int32)'),
        ({"value": "utf8"}, "value", "", "utf8", "value (utf8)"),
        ({"value": "int64"}, "value", "", "int64", "value (int64)"),
        ({"json": "$.a.b[0]"}, "json", "$.a.b[0]", "utf8", "json $.a.b[0] (utf8)"),
        ({"json": "$['odd name']"}, "json", "$['odd name']", "utf8", "json $['odd name'] (utf8)"),
        ({"bytes": "0:8"}, "bytes", "0:8", "int64", "bytes 0:8 (int64)"),
        ({"bytes": "4:8"}, "bytes", "4:8", "int32", "bytes 4:8 (int32)"),
        ({"bytes": "0:6"}, "bytes", "0:6", "utf8", "bytes 0:6 (utf8)"),
        ({"bytes": "00:08", "encoding": "utf8"}, "bytes", "0:8", "utf8", "bytes 0:8 (utf8)"),
        ({"offset": True}, "offset", "", "utf8", "Kafka offset"),
        ({"custom": "my.pkg:fn"}, "custom", "my.pkg:fn", "utf8", "custom my.pkg:fn"),
    ],
)
def test_an_extractor_knows_its_form_argument_and_encoding(
    given: dict[str, object], form: str, argument: str, encoding: str, described: str
) -> None:
    extractor = Extractor.model_validate(given)
    assert (extractor.form, extractor.argument, extractor.encoding) == (form, argument, encoding)
    assert extractor.describe() == described


@pytest.mark.parametrize("name", ["kafka.v1", "a", "A_b-c.9", "x" * 249])
def test_a_valid_topic_name_is_accepted(name: str) -> None:
    assert Kafka(bootstrap_servers="b:1", topics=(name,)).topics == (name,)


SERVERS = ["localhost:9092", "a.b:1,c-d:65535", "a:1, b:2", "[::1]:9092", "SASL_SSL://broker:9092", "10.0.0.1:9092"]


@pytest.mark.parametrize("servers", SERVERS)
def test_bootstrap_servers_in_every_form_that_clients_take(servers: str) -> None:
    assert Kafka(bootstrap_servers=servers, topics=("t",)).bootstrap_servers == servers


def test_client_properties_hold_the_servers_and_every_property() -> None:
    kafka = Kafka.model_validate({**KAFKA, "properties": {"group.id": "g", "ssl.key.password": "hunter2"}})
    assert kafka.client_properties() == {"bootstrap.servers": "localhost:9092", "group.id": "g", "ssl.key.password": "hunter2"}


def test_a_start_per_partition_has_text_keys_whatever_was_written() -> None:
    kafka = Kafka.model_validate({**KAFKA, "starting_offsets": {"incidents": {0: 5, "1": -2}}})
    assert kafka.starting_offsets == {"incidents": {"0": 5, "1": -2}}


@pytest.mark.parametrize(
    ("given", "root"), [("./lake", "/etc/lake"), *[(each,) * 2 for each in ("/abs", "s3://b/lake", "dbfs:/lake")]]
)
def test_a_relative_root_starts_at_the_config_folder_and_a_uri_nowhere(given: str, root: str) -> None:
    assert LakehouseSettings.model_validate({"root": given}, context={"folder": Path("/etc")}).root == root


def test_a_catalog_has_a_volume_of_its_own_unless_one_is_given() -> None:
    assert LakehouseSettings(catalog="main", schema="tide").volume == "/Volumes/main/tide/tidemark"
    assert LakehouseSettings(catalog="main", schema="tide", volume="/Volumes/x/y/z").volume == "/Volumes/x/y/z"
    assert LakehouseSettings(root="/lake").volume is None


DDLS = [
    *("id STRING", "id STRING, amount DOUBLE", "id: string, amount: decimal(10,2)"),
    "tags ARRAY<STRING>, meta STRUCT<a: INT, b: MAP<STRING, INT>>",
    *("`odd-name` BIGINT NOT NULL, ts TIMESTAMP COMMENT 'when, in UTC'", "a INT COMMENT 'smile :)'"),
]


@pytest.mark.parametrize("ddl", DDLS)
def test_a_ddl_that_spark_reads_is_accepted(ddl: str) -> None:
    assert ValueFormat(format="json", schema=ddl).schema_ == ddl


NOT_NULL, ROWS = "expect_column_values_to_not_be_null", "expect_table_row_count_to_be_between"


@pytest.mark.parametrize(
    ("given", "name", "arguments", "severity"),
    [
        ({NOT_NULL: {"column": "payload.id", "severity": "warn"}}, NOT_NULL, {"column": "payload.id"}, "warn"),
        ({ROWS: None}, ROWS, {}, "critical"),
    ],
)
def test_an_expectation_is_read_from_its_yaml_form(
    given: dict[str, Any], name: str, arguments: dict[str, Any], severity: str
) -> None:
    found = UserExpectation.model_validate(given)
    assert (found.name, found.arguments, found.severity) == (name, arguments, severity)
    assert given[name] is None or found.model_dump() == given


def test_a_budget_keeps_whole_numbers_whole() -> None:
    gate = Gate.model_validate({"budgets": {"late": {"warn": 3}, "late_share": {"critical": 0.25}}})
    assert gate.model_dump(mode="json", exclude_none=True)["budgets"] == {"late": {"warn": 3}, "late_share": {"critical": 0.25}}
    assert '"warn":3,' in gate.model_dump_json()


def test_importing_the_settings_loads_no_engine_and_builds_no_validator() -> None:
    program = (
        "import sys, lakehouse.settings.pipeline as s, lakehouse.config.load\n"
        "heavy = {'pyspark', 'delta', 'great_expectations', 'pandas', 'databricks'} & set(sys.modules)\n"
        "sys.exit(f'{heavy} {s.Settings.__pydantic_complete__}' if heavy or s.Settings.__pydantic_complete__ else 0)"
    )
    # The root of the tree, so that the test does not depend on an installed wheel.
    root = Path(__file__).parents[3]
    found = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
