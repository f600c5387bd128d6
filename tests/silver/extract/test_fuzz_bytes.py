"""Any bytes, for every form of an extractor and every type of a payload: what the reference reads, never an error.

A Spark job for each record would be too dear: an example is a batch of records, and the records are what is counted.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
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
    Source("offset"),
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
    read = extract(frames.of_contract(spark, given_rows, BRONZE), Sources(Source("offset"), own=tuple(_BY_TOPIC.items())))
    for row in read.collect():
        sources, (value, headers) = _BY_TOPIC[row["topic"]], records[row["offset"]]
        given_bytes = (value, headers, row["offset"])
        problem = _problem(sources, *given_bytes)
        is_known = problem is None or not problem.endswith("_")
        found = row["problem"] if is_known else row["problem"][: len(problem or "")]
        assert found == problem, (sources, given_bytes, row)
        number = readings.number(sources.sequence, *given_bytes)
        assert row["sequence"] == (number if problem is None else None), (sources, given_bytes, row)
        assert sources.producer is None or row["producer"] == readings.name(sources.producer, *given_bytes), (given_bytes, row)


def _problem(sources: Sources, value: bytes | None, headers: Any, offset: int) -> str | None:
    """Why the first role that cannot be read is not; an end is left out where the reference does not know it."""
    for role, source in sources.by_role.items():
        is_name = role == "producer"
        if (readings.name if is_name else readings.number)(source, value, headers, offset) is None:
            return f"{role}_{readings.problem(source, value, headers, is_name=is_name)}"
    return None


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
            is_decoded = readings.decodes(payload, value)
            assert is_decoded in (None, row["undecodable"] is None), (value, row)
            if payload.format == "text" and is_decoded:
                assert row["payload"] == (None if value is None else value.decode()), value
