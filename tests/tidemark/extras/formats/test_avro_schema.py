"""Schemas of Avro: which there are no values of that could be decoded safely, and which fields hold what was written."""

import json
from typing import Any

import fastavro
import pytest

from lakehouse.settings.payload_schema import parse
from tests.support.avro import record
from tidemark.extras.formats import avro_schema
from tidemark.extras.formats.avro_schema import AvroSchemaError, misfit


def of(kind: object) -> str:
    return json.dumps(record("R", a=kind))


def logical(kind: str, name: str, **more: object) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


PACKAGES = ("io.debezium.time", "org.apache.kafka.connect.data")


def connect(kind: str, name: str) -> dict[str, Any]:
    """A type as Kafka Connect's converter writes it: its own logical type, and Avro's, which may be missing."""
    return {"type": kind, "connect.version": 1, "connect.name": name}


DECIMAL = logical("bytes", "decimal", precision=10, scale=2)
OF_CONNECT = {**connect("bytes", "org.apache.kafka.connect.data.Decimal"), **logical("bytes", "decimal", precision=64, scale=2)}
ZONED = connect("string", "io.debezium.time.ZonedTimestamp")
TREE = record("Node", "shop", name="string", children={"type": "array", "items": "Node"}, left=["null", "Node"], note="string")


@pytest.mark.parametrize(
    ("wanted", "written"),
    [
        ("STRING", "string"),
        ("STRING", {"type": "enum", "name": "E", "symbols": ["A"]}),
        ("STRING", logical("string", "uuid")),
        ("STRING", ["null", "string"]),
        ("BINARY", {"type": "fixed", "name": "F", "size": 4}),
        ("BIGINT", "int"),
        ("BIGINT", ["int", "long"]),
        ("BIGINT", logical("long", "time-micros")),
        ("BIGINT", logical("long", "timestamp-millis")),
        ("DOUBLE", "float"),
        ("DECIMAL(12,4)", DECIMAL),
        ("DECIMAL(12,2)", "int"),
        *((f"DECIMAL({precision},2)", OF_CONNECT) for precision in (4, 38)),
        *((kind, connect("int", f"{package}.Date")) for kind in ("DATE", "INT") for package in PACKAGES),
        *((kind, connect("long", f"{package}.Timestamp")) for kind in ("TIMESTAMP", "BIGINT") for package in PACKAGES),
        ("TIMESTAMP", connect("long", "io.debezium.time.MicroTimestamp")),
        *((kind, ZONED) for kind in ("TIMESTAMP", "STRING")),
        ("STRUCT<name: STRING, left: STRUCT<left: STRUCT<name: STRING>>, children: ARRAY<STRUCT<note: STRING>>>", TREE),
        ("TIMESTAMP", logical("long", "timestamp-millis")),
        ("TIMESTAMP_NTZ", logical("long", "local-timestamp-micros")),
        ("DATE", logical("int", "date")),
        ("ARRAY<BIGINT>", {"type": "array", "items": ["null", "int"]}),
        ("MAP<STRING, STRUCT<b: INT>>", {"type": "map", "values": record("B", b="int")}),
    ],
)
def test_a_field_takes_what_it_holds_without_loss(wanted: str, written: object) -> None:
    assert misfit(of(written), parse(f"a {wanted}")) is None


@pytest.mark.parametrize(
    ("wanted", "written", "why"),
    [
        ("INT", "long", "a is long, and INT is wanted"),
        ("DOUBLE", "long", "a is long, and DOUBLE is wanted"),
        ("STRING", "int", "a is int, and STRING is wanted"),
        ("STRING", ["int", "string"], "a is a union of several types"),
        ("DECIMAL(10,1)", DECIMAL, "a is decimal(10,2), and DECIMAL(10,1) is wanted"),
        ("DECIMAL(10,1)", OF_CONNECT, "a is decimal(64,2), and DECIMAL(10,1) is wanted"),
        ("TIMESTAMP", "long", "a is long, and TIMESTAMP is wanted"),
        ("TIMESTAMP", connect("long", "io.debezium.time.NanoTimestamp"), "a is long, and TIMESTAMP is wanted"),
        ("TIMESTAMP", connect("int", "io.debezium.time.Timestamp"), "a is int, and TIMESTAMP is wanted"),
        ("DATE", {**connect("int", ""), "connect.name": []}, "a is int, and DATE is wanted"),
        ("TIMESTAMP", logical("long", "local-timestamp-millis"), "a is local-timestamp-millis, and"),
        ("ARRAY<STRUCT<b: INT>>", {"type": "array", "items": record("B", b="string")}, "a[].b is string, and INT"),
    ],
)
def test_a_field_that_does_not_hold_what_was_written_is_named(wanted: str, written: object, why: str) -> None:
    assert str(misfit(of(written), parse(f"a {wanted}"))).startswith(why)


