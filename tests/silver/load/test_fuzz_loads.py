"""Any bytes through real loads: every reject, every count and every kept record as the sequential reference has it."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.contracts.silver import CLASSES
from lakehouse.extract.sources import Source
from silver.load import steps
from silver.rules import Payload, Rules
from silver.state.tables import create_tables
from tests.support import readings
from tests.support.bronze import Record, put
from tests.support.examples import IS_WHOLE, examples
from tests.support.hostile_bytes import NAMES, NUMBERS, VALUES
from tests.support.reference import Reference, Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

_PAYLOAD = Payload("json", "seq BIGINT, a STRING NOT NULL, d DECIMAL(10,2), t TIMESTAMP", max_bytes=1_000)
_RULES = (
    Rules(Source("header", "seq"), producer=Source("header", "who"), epoch=Source("header", "epoch"), payload=_PAYLOAD),
    Rules(Source("json", "$.seq"), payload=_PAYLOAD),
    Rules(Source("header", "seq", "int64"), producer=Source("header", "who"), payload=_PAYLOAD),
    Rules(Source("value", encoding="int32"), payload=Payload("text")),
)
_DIGITS = st.integers(0, 12).map(lambda number: str(number).encode())
_SIXTY_FOUR = st.integers(0, 12).map(lambda number: number.to_bytes(8))
_HEADERS = st.lists(
    st.tuples(st.just("seq"), st.none() | _DIGITS | _SIXTY_FOUR | NUMBERS)
    | st.tuples(st.just("who"), st.none() | st.sampled_from([b"a", b"b"]) | NAMES)
    | st.tuples(st.just("epoch"), st.none() | st.sampled_from([b"0", b"1"]) | NUMBERS),
    max_size=4,
)
_VALUES = (
    VALUES | _DIGITS.map(lambda digits: b'{"seq": ' + digits + b', "a": ""}') | st.integers(0, 9).map(lambda n: n.to_bytes(4))
)


@settings(
    max_examples=examples(2, 5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example],
)
@given(records=st.lists(st.tuples(_VALUES, _HEADERS, st.integers(0, 1)), min_size=50, max_size=50), cut=st.integers(1, 49))
def test_loads_of_any_bytes_end_in_the_classes_of_the_reference(
    spark: SparkSession, run_at: Callable[[Path], Run], records: list[Any], cut: int
) -> None:
    for rules in _RULES if IS_WHOLE else _RULES[:2]:
        with tempfile.TemporaryDirectory() as folder:
            _compare(spark, run_at(Path(folder)), rules, records, cut)


def _compare(spark: SparkSession, run: Run, rules: Rules, records: list[Any], cut: int) -> None:
    given_rows = [
        Record(offset, value=value, headers=tuple(headers), partition=partition)
        for offset, (value, headers, partition) in enumerate(records)
    ]
    reference = Reference()
    for part in (given_rows[:cut], given_rows[cut:]):
        reference.take(_seen(record, rules) for record in part)
        put(spark, run, part)
        create_tables(spark, run, rules)
        steps.load_once(spark, run, rules)

    tables = {
        name: spark.read.table(run.table(name).sql).collect() for name in ("silver_loads", "silver_records", "silver_rejects")
    }
    counted = {name: sum(row[name] for row in tables["silver_loads"]) for name in CLASSES}
    expected = Counter(reference.classes.values())
    assert counted == {name: expected[name] for name in CLASSES}
    kept = {(row["topic"], row["partition"], row["offset"]): row["arrival"] for row in tables["silver_records"]}
    assert kept == reference.silver
    rejects = {place for row in tables["silver_rejects"] for place in _stands_for(row, reference)}
    out = {place: kind for place, kind in reference.classes.items() if place not in reference.silver}
    assert rejects == {(place, kind, reference.states[place]) for place, kind in out.items()}
    assert sum(row["records"] for row in tables["silver_rejects"]) == len(out)


def _seen(record: Record, rules: Rules) -> Seen:
    read = (record.value, record.headers)
    producer = readings.name(rules.producer, *read) if rules.producer else None
    epoch = readings.number(rules.epoch, *read) if rules.epoch else 0
    sequence = readings.number(rules.sequence, *read)
    is_read = sequence is not None and epoch is not None and (producer is not None or rules.producer is None)
    payload = repr((record.key, record.value))
    return Seen(record.topic, record.partition, record.offset, sequence if is_read else None, producer, epoch or 0, payload)


def _stands_for(row: Any, reference: Reference) -> list[Any]:
    """The records that a row of silver_rejects stands for: its own stream's of its class, from its first offset to its last."""
    places = [
        (row["topic"], row["partition"], offset)
        for offset in range(row["first_offset"], row["last_offset"] + 1)
        if row["first_offset"] == row["last_offset"]
        or reference.classes.get((row["topic"], row["partition"], offset)) == row["class"]
    ]
    return [(place, row["class"], row["state"]) for place in places]
