"""What `tidemark status` reads out of the tables."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bronze.kafka import metadata
from lakehouse.contracts.bronze import TOPICS
from lakehouse.contracts.gate import DECISIONS, RESULTS
from lakehouse.contracts.gold import STREAM_HEALTH
from lakehouse.contracts.silver import CLASSES, LOADS, REJECTS, WATERMARKS, silver_records
from lakehouse.extract.sources import Source
from lakehouse.table import Lakehouse
from silver.rules import Grown, Rules
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows
from tests.tidemark.conftest import RunCommand
from tidemark.extras.onboarding import check
from tidemark.extras.report.summary import verdict
from tidemark.readers.status import status

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
STREAM = {"topic": "incidents", "partition": 0}


def load(load_seq: int, **counts: int) -> dict[str, Any]:
    classes = {name: counts.get(name, 0) for name in CLASSES}
    run = {"run_id": f"run-{load_seq}", "claimed_at": NOON + timedelta(hours=load_seq)}
    return {**STREAM, **run, **classes, "load_seq": load_seq, "records": sum(counts.values())}


def result(gate_run_id: str, expectation: str, outcome: str, severity: str) -> dict[str, Any]:
    audited = {"gate_run_id": gate_run_id, "first_load_seq": 1, "last_load_seq": 2, "observed": "3", "expected": "0"}
    evaluated_at = NOON + timedelta(hours=1 if gate_run_id == "old" else 2)
    return {**audited, "evaluated_at": evaluated_at, "expectation": expectation, "outcome": outcome, "severity": severity}


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "lakehouse"
    with_sequence = {**STREAM, "producer": "p1", "epoch": 2, "high_watermark": 7, "last_offset": 9, "load_seq": 2}
    write_rows(folder, WATERMARKS, [with_sequence, {**STREAM, "last_offset": 9, "load_seq": 1}])
    write_rows(folder, LOADS, [load(1, accepted=5, invalid=1), load(2, accepted=2, duplicate=4)])
    held = {**STREAM, "state": "held"}
    write_rows(folder, REJECTS, [{**held, "class": "invalid", "records": 1}, {**held, "class": "duplicate", "records": 4}])
    conserved = [result("old", "conservation", "failed", "critical"), result("new", "conservation", "passed", "critical")]
    write_rows(folder, RESULTS, [*conserved, result("new", "budget_late", "failed", "warn")])
    write_rows(folder, STREAM_HEALTH, [{**STREAM, "load_seq": 1, "gate_run_id": "old", "published_at": NOON}])
    write_config(tmp_path, root=str(folder))
    return folder


def found_in(root: Path) -> dict[str, Any]:
    return status("tests", Lakehouse(root=str(root)))


def test_it_reads_watermarks_totals_rejects_the_last_verdict_and_the_published_load(root: Path) -> None:
    found = found_in(root)
    without, with_sequence = found["streams"]
    assert (with_sequence["producer"], with_sequence["high_watermark"], with_sequence["load_seq"]) == ("p1", 7, 2)
    assert with_sequence["last_accepted"] == {"epoch": 2, "sequence": 7}
    assert (without["producer"], without["last_accepted"], without["last_offset"]) == (None, None, 9)
    shown = ("records", "accepted", "invalid", "duplicate", "late")
    assert [found["totals"][name] for name in shown] == [12, 7, 1, 4, 0]
    assert [found["last_load"][name] for name in shown] == [6, 2, 0, 4, 0]
    assert (found["last_load"]["load_seq"], found["last_load"]["run_id"], found["unfinished_load"]) == (2, "run-2", None)
    rejects = [(each["class"], each["state"], each["records"]) for each in found["rejects"]]
    assert rejects == [("duplicate", "held", 4), ("invalid", "held", 1)]
    gate = found["gate"]  # a warning does not fail it
    assert (gate["gate_run_id"], gate["passed"], gate["expectations"]) == ("new", True, 2)
    assert [each["expectation"] for each in gate["unmet"]] == ["budget_late"]
    assert found["published"] == {"load_seq": 1, "gate_run_id": "old", "published_at": NOON}


def test_missing_is_what_silver_still_lacks_and_a_claim_beyond_is_unfinished(root: Path) -> None:
    gaps = [{"epoch": 2, "first_sequence": 3, "last_sequence": 4}, {"epoch": 2, "first_sequence": 7, "last_sequence": 9}]
    write_rows(root, LOADS, [load(3) | {"producer": "p1", "missing_ranges": gaps}])
    kept = {**STREAM, "producer": "p1", "epoch": 2}
    write_rows(root, silver_records(), [{**kept, "sequence": 3}, {**kept, "sequence": 8}, {**kept, "epoch": 1, "sequence": 4}])

    found = found_in(root)
    assert found["unfinished_load"] == 3
    assert found["missing"] == [{**STREAM, "producer": "p1", "sequences": 3, "ranges": 3}]


def test_added_partitions_are_named_until_all_that_was_sent_before_is_decided(root: Path, run_command: RunCommand) -> None:
    grown = (("t", Grown(2, 4)), ("u", Grown(1, 3, "per_topic", (0, 5))))
    rules = Rules(Source("header", "seq"), grown=grown).to_json()
    write_rows(root, LOADS, [load(3) | {"rules": rules}])
    assert [(row["topic"], row["numbering"]) for row in found_in(root)["grown"]] == [("t", None)]
    sentence = "Topic t has 4 partitions, once 2. Nothing shows whether numbers repeat across partitions"
    assert sentence in run_command("status")[0]
    assert sentence in " ".join(verdict(found_in(root))["said"])
    (named,) = check._of_added_partitions(Lakehouse(root=str(root)))
    assert (named.name, named.ok, sentence in named.observed) == ("partitions t", True, True)


def test_a_topic_of_the_config_is_skipped_until_a_run_reads_it(root: Path, tmp_path: Path, run_command: RunCommand) -> None:
    def note(name: str, hour: int, **more: str) -> dict[str, Any]:
        of_topic = {"topic": name, "incarnation": 1, "stored_as": name, "checkpoint": 1, "cause": "begun"}
        return {**of_topic, "known_since": NOON + timedelta(hours=hour), **more}

    why = {"cause": "unreadable", "reason": "A topic does not exist."}
    back = [note("back", 1, **why), note("back", 2)]
    write_rows(root, TOPICS, [note("incidents", 1), note("incidents", 2, **why), note("left", 2, **why), *back])
    found = status("tests", Lakehouse(root=str(root)), topics=("incidents", "back"))
    assert found["skipped_topics"] == [{"topic": "incidents", "reason": why["reason"], "since": NOON + timedelta(hours=2)}]
    assert found_in(root)["skipped_topics"] == []
    said = "Skipped: topic incidents since 2026-11-21 14:00:00 UTC. A topic does not exist."
    assert said in run_command("status")[0]


def test_a_failed_gate_is_a_failed_verdict_and_has_the_decision_on_its_own_run(root: Path, run_command: RunCommand) -> None:
    decided = {"decision": "released", "reason": "a \x1b[31m resend", "decided_by": "ann", "decided_at": NOON}
    write_rows(root, DECISIONS, [{**decided, "gate_run_id": "old", "first_load_seq": 1, "last_load_seq": 2}])
    assert found_in(root)["gate"]["decision"] is None

    failed = {**result("last", "budget_late", "errored", "critical"), "evaluated_at": NOON + timedelta(days=1)}
    write_rows(root, RESULTS, [failed])
    assert (found_in(root)["gate"]["gate_run_id"], found_in(root)["gate"]["passed"]) == ("last", False)
    assert "`tidemark gate release` or `reject` decides" in run_command("status")[0]
    write_rows(root, DECISIONS, [{**decided, "gate_run_id": "last", "first_load_seq": 1, "last_load_seq": 2}])

    assert found_in(root)["gate"]["decision"] == {**decided, "gate_run_id": "last"}
    text = run_command("status")[0]
    assert "It was released by ann, 2026-11-21 12:00:00 UTC: a \\x1b[31m resend." in text
    assert "decides" not in text


def test_what_is_printed_holds_the_same(run_command: RunCommand) -> None:
    text = run_command("status")[0]
    for said in (
        "incidents",
        "Kept out: 4 duplicate (held), 1 invalid (held).",
        "Gate: passed for loads 1 to 2, 2 expectations, 1 not met.",
        "warn: budget_late failed; observed 3, expected 0",
        "Gold: published up to load 1.",
    ):
        assert said in text
    names = ("producer", "high_watermark", "last_accepted")
    shown = [tuple(each[name] for name in names) for each in json.loads(run_command("watermark", "show", "--json")[0])]
    assert shown == [(None, None, None), ("p1", 7, {"epoch": 2, "sequence": 7})]
    assert "high_watermark" in run_command("watermark", "show")[0]


def test_before_the_first_run_there_is_nothing_and_that_is_no_error(tmp_path: Path, run_command: RunCommand) -> None:
    found = found_in(tmp_path)
    assert found["streams"] == []
    assert [found[name] for name in ("last_load", "totals", "unfinished_load", "gate", "published")] == [None] * 5
    write_config(tmp_path, root=str(tmp_path))
    assert "`tidemark run` brings the first" in run_command("status")[0]


def test_a_lag_is_unknown_where_no_broker_answers(
    root: Path, tmp_path: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_SECONDS", 0.2)
    write_config(tmp_path, root=str(root), kafka={"bootstrap_servers": "127.0.0.1:1", "topics": ["incidents"]})
    assert "Lag: unknown; Kafka cannot be asked" in run_command("status", "--lag")[0]
    found = json.loads(run_command("status", "--lag", "--json")[0])
    assert (found["lag"], found["lag_unknown"]) == (None, "no broker answered at 127.0.0.1:1 within 0.2 s")
