"""One record read without Spark: as Spark reads it, whatever its bytes are, and by the sources of its topic."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.extract import on_driver
from lakehouse.extract.columns import extract, fingerprint
from lakehouse.extract.sources import Source, Sources
from lakehouse.spark import frames
from tests.support.examples import examples
from tests.support.hostile_bytes import NAMES, NUMBERS, VALUES

HEADERS = st.lists(st.tuples(st.sampled_from(["seq", "p", "other"]), NUMBERS | NAMES | st.none()), max_size=4)
JSON = st.sampled_from(
    [
        *(b'{"m": {"seq": 5}}', b'{"m": {"seq": "6"}}', b'{"m": {"seq": -1}}', b'{"m": {"seq": 1.5}}', b'{"m": {"seq": -0}}'),
        *(b'{"m": {"seq": 1, "seq": 1}}', b'{"m": {"seq": null}}', b'{"m": 5}', b'{"m": [1]}', b"{", b"\xff", b"[]", b"7"),
        *(b'{"m": {"seq": 9223372036854775807}}', b'{"m": {"seq": 9223372036854775808}}', b'{"m": {"seq": ""}}'),
    ]
)
OF_TOPICS = Sources(
    Source("header", "seq"),
    producer=Source("header", "p"),
    own=(
        ("a", Sources(Source("json", "$.m.seq"), epoch=Source("header", "seq"))),
        ("a.b", Sources(Source("value", encoding="utf8"), producer=Source("header", "other", "int32"))),
        ("c", Sources(Source("bytes", "0:8", "int64"), producer=Source("json", "$.m.seq"))),
        ("d", Sources(Source("offset"))),
        ("e", Sources(Source("json", "$.m.seq"), epoch=Source("header", "seq"))),
        ("f", Sources(Source("header", "seq", "int64"), producer=Source("header", "p"))),
        ("g", Sources(Source("value", encoding="int32"), producer=Source("header", "p"))),
        ("h", Sources(Source("bytes", "1:3"), producer=Source("header", "p"))),
        ("i", Sources(Source("value", encoding="int64"), producer=Source("header", "p", "int64"))),
        ("j", Sources(Source("bytes", "1:5", "int32"), producer=Source("value", encoding="int32"))),
        ("k", Sources(Source("json", "$.seq"), producer=Source("value"), epoch=Source("header", "seq", "int32"))),
    ),
)
TOPICS = ["a", "a@2", "A", "a.b", "a.b@11", "aXb", "d@2", "t", "t@3", "ab", *"cdefghijk"]


@settings(max_examples=examples(4, 20), suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(st.lists(st.tuples(st.sampled_from(TOPICS), HEADERS, VALUES | JSON | st.none()), min_size=100, max_size=100))
def test_a_record_is_read_by_its_topics_sources_as_spark_reads_it(spark: SparkSession, records: list[Any]) -> None:
    rows = [
        {
            "topic": topic,
            "offset": offset,
            "value": value,
            "headers": [{"key": name, "value": text} for name, text in headers] or None,
        }
        for offset, (topic, headers, value) in enumerate(records)
    ]
    found = extract(frames.of_contract(spark, rows, BRONZE), OF_TOPICS).orderBy("offset")
    told = found.select("producer", "epoch", "sequence", "problem", fingerprint(OF_TOPICS), "value", "headers").collect()

    for (topic, headers, value), spark_says, offset in zip(records, told, range(len(records)), strict=True):
        own, record = OF_TOPICS.of_topic(topic), on_driver.Record(value, headers, offset)
        sequence, unread = on_driver.number(own.sequence, record)
        producer, unnamed = on_driver.name(own.producer, record) if own.producer else (None, None)
        epoch, odd = on_driver.number(own.epoch, record) if own.epoch else (0, None)
        by_role = {"sequence": unread, "producer": unnamed, "epoch": odd}
        problem = next((f"{role}_{why}" for role, why in by_role.items() if why), None)
        expected = (producer, epoch if problem is None else None, sequence if problem is None else None, problem)
        assert tuple(spark_says)[:5] == (*expected, own.fingerprint), (topic, headers, value)
        assert (spark_says["value"], len(spark_says["headers"] or ())) == (value, len(headers))
