"""Rows that an expectation keeps out of Gold instead of the load: `on_fail: quarantine_rows`, over real tables."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from expectations import gate
from lakehouse.contracts.gate import RELEASED, Decision
from lakehouse.errors import GateFailedError
from lakehouse.protocol import gold_rejects
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines import bronze_to_silver, silver_to_gold
from pipelines.operate import gate_decision, requests
from pipelines.recover import rebuild
from silver.state.request import Erase, Kind, RecordFilter, Request
from tests.support.bronze import Record, put
from tests.support.prepared import Histories, copy_of
from tests.support.silver import message
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound
from tidemark.readers import quarantine
from tidemark.readers.status import sentences, status
from tidemark.readers.why import why

NOT_NULL = {"expect_column_values_to_not_be_null": {"column": "payload.id", "on_fail": "quarantine_rows"}}
SMALL = {"expect_column_values_to_be_between": {"column": "payload.n", "max_value": 100, "on_fail": "quarantine_rows"}}
VALUE = {"format": "json", "schema": "id STRING, n BIGINT"}
IN_GOLD = [(0, 1), (1, 1), (2, 2), (5, 2)]  # offset and load of what is published: all but offsets 3 and 4
HELD = [(3, "held", None), (4, "held", None)]


def strict(run: Run, **more: Any) -> Settings:
    return settings_of(run, **{"gate": {"expectations": [NOT_NULL, SMALL]}, "value": VALUE, **more})


def without_id(offset: int, sequence: int, *, key: str = "k", n: int = 1) -> Record:
    return message(offset, sequence, key=key, value=f'{{"n": {n}}}'.encode())


def published(spark: SparkSession, run: Run) -> None:
    """Load 1 is published: 1 and 2. Of load 2 (3 to 6) offset 3 lacks its id, 4 as well, and its n is too large."""
    put(spark, run, [message(0, 1), message(1, 2, key="other")])
    ran(spark, run, strict(run))
    put(spark, run, [message(2, 3), without_id(3, 4, key="erased"), without_id(4, 5, n=101), message(5, 6)])
    ran(spark, run, strict(run))


run = copy_of(published)


def gold(spark: SparkSession, run: Run, name: str = "gold_records") -> list[tuple[int, int]]:
    rows = spark.read.table(run.table(name).sql).orderBy("offset").collect()
    return [(row["offset"], row["load_seq"]) for row in rows]


def aside(spark: SparkSession, run: Run) -> list[tuple[int, str, int | None]]:
    rows = sorted(gold_rejects.effective_rejects(spark, run), key=lambda row: row["offset"])
    return [(row["offset"], row["state"], row["settled_load_seq"]) for row in rows]


def settle(spark: SparkSession, run: Run, kind: Kind, offset: int | None = None) -> dict[str, Any]:
    asked = Request(kind, "looked at", "ann", wanted=RecordFilter(kind="unmet", offset=offset))
    return requests.carry_out(spark, run, strict(run), asked, is_dry_run=False)


def test_unmet_rows_are_kept_out_with_why_and_the_rest_is_published(spark: SparkSession, histories: Histories) -> None:
    run = histories.original(published)
    assert (gold(spark, run), aside(spark, run)) == (IN_GOLD, HELD)
    rows = {row["offset"]: row for row in gold_rejects.effective_rejects(spark, run)}
    names = ("topic", "partition", "producer", "epoch", "sequence", "load_seq")
    assert tuple(rows[4][name] for name in names) == ("t", 0, None, 0, 5, 2)
    not_null, small = "expect_column_values_to_not_be_null payload.id", "expect_column_values_to_be_between payload.n"
    assert (rows[3]["reason"], rows[4]["reason"]) == (not_null, f"{not_null}, {small}")
    results = spark.read.table(run.table("gate_results").sql).where("last_load_seq = 2 AND expectation LIKE 'expect%'")
    assert {(row["severity"], row["outcome"], row["observed"]) for row in results.collect()} == {
        ("warn", "failed", "2 of 4 unexpected, kept out of Gold"),
        ("warn", "failed", "1 of 4 unexpected, kept out of Gold"),
    }
    require_sound(spark, run, is_deep=True)

    listed, count = quarantine.held(run.lakehouse, RecordFilter())
    assert (count, quarantine.held(run.lakehouse, RecordFilter(), most=1)) == (2, (listed[:1], 2))
    shown_of_each = [(row["class"], row["reason"], row["first_offset"], row["load_seq"]) for row in listed]
    assert shown_of_each == [("unmet", not_null, 3, 2), ("unmet", f"{not_null}, {small}", 4, 2)]
    assert quarantine.held(run.lakehouse, RecordFilter(kind="late")) == ([], 0)
    found = why(run.lakehouse, "t", 0, 3)
    assert (found["class"], found["aside"]["state"], found["aside"]["reason"]) == ("accepted", "held", not_null)
    shown = status("tests", run.lakehouse)
    assert shown["kept_aside"] == [{"state": "held", "records": 2}]
    assert "Kept out of Gold: 2 unmet (held)." in sentences(shown)


def test_a_released_row_reaches_gold_once_and_a_discarded_one_never(spark: SparkSession, run: Run) -> None:
    done = settle(spark, run, "release", 3)
    assert (done["load_seq"], done["records"], done["classes"]) == (3, 1, {"unmet": 1})
    assert gold(spark, run) == IN_GOLD
    require_sound(spark, run)

    ran(spark, run, strict(run))

    released = sorted([*IN_GOLD, (3, 3)])
    assert (gold(spark, run), aside(spark, run)) == (released, [(3, "released", 3), (4, "held", None)])
    assert (3, 3) in gold(spark, run, "gold_latest")
    assert why(run.lakehouse, "t", 0, 3)["aside"]["settled"]["reason"] == "looked at"
    assert settle(spark, run, "release", 3)["load_seq"] is None
    assert settle(spark, run, "discard")["records"] == 1
    for name in ("gold_records", "gold_latest", "gold_stream_health"):
        spark.sql(f"DELETE FROM {run.table(name).sql}")
    ran(spark, run, strict(run))
    assert (gold(spark, run), aside(spark, run)) == (released, [(3, "released", 3), (4, "discarded", 4)])
    require_sound(spark, run, is_deep=True)


def test_other_checks_see_what_is_left_and_too_many_unmet_rows_fail_the_load(spark: SparkSession, run: Run) -> None:
    put(spark, run, [message(6, 7), without_id(7, 8)])
    also = {"expect_column_value_lengths_to_be_between": {"column": "payload.id", "min_value": 1}}
    never_null = {"expect_column_values_to_not_be_null": {"column": "payload.id"}}
    ran(spark, run, strict(run, gate={"expectations": [never_null, NOT_NULL, also]}))
    assert gold(spark, run)[-1] == (6, 3)

    put(spark, run, [without_id(8 + nth, 9 + nth) for nth in range(12)])
    tight = strict(run, policies={"max_quarantined_share": 0.5})
    with pytest.raises(GateFailedError, match=r"more than policies\.max_quarantined_share of load 4"):
        ran(spark, run, tight)

    assert gold(spark, run)[-1] == (6, 3)
    gate_decision.decide(spark, run, tight, Decision(RELEASED, "as they are", "ann"), is_dry_run=False)
    assert len(gold(spark, run)) == 17
    require_sound(spark, run)


@pytest.mark.parametrize("is_recorded_first", [True, False])
def test_of_two_gate_runs_at_once_neither_removes_what_the_other_keeps_out(
    spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch, *, is_recorded_first: bool
) -> None:
    """As in a catalog, where no lock keeps two runs apart: here the other one runs within the first one's audit."""
    put(spark, run, [without_id(6, 7), message(7, 8)])
    bronze_to_silver.run(spark, run, strict(run))
    keep_out, record = gate._keep_out, gate._record
    others: list[Any] = []

    def other_lists_first(*args: Any) -> None:
        """The other gate run lists its rows; its results come before this one's rows, or after this one's results."""
        if not others:
            others.append(args)
            monkeypatch.setattr(gate, "_record", record if is_recorded_first else lambda *late: others.append(late))
            silver_to_gold.run_gate(spark, run, strict(run))
            monkeypatch.setattr(gate, "_record", record)
        keep_out(*args)

    monkeypatch.setattr(gate, "_keep_out", other_lists_first)
    silver_to_gold.run_gate(spark, run, strict(run))
    for late in others[1:]:
        record(*late)
    silver_to_gold.run_gold(spark, run, strict(run))

    assert [offset for offset, _, _ in aside(spark, run)] == [3, 4, 6]
    assert gold(spark, run) == [*IN_GOLD, (7, 3)]
    require_sound(spark, run)


def test_a_rebuild_finds_them_anew_and_an_erased_key_is_given_up(spark: SparkSession, run: Run) -> None:
    erasure = Request("erase", "asked to", "ann", erase=Erase.of("t", b"erased"))
    requests.carry_out(spark, run, strict(run), erasure, is_dry_run=False)
    assert aside(spark, run) == [(3, "discarded", 3), (4, "held", None)]

    settle(spark, run, "release", 4)
    ran(spark, run, strict(run))
    done: dict[str, Any] = rebuild.rebuild(spark, run, strict(run), apply=True, reason="stricter", by="ann")
    found_anew = "1 records that an expectation had kept out of Gold; the gate audits them again"
    assert done["not_repeated"] == [f"load 4 (release): {found_anew}"]
    ran(spark, run, strict(run))

    assert [offset for offset, _ in gold(spark, run)] == [0, 1, 2, 5]
    assert aside(spark, run) == [(4, "held", None)]
    require_sound(spark, run, is_deep=True)
