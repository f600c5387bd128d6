"""Values decoded: what a payload is, and why there is none; soon, whatever the value."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.extract.sources import Source
from silver.extract.payload import decoded
from silver.rules import OfTopic, Payload, Rules
from tests.support.bronze import Record, frame
from tests.support.decodings import WRONG, payloads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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
    *(b'{"d": "1e320000000", "d": "1"}', b'{"d": "1e320000000", x', b"{'d': '1e320000000'}"),
    *(b"{'x\"': 1, 'd': 1e320000000, 'y\"': 1}", b'{"in": [{"d": 1e320000000}]}'),
    *(b'{"d": "' + b"9" * 1_000_000 + b'"}', b'{"d": ' + b"9" * 1_000_000 + b"}"),
]


@pytest.mark.timeout(120)  # a cast takes more than a minute for a tenth of the exponent
def test_a_number_past_its_length_is_undecodable_before_it_is_cast_and_no_other(spark: SparkSession) -> None:
    given: dict[bytes | None, Any] = {
        **dict.fromkeys(BOMBS, WRONG),
        b'{"s": "12E4567", "d": 1.25}': ("12E4567", Decimal("1.25"), None),
        b'{"s": "say \\"1e99999\\"", "d": "1,000.5"}': ('say "1e99999"', Decimal("1000.50"), None),
        b'{"s": "\\u0031e99999", "d": 1e2}': ("1e99999", Decimal("100.00"), None),
        b'{"s": "' + b"9" * 60 + b'", "d": null}': ("9" * 60, None, None),
        b'{"d": 0.' + b"3" * 60 + b"}": (None, Decimal("0.33"), None),
        b'{"s": 1e99999}': WRONG,
    }
    of_schema(spark, "s STRING, d DECIMAL(10,2), in ARRAY<STRUCT<d: DECIMAL(38,10)>>", given)


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
    own = tuple((topic, OfTopic(Source("offset"), payload=payload)) for topic, payload in OWN.items())
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
