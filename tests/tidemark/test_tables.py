"""How wide a table is that people read; how a gate run, a decision on it and the result of a run are printed."""

import sys
from typing import Any

import pytest

from tidemark.process.output import write_table
from tidemark.runner.summary import write_gate_decision, write_gate_run, write_result

COLUMNS = ["topic", "partition", "records", "accepted", "duplicate", "high_watermark_after", "last_offset"]
COLUMNS += ["missing", "jumps_forward", "jumps_backward"]
ROWS = [["orders", 0, 524, 499, 25, 1000, 523, 500, 522, 1]]


def test_a_table_wider_than_a_hundred_columns_has_its_headings_over_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(COLUMNS, ROWS)
    assert capsys.readouterr().out == (
        "\n"
        "                                                  high_\n"
        "                                                  watermark_  last_            jumps_   jumps_\n"
        " topic   partition  records  accepted  duplicate  after       offset  missing  forward  backward\n"
        " ───────────────────────────────────────────────────────────────────────────────────────────────\n"
        " orders          0      524       499         25        1000     523      500      522         1\n"
    )


def test_a_narrow_table_keeps_headings_on_one_line_and_hostile_texts_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["last_offset", "seen at"], [[1, "noon"]])
    assert capsys.readouterr().out.splitlines()[1] == " last_offset   seen at"
    write_table(["", "_", "a\nb \x1b[31m_c", "x" * 100], [["", "", "", "red \x1b[31m [bold]x[/bold]"]])
    printed = capsys.readouterr().out
    assert ("\x1b" in printed, "\\n" in printed) == (False, True)
    assert r"red \x1b[31m [bold]x[/bold]" in printed


def test_on_a_narrow_terminal_each_row_is_a_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    write_table(COLUMNS, ROWS)
    assert "high_watermark_after  1000" in capsys.readouterr().out


LOADS = {"gate_run_id": "g1", "first_load_seq": 4, "last_load_seq": 5}
LATE = {"expectation": "budget_late", "column": "late", "severity": "critical", "outcome": "failed", "observed": "2"}
BEHIND = {"what": "rows of silver_rejects", "rows": [{"topic": "\x1b[31m", "offset": 7}, {"topic": "t", "offset": 8}]}
EXPECTATIONS = [{**LATE, "expected": "at most 0 in a load", "note": None, "behind": [BEHIND]}]
FAILED = {**LOADS, "silver_version": 9, "evaluated_at": None, "passed": False, "expectations": EXPECTATIONS}
REJECTED = {"decision": "rejected", "reason": "a test\x1b[31m", "decided_by": "ann", "decided_at": None}
WAITS = ["FAILED", "tidemark gate reject --reason", "budget_late late: rows of silver_rejects", "\\x1b[31m"]
DECISION = {"decision": "released", **LOADS, "records": 12_000, "expectations": ["budget_late"], "published": None}


def test_a_gate_run_says_its_verdict_its_rows_and_what_waits(capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[tuple[dict[str, Any] | None, list[str], str]] = [
        ({**FAILED, "waits": True, "decision": None}, ["Gate run g1 on loads 4 to 5, Silver version 9", *WAITS], "\x1b"),
        ({**FAILED, "waits": False, "decision": REJECTED}, ["It was rejected by ann: a test\\x1b[31m"], "gate release"),
        (None, ["has not run yet"], "FAILED"),
    ]
    for found, said, unsaid in runs:
        write_gate_run(found)
        printed = capsys.readouterr().out
        assert [each for each in said if each not in printed] == []
        assert unsaid not in printed


def test_what_was_decided_is_told_with_its_loads(capsys: pytest.CaptureFixture[str]) -> None:
    for more, said in (
        ({"published": {"records": 12_000}}, ["Released loads 4 to 5 of gate run g1, with 12,000", "Published: 12,000"]),
        ({"is_dry_run": True}, ["Would release loads 4 to 5"]),
        ({"decision": "rejected"}, ["Rejected loads 4 to 5", "Silver keeps them"]),
    ):
        write_gate_decision({**DECISION, "is_dry_run": False, **more})
        printed = capsys.readouterr().out
        assert [each for each in said if each not in printed] == []


def test_a_run_warns_where_a_restart_of_the_numbering_is_suspected(capsys: pytest.CaptureFixture[str]) -> None:
    run = {"pipeline": "tests", "run_id": "r1", "seconds": 1.0}
    for gate, is_warned in (({"warned": ["budget_late", "budget_restart_suspected"]}, True), ({"gate_run_id": None}, False)):
        write_result({**run, "gate": gate}, as_json=False)
        assert ("Warning: all records of this stream in this load" in capsys.readouterr().out) == is_warned
