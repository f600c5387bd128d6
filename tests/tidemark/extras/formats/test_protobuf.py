"""Values written as Protobuf: what is decoded of them, and that no bytes end in anything but a payload or a reason."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.errors import ToolError
from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written
from lakehouse.settings.payload_schema import parse
from lakehouse.spark import frames
from silver.rules import Payload
from tests.support.decodings import WRONG, drawn_bytes, extracted, one_byte_more_or_less, payloads
from tests.support.protobuf import described, field, message_of, varint, written
from tidemark.extras.formats import protobuf, protobuf_schema
from tidemark.extras.formats.prefixes import message_path

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
GIVEN: dict[str, Any] = json.loads(
    """
    {
      "seq": 18446744073709551615, "note": "n\u00e4", "state": "PAID", "amount": 1.5, "at": "2026-11-21T09:00:00.123456789Z",
      "by": {"id": "ann", "boss": {"id": "bob", "boss": {"id": "eve", "boss": {"id": "zoe"}}}, "badge": {"number": 4294967295}},
      "seen_by": [{"id": "bob"}, {}], "more": {"k": -1}, "by_number": {"-3": {"id": "x"}, "4": {}}, "nick": "", "coins": 7,
      "steps": [1, -2, 3], "raw": "AP8=", "took": "1.5s", "is_new": true, "states": ["OPEN", "UNKNOWN"],
      "total": -9223372036854775808, "share": 0.5, "small": 4294967295
    }
    """
)


def order(value: dict[str, Any]) -> bytes:
    return written(SCHEMA, "shop.Order", value)


def prefixed(number: int, value: bytes, indexes: bytes = b"\0") -> bytes:
    return b"\0" + number.to_bytes(4) + indexes + value


def orders(spark: SparkSession, schema: str, values: list[bytes | None], max_bytes: int | None = None) -> list[Any]:
    return payloads(spark, Payload("protobuf", schema, max_bytes), values, PLAIN)


def test_values_are_decoded_into_fields_and_any_bytes_have_a_payload_or_a_reason(spark: SparkSession) -> None:
    found = orders(spark, FIELDS, [order(GIVEN), b"", None, *drawn_bytes(order(GIVEN))])

    whole = GIVEN | {
        "seq": Decimal(2**64 - 1),
        "at": datetime(2026, 11, 21, 9, 0, 0, 123456, UTC),  # nanoseconds are cut off
        "by": {"id": "ann", "boss": {"id": "bob", "boss": {"id": "eve"}}, "badge": {"number": 2**32 - 1}},
        "seen_by": [{"id": "bob", "name": None}, {"id": "", "name": None}],
        "more": [("k", -1)],
        "by_number": [("4", {"id": ""}), ("-3", {"id": "x"})],
        "card": None,
        "raw": b"\0\xff",
        "took": {"seconds": 1, "nanos": 500_000_000},
        "added": None,
    }
    # Of these a message knows whether they are set.
    unset = dict.fromkeys(("note", "at", "by", "nick", "card", "coins", "took", "added"))
    lists: dict[str, Any] = {name: [] for name in ("seen_by", "more", "by_number", "steps", "states")}
    zeros = {"seq": 0, "state": "UNKNOWN", "amount": 0.0, "raw": b"", "is_new": False, "share": 0.0, "total": 0, "small": 0.0}
    assert found[:3] == [whole, unset | lists | zeros, None]
    assert all(each == WRONG or isinstance(each, dict) for each in found[3:])
    assert 20 < sum(isinstance(each, dict) for each in found[3:]) < 580


NODE = 'syntax = "proto3"; message Node { int64 n = 1; string s = 2; repeated sint64 r = 3; Node in = 4; double d = 5; }'


def test_a_value_with_a_byte_more_or_less_is_googles_or_undecodable(spark: SparkSession) -> None:
    schema = described(NODE)
    given = [
        {"n": n, "s": s, "r": [n, -1], "in": {"n": 1, "s": s}, "d": n / 7}
        for n, s in ((0, ""), (-1, "a"), (2**40, "n\u00e4 \u20ac"), (7, "x" * 70))
    ]
    values = one_byte_more_or_less([written(schema, "Node", each) for each in given])
    ddl = "n BIGINT, s STRING, r ARRAY<BIGINT>, d DOUBLE, in STRUCT<n: BIGINT, s: STRING>"

    found = payloads(spark, Payload("protobuf", ddl), values, Written("protobuf", schema, message="Node"))

    decoded, node = (
        {value: each for value, each in zip(values, found, strict=True) if each != WRONG},
        message_of(schema, "Node"),
    )
    assert decoded == {value: as_read(node.FromString(value)) for value in decoded}
    assert len(given) < len(decoded) < len(values)


def as_read(node: Any) -> dict[str, Any]:
    inner = getattr(node, "in")
    of_inner = {"n": inner.n, "s": inner.s} if node.HasField("in") else None
    return {"n": node.n, "s": node.s, "r": list(node.r), "d": node.d, "in": of_inner}


FILE = """
syntax = "proto3";
package shop;
message A { int64 n = 1; message In { int64 n = 1; string s = 2; } }
message B { string s = 1; bool n = 2; }
"""


def test_each_value_is_decoded_by_the_schema_and_the_message_that_it_names(spark: SparkSession) -> None:
    old, new = described('syntax = "proto3"; message C { int32 n = 1; }'), described(FILE)
    schemas = ((1, old), (2, new), (3, "!protoc refuses it"), (4, ""), (2**32 - 1, old))
    how = Written("protobuf", has_prefix=True, undecodable_ids=(99,), schemas=schemas)
    n = written(old, "C", {"n": 5})
    inner = written(new, "shop.A.In", {"n": 6, "s": "x"})
    of_c = {"s": None, "n": 5}
    given: dict[bytes | None, Any] = {
        prefixed(1, n): of_c,
        prefixed(1, n, b"\2\0"): of_c,  # the same message, named in full
        prefixed(2, n): of_c,
        prefixed(2, inner, b"\4\0\0"): {"s": "x", "n": 6},
        prefixed(1, b""): {"s": None, "n": 0},
        prefixed(2**32 - 1, n): of_c,
        None: None,
        prefixed(2, b"", b"\2\2"): WRONG,  # its n is no number
        **dict.fromkeys(
            (prefixed(2, n, path) for path in (b"\2\4", b"\4\0\2", b"\2\1", b"\1", b"\xff\xff\xff\xff\x0f")), WRONG
        ),
        **dict.fromkeys((prefixed(2, b"", b""), *(prefixed(number, n) for number in (3, 4, 99))), WRONG),
        **dict.fromkeys((b"\1" + prefixed(1, n)[1:], b"\0\0\0\0", b""), WRONG),
    }

    assert payloads(spark, Payload("protobuf", "s STRING, n BIGINT"), list(given), how) == list(given.values())
    values = frames.of_tuples(spark, [(value,) for value in given], "value binary")
    paths = values.selectExpr("tidemark_protobuf_message_path(value)").collect()
    assert [row[0] for row in paths] == [message_path(value or b"") for value in given]
    with pytest.raises(PySparkException, match="No schema was asked for the id 5"):
        payloads(spark, Payload("protobuf", "n BIGINT"), [prefixed(5, b"x")], how)


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


def test_the_older_syntax_is_read_as_it_says(spark: SparkSession) -> None:
    how = Written("protobuf", described(OLD), message="Old")
    ddl = "n INT, size STRING, s STRING, more STRUCT<t: STRING>, unpacked ARRAY<INT>, packed ARRAY<INT>, m MAP<STRING, STRING>"
    n = b"\x08\1"
    entry = field(1, b"k") + field(2, b"1")
    empty: dict[str, Any] = {"n": 1, "size": None, "s": None, "more": None, "unpacked": [], "packed": [], "m": []}
    group, lists = b"\x23" + field(5, b"t"), b"\x30\5" + field(6, b"\6") + field(7, b"\7") + b"\x38\x08"
    given: dict[bytes | None, Any] = {
        n: empty,
        n + field(3, b"x") + b"\x10\1" + group + b"\x24" + lists: empty
        | {"size": "S", "s": "x", "more": {"t": "t"}, "unpacked": [5, 6], "packed": [7, 8]},
        n + b"\x10\x09": empty,  # a size that the enum does not have
        n + field(100, b"extended") + field(999, b"unknown") + b"\x08\2": {**empty, "n": 2},
        n + field(8, entry) + field(8, field(1, b"k")) + field(8, b""): {**empty, "m": [("", ""), ("k", "")]},
        b"": WRONG,  # n is required
        n + field(3, b"\xff\xfe"): WRONG,
        n + group: WRONG,  # a group without its end
        n + b"\x24": WRONG,
        n + field(1, b"\1"): empty,
    }

    assert payloads(spark, Payload("protobuf", ddl), list(given), how) == list(given.values())


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
    found = orders(spark, ddl, [*values, *fine], 16_777_216)

    assert found[: len(values)] == [WRONG] * len(values)
    assert all(isinstance(each, dict) for each in found[len(values) :])
    assert (found[-4]["seq"], found[-4]["by"], len(found[-2]["steps"])) == (1, {"id": "a"}, most - 1)
    assert orders(spark, "note STRING", [field(2, b"a" * 10_000)], 9_999) == ["value_too_long"]


def test_numbers_enums_and_required_fields_are_those_of_the_payload(spark: SparkSession) -> None:
    most = {"seq": 2**63 - 1, "state": "9", "note": "n\u00e4"}
    given: dict[bytes | None, Any] = {
        order({"seq": 2**63 - 1, "note": "n\u00e4"}) + b"\x18\x09": most,  # a value that the enum does not name
        order({"seq": 2**63 - 1, "note": "n\u00e4"}) + b"\x18" + varint(2**64 - 1): most | {"state": "-1"},
        order({"seq": 2**63, "note": "n\u00e4"}): WRONG,  # beyond BIGINT
        order({"seq": 1}): WRONG,  # without what is NOT NULL
    }
    assert orders(spark, "seq BIGINT, state STRING, note STRING NOT NULL", list(given)) == list(given.values())


def test_sequence_and_producer_are_read_from_fields(spark: SparkSession) -> None:
    sources = Sources(Source("field", "seq"), producer=Source("field", "by.id"), written=PLAIN)
    given: dict[bytes | None, Any] = {
        order({**GIVEN, "seq": 7}): ("ann", 0, 7, None),
        order(GIVEN): ("ann", None, None, "sequence_out_of_range"),
        b"\xff": (None, None, None, "sequence_not_decoded"),
        None: (None, None, None, "sequence_null"),
        order({"seq": 1, "by": {}}): (None, None, None, "producer_empty"),
        order({"seq": 1}): (None, None, None, "producer_missing"),
        order({"by": {"id": "a"}}): ("a", 0, 0, None),  # a number that is not set is zero
    }

    assert extracted(spark, sources, list(given)) == list(given.values())
    of_double = Sources(Source("field", "seq"), producer=Source("field", "amount"), written=PLAIN)
    assert extracted(spark, of_double, list(given)[:1])[0][3] == "producer_not_decoded"


KINDS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64"),
    *("sfixed32", "sfixed64"),
    *("bool", "string", "bytes", "State", "Who"),
    *(f"google.protobuf.{name}" for name in ("Timestamp", "Duration", "Any", "Struct", "StringValue", "BytesValue")),
    *(f"google.protobuf.{name}" for name in ("BoolValue", "Int32Value", "UInt64Value", "DoubleValue")),
)
WANTED = (
    *("STRING", "BINARY", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38,0)"),
    *("DECIMAL(10,0)", "DECIMAL(19,1)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
    "STRUCT<id:STRING,seconds:BIGINT,value:STRING>",
)
SHAPES = {"one": ("%s", "%s"), "many": ("repeated %s", "ARRAY<%s>"), "by": ("map<bool, %s>", "MAP<STRING,%s>")}
WIRE = {"double": b"\1" + bytes(7), "float": b"\1\0\0\0", "fixed32": b"\1\0\0\0", "fixed64": b"\1" + bytes(7)}
IMPORTS = "".join(f'import "google/protobuf/{name}.proto"; ' for name in ("timestamp", "duration", "any", "struct", "wrappers"))


def message_of_fields(fields: dict[str, str]) -> str:
    """A descriptor set whose message All has these fields, which are numbered from 1 on."""
    text = " ".join(f"{kind} {name} = {number};" for number, (name, kind) in enumerate(fields.items(), start=1))
    others = "enum State { A = 0; } message Who { string id = 1; }"
    return described(f'syntax = "proto3"; {IMPORTS} {others} message All {{ {text} }}')


def test_what_fits_is_decoded_whatever_is_in_it(spark: SparkSession) -> None:
    """Which field fits is decided in Python, and written in Java: no pair may be left out there."""
    names = {(shape, kind): f"{shape}_{nth}" for nth, kind in enumerate(KINDS) for shape in SHAPES}
    schema = message_of_fields({name: SHAPES[shape][0] % kind for (shape, kind), name in names.items()})
    fits = [
        (shape, kind, SHAPES[shape][1] % wanted)
        for (shape, kind), name in names.items()
        for wanted in WANTED
        if protobuf_schema.misfit(schema, "All", parse(f"{name} {SHAPES[shape][1] % wanted}")) is None
    ]
    assert len(fits) > 180
    whole = message_of_fields({f"{shape}_{n}": SHAPES[shape][0] % kind for n, (shape, kind, _) in enumerate(fits)})
    value = b""
    for number, (shape, kind, _) in enumerate(fits, start=1):
        wire = b"" if kind[0] in "Wg" or kind in ("string", "bytes") else WIRE.get(kind.removeprefix("s"), b"\1")
        value += {"one": b"", "many": field(number, wire), "by": field(number, b"\x08\1")}[shape]

    payload = Payload("protobuf", ", ".join(f"{shape}_{n} {wanted}" for n, (shape, _, wanted) in enumerate(fits)))
    [found] = payloads(spark, payload, [value], Written("protobuf", whole, message="All"))

    assert isinstance(found, dict)
    assert all(len(each) == 1 for name, each in found.items() if name.startswith(("many", "by")))


def test_a_session_without_the_function_says_what_to_add(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "PROTOBUF_TO_AVRO", "tidemark.formats.NotThere")
    protobuf.require_decoder.cache_clear()  # it asks each session once
    with pytest.raises(ToolError, match="lacks our own jar"):
        protobuf.require_decoder(spark)
