"""The settings' models and the schema of a payload: what they accept, their defaults, and what they say of themselves."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from lakehouse.settings.base import SettingError
from lakehouse.settings.extractor import describe
from lakehouse.settings.gate import Gate, UserExpectation
from lakehouse.settings.payload_schema import _SCALARS, Kind, Type, parse
from lakehouse.settings.pipeline import Extractor, Kafka, LakehouseSettings, Policies, Settings, ValueFormat
from tests.pipelines import test_payload_types
from tests.support import hostile_bytes
from tests.support.small_config import small_config

KAFKA: dict[str, object] = {"bootstrap_servers": "localhost:9092", "topics": ["incidents"]}
MINIMAL = small_config("/lake")


def test_what_is_left_out_or_empty_has_its_documented_default_and_cannot_be_changed() -> None:
    settings = Settings.model_validate(MINIMAL)
    assert settings.kafka.starting_offsets == "earliest"
    assert settings.kafka.max_offsets_per_trigger == 1_000_000
    assert Kafka.model_validate({**KAFKA, "max_offsets_per_trigger": None}).max_offsets_per_trigger is None
    assert settings.policies == Policies(late="quarantine", max_jump=None, max_quarantined_share=0.5)
    assert (settings.producer, settings.epoch, settings.value) == (None, None, None)
    gate = settings.gate
    assert (gate.budgets, gate.expectations, gate.data_docs, settings.gold.models) == ({}, (), False, ())
    assert settings == Settings.model_validate({**MINIMAL, "gate": None, "gold": {"models": None}, "producer": None})
    with pytest.raises(ValidationError, match="frozen"):
        settings.pipeline = "other"


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


@pytest.mark.parametrize(
    ("given", "argument", "described"),
    [
        ({"header": "seq"}, "seq", 'header "seq" (utf8)'),
        ({"header": "seq", "encoding": "int32"}, "seq", 'header "seq" (int32)'),
        ({"value": "utf8"}, "", "value (utf8)"),
        ({"value": "int64"}, "", "value (int64)"),
        ({"json": "$.a.b[0]"}, "$.a.b[0]", "json $.a.b[0] (utf8)"),
        ({"json": "$['odd name']"}, "$['odd name']", "json $['odd name'] (utf8)"),
        ({"bytes": "0:8"}, "0:8", "bytes 0:8 (int64)"),
        ({"bytes": "4:8"}, "4:8", "bytes 4:8 (int32)"),
        ({"bytes": "0:6"}, "0:6", "bytes 0:6 (utf8)"),
        ({"bytes": "00:08", "encoding": "utf8"}, "0:8", "bytes 0:8 (utf8)"),
        ({"offset": True}, "", "Kafka offset"),
        ({"custom": "my.pkg:fn"}, "my.pkg:fn", "custom my.pkg:fn"),
        ({"debezium": "mysql"}, "mysql", "Debezium's position (mysql)"),
    ],
)
def test_an_extractor_knows_its_form_argument_and_encoding(given: dict[str, object], argument: str, described: str) -> None:
    extractor = Extractor.model_validate(given)
    assert (extractor.form, extractor.argument) == (next(iter(given)), argument)
    assert describe(extractor.form, extractor.argument, extractor.encoding) == described
    assert extractor.encoding == next((each for each in ("int32", "int64") if each in described), "utf8")


def test_kafka_takes_servers_and_topics_as_clients_do_and_partitions_as_text() -> None:
    for servers in ("localhost:9092", "a.b:1,c-d:65535", "a:1, b:2", "[::1]:9092", "SASL_SSL://broker:9092", "10.0.0.1:9092"):
        assert Kafka(bootstrap_servers=servers, topics=("t",)).bootstrap_servers == servers
    for name in ("kafka.v1", "a", "A_b-c.9", "x" * 249):
        assert Kafka(bootstrap_servers="b:1", topics=(name,)).topics == (name,)
    kafka = Kafka.model_validate({**KAFKA, "starting_offsets": {"incidents": {0: 5, "1": -2}}})
    assert kafka.starting_offsets == {"incidents": {"0": 5, "1": -2}}
    starts = [("2026-09-20T02:00+02:00", "2026-09-20T00:00:00+00:00"), ({"incidents": "latest"}, {"incidents": "latest"})]
    for given, kept in starts:
        assert Kafka.model_validate({**KAFKA, "starting_offsets": given}).starting_offsets == kept


def test_a_relative_root_starts_at_the_config_folder_and_a_catalog_has_a_volume() -> None:
    for given, root in [("./lake", "/etc/lake"), *((each, each) for each in ("/abs", "s3://b/lake", "dbfs:/lake"))]:
        found = LakehouseSettings.model_validate({"root": given}, context={"folder": Path("/etc")})
        assert (found.root, found.volume) == (root, None)
    place = {"catalog": "main", "schema": "tide"}
    assert LakehouseSettings.model_validate(place).volume == "/Volumes/main/tide/tidemark"
    assert LakehouseSettings.model_validate({**place, "volume": "/Volumes/x/y/z"}).volume == "/Volumes/x/y/z"


def test_expectations_are_read_from_their_yaml_form_and_budgets_stay_whole_numbers() -> None:
    not_null = {"expect_column_values_to_not_be_null": {"column": "payload.id", "severity": "warn"}}
    found = UserExpectation.model_validate(not_null)
    assert (found.name, found.arguments, found.severity) == (*not_null, {"column": "payload.id"}, "warn")
    assert found.model_dump() == not_null
    found = UserExpectation.model_validate({"expect_table_row_count_to_be_between": None})
    assert (found.name, found.arguments, found.severity) == ("expect_table_row_count_to_be_between", {}, "critical")

    budgets = {"late": {"warn": 3}, "late_share": {"critical": 0.25}}
    gate = Gate.model_validate({"budgets": budgets})
    assert gate.model_dump(mode="json", exclude_none=True)["budgets"] == budgets
    assert '"warn":3,' in gate.model_dump_json()


def test_importing_the_settings_loads_no_engine_and_builds_no_validator() -> None:
    loaded = "{'pyspark', 'delta', 'great_expectations', 'pandas', 'databricks'} & {*sys.modules}"
    program = f"import sys, lakehouse.settings.pipeline as s; sys.exit(s.Settings.__pydantic_complete__ or len({loaded}))"
    # The root of the tree, so that the test does not depend on an installed wheel.
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=False).returncode == 0


def test_fields_are_given_by_name_with_their_types() -> None:
    found = parse("id: string NOT NULL COMMENT 'a, b :)', `é` dec, in STRUCT<a: ARRAY<MAP<STRING, STRUCT<n LONG NOT NULL>>>>")

    assert [(field.name, field.type.kind, field.is_required) for field in found.fields] == [
        ("id", "scalar", True),
        ("é", "scalar", False),
        ("in", "struct", False),
    ]
    assert found.sql() == (
        "STRUCT<`id`: STRING COMMENT 'a, b :)', `é`: DECIMAL(10,0), `in`: STRUCT<`a`: ARRAY<MAP<STRING, STRUCT<`n`: BIGINT>>>>>"
    )


REFUSED = {
    "STRNG is no type.*Did you mean STRING": ["id STRNG"],
    "BIGGINT is no type.*Did you mean BIGINT": ["a INT, id STRUCT<x: BIGGINT>"],
    "VOID cannot be.*Delta cannot store it": ["a VOID", "a ARRAY<VOID>"],
    "write STRING": ["a VARCHAR(5)", "a CHAR(5)"],
    "INTERVAL cannot be": ["a INTERVAL DAY TO SECOND"],
    "VARIANT cannot be": ["a VARIANT"],
    "TIME cannot be": ["a TIME"],
    "keys of a MAP": ["a MAP<INT, INT>"],
    "at most 38 digits": ["a DECIMAL(39, 2)"],
    "cannot be": ["a DECIMAL(5, 6)"],
    "listed twice": ["a INT, A STRING", "s STRUCT<a: INT, A: INT>"],
    "cannot be the name of a field": ["`a,b` INT", "_tidemark_corrupt STRING"],
    "no list of fields": ["s STRUCT<>", "a INT,", "a ARRAY<INT", "a INT DEFAULT 5", "a STRING COLLATE UNICODE"],
    "nested too deep": ["a " + "ARRAY<" * 200 + "INT" + ">" * 200],
}


@pytest.mark.parametrize(("ddl", "why"), [(ddl, why) for why, ddls in REFUSED.items() for ddl in ddls])
def test_what_cannot_be_decoded_stored_or_read_is_refused(ddl: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        parse(ddl)


@pytest.mark.parametrize("schema", [test_payload_types.SCHEMA, hostile_bytes.SCHEMA], ids=["through every stage", "fuzzed"])
def test_what_is_tested_with_every_type_has_every_type_that_is_accepted(schema: str) -> None:
    def types(found: Type) -> list[Type]:
        return [found, *(each for inner in found.inner() for each in types(inner))]

    there = types(parse(schema))
    assert {each.name for each in there} - {""} == {*_SCALARS.values()}
    assert {each.kind for each in there} == {*get_args(Kind)}
