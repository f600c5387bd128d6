"""Values written as Protobuf: what is decoded of them, and that no bytes end in anything but a payload or a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from lakehouse.contracts.bronze import BRONZE
from lakehouse.errors import ToolError
from lakehouse.extract.columns import extract
from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written, message_path
from lakehouse.settings import protobuf_schema
from lakehouse.settings.payload_schema import parse
from lakehouse.spark import frames, value_formats
from silver.extract.payload import decoded
from silver.rules import Payload, Rules
from tests.support.decodings import decoding
from tests.support.drawn_bytes import drawn_bytes
from tests.support.protobuf import described, field, varint, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/duration.proto";

enum State { UNKNOWN = 0; OPEN = 1; PAID = 2; }
message Who { string id = 1; Who boss = 2; message Badge { fixed32 number = 1; } Badge badge = 3; }
message Order {
  uint64 seq = 1;
  optional string note = 2;
  State state = 3;
  double amount = 4;
  google.protobuf.Timestamp at = 5;
  Who by = 6;
  repeated Who seen_by = 7;
  map<string, int64> more = 8;
  map<sint32, Who> by_number = 9;
  google.protobuf.StringValue nick = 10;
  oneof paid { string card = 11; int32 coins = 12; }
  repeated sint32 steps = 13;
  bytes raw = 14;
  google.protobuf.Duration took = 15;
  bool is_new = 16;
  repeated State states = 17;
  sfixed64 total = 18;
  float share = 19;
  uint32 small = 20;
}
"""
SCHEMA = described(ORDER)
PLAIN = Written("protobuf", protobuf_schema.read(SCHEMA).of("shop.Order").text, message="shop.Order")
FIELDS = (
    "seq DECIMAL(20,0), note STRING, state STRING, amount DOUBLE, at TIMESTAMP, "
    "by STRUCT<id: STRING, boss: STRUCT<id: STRING, boss: STRUCT<id: STRING>>, badge: STRUCT<number: BIGINT>>, "
    "seen_by ARRAY<STRUCT<id: STRING, name: STRING>>, more MAP<STRING, BIGINT>, by_number MAP<STRING, STRUCT<id: STRING>>, "
    "nick STRING, card STRING, coins INT, steps ARRAY<INT>, raw BINARY, took STRUCT<seconds: BIGINT, nanos: INT>, "
    "is_new BOOLEAN, states ARRAY<STRING>, total DECIMAL(22,2), share DOUBLE, small DOUBLE, added STRUCT<a: ARRAY<DATE>>"
)
GIVEN: dict[str, Any] = {
    "seq": 2**64 - 1,
    "note": "n\u00e4",
    "state": "PAID",
    "amount": 1.5,
    "at": "2026-11-21T09:00:00.123456789Z",
    "by": {"id": "ann", "boss": {"id": "bob", "boss": {"id": "eve", "boss": {"id": "zoe"}}}, "badge": {"number": 2**32 - 1}},
    "seenBy": [{"id": "bob"}, {}],
    "more": {"k": -1},
    "byNumber": {"-3": {"id": "x"}, "4": {}},
    "nick": "",
    "coins": 7,
    "steps": [1, -2, 3],
    "raw": "AP8=",
    "took": "1.5s",
    "isNew": True,
    "states": ["OPEN", "UNKNOWN"],
    "total": -(2**63),
    "share": 0.5,
    "small": 2**32 - 1,
}


def order(value: dict[str, Any]) -> bytes:
    return written(SCHEMA, "shop.Order", value)


def prefixed(number: int, value: bytes, indexes: bytes = b"\0") -> bytes:
    return b"\0" + number.to_bytes(4) + indexes + value


def records(spark: SparkSession, values: Sequence[bytes | None]) -> DataFrame:
    return frames.of_contract(spark, [{"offset": number, "value": value} for number, value in enumerate(values)], BRONZE)


