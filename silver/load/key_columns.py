"""The key columns of a load's records as Arrow tables: stream, offset, epoch, sequence and problem."""

from __future__ import annotations

from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.silver import TOMBSTONE
from lakehouse.spark.pruning import any_of, at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from silver.rules import Rules

_BITS = 16
_TEXTS = ("topic", "producer", "problem")
_WITHOUT_VALUE = "sequence_null"
_LONG_NAME = 64
"""Longest producer name, in bytes, that is sent with every record. A longer one is sent to the driver once."""
_HASHED = "\x00sha256:"
"""Prefix of a long name's hash. The hash is longer than `_LONG_NAME`, so no short name equals one."""


class _Part(NamedTuple):
    """The records of a partition whose offsets have the same high bits."""

    topic: str
    partition: int
    high_bits: int
    records: int


def in_chunks(rows: DataFrame, most: int, *, counted: int | None = None) -> Iterator[pa.Table]:
    """Read key columns, see `silver.extract.columns.narrow`, as tables of at most `most` rows, texts as dictionaries.

    Yields one unsorted table if all rows fit. Otherwise sorted by topic and partition, each with whole partitions or
    consecutive offsets of one. All copies of an offset are in the same table. `counted` bounds the number of records.
    """
    if counted is not None and counted <= most:
        yield _read(rows)
        return
    high_bits = F.shiftright("offset", _BITS)
    sizes = rows.groupBy("topic", "partition", high_bits.alias("high_bits")).agg(F.count(F.lit(1)).alias("records")).toArrow()
    parts = sorted(_Part(**row) for row in sizes.to_pylist())
    if sum(part.records for part in parts) <= most:
        yield _read(rows)
        return
    for chunk in _chunks(parts, most):
        yield _read(rows.where(any_of(_spans(chunk))))


def with_tombstones(keys: pa.Table, rules: Rules) -> pa.Table:
    """Give the tombstones that the rules skip their own problem; the sequence of their topics is read from the value."""
    if not any(each.skips_tombstones for each, _ in rules.per_topic):
        return keys
    topic, problem = keys["topic"].cast(pa.string()), keys["problem"].cast(pa.string())
    topics = [each for each in pc.unique(topic).to_pylist() if rules.of_topic(each).skips_tombstones]
    is_tombstone = pc.and_(pc.is_in(topic, pa.array(topics, pa.string())), pc.equal(problem, _WITHOUT_VALUE))
    return keys.set_column(keys.column_names.index("problem"), "problem", pc.if_else(is_tombstone, TOMBSTONE, problem))


def _read(rows: DataFrame) -> pa.Table:
    name = F.col("producer")
    is_long = F.octet_length(name) > _LONG_NAME
    hashed = F.concat(F.lit(_HASHED), F.sha2(name.cast("binary"), 256))
    keys = rows.withColumn("producer", F.when(is_long, hashed).otherwise(name)).toArrow()
    for text in _TEXTS:
        encoded = keys[text].dictionary_encode().combine_chunks()
        keys = keys.set_column(keys.column_names.index(text), text, encoded)
    producers = keys["producer"].combine_chunks()
    if not any(each.startswith(_HASHED) for each in producers.dictionary.to_pylist()):
        return keys
    long_names = rows.where(is_long).select("producer").distinct().toArrow()["producer"].to_pylist()
    names = {_HASHED + sha256(each.encode()).hexdigest(): each for each in long_names}
    whole = pa.array([names.get(each, each) for each in producers.dictionary.to_pylist()], pa.string())
    return keys.set_column(
        keys.column_names.index("producer"), "producer", pa.DictionaryArray.from_arrays(producers.indices, whole)
    )


def _chunks(parts: Iterable[_Part], most: int) -> Iterator[list[_Part]]:
    """Group neighbouring parts up to the limit.

    >>> parts = [_Part("t", 0, 0, 2), _Part("t", 0, 1, 2), _Part("t", 1, 0, 3), _Part("t", 2, 0, 9), _Part("t", 3, 0, 1)]
    >>> [[part.records for part in chunk] for chunk in _chunks(parts, 5)]
    [[2, 2], [3], [9], [1]]
    """
    chunk: list[_Part] = []
    for part in parts:
        if chunk and sum(each.records for each in chunk) + part.records > most:
            yield chunk
            chunk = []
        chunk.append(part)
    if chunk:
        yield chunk


def _spans(chunk: Iterable[_Part]) -> Iterator[str]:
    for (topic, partition), parts in groupby(chunk, key=lambda part: part[:2]):
        high_bits = [part.high_bits for part in parts]
        first, last = high_bits[0] << _BITS, ((high_bits[-1] + 1) << _BITS) - 1
        yield at(topic, partition, f"offset BETWEEN {first} AND {last}")
