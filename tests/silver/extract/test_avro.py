"""Values written as Avro: what is decoded of them, and that no bytes end in anything but a payload or a reason."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.errors import PySparkException

from lakehouse.contracts.bronze import BRONZE
from lakehouse.extract.columns import extract
from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written
from lakehouse.spark import avro_limits, frames
from silver.extract.payload import decoded
from silver.rules import Payload, Rules
from tests.support.decodings import decoding
from tests.support.drawn_bytes import drawn_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "seq", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "by", "type": {"type": "record", "name": "Who", "fields": [{"name": "id", "type": "string"}]}},
        {"name": "seen_by", "type": ["null", {"type": "array", "items": "Who"}]},
        {"name": "was", "type": ["null", "State"]},
        {"name": "more", "type": {"type": "map", "values": "int"}},
    ],
}
FIELDS = (
    "more MAP<STRING, BIGINT>, amount DECIMAL(12,3), at TIMESTAMP, day DATE, state STRING, was STRING, "
    "seen_by ARRAY<STRUCT<id: STRING, name: STRING>>, note STRING, added STRUCT<a: ARRAY<DOUBLE>>"
)
GIVEN: dict[str, Any] = {
    "seq": 7,
    "note": "n\u00e4",
    "state": "PAID",
    "amount": Decimal("12.50"),
    "at": datetime(2026, 11, 21, 9, 0, 0, 5000, UTC),
    "day": date(2026, 11, 21),
    "by": {"id": "ann"},
    "seen_by": [{"id": "bob"}],
    "was": "OPEN",
    "more": {"k": 1},
}


def written(value: dict[str, Any], schema: dict[str, Any] = ORDER) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def prefixed(number: int, value: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + value


def records(spark: SparkSession, values: Sequence[bytes | None]) -> DataFrame:
    return frames.of_contract(spark, [{"offset": number, "value": value} for number, value in enumerate(values)], BRONZE)


def payloads(
    spark: SparkSession, schema: str, how: Written, values: Sequence[bytes | None], max_bytes: int = 9999
) -> list[Any]:
    """The payload of each value, as plain data; the reason where there is none."""
    rules = decoding(Payload("avro", schema, max_bytes), how)
    found = decoded(records(spark, values), rules).select("offset", "payload", "undecodable")
    rows = sorted(found.toArrow().to_pylist(), key=lambda row: row["offset"])
    return [row["undecodable"] or row["payload"] for row in rows]


PLAIN = Written("avro", json.dumps(ORDER))


def test_a_value_is_decoded_into_the_fields_as_it_was_written(spark: SparkSession) -> None:
    empty = {**GIVEN, "note": None, "seen_by": None, "was": None, "more": {}}

    found = payloads(spark, FIELDS, PLAIN, [written(GIVEN), written(empty), None])

    whole = {
        "more": [("k", 1)],
        "amount": Decimal("12.500"),
        "at": datetime(2026, 11, 21, 9, 0, 0, 5000, UTC),
        "day": date(2026, 11, 21),
        "state": "PAID",
        "was": "OPEN",
        "seen_by": [{"id": "bob", "name": None}],
        "note": "n\u00e4",
        "added": None,
    }
    assert found == [whole, {**whole, "more": [], "was": None, "seen_by": None, "note": None}, None]


def test_each_value_is_decoded_by_the_schema_whose_id_it_begins_with(spark: SparkSession) -> None:
    old = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "int"}]}
    new = {"type": "record", "name": "A", "fields": [{"name": "s", "type": "string"}, {"name": "n", "type": "long"}]}
    other = {"type": "record", "name": "A", "fields": [{"name": "n", "type": "string"}]}
    schemas = ((1, json.dumps(old)), (2, json.dumps(new)), (3, json.dumps(other)), (4, ""), (2**32 - 1, json.dumps(old)))
    how = Written("avro", has_prefix=True, undecodable_ids=(99,), schemas=schemas)
    values = [
        prefixed(1, written({"n": 1}, old)),
        prefixed(2, written({"s": "x", "n": 2**40}, new)),
        prefixed(3, written({"n": "3"}, other)),  # not a number
        prefixed(4, b"{}"),  # a schema of another kind
        prefixed(99, b"any"),
        prefixed(2**32 - 1, written({"n": 5}, old)),
        b"\1" + prefixed(1, written({"n": 1}, old))[1:],
        b"\0\0\0\0",
        b"",
        None,
        prefixed(1, b""),
    ]

    wrong = "value_not_of_schema"
    assert payloads(spark, "s STRING, n BIGINT", how, values) == [
        *({"s": None, "n": 1}, {"s": "x", "n": 2**40}),
        *(wrong, wrong, wrong),
        {"s": None, "n": 5},
        *(wrong, wrong, wrong),
        None,
        wrong,
    ]


def test_an_id_that_nobody_asked_for_stops_the_query(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="No schema was asked for the id 5"):
        payloads(spark, "n BIGINT", Written("avro", has_prefix=True), [prefixed(5, b"x")])


def number(value: int) -> bytes:
    """A long of Avro's."""
    left, out = (value << 1) ^ (value >> 63), b""
    while left > 0x7F:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


