"""A load that came in islands is copied by its pieces, and every row is the one that reading each record gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chispa import assert_df_equality
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakehouse.contracts.silver import REJECTS, silver_records
from lakehouse.extract.sources import Source
from lakehouse.spark import frames
from silver.decide import decision
from silver.load import copy, planner
from silver.rules import Rules
from silver.state import plan
from silver.state.plan import BronzeRange
from silver.state.streams import Known
from silver.state.watermarks import Watermark, Watermarks
from silver.suspects import resolve
from tests.support.runs import PRODUCERS, bronze_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.runs import Run

_BY_EPOCH = Rules(Source("header", "seq"), epoch=Source("header", "epoch"), max_jump=50)
_BY_PRODUCER = Rules(Source("header", "seq"), producer=Source("header", "producer"), max_jump=50)

_RUNS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from([-1, *range(0, 120, 4)]),
        st.integers(1, 12),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(runs=_RUNS, rules=st.sampled_from([_BY_EPOCH, _BY_PRODUCER]))
def test_pieces_and_records_give_the_same_rows(spark: SparkSession, runs: list[Run], rules: Rules) -> None:
    bronze = bronze_of(spark, runs)
    producer = PRODUCERS[0] if rules.producer else None
    known = Watermarks({("t", 1, producer): Watermark(0, 9, -1, 1, "rules", declared_epoch=None)})
    past = resolve.Past(frames.of_contract(spark, [], silver_records()), frames.of_contract(spark, [], REJECTS), known)
    found, islands = planner.classify_range(spark, bronze, rules, streams=Known(known), past=lambda: past)
    assume(islands is not None)  # two runs that are one by their distance, with another between them, are none
    by_pieces = plan.Plan(
        load_seq=2,
        rules=rules,
        watermarks=known,
        range=BronzeRange(0, 1, {}, None),
        ledger=[],
        rejects=decision.rejects(found, 2, rules),
        late=decision.late(found, rules),
        replayed=[],
        islands=islands,
    )

    contract = silver_records()
    fast, exact = (contract.select(copy.kept(spark, bronze, each)) for each in (by_pieces, replace(by_pieces, islands=None)))

    assert_df_equality(fast, exact, ignore_row_order=True, ignore_nullable=True)
    assert fast.count() == sum(segment.records for segment in decision.summary(found) if segment.kind == "accepted")