def payloads(
    spark: SparkSession, schema: str, how: Written, values: Sequence[bytes | None], max_bytes: int = 9999
) -> list[Any]:
    """The payload of each value, as plain data; the reason where there is none."""
    value_formats.require(spark, ["protobuf"])
    rules = decoding(Payload("protobuf", schema, max_bytes), how)
    found = decoded(records(spark, values), rules).select("offset", "payload", "undecodable")
    rows = sorted(found.toArrow().to_pylist(), key=lambda row: row["offset"])
    return [row["undecodable"] or row["payload"] for row in rows]


@pytest.mark.spark
def test_a_value_is_decoded_into_the_fields_as_it_was_written(spark: SparkSession) -> None:
    found = payloads(spark, FIELDS, PLAIN, [order(GIVEN), b"", None])

    whole = {
        "seq": Decimal(2**64 - 1),
        "note": "n\u00e4",
        "state": "PAID",
        "amount": 1.5,
        "at": datetime(2026, 11, 21, 9, 0, 0, 123456, UTC),  # nanoseconds are cut off
        "by": {"id": "ann", "boss": {"id": "bob", "boss": {"id": "eve"}}, "badge": {"number": 2**32 - 1}},
        "seen_by": [{"id": "bob", "name": None}, {"id": "", "name": None}],
        "more": [("k", -1)],
        "by_number": [("4", {"id": ""}), ("-3", {"id": "x"})],
        "nick": "",
        "card": None,
        "coins": 7,
        "steps": [1, -2, 3],
        "raw": b"\0\xff",
        "took": {"seconds": 1, "nanos": 500_000_000},
        "is_new": True,
        "states": ["OPEN", "UNKNOWN"],
        "total": Decimal(-(2**63)).quantize(Decimal("0.00")),
        "share": 0.5,
        "small": float(2**32 - 1),
        "added": None,
    }
    unset = {
        "note",
        "at",
        "by",
        "nick",
        "card",
        "coins",
        "took",
        "added",
    }  # fields of which a message knows whether they are set
    defaults: dict[str, Any] = {"seq": Decimal(0), "state": "UNKNOWN", "amount": 0.0, "raw": b"", "is_new": False, "share": 0.0}
    defaults |= {
        "total": Decimal("0.00"),
        "small": 0.0,
        **{name: [] for name in ("seen_by", "more", "by_number", "steps", "states")},
    }
    assert found == [whole, defaults | dict.fromkeys(unset), None]


FILE = """
syntax = "proto3";
package shop;
message A { int64 n = 1; message In { int64 n = 1; string s = 2; } }
message B { string s = 1; bool n = 2; }
"""


@pytest.mark.spark
def test_each_value_is_decoded_by_the_schema_and_the_message_that_it_names(spark: SparkSession) -> None:
    old, new = described('syntax = "proto3"; message C { int32 n = 1; }'), described(FILE)
    schemas = ((1, old), (2, new), (3, "!protoc refuses it"), (4, ""), (2**32 - 1, old))
    how = Written("protobuf", has_prefix=True, undecodable_ids=(99,), schemas=schemas)
    n = written(old, "C", {"n": 5})
    inner = written(new, "shop.A.In", {"n": 6, "s": "x"})
    values = [
        prefixed(1, n),
        prefixed(1, n, b"\2\0"),  # the same message, named in full
        prefixed(2, n),
        prefixed(2, inner, b"\4\0\0"),
        prefixed(1, b""),
        prefixed(2**32 - 1, n),
        None,
        prefixed(2, b"", b"\2\2"),  # its n is no number
        prefixed(2, n, b"\2\4"),
        prefixed(2, n, b"\4\0\2"),
        prefixed(2, n, b"\2\1"),
        prefixed(2, n, b"\1"),
        prefixed(2, n, b"\xff\xff\xff\xff\x0f"),
        prefixed(2, b"", b""),
        prefixed(3, n),
        prefixed(4, n),
        prefixed(99, n),
        b"\1" + prefixed(1, n)[1:],
        b"\0\0\0\0",
        b"",
    ]

    decoded_ones = [(None, 5), (None, 5), (None, 5), ("x", 6), (None, 0), (None, 5)]
    found = payloads(spark, "s STRING, n BIGINT", how, values)
    assert found == [*({"s": s, "n": n} for s, n in decoded_ones), None, *["value_not_of_schema"] * 13]
    paths = frames.of_tuples(spark, [(value,) for value in values], "value binary").selectExpr(
        "tidemark_protobuf_message_path(value)"
    )
    assert [row[0] for row in paths.collect()] == [message_path(value or b"") for value in values]


