"""How many new streams a load may bring: more of them open the breaker before anything is written or decided."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.delta import tables
from lakehouse.errors import BreakerOpenError
from lakehouse.run.context import Run
from pipelines import bronze_to_silver
from pipelines.recover import rebuild
from silver import model
from silver.load import bronze_range, planner, recover, steps
from silver.model import Limits, LoadLimits, TopicLimits
from silver.rules import Rules
from silver.state.watermarks import Streams, Watermarks
from tests.conftest import Runs
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import stopped_at

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("created_tables")]

BY_PRODUCER: dict[str, Any] = {"producer": {"header": "producer"}}
LIMITS = {"max_new_streams": 3, "topics": {"u": {"max_new_streams": 5}}}


def named(topic: str, first: int, last: int, *, offset: int = 0) -> list[Record]:
    return [
        Record(**{**vars(Record.of(offset + nth, 7, producer=f"p{number}")), "topic": topic})
        for nth, number in enumerate(range(first, last + 1))
    ]


def test_more_new_streams_than_a_load_may_bring_open_the_breaker(spark: SparkSession, new_run: Runs) -> None:
    run = new_run()
    settings = settings_of(run, topics=("t", "u"), policies=LIMITS, **BY_PRODUCER)
    put(spark, run, [*named("t", 1, 3), *named("u", 1, 5)])
    bronze_to_silver.run(spark, run, settings)
    # Known streams and records without a producer are not new.
    put(spark, run, [*named("t", 1, 6, offset=10), Record.of(20, 8), Record.of(21, 9, partition=7)])
    done = bronze_to_silver.run(spark, run, settings)
    assert [done[name] for name in ("accepted", "duplicate", "invalid")] == [3, 3, 2]

    put(spark, run, [*named("t", 3, 10, offset=30), *named("u", 6, 10, offset=30)])
    names = ("silver_loads", "silver_records", "silver_watermarks")
    before = [tables.version(spark, run.table(name)) for name in names]
    with pytest.raises(BreakerOpenError) as opened:
        bronze_to_silver.run(spark, run, settings)
    shown: Any = bronze_to_silver.preview(spark, run, settings)

    assert [tables.version(spark, run.table(name)) for name in names] == before
    assert opened.value.exit_code == 5
    assert opened.value.observed == "4 new streams of topic t; producers are p10, p7, p8, p9"
    assert opened.value.expected == "at most 3 (policies.max_new_streams)"
    assert "policies.topics.t.max_new_streams=4" in str(opened.value)
    assert [trip["observed"] for trip in shown["breaker"]] == [opened.value.observed]
    assert (shown["load_seq"], shown["streams"]) == (3, [])
    let_in = settings_of(run, topics=("t", "u"), policies={"max_new_streams": None}, **BY_PRODUCER)
    assert bronze_to_silver.run(spark, run, let_in)["accepted"] == 9


def test_a_partition_is_no_new_stream_and_a_name_is_shown_cut_and_escaped(spark: SparkSession, run: Run) -> None:
    streams = Streams(spark, run, Watermarks({}), LoadLimits(streams=TopicLimits(1)))
    streams.resolve({("t", partition, None) for partition in range(5)})

    with pytest.raises(BreakerOpenError, match="1,024 characters") as opened:
        streams.resolve({("t", 0, "\x1b[31m\n" + "x" * 1_018), ("t", 0, "b")})

    assert "\x1b" not in str(opened.value)
    assert len(str(opened.value)) < 2_000


def test_too_many_names_are_refused_early(spark: SparkSession, new_run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bronze_range, "stored_keys", lambda *_: None)
    monkeypatch.setattr(model, "LIMITS", Limits(records=6))
    put(spark, new_run(), [replace(record, partition=nth // 6) for nth, record in enumerate(named("t", 1, 30))])
    rules = Rules.of(settings_of(new_run(), **BY_PRODUCER))
    recovered = recover.recover(spark, new_run(), rules)

    with pytest.raises(BreakerOpenError, match="at least 12 new streams of topic t"):
        planner.plan(spark, new_run(), rules, recovered, LoadLimits(streams=TopicLimits(10)))


def test_what_was_let_in_is_not_judged_again_by_a_repeat_or_a_rebuild(spark: SparkSession, new_run: Runs) -> None:
    many = settings_of(new_run(), policies={"max_new_streams": None}, **BY_PRODUCER)
    few = settings_of(new_run(), policies={"max_new_streams": 1}, **BY_PRODUCER)
    put(spark, new_run(), named("t", 1, 4))

    with stopped_at(steps, "append_silver"):
        bronze_to_silver.run(spark, new_run(), many)
    assert bronze_to_silver.run(spark, new_run(), few)["repeated"] == [1]

    shown: Any = rebuild.rebuild(spark, new_run(), few, apply=False, reason="-", by="ann")
    assert (shown["records"], shown["changes"]) == (4, [])
    assert tables.exists(spark, new_run().table("silver_records"))
