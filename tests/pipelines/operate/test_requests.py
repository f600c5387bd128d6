"""What a person decides, over real tables: released and discarded records, and watermarks that are reset."""

from __future__ import annotations

import json
from dataclasses import replace
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
from tests.support.prepared import empty
from tests.support.small_config import settings_of
from tests.support.stages import Stopped, loaded, stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings
    from tests.support.prepared import Histories, History

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


def reset(
    spark: SparkSession, run: Run, settings: Settings, partition: int = 0, *, is_dry_run: bool = False, **where: Any
) -> dict[str, Any]:
    request = Request("reset", "the sender was installed again", "ann", reset=Reset("t", partition, **where))
    return requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)


def kept(spark: SparkSession, run: Run, topic: str = "t") -> list[tuple[object, ...]]:
    """Offset, epoch, sequence, arrival and load of each record in Silver."""
    rows = (
        spark.read.table(run.table("silver_records").sql).where(f"topic = '{topic}'").orderBy("partition", "offset").collect()
    )
    return [(row["offset"], row["epoch"], row["sequence"], row["arrival"], row["load_seq"]) for row in rows]


def waiting(spark: SparkSession, run: Run, topic: str = "t") -> list[tuple[object, ...]]:
    """Offset, class, state and settling load of each reject."""
    rows = spark.read.table(run.table("silver_rejects").sql).where(f"topic = '{topic}'")
    found = rows.orderBy("partition", "first_offset").collect()
    return [(row["first_offset"], row["class"], row["state"], row["settled_load_seq"]) for row in found]