@pytest.mark.spark
def test_an_id_that_nobody_asked_for_stops_the_query(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="No schema was asked for the id 5"):
        payloads(spark, "n BIGINT", Written("protobuf", has_prefix=True), [prefixed(5, b"x")])


OLD = """
syntax = "proto2";
enum Size { S = 1; L = 2; }
message Old {
  required int32 n = 1;
  optional Size size = 2 [default = L];
  optional string s = 3 [default = "d"];
  optional group More = 4 { optional string t = 5; }
  repeated int32 unpacked = 6;
  repeated int32 packed = 7 [packed = true];
  map<string, string> m = 8;
  extensions 100 to 200;
}
extend Old { optional string more_of_it = 100; }
"""


@pytest.mark.spark
def test_the_older_syntax_is_read_as_it_says(spark: SparkSession) -> None:
    how = Written("protobuf", described(OLD), message="Old")
    ddl = "n INT, size STRING, s STRING, more STRUCT<t: STRING>, unpacked ARRAY<INT>, packed ARRAY<INT>, m MAP<STRING, STRING>"
    n = b"\x08\1"
    entry = field(1, b"k") + field(2, b"1")
    values = [
        n,
        n
        + field(3, b"x")
        + b"\x10\1"
        + b"\x23"
        + field(5, b"t")
        + b"\x24"
        + b"\x30\5"
        + field(6, b"\6")
        + field(7, b"\7")
        + b"\x38\x08",
        n + b"\x10\x09",  # a size that the enum does not have
        n + field(100, b"extended") + field(999, b"unknown") + b"\x08\2",
        n + field(8, entry) + field(8, field(1, b"k")) + field(8, b""),
        b"",  # n is required
        n + field(3, b"\xff\xfe"),
        n + b"\x23" + field(5, b"t"),  # a group without its end
        n + b"\x24",
        n + field(1, b"\1"),
    ]

    empty: dict[str, Any] = {"n": 1, "size": None, "s": None, "more": None, "unpacked": [], "packed": [], "m": []}
    assert payloads(spark, ddl, how, values) == [
        empty,
        {**empty, "size": "S", "s": "x", "more": {"t": "t"}, "unpacked": [5, 6], "packed": [7, 8]},
        empty,
        {**empty, "n": 2},
        {**empty, "m": [("", ""), ("k", "")]},
        *["value_not_of_schema"] * 4,
        {**empty, "n": 1},
    ]


