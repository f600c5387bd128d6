"""A block that was sent again as a whole is told by its sums, and every class is the one that a look at each record gives."""

from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.contracts.silver import DUPLICATE, REJECTS, silver_records
from lakehouse.extract.sources import Source
from lakehouse.spark import frames
from silver.decide.decision import Way
from silver.load import planner
from silver.rules import Rules
from silver.state.streams import Known
from silver.state.watermarks import Watermark, Watermarks
from silver.suspects import resolve
from silver.suspects.past import Whole
from tests.support.runs import PRODUCERS, Run, bronze_of

_BY_EPOCH = Rules(Source("header", "seq"), epoch=Source("header", "epoch"))
_BY_PRODUCER = Rules(Source("header", "seq"), producer=Source("header", "producer"))
_RUNS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0, 0, 0, 1]), st.sampled_from([-1, *range(1, 20, 3)]), st.integers(1, 9)),
    min_size=1,
    max_size=10,
)
_ODD = st.frozensets(st.tuples(st.integers(0, 1), st.integers(0, 40)), max_size=3)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(runs=[(0, 0, 1, 9), (0, 0, 2, 5), (1, 0, 1, 9), (1, 0, 10, 3), (1, 0, 8, 4)], odd=frozenset(), rules=_BY_EPOCH)
@example(runs=[(0, 0, 1, 9), (0, 0, 2, 5), (0, 0, 4, 3)], odd=frozenset({(0, 10)}), rules=_BY_EPOCH)
@example(runs=[(0, 0, 1, 9), (0, 1, 1, 9), (0, 0, 2, 5), (0, 1, 3, 5)], odd=frozenset(), rules=_BY_PRODUCER)
@given(runs=_RUNS, odd=_ODD, rules=st.sampled_from([_BY_EPOCH, _BY_PRODUCER]))
def test_copies_as_a_whole_and_one_by_one_give_the_same_classes(
    spark: SparkSession, runs: list[Run], odd: frozenset[tuple[int, int]], rules: Rules
) -> None:
    whole, one_by_one = (_classified(spark, runs, odd, rules=rules, fewest=fewest) for fewest in (1, 10_000))

    assert _rows(whole) == _rows(one_by_one)


def test_a_copy_as_a_whole_is_one_block_and_nothing_is_compared_one_by_one(spark: SparkSession) -> None:
    with patch.object(resolve, "_one_by_one", side_effect=AssertionError("was compared")):
        found = _classified(spark, [(0, 0, 1, 9), (0, 0, 2, 5), (1, 0, 3, 4)], frozenset(), rules=_BY_EPOCH, fewest=1)

    told = [row for row in _rows(found) if row["class"] == DUPLICATE]
    assert [(row["partition"], row["first_offset"], row["last_offset"]) for row in told] == [(0, 9, 13), (1, 0, 3)]


def _classified(
    spark: SparkSession, runs: list[Run], odd: frozenset[tuple[int, int]], *, rules: Rules, fewest: int
) -> pa.Table:
    """The segments of the runs; Silver holds the sequences 1 to 9 of partition 1."""
    producer = PRODUCERS[0] if rules.producer else None
    watermarks = Watermarks({("t", 1, producer): Watermark(0, 9, -1, 1, "rules", declared_epoch=None)})
    same = {"topic": "t", "partition": 1, "producer": producer, "epoch": 0, "load_seq": 1}
    kept = [{**same, "offset": -number, "sequence": number, "value": f"v{number}".encode()} for number in range(1, 10)]
    silver = frames.of_contract(spark, kept, silver_records())
    past = Whole(silver, frames.of_contract(spark, [], REJECTS), watermarks)
    way = Way(fewest_copied=fewest, smallest_copy=1)
    records = bronze_of(spark, runs, odd=odd)
    return planner.classify_range(spark, records, rules, streams=Known(watermarks), past=lambda: past, way=way)


def _rows(found: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = found.sort_by([("partition", "ascending"), ("first_offset", "ascending")]).to_pylist()
    return rows
