"""What a load reads of Bronze: what is not decided yet, no file in which all is, and key columns in bounded chunks."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.delta import small_tables, tables
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS
from silver.extract.columns import NARROW, keys_are_current, narrow
from silver.load import bronze_range
from silver.model import streams_of
from silver.rules import Reading, Rules
from silver.state.ledger import BronzeRange
from tests.support.bronze import SEQ, Record, put, put_read

_RULES = Rules(SEQ.sequence)
_PLACES = [(topic, partition, offset) for topic in ("a", "b") for partition in range(20) for offset in range(8)]


def test_a_file_of_several_partitions_that_are_decided_is_not_read(spark: SparkSession, run: Run) -> None:
    for first in (0, 5):
        put(
            spark,
            run,
            [Record.of(first + nth, first + nth, partition=partition) for nth in range(5) for partition in (0, 1, 2)],
        )
    version = tables.version(spark, run.table(BRONZE_RECORDS))
    pinned = bronze_range.pin(spark, run, after_version=version - 1, above={("t", partition): 4 for partition in (0, 1, 2)})

    records = bronze_range.read(spark, run, pinned)

    assert sorted((row["partition"], row["offset"]) for row in records.collect()) == [
        (partition, offset) for partition in (0, 1, 2) for offset in range(5, 10)
    ]
    assert len(records.inputFiles()) < len(tables.read(spark, run.table(BRONZE_RECORDS), version=version).inputFiles())


@pytest.mark.parametrize("is_few", [True, False])
def test_records_before_and_behind_hundreds_that_are_decided_are_read(
    spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch, *, is_few: bool
) -> None:
    if not is_few:
        monkeypatch.setattr(small_tables, "few", lambda *_, **__: None)
    partitions = [0] * 100 + [1] * 300 + [2] * 100
    put(spark, run, [Record.of(nth, nth, partition=partition) for nth, partition in enumerate(partitions)])
    pinned = bronze_range.pin(spark, run, after_version=-1, above={("t", 1): 399})

    records = bronze_range.read(spark, run, pinned)

    undecided = [(partition, nth) for nth, partition in enumerate(partitions) if partition != 1]
    assert sorted((row["partition"], row["offset"]) for row in records.collect()) == undecided


def test_the_keys_on_the_driver_are_those_that_a_query_finds(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(nth, 9 - nth) for nth in range(4)])
    put(spark, run, [Record.of(4, 7), Record(5), Record.of(6, "x"), Record.of(0, 3, partition=1), Record.of(4, 7)])
    pinned = bronze_range.pin(spark, run, after_version=-1, above={("t", 0): 1})

    keys = bronze_range.stored_keys(run, pinned, 100)

    assert keys is not None
    assert keys_are_current(keys, _RULES)
    found = narrow(bronze_range.read(spark, run, pinned), _RULES)
    assert sorted(map(str, keys.select(list(NARROW)).to_pylist())) == sorted(str(row.asDict()) for row in found.collect())
    assert len(keys) == 7


def test_keys_that_bronze_read_by_other_sources_or_not_at_all_are_not_current(spark: SparkSession, run: Run) -> None:
    put(spark, run, [Record.of(0, 1)])
    first = tables.version(spark, run.table(BRONZE_RECORDS))
    keys = bronze_range.stored_keys(run, pinned(spark, run, first), 100)
    assert keys is not None
    others = {
        "the producer has another extractor": replace(_RULES, producer=Source("value")),
        "a custom extractor": Rules(Source("custom", "tests.silver.extract.test_stored:last_byte")),
    }
    assert {name: keys_are_current(keys, rules) for name, rules in others.items()} == dict.fromkeys(others, False)
    assert keys_are_current(keys, _RULES)

    for nth, sources in enumerate((None, Sources(Source("value"))), start=1):  # Bronze read nothing, or something else
        put(spark, run, [Record.of(2 * nth, 1)])
        put_read(spark, run, [([Record.of(2 * nth + 1, 2)], sources)])
        mixed = bronze_range.stored_keys(run, pinned(spark, run, first + 2 * nth - 1), 100)
        assert mixed is not None
        assert not keys_are_current(mixed, _RULES)


def pinned(spark: SparkSession, run: Run, version: int) -> BronzeRange:
    return bronze_range.pin(spark, run, after_version=version - 1, above={})


def test_keys_of_topics_that_are_read_otherwise_are_current_by_their_own_sources(spark: SparkSession, run: Run) -> None:
    own = Sources(SEQ.sequence, own=(("u", Sources(Source("value"))),))
    rules = Rules(SEQ.sequence, own=(("u", Reading(Source("value"))),))
    put(spark, run, [Record.of(0, 1)], own)
    put(spark, run, [Record(0, b"7", topic="u")], own)

    keys = bronze_range.stored_keys(run, bronze_range.pin(spark, run, after_version=-1, above={}), 100)

    assert keys is not None
    assert sorted(zip(keys["topic"].to_pylist(), keys["sequence"].to_pylist(), strict=True)) == [("t", 1), ("u", 7)]
    assert sorted(streams_of(keys)) == [("t", 0, None), ("u", 0, None)]
    assert (keys_are_current(keys, rules), keys_are_current(keys, _RULES)) == (True, False)


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 19)), st.integers(0, 7)))
def test_what_partitions_have_decided_together_is_what_each_of_them_has(above: dict[tuple[str, int], int]) -> None:
    together = bronze_range.decided_places(above)

    found = [
        place
        for topic, first, last, up_to in together
        for place in _PLACES
        if place[0] == topic and first <= place[1] <= last and place[2] <= up_to
    ]
    assert all(offset <= above[topic, partition] for topic, partition, offset in found)
    assert {place for place in _PLACES if place[2] <= above.get(place[:2], -1)} == set(found)


_NARROW = "topic string, partition int, producer string, offset bigint, epoch bigint, sequence bigint, problem string"


@pytest.mark.parametrize("most", [1, 7, 40, 100])
def test_chunks_hold_whole_offsets_in_their_order(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(bronze_range, "_BITS", 2)
    first = {0: 0, 1: 2**63 - 30, 2: 5}
    places = [(partition, first[partition] + nth) for nth in range(30) for partition in (2, 0, 1)]
    rows = [("t", partition, None, offset, 0, 1, None) for partition, offset in [*places, places[0], places[0]]]

    chunks = list(bronze_range.keys_in_chunks(frames.of_tuples(spark, rows, _NARROW), most))

    read = [list(zip(chunk["partition"].to_pylist(), chunk["offset"].to_pylist(), strict=True)) for chunk in chunks]
    assert sorted(place for chunk in read for place in chunk) == sorted([*places, places[0], places[0]])
    assert all(max(one) < min(other) for one, other in pairwise(read))
    assert max(map(len, read)) <= max(most, 6)  # the four offsets of a part, one of them three times
    assert len(chunks) == 1 or most < len(rows)


def test_long_names_are_read_whole_and_none_is_taken_for_another(spark: SparkSession) -> None:
    hashed = "\x00sha256:" + "0" * 64
    names = [None, "", "p", "x" * 64, "x" * 65, "\u00e9" * 33, "y" * 1_024, hashed, "\x00sha256:"]
    rows = [("t", 0, name, nth, 0, 1, None) for nth, name in enumerate(names)]

    (chunk,) = bronze_range.keys_in_chunks(frames.of_tuples(spark, rows, _NARROW), 100)

    assert dict(zip(chunk["offset"].to_pylist(), chunk["producer"].to_pylist(), strict=True)) == dict(enumerate(names))