def laughs() -> dict[str, Any]:
    """A few lines that stand for 2^40 fields."""
    kind: Any = record("R0", a="int")
    for level in range(1, 40):
        kind = record(f"R{level}", a=kind, b=f"R{level - 1}")
    return record("R", a=kind)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "it is no JSON"),
        (json.dumps(None), "it has something that is no type"),
        (json.dumps({"type": {"type": ["null", []]}}), "it has a union of nothing, or of unions"),
        (of("nothing"), "it has no type nothing"),
        *(
            (of({"type": "array", "items": items}), "it has arrays of items without bytes")
            for items in ("null", {"type": "fixed", "name": "F", "size": 0}, record("B"))
        ),
        (of(record("R", a="int")), "it has two types R"),
        (of({"type": "fixed", "name": "F", "size": True}), "the fixed type F has no size from 0 to 16,777,216"),
        (of({"type": "fixed", "name": "F", "size": 2**31 - 1}), "the fixed type F has no size from 0 to 16,777,216"),
        (of({"type": "enum", "name": "E", "symbols": ["A", "A"]}), "the enum E has no list of symbols"),
        *(
            (json.dumps(record("R", **{name: "int"})), "the record R has no list of fields")
            for name in ("a b", "a-b", "a\u00b2", "2a")
        ),
        (json.dumps(record("", a="int")), "it has a type without a name"),
        (json.dumps(record("R", a="R", b="R")), "it has more than 10,000 types, or more than 50 levels"),
        (json.dumps({**record("R"), "fields": [{"name": "a", "type": "int"}] * 2}), "the record R has no list of fields"),
        (json.dumps(record("1", a="int")), "it has a type without a name"),
        (json.dumps(laughs()), "it has more than 10,000 types, or more than 50 levels"),
    ],
)
def test_a_schema_that_no_value_is_decoded_by_says_why(text: str, why: str) -> None:
    with pytest.raises(AvroSchemaError) as raised:
        avro_schema.writer(text)
    assert str(raised.value) == why


def test_a_writers_schema_keeps_full_names_and_only_what_changes_the_bytes() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    given = record("R", "n.m", e={**enum, "default": "A", "doc": "d"}, f="E")
    given |= {"aliases": ["Old"], "odd": {"type": 1}}

    assert json.loads(avro_schema.writer(json.dumps(given)).text) == record("n.m.R", e={**enum, "name": "n.m.E"}, f="n.m.E")
    assert avro_schema.writer(json.dumps(["null"] * 3)).schema == ["null"] * 3


def registered(name: str, *types: Any, namespace: str = "") -> str:
    return json.dumps(record(name, namespace, **{f"f{nth}": each for nth, each in enumerate(types)}))


def test_types_of_other_schemas_are_inlined_where_they_are_first_named() -> None:
    size = {"type": "enum", "name": "Size", "symbols": ["S"]}
    buyer = registered("Buyer", "Size", {"type": "map", "values": "Size"}, namespace="shop")
    order = registered("Order", ["null", "Size"], "shop.Buyer", {"type": "array", "items": "shop.Buyer"}, namespace="shop.sold")

    whole = avro_schema.joined(order, [json.dumps(size), buyer])

    given, name = json.loads(whole), "tidemark.none.Size"
    assert [each["type"] for each in given["fields"]] == [
        ["null", {**size, "name": name}],
        record("shop.Buyer", f0=name, f1={"type": "map", "values": name}),
        {"type": "array", "items": "shop.Buyer"},
    ]
    assert json.loads(avro_schema.writer(whole).text) == given
    assert fastavro.parse_schema(given)


