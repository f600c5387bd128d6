"""Values of topics that are decoded otherwise, in one frame: as each is decoded alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.extract.sources import Source
from silver.extract.payload import decoded
from silver.rules import OfTopic, Payload, Rules
from tests.support.bronze import Record, frame
from tests.support.decodings import payloads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

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
    told = found.selectExpr("struct(topic, offset) AS place", "payload", "undecodable", "value").toArrow().to_pylist()
    rows = {tuple(row.pop("place").values()): row for row in told}

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
