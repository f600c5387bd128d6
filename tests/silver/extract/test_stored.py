"""What Bronze has read of its records: Silver takes it where it is current, and else reads the bytes, with the same outcome."""

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.records import with_extracted
from lakehouse.contracts.bronze import BRONZE, EXTRACTED, FINGERPRINT
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from lakehouse.spark import frames
from silver.extract.columns import are_current, from_bytes, narrow, sequenced
from silver.rules import Payload, Rules
from tests.support.bronze import Record, frame, put

RULES = Rules(
    Source("header", "seq"),
    producer=Source("json", "$.who"),
    epoch=Source("bytes", "0:4", "int32"),
    payload=Payload("json", "who STRING, n INT", undecodable="quarantine"),
)
OTHER = Sources(Source("value"), producer=Source("header", "seq"))
CUSTOM = Rules(Source("custom", f"{__name__}:last_byte"), epoch=Source("header", "seq"))
_VALUES = (b'{"who": "a"}', b'{"who": "b", "n": "x"}', b'{"who": ""}', b"\xff", b"", None)
_SEQUENCES = (b"5", b"x", None)
RECORDS = [
    Record(offset, value=value, headers=None if sequence is None else (("seq", sequence),))
    for offset, (value, sequence) in enumerate((value, sequence) for value in _VALUES for sequence in _SEQUENCES)
]


def last_byte(value: Column) -> Column:
    """A custom extractor: the last byte, where it is a digit; it raises where there is none."""
    return F.coalesce(F.right(value.cast("string"), F.lit(1)), F.raise_error(F.lit("no value")).cast("string"))


def _read(records: DataFrame, rules: Rules = RULES) -> list[tuple[object, ...]]:
    rows = sequenced(records, rules).select("offset", *EXTRACTED, "key", "value", "headers").orderBy("offset").collect()
    return [tuple(row) for row in rows]


def test_a_record_reads_alike_whoever_read_it_before(spark: SparkSession) -> None:
    records = frame(spark, RECORDS)
    expected = _read(from_bytes(records))
    assert {row[4] for row in expected} >= {None, "sequence_missing", "producer_empty", "value_undecodable"}

    ours, others, unread = (with_extracted(records, sources) for sources in (RULES.sources, OTHER, None))
    third = F.col("offset") % 3
    mixed = ours.where(third == 0).unionByName(others.where(third == 1)).unionByName(unread.where(third == 2))
    for each in (ours, others, unread, mixed):
        assert _read(each) == expected
    assert [are_current(each, RULES) for each in (ours, others, unread, mixed)] == [True, False, False, False]
    assert _read(ours.drop(FINGERPRINT)) == expected


def test_what_is_current_is_taken_and_nothing_else(spark: SparkSession) -> None:
    ours = with_extracted(frame(spark, RECORDS[:1]), RULES.sources)
    known = {"producer": F.lit("stored"), "epoch": F.lit(3).cast("bigint"), "sequence": F.lit(7).cast("bigint")}
    stored = ours.withColumns(known)
    assert _read(stored)[0][1:4] == ("stored", 3, 7)
    assert _read(stored.drop(FINGERPRINT))[0][1:4] == ("stored", 3, 7)
    for fingerprint in (F.lit(OTHER.fingerprint), F.lit(None).cast("string")):
        assert _read(stored.withColumn(FINGERPRINT, fingerprint))[0][1:4] == ("a", int.from_bytes(b'{"wh'), 5)


def test_a_custom_extractor_never_runs_at_ingest_and_always_in_silver(spark: SparkSession) -> None:
    records = [Record(0, value=b"x7", headers=(("seq", b"1"),)), Record(1, value=None)]  # of the second it would raise
    stored = with_extracted(frame(spark, records), CUSTOM.sources)
    assert [tuple(row) for row in stored.select(*EXTRACTED, FINGERPRINT).collect()] == [(None,) * 5] * 2

    stored = stored.where("offset = 0")
    claims_to_be = stored.withColumns({"sequence": F.lit(3).cast("bigint"), FINGERPRINT: F.lit(CUSTOM.fingerprint)})
    for each in (stored, claims_to_be):
        assert not are_current(each, CUSTOM)
        assert _read(each, CUSTOM)[0][1:5] == (None, 1, 7, None)


def test_an_erased_record_keeps_what_was_read_of_it(spark: SparkSession) -> None:
    read = {"producer": "a", "epoch": 2, "sequence": 5, "problem": None}
    undecodable = {**read, "problem": "value_undecodable"}
    rows = [
        {"topic": "t", "partition": 0, "offset": offset, "erased": {"load_seq": 1, "last_offset": 9, **each}}
        for offset, each in enumerate((read, undecodable))
    ]
    erased = frames.of_contract(spark, rows, BRONZE)
    tolerant = Rules(RULES.sequence, RULES.producer, RULES.epoch, Payload("json", "who STRING"))
    for sources in (RULES.sources, OTHER, None):
        stored = with_extracted(erased, sources)
        assert [row[1:5] for row in _read(stored)] == [("a", 2, 5, None), ("a", 2, 5, "value_undecodable")]
        assert [row[1:5] for row in _read(stored, tolerant)] == [("a", 2, 5, None)] * 2


def test_a_decision_over_current_records_reads_no_bytes(spark: SparkSession, run: Run) -> None:
    rules = RULES.of_sequences
    put(spark, run, RECORDS, RULES.sources)
    bronze = spark.read.table(run.table("bronze_records").sql)
    assert are_current(bronze, rules)
    bytes_read = {"value", "headers"} & _columns_scanned(narrow(bronze.drop(FINGERPRINT), rules))
    assert bytes_read == set()
    assert _columns_scanned(narrow(bronze, rules)) >= {"value", "headers", FINGERPRINT}
    put(spark, run, RECORDS[-1:], None)  # one record that was not read makes the range not current
    assert not are_current(spark.read.table(run.table("bronze_records").sql), rules)


def _columns_scanned(frame: DataFrame) -> set[str]:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    schemas = re.findall(r"FileScan parquet [^\[]*\[([^\]]*)\]", plan)
    assert schemas
    return {column.partition("#")[0] for each in schemas for column in each.split(",")}
