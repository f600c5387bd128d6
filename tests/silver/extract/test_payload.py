"""Values decoded: what a payload is, and why there is none; soon, whatever the value."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written
from silver.extract.payload import decoded
from silver.rules import Payload, Reading, Rules
from tests.support.bronze import Record, frame
from tests.support.decodings import WRONG, extracted, payloads, prefixed


def of_schema(spark: SparkSession, schema: str, given: dict[bytes | None, Any]) -> None:
    """Each JSON value has the fields that are given, in their order, or the reason."""
    found = payloads(spark, Payload("json", schema), list(given))
    assert [tuple(each.values()) if isinstance(each, dict) else each for each in found] == list(given.values())


def test_text_is_utf8_and_no_longer_than_it_may_be(spark: SparkSession) -> None:
    given = {
        b"abcd": "abcd",
        b"abcde": "value_too_long",
        b"\xff": "value_not_utf8",
        b"": "",
        None: None,
        "\u00e9\u00e9".encode(): "\u00e9\u00e9",
        "\u00e9\u00e9\u00e9".encode(): "value_too_long",
    }
    assert payloads(spark, Payload("text", max_bytes=4), list(given)) == list(given.values())
    of_json = payloads(spark, Payload("json", "a INT", max_bytes=8), [b'{"a": 1}', b'{"a": 12}'])
    assert of_json == [{"a": 1}, "value_too_long"]


def test_a_field_that_is_not_null_and_lacking_makes_the_value_undecodable(spark: SparkSession) -> None:
    given: dict[bytes | None, Any] = {
        b'{"id": "a"}': ("a", None),
        b'{"id": null}': WRONG,
        b"{}": WRONG,
        b'{"id": "a", "of": {}}': WRONG,
        b'{"id": "a", "of": {"n": 1}}': ("a", {"n": 1}),
        None: None,
    }
    of_schema(spark, "id STRING NOT NULL, of STRUCT<n: INT NOT NULL>", given)
    within: dict[bytes | None, Any] = {
        b'{"of": [{"n": 1}, {"n": null}]}': WRONG,
        b'{"of": [{"n": 1}, null]}': ([{"n": 1}, None], None),
        b'{"by": {"k": {}}}': WRONG,
        b'{"by": {"k": {"n": 1}}}': (None, [("k", {"n": 1})]),
        b'{"by": {"k": {"n": 1}, "k": {"n": 2}}}': WRONG,
    }
    of_schema(spark, "of ARRAY<STRUCT<n: INT NOT NULL>>, by MAP<STRING, STRUCT<n INT NOT NULL>>", within)


BOMBS = [
    *(b'{"d": 1e320000000}', b'{"d": 1E+320000000}', b'{"d": 1e-320000000}', b'{"d": "1e320000000"}', b'{"d": "1e3,20000000"}'),
    *(b'{"d": "1e,+320000000"}', b'{"d": "1e,,-32000000"}', b'{"d": "1,e+320000000"}', b'{"d": ",1,e,+,3,2,0,0,0,0,0,0"}'),
    b'{"d": "\\u0031\\u0065\\u003320000000"}',
    '{"d": "1e\u0663\u0662\u0660\u0660\u0660\u0660\u0660\u0660\u0660"}'.encode(),
    *(b'{"d": "1e320000000", x', b"{'d': '1e320000000'}"),
    *(b"{'x\"': 1, 'd': 1e320000000, 'y\"': 1}", b'{"in": [{"d": 1e320000000}]}'),
    *(b'{"d": "' + b"9" * 1_000_000 + b'"}', b'{"d": ' + b"9" * 1_000_000 + b"}"),
]


@pytest.mark.timeout(120)  # a cast takes more than a minute for a tenth of the exponent
def test_a_number_past_its_length_is_undecodable_before_it_is_cast_and_no_other(spark: SparkSession) -> None:
    given: dict[bytes | None, Any] = {
        **dict.fromkeys(BOMBS, WRONG),
        b'{"s": "12E4567", "d": 1.25}': ("12E4567", Decimal("1.25"), None),
        b'{"s": "say \\"1e99999\\"", "d": "1000.5"}': ('say "1e99999"', Decimal("1000.50"), None),
        b'{"s": "\\u0031e99999", "d": 1e2}': ("1e99999", Decimal("100.00"), None),
        b'{"d": "1e320000000", "d": "1"}': (None, Decimal("1.00"), None),  # the last one counts, as in Python
        b'{"s": "' + b"9" * 60 + b'", "d": null}': ("9" * 60, None, None),
        b'{"d": 0.33' + b"0" * 20 + b"}": (None, Decimal("0.33"), None),
        b'{"d": 0.' + b"3" * 60 + b"}": WRONG,
        b'{"s": 1e99999}': WRONG,
    }
    of_schema(spark, "s STRING, d DECIMAL(10,2), in ARRAY<STRUCT<d: DECIMAL(38,10)>>", given)


# By type: what it holds without loss, and what it does not.
HELD: dict[str, dict[str, Any]] = {
    "DECIMAL(10,2)": {
        '"12.50"': Decimal("12.50"),
        "12.5": Decimal("12.50"),
        "1e2": Decimal("100.00"),
        "15e-1": Decimal("1.50"),
        '"-0.01"': Decimal("-0.01"),
        "99999999.99": Decimal("99999999.99"),
        "10.000": Decimal("10.00"),
        **dict.fromkeys(['"12,50"', '"1.234,56"', '"0,99"', '",,1"', '"1,"', r'"\u0031,5"', '"\u0663"', '"1\u0663"'], WRONG),
        **dict.fromkeys(
            ["10.005", "0.004", "1e-3", "99999999.999", "1e-31", "1" * 9, '"10.005"', '"NaN"', '""', "0.1e-30"], WRONG
        ),
        **dict.fromkeys(["1.00000000000000000000000000000000000001", '"1.00000000000000000000000000000000001"'], WRONG),
    },
    "DECIMAL(38,18)": {
        "1e-18": Decimal("1e-18"),
        "1.000000000000000001": Decimal("1.000000000000000001"),
        '"2e-18"': Decimal("2e-18"),
        **dict.fromkeys(["1e-19", "1.0000000000000000001", "15e-19", '"1e-19"'], WRONG),
    },
    "DECIMAL(38,0)": {
        "9" * 38: Decimal("9" * 38),
        "5.0": Decimal(5),
        '"7"': Decimal(7),
        **dict.fromkeys(["9" * 39, "1.5", '"1.5"'], WRONG),
    },
    "STRING": {
        '"10.50"': "10.50",
        '"Infinity"': "Infinity",
        '"[1.5]"': "[1.5]",
        '"0"': "0",
        "7": "7",
        "true": "true",
        "12345678901234567890123": "12345678901234567890123",
        '{"x":1}': '{"x":1}',
        '{"x":"1.5"}': '{"x":"1.5"}',
        **dict.fromkeys(["12345678901234567890123.45", "10.50", "1e400", "1e2", '{"x":1.10}', "[[1e400]]", "-0", "NaN"], WRONG),
        r'"\ud83d\ude00"': "\U0001f600",
        r'"\\ud800"': r"\ud800",
        **dict.fromkeys([r'"\ud800"', r'"\ude00\ud83d"', r'{"\ud800":1}'], WRONG),
    },
    "DATE": {
        '"2026-03-01"': date(2026, 3, 1),
        **dict.fromkeys(['"00000000"', '"0"', '"123"', '"-1"', '"2026-03-01 garbage"', '"2026-3-1"', '"2026-02-30"'], WRONG),
        **dict.fromkeys(
            ["20260301", "5", '"2026-03-01T10:00:00Z"', '"0000-01-01"', '"2026-03"', r'"2026-03-01\n"', '""'], WRONG
        ),
    },
    "DOUBLE": {
        "1.5": 1.5,
        "-0.0": 0.0,
        "7": 7.0,
        **dict.fromkeys(["NaN", "1e400", "-1e400", '"NaN"', '"Infinity"', '"1.5"'], WRONG),
    },
    "FLOAT": {"1.5": 1.5, **dict.fromkeys(["1e39", "-1e39", "NaN"], WRONG)},
    "TINYINT": {"127": 127, "-128": -128, **dict.fromkeys(["128", "200", "255", "256", "-129", "1.0", '"1"'], WRONG)},
    "SMALLINT": {"32767": 32767, **dict.fromkeys(["32768", "65535"], WRONG)},
    "BIGINT": {"9223372036854775807": 2**63 - 1, **dict.fromkeys(["9223372036854775808", '"7"', "1e3", "7.0"], WRONG)},
}


@pytest.mark.parametrize("kind", HELD)
def test_a_type_has_only_what_it_holds_without_loss(spark: SparkSession, kind: str) -> None:
    """As a field, an element, a value of a map and within a struct."""
    schema = f"v {kind}, a ARRAY<{kind}>, m MAP<STRING, {kind}>, s STRUCT<x: {kind}>"
    texts = [
        text
        for each in HELD[kind]
        for text in (f'"v": {each}', f'"a": [{each}]', f'"m": {{"k": {each}}}', f'"s": {{"x": {each}}}')
    ]
    found = payloads(spark, Payload("json", schema), [b"{%s}" % text.encode() for text in texts])

    lacking = dict.fromkeys("vams")
    expected = [
        WRONG if each == WRONG else lacking | field
        for each in HELD[kind].values()
        for field in ({"v": each}, {"a": [each]}, {"m": [("k", each)]}, {"s": {"x": each}})
    ]
    assert dict(zip(texts, found, strict=True)) == dict(zip(texts, expected, strict=True))


NO_DOCUMENTS = [
    *(b'{"id": "a"}\n{"id": "b"}', b'{"id": "a"} trailing', b"{'id': 'a'}", b'{"id": "a"},{"id": "b"}', b'{"id": "a"}]'),
    *(b'{"id": "a"}}', b'{"id": "a"}],"v":[{"id": "b"}', b'{"id": "a"},"v":{"id": "b"}', b'\xef\xbb\xbf{"id": "a"}', b""),
    *(b'{"id": "a", "n": NaN}', b'{"id": "a",}', b'{id: "a"}', b'{"id": "\x01"}', b'{"id": "a"} // more', b"null", b"[]"),
    *(b'[{"id": "a"}]', b'"a"', b'{"id": 007}'),
    *(b'{"id": "a", "other": ' + b"7" * 2_000 + b"}", b'{"id": "a", "other": "\\x"}', b'{"id": "a"', b'{"id": "a", "x": }'),
]


def test_a_value_is_one_document_of_strict_json(spark: SparkSession) -> None:
    documents = [
        b' {"id": "a"}\n',
        b'{"id": "a", "other": {"deep": [1, {"x": null}]}}',
        b'{"id": "b", "id": "a"}',
        b'{"id":"a"}\t\r\n ',
    ]
    found = payloads(spark, Payload("json", "id STRING"), [*NO_DOCUMENTS, *documents])
    assert dict(zip(NO_DOCUMENTS, found, strict=False)) == dict.fromkeys(NO_DOCUMENTS, WRONG)
    assert found[len(NO_DOCUMENTS) :] == [{"id": "a"}] * len(documents)


NO_MOMENTS = [
    *(b'{"t": "12:30"}', b'{"t": "T12:30:00"}', b'{"t": "T1"}', b'{"t": "T12"}', b'{"t": "\x7f12:30"}', b'{"t": "\x7fT12"}'),
    *(b'{"t": "\\t12:30"}', b'{"t": "\\b\\f\\n\\r T12"}', b'{"t": "\\u0031\\u0032:30"}', b'{"t": "\\u007f12:30"}'),
    *(b'{"t": "' + b"\\n " * 500_000 + b'12:30"}', b'{"t": "\\u0000T12"}', b'{"t": "+294247-01-10T04:00:54Z"}'),
    *(b'{"t": "-0001-01-01T00:00:00Z"}', b'{"t": 9223372036854775807}', b'{"t": 1700000000000}'),
    *(b'{"n": "+99999-01-01T00:00:00"}', b'{"d": "+12345-01-01"}', b'{"d": "-0001-01-01"}'),
    b'{"in": ["2026-01-01T00:00:00Z", "+99999-01-01T00:00:00Z"]}',
]
MOMENTS = [
    b'{"t": "9999-12-31T23:59:59.999999Z", "n": "0001-01-01T00:00:00", "d": "9999-12-31"}',
    *(b'{"t": 1700000000, "in": [0]}', b'{"t": "2026-01-01T12:30:00+02:00"}', b'{"t": "\\t2026\x7f"}'),
]


def test_moments_are_those_that_every_reader_holds_and_do_not_depend_on_today(spark: SparkSession) -> None:
    payload = Payload("json", "t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, in ARRAY<TIMESTAMP>")
    found = payloads(spark, payload, [*NO_MOMENTS, *MOMENTS])

    assert found[: len(NO_MOMENTS)] == [WRONG] * len(NO_MOMENTS)
    assert [each for each in found[len(NO_MOMENTS) :] if isinstance(each, str)] == []


@pytest.mark.timeout(120)  # a cost that doubles with each level ends here, or never
def test_times_of_kafka_connect_are_read_by_the_schema_within_the_value(spark: SparkSession) -> None:
    units = ("Date", "Timestamp", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp")
    names = dict(zip(("d", "ms", "us", "ns", "z"), (f"io.debezium.time.{unit}" for unit in units), strict=True))

    def value(row: dict[str, Any] | None, named: dict[str, str] = names, **block: Any) -> bytes:
        fields = [{"type": "int64", "field": "other"}, *({"field": field, "name": name} for field, name in named.items())]
        after = {"type": "struct", "fields": fields, "field": "after", "name": "shop.Value"}
        envelope = {"type": "struct", "fields": [{"type": "string", "field": "op"}, after], "name": "shop.Envelope"}
        schema = {"schema": envelope} | block
        return json.dumps(schema | {"payload": {"op": "c", "after": row}}).encode()

    at = datetime(2026, 11, 21, 9, 0, 0, 5_000, UTC)
    ms = 1_795_251_600_005
    whole = {"d": 20_778, "ms": ms, "us": ms * 1_000, "ns": ms * 1_000_000, "z": "2026-11-21T09:00:00.005Z"}
    read = {"d": date(2026, 11, 21), **dict.fromkeys(("ms", "us", "ns", "z"), at)}
    nothing = dict.fromkeys(read)
    not_held = ({"ns": 1}, {"ms": 2**63 - 1}, {"us": 2**63 - 1}, {"d": 2**31 - 1}, {"d": 10**12}, {"us": 1.5}, {"d": 1.5})
    of_connect = {"d": "org.apache.kafka.connect.data.Date", "ms": "org.apache.kafka.connect.data.Timestamp"}
    given: dict[bytes, Any] = {
        value(whole): read,
        value({"d": -1, "ms": -1, "us": -1, "ns": -1_000}): nothing
        | {"d": date(1969, 12, 31), "ms": datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)}
        | dict.fromkeys(("us", "ns"), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        value({"d": 0, "ms": 5, "other": 1}, of_connect): nothing
        | {"d": date(1970, 1, 1), "ms": datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC)},
        value(None): None,
        value({"d": "2026-11-21", "ms": "2026-11-21T09:00:00.005Z"}): nothing | {"d": date(2026, 11, 21), "ms": at},
        value({"ms": 5}, schema=None): nothing | {"ms": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)},
        value({"ms": 5}, schema="v1"): nothing | {"ms": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)},
        **{value(row): WRONG for row in not_held},
        value({"d": 20_778}, schema=None): WRONG,
        value({"ms": ms}, schema={"fields": "none"}): WRONG,
    }
    ddl = "payload STRUCT<op: STRING, after: STRUCT<d: DATE, ms: TIMESTAMP, us: TIMESTAMP, ns: TIMESTAMP, z: TIMESTAMP>>"
    found = payloads(spark, Payload("json", ddl), list(given))
    assert [each if each == WRONG else each["payload"]["after"] for each in found] == list(given.values())


def test_a_schema_of_many_levels_costs_a_little_more_for_each(spark: SparkSession) -> None:
    levels = 24
    schema = f"a {'ARRAY<' * levels}DECIMAL(10,2){'>' * levels}, m {'MAP<STRING, ' * levels}DECIMAL(10,2){'>' * levels}"
    given = {
        f'{{"{name}": {before * levels}{number}{after * levels}}}'.encode(): number
        for name, before, after in (("a", "[", "]"), ("m", '{"k": ', "}"))
        for number in ('"1.5"', '"1e,+32000000"')
    }

    found = payloads(spark, Payload("json", schema), list(given))

    assert [each == WRONG for each in found] == [number != '"1.5"' for number in given.values()]


# Values of topics that are decoded otherwise, in one frame.
DEFAULT = Payload("json", "id STRING, at TIMESTAMP, n INT", 60, "quarantine")
OWN = {
    "a": Payload("json", "n INT, x STRUCT<y: DECIMAL(10,2)>", undecodable="quarantine"),
    "b": Payload("json", "x STRUCT<y: DECIMAL(10,2)>, id STRING NOT NULL", 40),
    "c": None,
}
TOPICS = ("t", "a", "a@2", "b", "c", "A")
VALUES = [
    *(b'{"id": "i", "at": "2026-01-01T00:00:00Z", "n": 5}', b'{"n": "five", "id": "i"}', b'{"x": {"y": 1.5}, "n": 7}', None),
    *(b"{}", b"[]", b"", b"\xff", b"{" + b" " * 50 + b"}", b'{"x": {"y": 1e9999}}', b'{"at": "12:00", "x": 7}'),
    b'{"id": 7} more',
]
NOTHING = dict.fromkeys(("id", "at", "n", "x"))


def test_each_value_is_decoded_as_its_topic_has_it_and_has_no_field_of_another(spark: SparkSession) -> None:
    own = tuple((topic, Reading(Source("offset"), payload=payload)) for topic, payload in OWN.items())
    rules = Rules(Source("offset"), payload=DEFAULT, own=own)
    records = [Record(offset, value=value, topic=topic) for topic in TOPICS for offset, value in enumerate(VALUES)]
    found = decoded(frame(spark, records), rules)
    assert rules.payload_type is not None
    cast = spark.sql(f"SELECT CAST(NULL AS {rules.payload_type.sql()}) AS payload")
    assert found.select("payload").schema[0].dataType == cast.schema[0].dataType
    decoded_rows = found.selectExpr("struct(topic, offset) AS place", "payload", "undecodable", "value").toArrow().to_pylist()
    rows = {tuple(row.pop("place").values()): row for row in decoded_rows}

    alone = {payload: payloads(spark, payload, VALUES) for payload in (DEFAULT, *OWN.values()) if payload}
    expected: dict[tuple[str, int], Any] = {}
    for topic in TOPICS:
        payload = OWN.get(topic.partition("@")[0], DEFAULT)
        decoded_alone = alone[payload] if payload else [None if value is None else {} for value in VALUES]
        for offset, (one, value) in enumerate(zip(decoded_alone, VALUES, strict=True)):
            whole, reason = (None, one) if one is None or isinstance(one, str) else (NOTHING | one, None)
            expected[topic, offset] = {"payload": whole, "undecodable": reason, "value": value}
    assert rows == expected
    assert {row["undecodable"] for row in rows.values()} == {None, "value_too_long", "value_not_utf8", "value_not_of_schema"}


def test_json_behind_the_prefix_is_read_without_it(spark: SparkSession) -> None:
    how = Written("json", has_prefix=True)
    given: dict[bytes | None, tuple[Any, int | None, str | None]] = {
        prefixed(1, b'{"seq": 7}'): ({"seq": 7}, 7, None),
        b'{"seq": 7}': (WRONG, None, "sequence_missing"),
        prefixed(1, b"\xff"): ("value_not_utf8", None, "sequence_not_utf8"),
        None: (None, None, "sequence_null"),
        b"\0": (WRONG, None, "sequence_missing"),
    }

    found = payloads(spark, Payload("json", "seq BIGINT"), list(given), how)
    read = extracted(spark, Sources(Source("prefixed_json", "$.seq"), written=how), list(given))

    assert [(payload, *row[2:]) for payload, row in zip(found, read, strict=True)] == list(given.values())