def test_hostile_bytes_are_undecodable_and_end_no_jvm(spark: SparkSession) -> None:
    text = {"name": "s", "type": "string"}
    lists = {"name": "l", "type": {"type": "array", "items": "int"}}
    maps = {"name": "m", "type": {"type": "map", "values": "bytes"}}
    moment = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    schema = {"type": "record", "name": "R", "fields": [text, lists, maps, moment]}
    how = Written("avro", json.dumps(schema))
    empty = number(0)
    values = [
        number(2**31 - 1) + b"a",
        number(2**62) + b"a",
        number(-5) + b"a",
        number(1) + b"a" + number(2**31 - 9) + number(1),
        number(1) + b"a" + number(2**28) + number(1),
        number(1) + b"a" + number(-(2**31)) + number(1) * 9,
        number(1) + b"a" + empty + number(2**30) + number(1) + b"k" + number(2**31 - 1),
        number(2) + b"\xff\xfe" + empty + empty + empty,
        number(0) + empty + number(1) + number(1) + b"\xff" + empty + empty + empty,
        number(0) + empty + empty + number(2**63 - 1),
        number(0) + empty + empty + number(10**15),
        b"\xff" * 40,
        written({"s": "a", "l": [1], "m": {}, "at": 0}, schema)[:-1],
        written({"s": "a" * 10_000, "l": [], "m": {}, "at": 0}, schema),
    ]

    found = payloads(spark, "s STRING, l ARRAY<INT>, m MAP<STRING, BINARY>, at TIMESTAMP", how, values)

    assert found == [*["value_not_of_schema"] * 13, "value_too_long"]


def test_any_bytes_have_a_payload_or_a_reason(spark: SparkSession) -> None:
    found = payloads(spark, FIELDS, PLAIN, drawn_bytes(written(GIVEN)))
    assert all(each == "value_not_of_schema" or isinstance(each, dict) for each in found)


def test_a_required_field_that_is_null_makes_the_value_undecodable(spark: SparkSession) -> None:
    found = payloads(spark, "note STRING NOT NULL", PLAIN, [written(GIVEN), written({**GIVEN, "note": None})])

    assert found == [{"note": "n\u00e4"}, "value_not_of_schema"]


def test_sequence_and_producer_are_read_from_fields(spark: SparkSession) -> None:
    sources = Sources(Source("field", "seq"), producer=Source("field", "by.id"), written=PLAIN)
    values = [written(GIVEN), written({**GIVEN, "seq": -1}), b"\xff", None, written({**GIVEN, "by": {"id": ""}})]

    rows = extract(records(spark, values), sources).orderBy("offset").select("producer", "sequence", "problem").collect()

    assert [tuple(row) for row in rows] == [
        ("ann", 7, None),
        ("ann", None, "sequence_not_a_whole_number"),
        (None, None, "sequence_not_decoded"),
        (None, None, "sequence_null"),
        (None, None, "producer_empty"),
    ]
    absent = replace(sources, producer=Source("field", "by.name"))
    assert extract(records(spark, values[:1]), absent).first()["problem"] == "producer_missing"  # type: ignore[index] # there is a row


def test_json_behind_the_prefix_is_read_without_it(spark: SparkSession) -> None:
    how = Written("json", has_prefix=True)
    values = [prefixed(1, b'{"seq": 7}'), b'{"seq": 7}', prefixed(1, b"\xff"), None, b"\0"]

    found = decoded(records(spark, values), decoding(Payload("json", "seq BIGINT"), how)).orderBy("offset").collect()
    sources = Sources(Source("prefixed_json", "$.seq"), written=how)
    read = extract(records(spark, values), sources).orderBy("offset").select("sequence", "problem").collect()

    reasons = [None, "value_not_of_schema", "value_not_utf8", None, "value_not_of_schema"]
    assert [row["undecodable"] for row in found] == reasons
    assert [row["payload"] and row["payload"]["seq"] for row in found] == [7, None, None, None, None]
    assert [tuple(row) for row in read] == [
        (7, None),
        *[(None, "sequence_missing")] * 2,
        (None, "sequence_null"),
        (None, "sequence_missing"),
    ]


def test_the_session_has_the_limits(spark: SparkSession) -> None:
    avro_limits.require(spark)


def test_a_claim_keeps_how_values_are_written_and_not_the_schemas() -> None:
    how = Written("avro", has_prefix=True, undecodable_ids=(4, 5), schemas=((1, "x"),))
    rules = Rules(Source("field", "seq"), payload=Payload("avro", "a INT"), written=how)

    assert Rules.from_json(rules.to_json()) == replace(rules, written=replace(how, schemas=()))
    assert "written" not in json.loads(Rules(Source("header", "seq")).to_json())
    assert rules.fingerprint == Rules(Source("field", "seq")).fingerprint