@pytest.mark.spark
def test_hostile_bytes_are_undecodable_and_end_no_jvm(spark: SparkSession) -> None:
    most, deep = 1_000_000, [b""]
    for _ in range(100):
        deep.append(field(2, deep[-1]))
    values = [
        b"\x0a" + varint(2**31 - 1) + b"a",
        b"\x0a" + varint(2**63) + b"a",
        b"\x0a" + b"\xff" * 9 + b"\1",
        b"\xff" * 40,
        field(6, deep[100]),
        order(GIVEN)[:-1],
        field(2, b"\xff\xfe"),
        field(8, field(1, b"\xff") + b"\x10\1"),
        field(5, b"\x08" + varint(2**63 - 1)),  # beyond every calendar
        field(5, b"\x08" + varint(253_402_300_800)),
        field(5, b"\x10" + varint(1_000_000_000)),  # a second of nanoseconds
        field(5, b"\x10" + varint(2**64 - 1)),
        b"\x07",
        b"\0\0",
        field(7, b"") * (most // 4 + 1),
        field(17, b"\x7f" * (most // 4 + 1)),
        field(1000, b"") * (most // 4 + 1),
        field(13, b"\2" * (most + 1)),
        field(6, field(2, b"") * (most + 1)),
        field(2, b"a") * (most + 1),
        field(6, b"\x13" * 2_000_000),
        b"\x33" * 2_000_000,
    ]

    fine = [
        b"\x0b\x0c" + b"\x15\0\0\0\0",  # groups and numbers where others should be: fields that are not known
        b"\x08\1" * 10 + field(6, field(1, b"a")) + field(6, b"") * 100_000,  # one message in a hundred thousand parts
        field(7, b"") * (most // 4),
        field(13, b"\2" * (most - 1)),
        field(6, deep[99]),
    ]
    ddl = "seq BIGINT, note STRING, at TIMESTAMP, by STRUCT<id: STRING>, more MAP<STRING, BIGINT>, steps ARRAY<INT>"
    found = payloads(spark, ddl, PLAIN, [*values, *fine], max_bytes=16_777_216)

    assert found[: len(values)] == ["value_not_of_schema"] * len(values)
    assert all(isinstance(each, dict) for each in found[len(values) :])
    assert (found[-4]["seq"], found[-4]["by"], len(found[-2]["steps"])) == (1, {"id": "a"}, most - 1)
    assert payloads(spark, "note STRING", PLAIN, [field(2, b"a" * 10_000)]) == ["value_too_long"]


@pytest.mark.spark
def test_a_number_above_that_of_bigint_is_undecodable_there(spark: SparkSession) -> None:
    values = [order({"seq": 2**63 - 1}), order({"seq": 2**63})]
    assert payloads(spark, "seq BIGINT", PLAIN, values) == [{"seq": 2**63 - 1}, "value_not_of_schema"]


@pytest.mark.spark
def test_a_value_that_the_enum_does_not_name_is_its_number(spark: SparkSession) -> None:
    assert payloads(spark, "state STRING", PLAIN, [b"\x18\x09", b"\x18" + varint(2**64 - 1)]) == [
        {"state": "9"},
        {"state": "-1"},
    ]


@pytest.mark.spark
def test_any_bytes_have_a_payload_or_a_reason(spark: SparkSession) -> None:
    found = payloads(spark, FIELDS, PLAIN, drawn_bytes(order(GIVEN)))
    assert all(each == "value_not_of_schema" or isinstance(each, dict) for each in found)
    assert 20 < sum(isinstance(each, dict) for each in found) < 580


@pytest.mark.spark
def test_a_required_field_that_is_null_makes_the_value_undecodable(spark: SparkSession) -> None:
    assert payloads(spark, "note STRING NOT NULL", PLAIN, [order(GIVEN), b""]) == [{"note": "n\u00e4"}, "value_not_of_schema"]


@pytest.mark.spark
def test_sequence_and_producer_are_read_from_fields(spark: SparkSession) -> None:
    value_formats.require(spark, ["protobuf"])
    sources = Sources(Source("field", "seq"), producer=Source("field", "by.id"), written=PLAIN)
    values = [
        order({**GIVEN, "seq": 7}),
        order(GIVEN),
        b"\xff",
        None,
        order({"seq": 1, "by": {}}),
        order({"seq": 1}),
        order({"by": {"id": "a"}}),
    ]

    rows = extract(records(spark, values), sources).orderBy("offset").select("producer", "sequence", "problem").collect()

    assert [tuple(row) for row in rows] == [
        ("ann", 7, None),
        ("ann", None, "sequence_out_of_range"),
        (None, None, "sequence_not_decoded"),
        (None, None, "sequence_null"),
        (None, None, "producer_empty"),
        (None, None, "producer_missing"),
        ("a", 0, None),  # a number that is not set is zero
    ]
    absent = replace(sources, producer=Source("field", "amount"))
    assert extract(records(spark, values[:1]), absent).first()["problem"] == "producer_not_decoded"  # type: ignore[index] # there is a row


SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
    "State",
    "Who",
)
OF_GOOGLE = (
    "Timestamp",
    "Duration",
    "Any",
    "Struct",
    "StringValue",
    "BytesValue",
    "BoolValue",
    "Int32Value",
    "UInt64Value",
    "DoubleValue",
)
WANTED = (
    "STRING",
    "BINARY",
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(38,0)",
    "DECIMAL(10,0)",
    "DECIMAL(19,1)",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "STRUCT<id:STRING,seconds:BIGINT,value:STRING>",
)
KINDS = (*SCALARS, *(f"google.protobuf.{name}" for name in OF_GOOGLE))
EVERYTHING = (
    'syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import '
    '"google/protobuf/any.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/wrappers.proto"; '
    "enum State { A = 0; } message Who { string id = 1; } message All {"
    + "".join(
        f"{kind} one_{nth} = {3 * nth + 1}; repeated {kind} many_{nth} = {3 * nth + 2};" for nth, kind in enumerate(KINDS)
    )
    + "".join(f"map<bool, {kind}> by_{nth} = {3 * nth + 3};" for nth, kind in enumerate(KINDS))
    + "}"
)


@pytest.mark.spark
@pytest.mark.parametrize("wanted", WANTED)
def test_what_fits_is_decoded_whatever_is_in_it(spark: SparkSession, wanted: str) -> None:
    """Which field fits is decided in Python, and written in Java: no pair may be left out there."""
    schema = described(EVERYTHING)
    how = Written("protobuf", schema, message="All")
    fields = []
    for nth in range(len(KINDS)):
        for name, kind in ((f"one_{nth}", wanted), (f"many_{nth}", f"ARRAY<{wanted}>"), (f"by_{nth}", f"MAP<STRING,{wanted}>")):
            if protobuf_schema.misfit(schema, "All", parse(f"{name} {kind}")) is None:
                fields.append(f"{name} {kind}")
    value = b"".join(field(3 * nth + 3, b"\x08\1") for nth in range(len(KINDS)))
    for nth, kind in enumerate(KINDS):
        wire = {"double": b"\1\0\0\0\0\0\0\0", "float": b"\1\0\0\0"}.get(kind, b"\1")
        wire = {"fixed32": b"\1\0\0\0", "fixed64": b"\1\0\0\0\0\0\0\0"}.get(kind.removeprefix("s"), wire)
        value += field(3 * nth + 2, b"" if kind[0] in "Wg" or kind in ("string", "bytes") else wire)

    [found] = payloads(spark, ", ".join(fields) or "other INT", how, [value])

    assert isinstance(found, dict)
    assert all(len(each) == 1 for name, each in found.items() if name.startswith(("many", "by")))


@pytest.mark.spark
def test_a_session_without_the_function_is_refused_with_what_to_add(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_formats, "PROTOBUF_TO_AVRO", "tidemark.formats.NotThere")
    value_formats._require_protobuf.cache_clear()  # it asks each session once
    with pytest.raises(ToolError, match="lacks our own jar"):
        value_formats.require(spark, ["protobuf"])


def test_a_claim_keeps_how_values_are_written_and_not_the_schemas() -> None:
    how = Written("protobuf", has_prefix=True, undecodable_ids=(4, 5), schemas=((1, "x"),))
    for each in (how, PLAIN):
        rules = Rules(Source("field", "seq"), payload=Payload("protobuf", "a INT"), written=each)
        assert Rules.from_json(rules.to_json()) == replace(rules, written=replace(each, schemas=()))
    assert "message" not in json.loads(Rules(Source("header", "seq"), written=Written("avro", "{}")).to_json())["written"]
