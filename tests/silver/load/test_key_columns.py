"""Key columns as they come to the driver: in chunks of a bounded size, and whatever names producers have."""

from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from lakehouse.spark import frames
from silver.load import key_columns

_NARROW = "topic string, partition int, producer string, offset bigint, epoch bigint, sequence bigint, problem string"


@pytest.mark.parametrize("most", [1, 7, 40, 100])
def test_chunks_hold_whole_offsets_in_the_order_of_partitions_and_offsets(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(key_columns, "_BITS", 2)
    first = {0: 0, 1: 2**63 - 30, 2: 5}
    places = [(partition, first[partition] + nth) for nth in range(30) for partition in (2, 0, 1)]
    rows = [("t", partition, None, offset, 0, 1, None) for partition, offset in [*places, places[0], places[0]]]

    chunks = list(key_columns.in_chunks(frames.of_tuples(spark, rows, _NARROW), most))

    read = [list(zip(chunk["partition"].to_pylist(), chunk["offset"].to_pylist(), strict=True)) for chunk in chunks]
    assert sorted(place for chunk in read for place in chunk) == sorted([*places, places[0], places[0]])
    assert all(max(one) < min(other) for one, other in pairwise(read))
    assert max(map(len, read)) <= max(most, 6)  # the four offsets of a part, one of them three times
    assert len(chunks) == 1 or most < len(rows)


def test_long_names_are_read_whole_and_none_is_taken_for_another(spark: SparkSession) -> None:
    hashed = "\x00sha256:" + "0" * 64
    names = [None, "", "p", "x" * 64, "x" * 65, "\u00e9" * 33, "y" * 1_024, hashed, "\x00sha256:"]
    rows = [("t", 0, name, nth, 0, 1, None) for nth, name in enumerate(names)]

    (chunk,) = key_columns.in_chunks(frames.of_tuples(spark, rows, _NARROW), 100)

    assert dict(zip(chunk["offset"].to_pylist(), chunk["producer"].to_pylist(), strict=True)) == dict(enumerate(names))
