"""How a gate run and a decision on it are told to people."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.readers.gate import write_gate_decision, write_gate_run

RED = "\x1b[31m"


def gate_run(**more: Any) -> dict[str, Any]:
    unmet = {"expectation": "budget_late", "column": "late", "severity": "critical", "outcome": "failed"}
    rows = [{"topic": RED, "offset": 7}, {"topic": "t", "offset": 8}]
    late = {**unmet, "observed": "2", "expected": "at most 0 in a load", "note": None}
    return {
        "gate_run_id": "g1",
        "first_load_seq": 4,
        "last_load_seq": 5,
        "silver_version": 9,
        "evaluated_at": None,
        "passed": False,
        "waits": True,
        "decision": None,
        "expectations": [{**late, "behind": [{"what": "rows of silver_rejects", "rows": rows}]}],
        **more,
    }


def decision(**more: Any) -> dict[str, Any]:
    loads = {"gate_run_id": "g1", "first_load_seq": 4, "last_load_seq": 5, "records": 12_000}
    return {"decision": "released", **loads, "expectations": ["budget_late"], "published": None, "is_dry_run": False, **more}


def test_a_gate_run_that_waits_names_the_ways_out_and_shows_the_rows_but_steers_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_gate_run(gate_run())

    printed = capsys.readouterr().out
    assert "Gate run g1 on loads 4 to 5, Silver version 9" in printed
    assert "FAILED" in printed
    assert "tidemark gate reject --reason" in printed
    assert "budget_late late: rows of silver_rejects" in printed
    assert "\\x1b[31m" in printed
    assert RED not in printed


def test_a_decision_is_told_and_then_nothing_waits(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"decision": "rejected", "reason": f"a test{RED}", "decided_by": "ann", "decided_at": None}

    write_gate_run(gate_run(waits=False, decision=told))

    printed = capsys.readouterr().out
    assert "It was rejected by ann: a test\\x1b[31m" in printed
    assert "gate release" not in printed


def test_before_the_first_gate_run_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write_gate_run(None)
    assert "has not run yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"published": {"records": 12_000}},
            ["Released loads 4 to 5 of gate run g1, with 12,000", "Published: 12,000"],
        ),
        ({"is_dry_run": True}, ["Would release loads 4 to 5"]),
        ({"decision": "rejected"}, ["Rejected loads 4 to 5", "Silver keeps them"]),
    ],
)
def test_what_was_decided_is_told_with_its_loads(
    capsys: pytest.CaptureFixture[str], more: dict[str, Any], said: list[str]
) -> None:
    write_gate_decision(decision(**more))

    printed = capsys.readouterr().out
    assert [each for each in said if each not in printed] == []