def marks(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    rows = spark.read.table(run.table("silver_watermarks").sql).orderBy("partition").collect()
    return [(row["epoch"], row["high_watermark"], row["last_offset"], row["declared_epoch"], row["load_seq"]) for row in rows]


def versions(spark: SparkSession, run: Run) -> list[int]:
    """The last version of Bronze and of each table of Silver."""
    return [tables.version(spark, run.table(name)) for name in (*TABLES, "bronze_records")]


def ledger(spark: SparkSession, run: Run, load_seq: int) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows of a load in the ledger, by topic and partition."""
    rows = spark.read.table(run.table("silver_loads").sql).where(f"load_seq = {load_seq}").collect()
    return {(row["topic"], row["partition"]): row.asDict() for row in rows}


def require_gate_passes(spark: SparkSession, run: Run) -> None:
    audited = gate.audit(spark, run, Gate())
    assert audited is not None
    verdict.raise_if_failed(spark, run, audited)


def of(topic: str, records: list[Record]) -> list[Record]:
    return [replace(record, topic=topic) for record in records]


@pytest.fixture(scope="module")
def settled(spark: SparkSession, histories: Histories, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, Any]]:
    """Three topics with records that wait, a person's decisions on them (loads 2 to 5), and copies that come later (load 6)."""
    run = histories.copy(empty, tmp_path_factory.mktemp("settled") / "lakehouse")
    topics = {"jumps": {"max_jump": 10}, "both": {"max_jump": 3}}
    settings = settings_of(run, topics=("t", *topics), policies={"max_quarantined_share": 1, "topics": topics})
    first = [*sent(0, [1, 4, 2, 3, "x", 5]), *of("jumps", sent(0, [1, 2, 100, 101]))]
    first += [record for partition in (0, 1) for record in of("both", sent(0, [1, 6, 4, 7, 6], partition=partition))]
    loaded(spark, run, settings, first)

    before = versions(spark, run)
    done = {"dry run": asked(spark, run, settings, "release", topic="t", is_dry_run=True)}
    assert versions(spark, run) == before
    done["late"] = asked(spark, run, settings, "release", topic="t", offset=2)
    done["again"] = asked(spark, run, settings, "release", topic="t", offset=2)
    done["jump"] = asked(spark, run, settings, "release", kind="jump", topic="jumps", partition=0)
    done["both"] = asked(spark, run, settings, "release", topic="both", partition=0)
    asked(spark, run, settings, "discard", kind="jump", topic="both", partition=1)

    copies = [*sent(6, [2, 3, 6]), *of("jumps", sent(4, [102, 50, 100]))]
    loaded(spark, run, settings, [*copies, *of("both", [*sent(5, [6]), *sent(5, [6], partition=1)])])
    require_gate_passes(spark, run)
    return run, done


def test_a_released_record_is_in_silver_once_as_late_with_the_reason(
    spark: SparkSession, settled: tuple[Run, dict[str, Any]]
) -> None:
    run, done = settled

    tried, again = done["dry run"], done["again"]
    assert (tried["records"], tried["classes"], tried["left"]) == (2, {"late": 2}, {"no_sequence": 1})
    assert (done["late"]["load_seq"], done["late"]["records"]) == (2, 1)
    assert (again["load_seq"], again["records"]) == (None, 0)
    assert kept(spark, run) == [
        (0, 0, 1, "in_order", 1),
        (1, 0, 4, "in_order", 1),
        (2, 0, 2, "late", 2),
        (5, 0, 5, "in_order", 1),
        (8, 0, 6, "in_order", 6),
    ]
    assert waiting(spark, run)[:3] == [(2, "late", "released", 2), (3, "late", "held", None), (4, "invalid", "held", None)]
    claim = ledger(spark, run, 2)["t", 0]
    assert (claim["kind"], claim["reason"], claim["requested_by"]) == ("release", "checked with the sender", "ann")
    assert (claim["records"], claim["released"], json.loads(claim["request"])["wanted"]["offset"]) == (0, 1, 2)
    later = ledger(spark, run, 6)["t", 0]  # of the copies, one was released and one waits
    assert (later["duplicate"], later["accepted"]) == (2, 1)


def test_a_released_jump_moves_the_watermark_and_what_lies_between_is_late(
    spark: SparkSession, settled: tuple[Run, dict[str, Any]]
) -> None:
    run, done = settled

    assert [(row["high_watermark_before"], row["high_watermark_after"]) for row in done["jump"]["streams"]] == [(2, 101)]
    assert ledger(spark, run, 3)["jumps", 0]["missing"] == 97
    later = ledger(spark, run, 6)["jumps", 0]
    assert [later[name] for name in ("accepted", "late", "duplicate")] == [1, 1, 1]


def test_of_a_held_jump_and_a_late_record_with_its_number_silver_takes_one(
    spark: SparkSession, settled: tuple[Run, dict[str, Any]]
) -> None:
    run, done = settled

    assert (done["both"]["records"], done["both"]["left"]) == (1, {"already_kept": 1})
    assert waiting(spark, run, "both")[:2] == [(1, "jump", "released", 4), (4, "late", "held", None)]
    later = ledger(spark, run, 6)  # copies of what Silver took, and of what is late
    assert [later["both", partition]["duplicate"] for partition in (0, 1)] == [1, 1]
    assert [row[:3] for row in kept(spark, run, "both")] == [
        *[(0, 0, 1), (1, 0, 6), (2, 0, 4), (3, 0, 7)],
        *[(0, 0, 1), (2, 0, 4), (3, 0, 7)],
    ]


def test_a_release_keeps_no_sequence_twice_and_an_impossible_reset_writes_nothing(
    spark: SparkSession, prepared: Callable[[History], Run], new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(empty)
    settings = settings_of(run, epoch={"header": "epoch"})
    # Offset 3 is a record of the epoch before, as Silver has it; Silver never had 4; 5 is a copy of 4.
    records = sent(0, [1, 2, 1, 2, 3, 3, "x"], epochs=[0, 0, 1, 0, 0, 0, 1])
    loaded(spark, run, settings, records)
    put(spark, run, sent(7, [2], epochs=[1]))
    undecided = versions(spark, run)
    with pytest.raises(UsageError, match="names the epochs"):
        reset(spark, run, settings, is_new_epoch=True)
    assert versions(spark, run) == undecided

    tried = asked(spark, run, settings, "release", kind="fenced", is_dry_run=True)
    with monkeypatch.context() as patched:
        patched.setattr(load, "advance", stop)
        with pytest.raises(Stopped):
            asked(spark, run, settings, "release", kind="fenced")
    claimed = versions(spark, run)
    with pytest.raises(UsageError, match=r"no watermark of such a stream(.|\n)*producer p"):
        reset(spark, run, settings, producer="p", to=5)
    with pytest.raises(UsageError, match="names the epochs"):
        reset(spark, run, settings, is_new_epoch=True)
    with pytest.raises(UsageError, match="above that sequence"):
        reset(spark, run, settings, to=0)
    assert versions(spark, run) == claimed

    discarded = asked(spark, new_run(), settings, "discard")

    assert (tried["records"], tried["left"]) == (1, {"already_kept": 2})
    assert (discarded["classes"], discarded["left"]) == ({"fenced": 2, "invalid": 1}, {})
    assert [row for row in kept(spark, run) if row[3] == "late"] == [(4, 0, 3, "late", 2)]
    assert waiting(spark, run) == [
        (3, "fenced", "discarded", 3),
        (4, "fenced", "released", 2),
        (5, "fenced", "discarded", 3),
        (6, "invalid", "discarded", 3),
    ]
    assert marks(spark, run) == [(1, 1, 6, None, 3)]


def test_only_streams_that_opened_the_breaker_start_again_in_a_declared_epoch(
    spark: SparkSession, prepared: Callable[[History], Run]
) -> None:
    run = prepared(empty)
    settings = settings_of(run)
    loaded(spark, run, settings, [record for each in (0, 1, 2) for record in sent(0, list(range(50, 60)), partition=each)])
    restarted = [*sent(10, list(range(1, 31)), partition=1), *sent(10, list(range(1, 13)), partition=2)]
    with pytest.raises(BreakerOpenError, match="new-epoch"):
        loaded(spark, run, settings, [*sent(10, [60, 61]), *restarted])
    before = versions(spark, run)

    for is_dry_run in (True, False):
        with pytest.raises(BreakerOpenError, match=r"precedes the new epoch(.|\n)*partition 1"):
            reset(spark, run, settings, is_new_epoch=True, is_dry_run=is_dry_run)
    shown = reset(spark, run, settings, 1, is_new_epoch=True, is_dry_run=True)
    assert versions(spark, run) == before
    done = [reset(spark, run, settings, partition, is_new_epoch=True) for partition in (1, 1, 2)]
    after = load.load_once(spark, run, Rules.of(settings))
    more = loaded(spark, run, settings, sent(40, [15, 31, 55], partition=1))

    following = {row["partition"]: (row["accepted"], row["epoch_after"]) for row in shown["next_load"]["streams"]}
    assert (following[0], following[1]) == ((2, 0), (30, 1))
    assert [(each["load_seq"], len(each["streams"])) for each in done] == [(2, 1), (None, 0), (3, 1)]
    assert done[0]["streams"][0]["declared_epoch"] == 1
    assert after is not None
    assert after.counts["accepted"] == 44
    assert {row[:3] for row in kept(spark, run)} >= {(10, 0, 60), (11, 0, 61), (10, 1, 1), (39, 1, 30), (21, 1, 12)}
    assert [more.counts[name] for name in ("accepted", "duplicate")] == [2, 1]  # 55 is another record than epoch 0's
    assert marks(spark, run)[1] == (1, 55, 42, 1, 5)
    require_gate_passes(spark, run)


def test_a_watermark_rises_and_falls_only_in_a_new_epoch_after_what_is_undecided(
    spark: SparkSession, prepared: Callable[[History], Run]
) -> None:
    run = prepared(empty)
    settings = settings_of(run)
    loaded(spark, run, settings, sent(0, [1, 2, 900]))

    with pytest.raises(UsageError, match=r"1 records of epoch 0 .* above 2(.|\n)*--new-epoch --to 2"):
        reset(spark, run, settings, to=2)
    reset(spark, run, settings, to=1000)
    reset(spark, run, settings, to=950)
    put(spark, run, sent(3, [940, 951]))  # the last ones before the sender was installed again
    shown = reset(spark, run, settings, to=2, is_new_epoch=True, is_dry_run=True)
    done = reset(spark, run, settings, to=2, is_new_epoch=True)
    after = loaded(spark, run, settings, sent(5, [2, 3, 951]))

    assert [(row["accepted"], row["late"], row["epoch_after"]) for row in shown["first_load"]["streams"]] == [(1, 1, 0)]
    assert (shown["next_load"]["load_seq"], done["load_seq"]) == (None, 5)
    assert [after.counts[name] for name in ("accepted", "late")] == [2, 1]
    assert [row[:3] for row in kept(spark, run)] == [(0, 0, 1), (1, 0, 2), (2, 0, 900), (4, 0, 951), (6, 1, 3), (7, 1, 951)]
    assert waiting(spark, run) == [(3, "late", "held", None), (5, "late", "held", None)]
    assert marks(spark, run) == [(1, 951, 7, 1, 6)]
    require_gate_passes(spark, run)


def test_a_new_epoch_of_a_retired_stream_waits_while_new_streams_are_too_many(
    spark: SparkSession, prepared: Callable[[History], Run]
) -> None:
    run = prepared(empty)
    settings = settings_of(run, producer={"header": "producer"})
    few = settings_of(run, producer={"header": "producer"}, policies={"max_new_streams": 1})
    loaded(spark, run, settings, [Record.of(0, 1, producer="a")])
    assert asked(spark, run, settings, "retire", days=0)["retired"]
    put(spark, run, [Record.of(1, 2, producer="a"), Record.of(2, 1, producer="b"), Record.of(3, 1, producer="c")])
    before = versions(spark, run)

    for is_dry_run in (True, False):
        with pytest.raises(BreakerOpenError, match=r"precedes the new epoch(.|\n)*2 new streams"):
            reset(spark, run, few, producer="a", is_new_epoch=True, is_dry_run=is_dry_run)
    assert versions(spark, run) == before
    shown = reset(spark, run, settings, producer="a", is_new_epoch=True, is_dry_run=True)
    done = reset(spark, run, settings, producer="a", is_new_epoch=True)

    first = {row["producer"]: (row["accepted"], row["epoch_after"]) for row in shown["first_load"]["streams"]}
    assert first["a"] == (1, 0)
    assert done["streams"][0]["declared_epoch"] == 1
    assert (1, 0, 2) in [row[:3] for row in kept(spark, run)]
