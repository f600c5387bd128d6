"""The hash of a record's content is the same for the same content, and for no other."""

from itertools import product

from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.spark import frames
from silver.suspects.resolve import content_sha256

_BYTES = (None, b"", b" ", b"1", b"1 1 1", b"ab", b"b", b"null")
_BEFORE = {"load_seq": 4, "producer": None, "epoch": 0, "sequence": 7, "problem": None}
_ERASED = (
    {**_BEFORE, "up_to_offset": 8, "is_collision": False},
    {**_BEFORE, "up_to_offset": 8, "is_collision": True},
    {**_BEFORE, "up_to_offset": 9, "is_collision": False},
)


def test_records_of_the_same_content_have_the_same_hash_and_others_another(spark: SparkSession) -> None:
    each = [{"key": key, "value": value} for key, value in product(_BYTES, _BYTES)] + [{"erased": erased} for erased in _ERASED]
    twice = frames.of_contract(spark, [{**row, "topic": "t", "offset": nth} for nth in (1, 2) for row in each], BRONZE)

    hashes = [row[0] for row in twice.select(content_sha256(twice)).collect()]

    assert len(hashes) == 2 * len(each)
    assert len(set(hashes)) == len(each)
