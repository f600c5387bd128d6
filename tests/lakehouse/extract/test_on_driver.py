"""One record read without Spark: as Spark reads it, whatever its bytes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.contracts.bronze import BRONZE
from lakehouse.extract import on_driver
from lakehouse.extract.columns import extract
from lakehouse.extract.sources import Source, Sources
from lakehouse.spark import frames
from tests.support.hostile_bytes import NAMES, NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HEADERS = st.lists(st.tuples(st.sampled_from(["seq", "p", "other"]), NUMBERS | NAMES | st.none()), max_size=4)
JSON = st.sampled_from(
    [
        *(b'{"m": {"seq": 5}}', b'{"m": {"seq": "6"}}', b'{"m": {"seq": -1}}', b'{"m": {"seq": 1.5}}', b'{"m": {"seq": -0}}'),
        *(b'{"m": {"seq": 1, "seq": 1}}', b'{"m": {"seq": null}}', b'{"m": 5}', b'{"m": [1]}', b"{", b"\xff", b"[]", b"7"),
        *(b'{"m": {"seq": 9223372036854775807}}', b'{"m": {"seq": 9223372036854775808}}', b'{"m": {"seq": ""}}'),
    ]
)
SEQUENCES = [
    Source("header", "seq"),
    Source("header", "seq", "int64"),
    Source("value", encoding="utf8"),
    Source("value", encoding="int32"),
    Source("json", "$.m.seq"),
    Source("bytes", "0:8", "int64"),
    Source("bytes", "1:3"),
    Source("offset"),
]


@pytest.mark.parametrize("source", SEQUENCES, ids=lambda source: f"{source.form}-{source.encoding}")
@settings(max_examples=1, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(HEADERS, NUMBERS | JSON | st.none()), min_size=80, max_size=80))
def test_a_record_is_read_as_spark_reads_it(spark: SparkSession, source: Source, records: list[Any]) -> None:
    rows = [
        {"offset": offset, "value": value, "headers": [{"key": name, "value": text} for name, text in headers] or None}
        for offset, (headers, value) in enumerate(records)
    ]
    sources = Sources(source, producer=Source("header", "p"))
    found = extract(frames.of_contract(spark, rows, BRONZE), sources).orderBy("offset")
    told = [tuple(row) for row in found.select("sequence", "producer", "problem").collect()]

    for (headers, value), spark_says, offset in zip(records, told, range(len(records)), strict=True):
        record = on_driver.Record(value, headers, offset)
        (number, unread), (name, unnamed) = on_driver.number(source, record), on_driver.name(sources.producer or source, record)
        problem = f"sequence_{unread}" if unread else (f"producer_{unnamed}" if unnamed else None)
        assert (number if problem is None else None, name, problem) == spark_says, (headers, value)
