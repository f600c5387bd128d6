"""Values of topics that are decoded otherwise, in one frame: as each is decoded alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.extract.sources import Source
from silver.extract.payload import decoded
from silver.rules import OfTopic, Payload, Rules
from tests.support.bronze import Record, frame
from tests.support.decodings import decoding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFAULT = Payload("json", "id STRING, at TIMESTAMP, n INT", 60, "quarantine")
OWN = {
    "a": Payload("json", "n INT, x STRUCT<y: DECIMAL(10,2)>", undecodable="quarantine"),
    "b": Payload("json", "x STRUCT<y: DECIMAL(10,2)>, id STRING NOT NULL", 40),
    "c": None,
}
VALUES = [
    *(b'{"id": "i", "at": "2026-01-01T00:00:00Z", "n": 5}', b'{"n": "five", "id": "i"}', b'{"x": {"y": 1.5}, "n": 7}', None),
    *(
        b"{}",
        b"[]",
        b"",
        b"\xff",
        b"{" + b" " * 50 + b"}",
        b'{"x": {"y": 1e9999}}',
        b'{"at": "12:00", "x": 7}',
        b'{"id": 7} more',
    ),
]
RECORDS = [
    Record(offset, value=value, topic=topic)
    for topic in ("t", "a", "a@2", "b", "c", "A")
    for offset, value in enumerate(VALUES)
]


def test_each_value_is_decoded_as_its_topic_has_it_and_has_no_field_of_another(spark: SparkSession) -> None:
    own = tuple((topic, OfTopic(Source("offset"), payload=payload)) for topic, payload in OWN.items())
    rules = Rules(Source("offset"), payload=DEFAULT, own=own)
    found = decoded(frame(spark, RECORDS), rules)
    assert rules.payload_type is not None
    assert (
        found.select("payload").schema[0].dataType
        == spark.sql(f"SELECT CAST(NULL AS {rules.payload_type.sql()}) AS payload").schema[0].dataType
    )
    rows = found.select("topic", "offset", "payload", "undecodable", "value").toArrow().to_pylist()

    expected: list[Any] = []
    for topic in ("t", "a", "a@2", "b", "c", "A"):
        payload = OWN.get(topic.partition("@")[0], DEFAULT)
        records = [each for each in RECORDS if each.topic == topic]
        if payload is None:
            nothing = dict.fromkeys(("id", "at", "n", "x"))
            expected += [(topic, each.offset, None if each.value is None else nothing, None, each.value) for each in records]
            continue
        alone = decoded(frame(spark, records), decoding(payload)).select("offset", "payload", "undecodable", "value").toArrow()
        for row in alone.to_pylist():
            whole = row["payload"] and {**dict.fromkeys(("id", "at", "n", "x")), **row["payload"]}
            expected.append((topic, row["offset"], whole, row["undecodable"], row["value"]))
    assert sorted((tuple(row.values()) for row in rows), key=lambda row: row[:2]) == sorted(expected, key=lambda row: row[:2])
    reasons = {row["undecodable"] for row in rows}
    assert reasons == {None, "value_too_long", "value_not_utf8", "value_not_of_schema"}
