"""Erasing the records of a key, over real tables: what goes, what stays, and that everything goes on holding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gold import undo
from gold.publish import publish
from lakehouse.contracts.gate import GateRun
from lakehouse.delta import tables
from pipelines import silver_to_gold
from pipelines.operate import requests
from silver.state.request import Erase, Request
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import Stopped, loaded, require_sound, stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("created_tables")]

ANN, BOB = b"ann@example.org", b"bob@example.org"
TABLES = ("bronze_records", "silver_records", "gold_records", "gold_latest", "silver_loads", "silver_rejects", "by_key")


def of(key: bytes, offset: int, sequence: object, value: str | None = None) -> Record:
    """A record of a person; the value names the person."""
    text = f"{key.decode()} {sequence}" if value is None else value
    headers = (("seq", str(sequence).encode()), ("who", key))
    return Record(offset, value=text.encode(), key=key, headers=headers)


def passed(spark: SparkSession, run: Run, load_seq: int) -> GateRun:
    """A gate run that let a load out, on the tables as they are."""
    silver, loads = (tables.version(spark, run.table(name)) for name in ("silver_records", "silver_loads"))
    return GateRun(f"gate{load_seq}", load_seq, load_seq, silver_version=silver, loads_version=loads)


def erased(spark: SparkSession, run: Run, settings: Settings, *, is_dry_run: bool = False) -> dict[str, Any]:
    asked = Erase.of("t", ANN)
    return requests.carry_out(
        spark, run, settings, Request("erase", "she asked for it", "bob", erase=asked), is_dry_run=is_dry_run
    )


def tables_with(spark: SparkSession, run: Run, text: bytes) -> list[str]:
    """The tables of which a row, or a live data file, holds the text."""
    found = []
    for name in TABLES:
        table = run.table(name)
        if not tables.exists(spark, table):
            continue
        rows = spark.read.table(table.sql)
        files = [Path("/" + uri.removeprefix("file:").lstrip("/")) for uri in rows.inputFiles()]
        if text in repr(rows.collect()).encode() or any(text in file.read_bytes() for file in files):
            found.append(name)
    return found


@pytest.fixture
def settings(new_run: Callable[[], Run], tmp_path: Path) -> Settings:
    file = tmp_path / "by_key.sql"
    file.write_text("SELECT key, count(*) AS records FROM gold_records GROUP BY key", encoding="utf-8")
    return settings_of(new_run(), gold={"models": [{"name": "by_key", "sql": str(file)}]})


HISTORY = [
    of(ANN, 0, 1),
    of(BOB, 1, 2),
    of(ANN, 2, 5),
    of(ANN, 3, 1),  # a duplicate, in a block with the next
    of(BOB, 4, 2),
    of(ANN, 5, 3),  # late
    of(ANN, 6, 3),  # its duplicate
    of(ANN, 7, 2),  # a collision with Bob's
    of(BOB, 8, 1),  # a collision with Ann's
    of(ANN, 9, 1, "changed"),  # another
    of(ANN, 10, "x"),  # invalid
    of(BOB, 11, 6),
]


def test_a_key_is_gone_from_every_table_and_what_is_sent_again_does_not_come_back(
    spark: SparkSession, new_run: Callable[[], Run], settings: Settings
) -> None:
    run = new_run()
    first = loaded(spark, run, settings, HISTORY)
    publish(spark, run, passed(spark, run, 1), settings.gold)
    assert [first.counts[name] for name in ("accepted", "duplicate", "late", "collision", "invalid")] == [4, 3, 1, 3, 1]
    put(spark, run, [of(ANN, 12, 7)])  # not decided yet

    looked = erased(spark, new_run(), settings, is_dry_run=True)
    done = erased(spark, new_run(), settings)

    assert (looked["erased"], looked["records"]) == (8, 4)
    assert (done["load_seq"], done["erased"], done["classes"]) == (3, 9, {"late": 1, "collision": 2, "invalid": 1})
    assert [(row["high_watermark_before"], row["high_watermark_after"]) for row in done["streams"]] == [(7, 7)]
    assert tables_with(spark, run, ANN) == []
    kept = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
    assert [(row["sequence"], row["key"], row["erased"] and row["erased"]["load_seq"]) for row in kept] == [
        (1, None, 3),
        (2, BOB, None),
        (5, None, 3),
        (6, BOB, None),
        (7, None, 3),
    ]
    assert {row["key"]: row["records"] for row in spark.read.table(run.table("by_key").sql).collect()} == {BOB: 2}
    require_sound(spark, run, is_deep=True)
    assert erased(spark, new_run(), settings)["load_seq"] is None

    again = loaded(spark, new_run(), settings, [of(ANN, 13, 1), of(ANN, 14, 3), of(ANN, 15, 5), of(BOB, 16, 2), of(BOB, 17, 8)])
    assert [again.counts[name] for name in ("duplicate", "accepted")] == [4, 1]
    assert tables_with(spark, run, ANN) == ["bronze_records"]
    assert erased(spark, new_run(), settings)["erased"] == 3
    silver_to_gold.run_gate(spark, new_run(), settings)
    silver_to_gold.run_gold(spark, new_run(), settings)
    assert tables_with(spark, run, ANN) == []
    require_sound(spark, run, is_deep=True)


def test_gold_follows_although_the_erasure_died_before_it_and_a_gate_run_had_passed_before(
    spark: SparkSession, new_run: Callable[[], Run], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    loaded(spark, run, settings, [of(ANN, 0, 1), of(BOB, 1, 2)])
    publish(spark, run, passed(spark, run, 1), settings.gold)
    loaded(spark, new_run(), settings, [of(ANN, 2, 3)])
    audited_before = passed(spark, run, 2)
    with monkeypatch.context() as patched:
        patched.setattr(undo, "remove_key", stop)
        with pytest.raises(Stopped):
            erased(spark, new_run(), settings)
    publish(spark, new_run(), audited_before, settings.gold)
    assert tables_with(spark, run, ANN) == ["gold_records", "gold_latest", "by_key"]

    done = [silver_to_gold.amend_gold(spark, new_run(), settings) for _ in range(2)]

    assert done == [3, 3]
    assert tables_with(spark, run, ANN) == []
    publish(spark, new_run(), passed(spark, run, 3), settings.gold)
    assert silver_to_gold.amend_gold(spark, new_run(), settings) is None
    require_sound(spark, run, is_deep=True)
