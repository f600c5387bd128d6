"""Any bytes, for every form of an extractor and every type of a payload: what the reference reads, never an error.

A Spark job for each record would be too dear: an example is a batch of records, and the records are what is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.extract.columns import extract
from lakehouse.extract.sources import Source, Sources
from lakehouse.spark import frames
from silver.extract.payload import decoded
from silver.rules import Payload
from tests.support import readings
from tests.support.decodings import decoding
from tests.support.examples import examples
from tests.support.hostile_bytes import NAMES, NUMBERS, SCHEMA, VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_BATCH = 100
_QUIET = settings(
    max_examples=examples(2, 6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example],
)
_HEADERS = st.none() | st.lists(st.tuples(st.sampled_from(["x", "x", "y", "X"]), st.none() | NUMBERS | NAMES), max_size=3)
_RECORDS = st.lists(st.tuples(VALUES, _HEADERS), min_size=_BATCH, max_size=_BATCH)
_SOURCES = (
    *(Source("header", "x", encoding) for encoding in ("utf8", "int32", "int64")),
    *(Source("value", encoding=encoding) for encoding in ("utf8", "int32", "int64")),
    *(Source("bytes", "0:2"), Source("bytes", "1:5", "int32"), Source("bytes", "0:8", "int64"), Source("json", "$.seq")),
)
_BY_TOPIC = {
    f"t{nth}": Sources(source, source if source.form != "json" else None, source) for nth, source in enumerate(_SOURCES)
}


def rows(records: list[Any], topic: str = "t") -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "offset": number,
            "value": value,
            "headers": pairs and [{"key": key, "value": each} for key, each in pairs],
        }
        for number, (value, pairs) in enumerate(records)
    ]


@_QUIET
@given(records=_RECORDS)
def test_every_form_reads_from_any_bytes_what_the_reference_reads(spark: SparkSession, records: list[Any]) -> None:
    given_rows = [row for topic in _BY_TOPIC for row in rows(records, topic)]
    sources = Sources(Source("offset"), own=tuple(_BY_TOPIC.items()))
    read = extract(frames.of_contract(spark, given_rows, BRONZE), sources)
    found = {(row["topic"], row["offset"]): row for row in read.collect()}
    for topic, source in zip(_BY_TOPIC, _SOURCES, strict=True):
        for offset, (value, headers) in enumerate(records):
            row = found[topic, offset]
            number, name = readings.number(source, value, headers), readings.name(source, value, headers)
            is_json = source.form == "json"
            expected = None if number is None or (name is None and not is_json) else number
            assert row["sequence"] == expected, (source, value, headers, row)
            assert (row["problem"] is None) == (expected is not None), (source, value, headers, row)
            assert is_json or row["producer"] == name, (source, value, headers, row)


@_QUIET
@given(records=_RECORDS)
def test_every_type_of_payload_is_decoded_or_refused_from_any_bytes(spark: SparkSession, records: list[Any]) -> None:
    for payload in (Payload("text", max_bytes=1_000), Payload("json", SCHEMA, max_bytes=1_000)):
        decodings = decoded(frames.of_contract(spark, rows(records), BRONZE), decoding(payload))
        text = F.to_json(F.struct("payload")).alias("text")
        found = {row["offset"]: row for row in decodings.select("offset", "payload", "undecodable", text).collect()}
        backwards = decodings.select("offset", "undecodable", text).orderBy(F.desc("offset"))
        again = {row["offset"]: row for row in backwards.collect()}
        for offset, (value, _) in enumerate(records):
            row = found[offset]
            assert (row["payload"] is None) == (value is None or row["undecodable"] is not None), (value, row)
            assert (again[offset]["undecodable"], again[offset]["text"]) == (row["undecodable"], row["text"]), value
            if payload.format == "text":
                assert row["payload"] == _text(value), value


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None or len(value) > 1_000 else value.decode()
    except UnicodeDecodeError:
        return None
