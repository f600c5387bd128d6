"""Values written as Avro: what is decoded of them, and that no bytes end in anything but a payload or a reason."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.errors import RegistryError
from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written
from silver.extract.payload import with_schemas
from silver.rules import Payload, Rules
from tests.conftest import Runs
from tests.support.avro import read, record, written
from tests.support.bronze import Record, frame
from tests.support.decodings import WRONG, drawn_bytes, extracted, one_byte_more_or_less, payloads, prefixed
from tests.support.protobuf import varint

STATE = {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}
AT = {"type": "long", "logicalType": "timestamp-millis"}
ORDER = record(
    "Order",
    "shop",
    seq="long",
    note=["null", "string"],
    state=STATE,
    amount={"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    at=AT,
    day={"type": "int", "logicalType": "date"},
    by=record("Who", id="string"),
    seen_by=["null", {"type": "array", "items": "Who"}],
    was=["null", "State"],
    more={"type": "map", "values": "int"},
)
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


def order(value: dict[str, Any]) -> bytes:
    return written(ORDER, value)


PLAIN, ORDERS = Written("avro", json.dumps(ORDER)), Payload("avro", FIELDS)


def test_values_are_decoded_into_fields_and_any_bytes_have_a_payload_or_a_reason(spark: SparkSession) -> None:
    empty, value = {**GIVEN, "note": None, "seen_by": None, "was": None, "more": {}}, order(GIVEN)
    framed = [
        prefixed(7, value),  # by Confluent's serializers
        b"\x03\0" + bytes(16) + value,  # by AWS Glue's
        b"\xc3\x01" + bytes(8) + value,  # single-object encoding
    ]

    found = payloads(spark, ORDERS, [value, order(empty), None, *framed, value + value, b"", *drawn_bytes(value)], PLAIN)

    known = {name: value for name, value in GIVEN.items() if name not in ("seq", "by")}
    whole = known | {"more": [("k", 1)], "seen_by": [{"id": "bob", "name": None}], "added": None}
    assert found[:3] == [whole, {**whole, "more": [], "was": None, "seen_by": None, "note": None}, None]
    assert found[3:8] == [WRONG] * 5
    assert all(each == WRONG or isinstance(each, dict) for each in found[8:])


def test_a_value_with_a_byte_more_or_less_is_fastavros_or_undecodable(spark: SparkSession) -> None:
    items: Any = {"type": "array", "items": record("In", s=["null", "string"])}
    schema = record("Out", n="long", s="string", b="bytes", d="double", items=items, m={"type": "map", "values": "long"})
    given = [
        {"n": n, "s": s, "b": s.encode(), "d": n / 7, "items": [{"s": None}, {"s": s}], "m": {s: n, "k": -n}}
        for n, s in ((0, ""), (-1, "a"), (2**40, "n\u00e4 \u20ac"), (7, "x" * 70))
    ]
    values = one_byte_more_or_less([written(schema, each) for each in given])
    ddl = "n BIGINT, s STRING, b BINARY, d DOUBLE, items ARRAY<STRUCT<s: STRING>>, m MAP<STRING, BIGINT>"

    found = payloads(spark, Payload("avro", ddl), values, Written("avro", json.dumps(schema)))

    decoded = {value: {**each, "m": dict(each["m"])} for value, each in zip(values, found, strict=True) if each != WRONG}
    assert decoded == {value: read(schema, value) for value in decoded}
    assert len(given) < len(decoded) < len(values) / 2


class _Registry:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def of_format(self, given: str, number: int, *, met_at: str) -> str:
        assert (given, met_at) == ("avro", f"topic t, partition 0, offset {number}")
        self.asked.append(number)
        return ""


def test_listed_ids_do_not_count_against_the_schemas_of_a_load(spark: SparkSession, new_run: Runs) -> None:
    records = frame(spark, [Record(number, value=prefixed(number, b"x")) for number in range(300)])
    registry = _Registry()
    run = replace(new_run(), registry=registry)

    def known(listed: int) -> tuple[tuple[int, str], ...]:
        how = Written("avro", has_prefix=True, undecodable_ids=tuple(range(listed)))
        rules = Rules(Source("offset"), payload=Payload("avro", "id STRING"), written=how)
        found = with_schemas(spark, run, records, rules).written
        return found.schemas if found else ()

    with pytest.raises(RegistryError, match=r"more than 256(.|\n)*next: (.|\n)*undecodable_ids"):
        known(listed=43)
    assert registry.asked == []
    assert known(listed=44) == tuple((number, "") for number in range(44, 300))
    assert registry.asked == [*range(44, 300)]


def test_each_value_is_decoded_by_the_schema_whose_id_it_begins_with(spark: SparkSession) -> None:
    old, new, other = record("A", n="int"), record("A", s="string", n="long"), record("A", n="string")
    schemas = ((1, json.dumps(old)), (2, json.dumps(new)), (3, json.dumps(other)), (4, ""), (2**32 - 1, json.dumps(old)))
    how = Written("avro", has_prefix=True, undecodable_ids=(99,), schemas=schemas)
    none = {"s": None, "n": None}
    given: dict[bytes | None, Any] = {
        prefixed(1, written(old, {"n": 1})): none | {"n": 1},
        prefixed(2, written(new, {"s": "x", "n": 2**40})): {"s": "x", "n": 2**40},
        prefixed(3, written(other, {"n": "3"})): WRONG,  # not a number
        prefixed(4, b"{}"): WRONG,  # a schema of another kind
        prefixed(99, b"any"): WRONG,
        prefixed(2**32 - 1, written(old, {"n": 5})): none | {"n": 5},
        b"\1" + prefixed(1, written(old, {"n": 1}))[1:]: WRONG,
        b"\0\0\0\0": WRONG,
        b"": WRONG,
        None: None,
        prefixed(1, b""): WRONG,
    }

    assert payloads(spark, Payload("avro", "s STRING, n BIGINT"), list(given), how) == list(given.values())
    with pytest.raises(PySparkException, match="No schema was asked for the id 5"):
        payloads(spark, Payload("avro", "n BIGINT"), [prefixed(5, b"x")], how)


def number(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


def test_hostile_bytes_are_undecodable_and_end_no_jvm(spark: SparkSession) -> None:
    schema = record("R", s="string", l={"type": "array", "items": "int"}, m={"type": "map", "values": "bytes"}, at=AT)
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
        written(schema, {"s": "a", "l": [1], "m": {}, "at": 0})[:-1],
        written(schema, {"s": "a" * 10_000, "l": [], "m": {}, "at": 0}),
    ]

    payload = Payload("avro", "s STRING, l ARRAY<INT>, m MAP<STRING, BINARY>, at TIMESTAMP", 9_999)

    assert payloads(spark, payload, values, how) == [*[WRONG] * 13, "value_too_long"]


def test_values_of_kafka_connect_are_decoded(spark: SparkSession) -> None:
    """Its decimals and times; a record within itself; two records at the top; names that Spark's Avro refuses."""
    number = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
    named = {
        "day": {"type": "int", "connect.name": "io.debezium.time.Date"},
        "at": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
        "zoned": {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
    }
    row = record("Value", "my-shop.b\u00fccher", **{"stra\u00dfe": "string", "price": ["null", number], **named})
    tree = record("Node", "my-shop", name="string", nodes={"type": "array", "items": "Node"}, next=["null", "Node"], n="int")
    schema = ["null", row, tree]
    # fastavro has only ASCII names of types; they are not in the bytes.
    plain = json.loads(json.dumps(schema, ensure_ascii=False).replace("my-shop.b\u00fccher", "shop").replace("my-shop", "shop"))
    whole = {
        "stra\u00dfe": "a",
        "price": Decimal("12.50"),
        "day": 20_778,
        "at": 1_795_251_600_000_001,
        "zoned": "2026-11-21T10:00:00+01:00",
    }

    def of_row(**changed: Any) -> bytes:
        return written(plain, ("shop.Value", whole | changed))

    def nested(depth: int) -> dict[str, Any]:
        return {"name": "x", "nodes": [nested(depth - 1)] if depth else [], "next": None, "n": depth}

    at, nothing = datetime(2026, 11, 21, 9, tzinfo=UTC), dict.fromkeys(("price", "day", "at", "zoned", "n", "nodes"))
    read = nothing | {
        "_record": "my-shop.b\u00fccher.Value",
        "stra\u00dfe": "a",
        "price": Decimal("12.50"),
        "day": date(2026, 11, 21),
    }
    read |= {"at": at.replace(microsecond=1), "zoned": at}
    of_tree = nothing | {"_record": "my-shop.Node", "stra\u00dfe": None}
    given = {
        of_row(): read,
        of_row(price=None): read | {"price": None},
        of_row(price=Decimal("-9999.99")): read | {"price": Decimal("-9999.99")},
        **{of_row(price=Decimal(text)): WRONG for text in ("10000.00", "184467440737095516.21", f"{10**40}.00")},
        **{of_row(zoned=text): WRONG for text in ("10:00:00Z", "", "now", "2026-11-31T10:00:00Z")},
        written(plain, ("shop.Node", nested(0))): of_tree | {"n": 0, "nodes": []},
        written(plain, ("shop.Node", nested(9))): of_tree | {"n": 9, "nodes": [{"name": "x"}]},
        **{written(plain, ("shop.Node", nested(depth))): WRONG for depth in (40, 400)},
        b"\x00": WRONG,
        b"\x06": WRONG,
    }
    ddl = "_record STRING, `stra\u00dfe` STRING, price DECIMAL(6,2), day DATE, at TIMESTAMP, zoned TIMESTAMP, n INT"

    found = payloads(
        spark, Payload("avro", f"{ddl}, nodes ARRAY<STRUCT<name: STRING>>"), list(given), Written("avro", json.dumps(schema))
    )

    assert found == list(given.values())
    keys = extracted(
        spark, Sources(Source("field", "n"), written=Written("avro", json.dumps(schema))), [of_row(), *list(given)[-6:-4]]
    )
    assert keys == [(None, None, None, "sequence_missing"), (None, 0, 0, None), (None, 0, 9, None)]


def test_a_required_field_that_is_null_makes_the_value_undecodable(spark: SparkSession) -> None:
    values = [order(GIVEN), order({**GIVEN, "note": None})]
    assert payloads(spark, Payload("avro", "note STRING NOT NULL"), values, PLAIN) == [{"note": "n\u00e4"}, WRONG]


def test_sequence_and_producer_are_read_from_fields(spark: SparkSession) -> None:
    sources = Sources(Source("field", "seq"), producer=Source("field", "by.id"), written=PLAIN)
    given: dict[bytes | None, Any] = {
        order(GIVEN): ("ann", 0, 7, None),
        order({**GIVEN, "seq": -1}): ("ann", None, None, "sequence_not_a_whole_number"),
        b"\xff": (None, None, None, "sequence_not_decoded"),
        None: (None, None, None, "sequence_null"),
        order({**GIVEN, "by": {"id": ""}}): (None, None, None, "producer_empty"),
    }

    assert extracted(spark, sources, list(given)) == list(given.values())
    absent = replace(sources, producer=Source("field", "by.name"))
    assert extracted(spark, absent, list(given)[:1])[0][3] == "producer_missing"
