"""What a person decides, over real tables: released and discarded records, and watermarks that are reset."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.delta import tables
from lakehouse.errors import BreakerOpenError, UsageError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines.operate import requests
from silver.load import steps as load
from silver.rules import Rules
from silver.state.request import Kind, RecordFilter, Request, Reset
from tests.support.bronze import Record, put
from tests.support.prepared import copy_of, empty
from tests.support.small_config import settings_of
from tests.support.stages import loaded, require_sound, stopped_at

TABLES = ("silver_loads", "silver_records", "silver_rejects", "silver_watermarks", "bronze_records")


def sent(start: int, sequences: list[object], *, partition: int = 0, epochs: list[int] | None = None) -> list[Record]:
    epoch_of = epochs if epochs is not None else [None for _ in sequences]
    numbered = enumerate(zip(sequences, epoch_of, strict=True), start)
    return [Record.of(offset, sequence, partition=partition, epoch=epoch) for offset, (sequence, epoch) in numbered]


def asked(
    spark: SparkSession, run: Run, settings: Settings, what: Kind, *, is_dry_run: bool = False, **wanted: Any
) -> dict[str, Any]:
    request = Request(what, "checked with the sender", "ann", wanted=RecordFilter(**wanted))
    return requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)


def reset(
    spark: SparkSession, run: Run, settings: Settings, partition: int = 0, *, is_dry_run: bool = False, **where: Any
) -> dict[str, Any]:
    request = Request("reset", "the sender was installed again", "ann", reset=Reset("t", partition, **where))
    return requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)


def kept(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    rows = spark.read.table(run.table("silver_records").sql).where("topic = 't'").orderBy("partition", "offset")
    return [tuple(row[name] for name in ("offset", "epoch", "sequence", "arrival", "load_seq")) for row in rows.collect()]


def waiting(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    rows = spark.read.table(run.table("silver_rejects").sql).where("topic = 't'")
    found = rows.orderBy("partition", "first_offset").collect()
    return [(row["first_offset"], row["class"], row["state"], row["settled_load_seq"]) for row in found]


def marks(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    rows = spark.read.table(run.table("silver_watermarks").sql).orderBy("partition").collect()
    return [(row["epoch"], row["high_watermark"], row["last_offset"], row["declared_epoch"], row["load_seq"]) for row in rows]


def versions(spark: SparkSession, run: Run) -> list[int]:
    return [tables.version(spark, run.table(name)) for name in TABLES]


run = copy_of(empty)


def test_a_release_takes_what_its_filter_names_once_with_the_reason(spark: SparkSession, run: Run) -> None:
    topics = {"jumps": {"max_jump": 10}}
    settings = settings_of(run, topics=("t", *topics), policies={"max_quarantined_share": 1, "topics": topics})
    jumps = [replace(record, topic="jumps") for record in sent(0, [1, 2, 100, 101])]
    loaded(spark, run, settings, [*sent(0, [1, 4, 2, 3, "x", 5]), *jumps])

    tried = asked(spark, run, settings, "release", topic="t", is_dry_run=True)
    late, again = (asked(spark, run, settings, "release", topic="t", offset=2) for _ in range(2))
    jump = asked(spark, run, settings, "release", kind="jump", topic="jumps", partition=0)
    before = versions(spark, run)
    nowhere: list[tuple[Kind, int, str]] = [("discard", 2, "offset 2 is released; .* 3, 4"), ("release", 99, "nearest .* 4, 3")]
    for what, offset, near in nowhere:
        with pytest.raises(UsageError, match=rf"No held record has this offset(.|\n)*{near}"):
            asked(spark, run, settings, what, topic="t", partition=0, offset=offset)
    assert versions(spark, run) == before

    require_sound(spark, run)
    assert (tried["records"], tried["classes"], tried["left"]) == (2, {"late": 2}, {"no_sequence": 1})
    assert (late["load_seq"], late["records"], again["load_seq"], again["records"]) == (2, 1, None, 0)
    assert kept(spark, run) == [
        (0, 0, 1, "in_order", 1),
        (1, 0, 4, "in_order", 1),
        (2, 0, 2, "late", 2),
        (5, 0, 5, "in_order", 1),
    ]
    assert waiting(spark, run) == [(2, "late", "released", 2), (3, "late", "held", None), (4, "invalid", "held", None)]
    ledger = spark.read.table(run.table("silver_loads").sql).where("load_seq > 1").orderBy("load_seq")
    claim, of_jump = ledger.collect()
    assert (claim["kind"], claim["reason"], claim["requested_by"]) == ("release", "checked with the sender", "ann")
    assert (claim["records"], claim["released"], json.loads(claim["request"])["wanted"]["offset"]) == (0, 1, 2)
    assert [(row["high_watermark_before"], row["high_watermark_after"]) for row in jump["streams"]] == [(2, 101)]
    assert (of_jump["topic"], of_jump["missing"]) == ("jumps", 97)


def test_no_release_doubles_and_no_bad_reset_is_written(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run, epoch={"header": "epoch"})
    # Offset 3 is a copy of a record of the epoch before; Silver never had 4; 5 is a copy of 4.
    loaded(spark, run, settings, sent(0, [1, 2, 1, 2, 3, 3], epochs=[0, 0, 1, 0, 0, 0]))
    put(spark, run, sent(6, [2], epochs=[1]))
    with stopped_at(load, "advance"):
        asked(spark, run, settings, "release", kind="fenced")
    claimed = versions(spark, run)
    impossible: list[tuple[dict[str, Any], str]] = [
        ({"producer": "p", "to": 5}, r"stream has no watermark(.|\n)*producer p"),
        ({"is_new_epoch": True}, "sends the epochs"),
        ({"to": 0}, "above that sequence"),
    ]
    for wanted, why in impossible:
        with pytest.raises(UsageError, match=why):
            reset(spark, run, settings, **wanted)
    assert versions(spark, run) == claimed

    again = asked(spark, run, settings, "release", kind="fenced")

    assert (again["load_seq"], again["left"]) == (None, {"already_kept": 1})
    assert [row for row in kept(spark, run) if row[3] == "late"] == [(4, 0, 3, "late", 2)]
    assert [row[2] for row in waiting(spark, run)] == ["discarded", "released", "held"]
    assert marks(spark, run) == [(1, 1, 5, None, 2)]


def test_only_streams_that_opened_the_breaker_start_again_in_a_declared_epoch(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run)
    loaded(spark, run, settings, [record for each in (0, 1, 2) for record in sent(0, list(range(50, 60)), partition=each)])
    restarted = [*sent(10, list(range(1, 31)), partition=1), *sent(10, list(range(1, 13)), partition=2)]
    with pytest.raises(BreakerOpenError, match="new-epoch"):
        loaded(spark, run, settings, [*sent(10, [60, 61]), *restarted])
    before = versions(spark, run)

    for is_dry_run in (True, False):
        with pytest.raises(BreakerOpenError, match=r"precede the new epoch(.|\n)*partition 1"):
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
    require_sound(spark, run)


def test_a_watermark_rises_and_falls_only_in_a_new_epoch_after_what_is_undecided(spark: SparkSession, run: Run) -> None:
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
    require_sound(spark, run)


def test_a_new_epoch_of_a_retired_stream_waits_while_new_streams_are_too_many(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run, producer={"header": "producer"})
    few = settings_of(run, producer={"header": "producer"}, policies={"max_new_streams": 1})
    loaded(spark, run, settings, [Record.of(0, 1, producer="a")])
    assert asked(spark, run, settings, "retire", days=0)["retired"]
    put(spark, run, [Record.of(1, 2, producer="a"), Record.of(2, 1, producer="b"), Record.of(3, 1, producer="c")])

    with pytest.raises(BreakerOpenError, match=r"precede the new epoch(.|\n)*2 new streams"):
        reset(spark, run, few, producer="a", is_new_epoch=True)
    shown = reset(spark, run, settings, producer="a", is_new_epoch=True, is_dry_run=True)
    done = reset(spark, run, settings, producer="a", is_new_epoch=True)

    first = {row["producer"]: (row["accepted"], row["epoch_after"]) for row in shown["first_load"]["streams"]}
    assert first["a"] == (1, 0)
    assert done["streams"][0]["declared_epoch"] == 1
    assert (1, 0, 2) in [row[:3] for row in kept(spark, run)]
