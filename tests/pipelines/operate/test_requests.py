"""What a person decides, over real tables: released and discarded records, and watermarks that are reset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from expectations import gate, verdict
from lakehouse.delta import tables
from lakehouse.errors import BreakerOpenError, UsageError
from lakehouse.settings.pipeline import Gate
from pipelines.operate import requests
from silver.load import steps as load
from silver.rules import Rules
from silver.state.request import Kind, Request, Reset, Wanted
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import Stopped, loaded, stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

pytestmark = pytest.mark.spark

TABLES = ("silver_loads", "silver_records", "silver_rejects", "silver_watermarks")


def sent(start: int, sequences: list[object], *, partition: int = 0, epochs: list[int] | None = None) -> list[Record]:
    """Records at offsets in a row."""
    epoch_of = epochs if epochs is not None else [None for _ in sequences]
    numbered = enumerate(zip(sequences, epoch_of, strict=True), start)
    return [Record.of(offset, sequence, partition=partition, epoch=epoch) for offset, (sequence, epoch) in numbered]


def asked(
    spark: SparkSession, run: Run, settings: Settings, what: Kind, *, is_dry_run: bool = False, **wanted: Any
) -> dict[str, Any]:
    request = Request(what, "checked with the sender", "ann", wanted=Wanted(**wanted))
    return requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)


def reset(spark: SparkSession, run: Run, settings: Settings, *, is_dry_run: bool = False, **where: Any) -> dict[str, Any]:
    request = Request("reset", "the sender was installed anew", "ann", reset=Reset("t", 0, **where))
    return requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)


def kept(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    """Offset, epoch, sequence, arrival and load of each record in Silver."""
    rows = spark.read.table(run.table("silver_records").sql).orderBy("partition", "offset").collect()
    return [(row["offset"], row["epoch"], row["sequence"], row["arrival"], row["load_seq"]) for row in rows]


def waiting(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    """Offset, class, state and settling load of each reject."""
    rows = spark.read.table(run.table("silver_rejects").sql).orderBy("partition", "first_offset").collect()
    return [(row["first_offset"], row["class"], row["state"], row["settled_load_seq"]) for row in rows]


def marks(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    rows = spark.read.table(run.table("silver_watermarks").sql).orderBy("partition").collect()
    return [(row["epoch"], row["high_watermark"], row["last_offset"], row["declared_epoch"], row["load_seq"]) for row in rows]


def versions(spark: SparkSession, run: Run) -> list[int]:
    """The last version of Bronze and of each table of Silver."""
    return [tables.version(spark, run.table(name)) for name in (*TABLES, "bronze_records")]


def require_gate_passes(spark: SparkSession, run: Run) -> None:
    audited = gate.audit(spark, run, Gate())
    assert audited is not None
    verdict.raise_if_failed(spark, run, audited)


def test_a_released_record_is_in_silver_marked_late_with_the_reason_kept_and_once_however_often_it_is_asked(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, sent(0, [1, 4, 2, 3, "x", 5]))
    before = [spark.read.table(run.table(name).sql).count() for name in TABLES]

    tried = asked(spark, new_run(), settings, "release", is_dry_run=True)
    assert [spark.read.table(run.table(name).sql).count() for name in TABLES] == before
    done = asked(spark, new_run(), settings, "release", offset=2)
    again = asked(spark, new_run(), settings, "release", offset=2)

    assert (tried["records"], tried["classes"], tried["left"]) == (2, {"late": 2}, {"no_sequence": 1})
    assert (done["load_seq"], done["records"]) == (2, 1)
    assert (again["load_seq"], again["records"]) == (None, 0)
    assert kept(spark, run) == [
        (0, 0, 1, "in_order", 1),
        (1, 0, 4, "in_order", 1),
        (2, 0, 2, "late", 2),
        (5, 0, 5, "in_order", 1),
    ]
    assert waiting(spark, run) == [(2, "late", "released", 2), (3, "late", "held", None), (4, "invalid", "held", None)]
    claim = spark.read.table(run.table("silver_loads").sql).where("load_seq = 2").collect()[0]
    assert (claim["kind"], claim["reason"], claim["requested_by"]) == ("release", "checked with the sender", "ann")
    assert (claim["records"], claim["released"], json.loads(claim["request"])["wanted"]["offset"]) == (0, 1, 2)

    resent = loaded(spark, new_run(), settings, sent(6, [2, 3, 6]))  # one was released, one waits

    assert (resent.counts["duplicate"], resent.counts["accepted"]) == (2, 1)
    require_gate_passes(spark, run)


def test_a_release_keeps_no_sequence_twice_a_discard_needs_none_and_producers_name_their_epochs(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run, epoch={"header": "epoch"})
    # Offset 3 is a record of the epoch before, as Silver has it; 4 is one that it never had; 5 is that again.
    records = sent(0, [1, 2, 1, 2, 3, 3, "x"], epochs=[0, 0, 1, 0, 0, 0, 1])
    loaded(spark, run, settings, records)

    done = asked(spark, new_run(), settings, "release", kind="fenced")
    discarded = asked(spark, new_run(), settings, "discard")

    assert (done["records"], done["left"]) == (1, {"already_kept": 2})
    assert (discarded["classes"], discarded["left"]) == ({"fenced": 2, "invalid": 1}, {})
    assert [row for row in kept(spark, run) if row[3] == "late"] == [(4, 0, 3, "late", 2)]
    assert waiting(spark, run) == [
        (3, "fenced", "discarded", 3),
        (4, "fenced", "released", 2),
        (5, "fenced", "discarded", 3),
        (6, "invalid", "discarded", 3),
    ]
    assert marks(spark, run) == [(1, 1, 6, None, 3)]
    with pytest.raises(UsageError, match=r"topic t, partition 0, producer p(.|\n)*expected: topic t, partition 0"):
        reset(spark, run, settings, producer="p", to=5)
    with pytest.raises(UsageError, match="names the epochs"):
        reset(spark, run, settings, is_new_epoch=True)


def test_a_released_jump_is_believed_the_watermark_follows_and_what_lies_between_is_late(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run, policies={"max_jump": 10, "max_quarantined_share": 1})
    loaded(spark, run, settings, sent(0, [1, 2, 100, 101]))

    done = asked(spark, new_run(), settings, "release", kind="jump", topic="t", partition=0)
    later = loaded(spark, new_run(), settings, sent(4, [102, 50, 100]))

    assert [(row["high_watermark_before"], row["high_watermark_after"]) for row in done["streams"]] == [(2, 101)]
    assert [later.counts[name] for name in ("accepted", "late", "duplicate")] == [1, 1, 1]
    assert spark.read.table(run.table("silver_loads").sql).where("load_seq = 2").collect()[0]["missing"] == 97


def test_of_a_held_jump_and_a_late_record_with_its_number_silver_takes_one(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run, policies={"max_jump": 3, "max_quarantined_share": 1})
    loaded(spark, run, settings, sent(0, [1, 6, 4, 7, 6]))
    loaded(spark, run, settings, sent(0, [1, 6, 4, 7, 6], partition=1))

    done = asked(spark, new_run(), settings, "release", partition=0)
    asked(spark, new_run(), settings, "discard", kind="jump", partition=1)
    later = loaded(spark, new_run(), settings, [*sent(5, [6]), *sent(5, [6], partition=1)])

    assert (done["records"], done["left"]) == (1, {"already_kept": 1})
    assert waiting(spark, run)[:2] == [(1, "jump", "released", 3), (4, "late", "held", None)]
    assert later.counts["duplicate"] == 2  # of what Silver took, and of what is late
    assert [row[:3] for row in kept(spark, run)] == [
        *[(0, 0, 1), (1, 0, 6), (2, 0, 4), (3, 0, 7)],
        *[(0, 0, 1), (2, 0, 4), (3, 0, 7)],
    ]


@pytest.mark.parametrize("steps", [0, 2], ids=["claim", "rejects"])
def test_a_release_that_stopped_after_any_step_is_finished_by_the_next_run(
    spark: SparkSession, new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, sent(0, [1, 3, 2]))

    with monkeypatch.context() as patched:
        patched.setattr(load, ("append_silver", "append_rejects", "advance")[steps], stop)
        with pytest.raises(Stopped):
            asked(spark, run, settings, "release")
    put(spark, run, sent(3, [4]))

    done = [load.load_once(spark, new_run(), Rules.of(settings)) for _ in range(2)]

    assert [each and (each.load_seq, each.is_repeat, each.records) for each in done] == [(2, True, 0), (3, False, 1)]
    assert kept(spark, run) == [
        (0, 0, 1, "in_order", 1),
        (1, 0, 3, "in_order", 1),
        (2, 0, 2, "late", 2),
        (3, 0, 4, "in_order", 3),
    ]
    assert waiting(spark, run) == [(2, "late", "released", 2)]


def test_a_new_epoch_lets_a_stream_start_anew_that_the_breaker_had_stopped(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, sent(0, list(range(50, 60))))
    with pytest.raises(BreakerOpenError, match="new-epoch"):
        loaded(spark, run, settings, sent(10, list(range(1, 21))))

    shown = reset(spark, new_run(), settings, is_new_epoch=True, is_dry_run=True)
    done = reset(spark, new_run(), settings, is_new_epoch=True)
    again = reset(spark, new_run(), settings, is_new_epoch=True)
    after = load.load_once(spark, new_run(), Rules.of(settings))
    more = loaded(spark, new_run(), settings, sent(30, [15, 21, 55]))

    assert [(row["accepted"], row["epoch_after"]) for row in shown["next_load"]["streams"]] == [(20, 1)]
    assert (done["load_seq"], done["streams"][0]["declared_epoch"], again["load_seq"]) == (2, 1, None)
    assert after is not None
    assert after.counts["accepted"] == 20
    assert [more.counts[name] for name in ("accepted", "duplicate")] == [2, 1]  # 55 is another record than epoch 0's
    assert marks(spark, run) == [(1, 55, 32, 1, 4)]
    require_gate_passes(spark, run)


def test_what_bronze_holds_undecided_is_decided_before_a_new_epoch_begins(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, sent(0, [1, 2, 3]))
    put(spark, run, sent(3, [4, 3, 5]))  # the last ones before the sender was installed anew

    shown = reset(spark, new_run(), settings, is_new_epoch=True, is_dry_run=True)
    done = reset(spark, new_run(), settings, is_new_epoch=True)
    after = loaded(spark, new_run(), settings, sent(6, [1, 2, 4]))

    assert [(row["accepted"], row["epoch_after"]) for row in shown["first_load"]["streams"]] == [(2, 0)]
    assert (shown["next_load"]["load_seq"], done["load_seq"]) == (None, 3)
    assert after.counts["accepted"] == 3
    assert [row[:3] for row in kept(spark, run)] == [
        (0, 0, 1),
        (1, 0, 2),
        (2, 0, 3),
        (3, 0, 4),
        (5, 0, 5),
        (6, 1, 1),
        (7, 1, 2),
        (8, 1, 4),
    ]
    require_gate_passes(spark, run)


def test_a_new_epoch_of_a_retired_stream_begins_after_what_bronze_holds_undecided_of_it(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run, producer={"header": "producer"})
    loaded(spark, run, settings, [Record.of(0, 1, producer="a"), Record.of(1, 2, producer="a")])
    assert asked(spark, new_run(), settings, "retire", days=0)["retired"]
    put(spark, run, [Record.of(3, 3, producer="a")])

    shown = reset(spark, new_run(), settings, producer="a", is_new_epoch=True, is_dry_run=True)
    done = reset(spark, new_run(), settings, producer="a", is_new_epoch=True)

    assert [(row["accepted"], row["epoch_after"]) for row in shown["first_load"]["streams"]] == [(1, 0)]
    assert done["streams"][0]["declared_epoch"] == 1
    assert (3, 0, 3) in [row[:3] for row in kept(spark, run)]


def test_undecided_records_are_left_to_the_new_epoch_only_where_their_own_stream_opened_the_breaker(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, [*sent(0, list(range(50, 60))), *sent(0, list(range(50, 60)), partition=1)])
    put(spark, run, [*sent(10, [60, 61]), *sent(10, list(range(1, 31)), partition=1)])  # partition 1 started anew, 0 did not
    before = versions(spark, run)

    for is_dry_run in (True, False):
        with pytest.raises(BreakerOpenError, match=r"precedes the new epoch(.|\n)*partition 1"):
            reset(spark, new_run(), settings, is_new_epoch=True, is_dry_run=is_dry_run)
    assert versions(spark, run) == before
    request = Request("reset", "installed anew", "ann", reset=Reset("t", 1, is_new_epoch=True))
    requests.carry_out(spark, new_run(), settings, request, is_dry_run=False)
    after = load.load_once(spark, new_run(), Rules.of(settings))

    assert after is not None
    assert after.counts["accepted"] == 32
    assert {row[:3] for row in kept(spark, run)} >= {(10, 0, 60), (11, 0, 61), (10, 1, 1), (39, 1, 30)}


def test_each_of_several_streams_that_started_anew_can_be_given_its_epoch(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run)
    both = (0, 1)
    loaded(spark, run, settings, [record for each in both for record in sent(0, list(range(50, 60)), partition=each)])
    put(spark, run, [record for each in both for record in sent(10, list(range(1, 13)), partition=each)])

    for partition in both:
        request = Request("reset", "installed anew", "ann", reset=Reset("t", partition, is_new_epoch=True))
        requests.carry_out(spark, new_run(), settings, request, is_dry_run=False)

    after = load.load_once(spark, new_run(), Rules.of(settings))
    assert after is not None
    assert after.counts["accepted"] == 24


def test_too_many_new_streams_are_no_reason_to_leave_undecided_records_to_a_new_epoch(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run, producer={"header": "producer"}, policies={"max_new_streams": 1})
    loaded(spark, run, settings, [Record.of(0, 1, producer="a")])
    put(spark, run, [Record.of(1, 2, producer="a"), Record.of(2, 1, producer="b"), Record.of(3, 1, producer="c")])
    before = versions(spark, run)

    for is_dry_run in (True, False):
        with pytest.raises(BreakerOpenError, match=r"precedes the new epoch(.|\n)*2 new streams"):
            reset(spark, new_run(), settings, producer="a", is_new_epoch=True, is_dry_run=is_dry_run)

    assert versions(spark, run) == before


def test_a_reset_that_cannot_be_is_refused_before_anything_is_written(
    spark: SparkSession, new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    named = settings_of(run, epoch={"header": "epoch"})
    loaded(spark, run, named, sent(0, [1, 2, "x"], epochs=[0, 0, 0]))
    put(spark, run, sent(3, [3], epochs=[0]))
    undecided = versions(spark, run)
    with pytest.raises(UsageError, match="names the epochs"):
        reset(spark, new_run(), named, is_new_epoch=True)
    assert versions(spark, run) == undecided

    with monkeypatch.context() as patched:
        patched.setattr(load, "advance", stop)
        with pytest.raises(Stopped):
            asked(spark, run, named, "discard")
    claimed = versions(spark, run)
    with pytest.raises(UsageError, match="no watermark of such a stream"):
        reset(spark, new_run(), named, producer="nobody", to=9)
    with pytest.raises(UsageError, match="names the epochs"):
        reset(spark, new_run(), named, is_new_epoch=True)
    with pytest.raises(UsageError, match="above that sequence"):
        reset(spark, new_run(), named, to=1)
    assert versions(spark, run) == claimed


def test_a_watermark_is_raised_but_falls_only_where_silver_holds_nothing_above(
    spark: SparkSession, new_run: Callable[[], Run]
) -> None:
    run = new_run()
    settings = settings_of(run)
    loaded(spark, run, settings, sent(0, [1, 2, 900]))

    with pytest.raises(UsageError, match=r"1 records of epoch 0 .* above 2(.|\n)*--new-epoch --to 2"):
        reset(spark, run, settings, to=2)
    reset(spark, new_run(), settings, to=1000)
    reset(spark, new_run(), settings, to=950)
    after_both = loaded(spark, new_run(), settings, sent(3, [940, 951]))
    reset(spark, new_run(), settings, to=2, is_new_epoch=True)
    after_new = loaded(spark, new_run(), settings, sent(5, [2, 3, 951]))

    assert [after_both.counts[name] for name in ("accepted", "late")] == [1, 1]
    assert [after_new.counts[name] for name in ("accepted", "late")] == [2, 1]
    assert marks(spark, run) == [(1, 951, 7, 1, 6)]
    require_gate_passes(spark, run)
