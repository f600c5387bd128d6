"""Two ways to hash a record's content find the same records equal."""

from itertools import product

from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.spark import frames
from silver.suspects.content_hash import content, content_sha256

_BYTES = (None, b"", b" ", b"1", b"1 1 1", b"ab", b"b", b"null")
_BEFORE = {"load_seq": 4, "producer": None, "epoch": 0, "sequence": 7, "problem": None}
_ERASED = (
    {**_BEFORE, "up_to_offset": 8, "is_collision": False},
    {**_BEFORE, "up_to_offset": 8, "is_collision": True},
    {**_BEFORE, "up_to_offset": 9, "is_collision": False},
)


def test_the_quick_hash_parts_records_as_the_one_that_is_kept_does(spark: SparkSession) -> None:
    each = [{"key": key, "value": value} for key, value in product(_BYTES, _BYTES)] + [{"erased": erased} for erased in _ERASED]
    twice = frames.of_contract(spark, [{**row, "topic": "t", "offset": nth} for nth in (1, 2) for row in each], BRONZE)

    pairs = {tuple(row) for row in twice.select(content_sha256(twice), content(twice)).collect()}

    quick, kept = {pair[1] for pair in pairs}, {pair[0] for pair in pairs}
    assert len(pairs) == len(quick) == len(kept) == len(each)