def test_a_nested_type_of_another_schema_is_known_and_a_lone_schema_is_unchanged() -> None:
    outer = registered("Outer", record("Inner", n="int"), namespace="a")
    whole = json.loads(avro_schema.joined(registered("R", "a.Inner", "a.Outer"), [outer]))
    assert [each["type"]["name"] for each in whole["fields"]] == ["a.Inner", "a.Outer"]
    assert whole["fields"][1]["type"]["fields"][0]["type"] == "a.Inner"
    text = registered("R", "int")
    assert avro_schema.joined(text, []) is text


@pytest.mark.parametrize(
    ("text", "others", "why"),
    [
        (registered("R", "a.X"), [registered("Y", "int")], "no type a.X"),
        (registered("R", "Y"), [registered("Y", "R")], "no type R"),
        (registered("R", "int"), ["{"], "no JSON"),
        (registered("R", "int"), [registered("R", "int")], "two types R"),
        (registered("R", *["Y"] * 101), [registered("Y", *["int"] * 100)], "more than 10,000 types"),
    ],
)
def test_schemas_that_cannot_be_joined_say_why(text: str, others: list[str], why: str) -> None:
    with pytest.raises(avro_schema.AvroSchemaError, match=why):
        avro_schema.joined(text, others)


def test_a_record_within_itself_becomes_copies_and_is_no_field_of_a_payload() -> None:
    """Two branches and a list at each level: with every copy written out, they would be millions of types."""
    written = avro_schema.writer(of(TREE))
    assert avro_schema.writer(written.text) == written
    assert len(written.text) < 10_000
    found, left_out = avro_schema.fields(written)
    assert (found.sql(), left_out) == (
        "STRUCT<`a`: STRUCT<`name`: STRING, `note`: STRING>>",
        {"a.children[]": "within itself", "a.left": "within itself"},
    )
    inner = record("B", a=["null", "A"], b=["null", "B"], of={"type": "enum", "name": "E", "symbols": ["X"]})
    around = avro_schema.writer(json.dumps(record("A", next=["null", "A"], b=["null", inner], of="E")))
    assert fastavro.parse_schema(around.schema)
    assert misfit(around, parse("b STRUCT<a: STRUCT<b: STRUCT<of: STRING>>>, of STRING")) is None


def test_names_beyond_ascii_and_namespaces_with_a_hyphen_are_read() -> None:
    given = record("Stra\u00dfe", "shop-1.\u00e4", straße="int", of=["null", "Stra\u00dfe"])
    written = avro_schema.writer(json.dumps(given))
    assert written.schema["name"] == "shop_2d_1._e4_.Stra_df_e"
    assert avro_schema.writer(written.text) == written
    assert misfit(written, parse("stra\u00dfe INT")) is None
    read = json.loads(avro_schema.reader(written, parse("_record STRING")))["fields"]
    assert read[0] == {"name": "_record", "type": "string", "default": "shop-1.\u00e4.Stra\u00dfe"}


def test_the_records_of_a_union_share_fields_and_a_misfit_names_its_record() -> None:
    order = record("Order", "shop", id="string", n="int")
    paid = record("Paid", "shop", id="string", n="long", of=["null", "Order"])
    union = json.dumps(
        ["null", order, paid, *({"type": "fixed", "name": f"F{nth}", "size": 1} for nth in range(61)), record("Last")]
    )
    assert [first for first, _ in avro_schema.branches(avro_schema.writer(union))] == [b"\x02", b"\x04", b"\x80\x01"]
    assert misfit(union, parse("id STRING, n BIGINT, of STRUCT<n: INT>")) is None
    assert misfit(union, parse("n INT")) == "shop.Paid: n is long, and INT is wanted"
    assert misfit('["null", "int"]', parse("n INT")) == "the value is a union, and a record is wanted"
    found, _ = avro_schema.fields(avro_schema.writer(json.dumps([order, paid])))
    assert found.sql() == "STRUCT<`id`: STRING>"
