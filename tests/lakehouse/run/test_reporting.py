"""Who follows a run is told everything but secrets."""

import io
import json
import math
import re
from typing import Any

import pytest
from rich.console import Console

from lakehouse.run.reporting import JsonReport, open_report, scrubber
from lakehouse.run.terminal_view import LiveReport
from lakehouse.settings.secrets import MASK

SECRET = 'pass"word\n1'


def shown(*events: tuple[str, dict[str, Any]], width: int = 200) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, highlight=False, no_color=True)
    report = LiveReport(scrubber([SECRET]), console)
    for name, fields in events:
        report.event(name, **fields)
    report.close()
    return screen.getvalue()


def reported(capsys: pytest.CaptureFixture[str], *events: tuple[str, dict[str, Any]], secrets: list[str] | None = None) -> Any:
    with open_report(secrets=secrets or []) as report:
        assert isinstance(report, JsonReport), "there is no terminal"
        for name, fields in events:
            report.event(name, **fields)
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_an_event_is_one_line_of_json_and_what_json_cannot_hold_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"load_seq": 3, "counts": {"accepted": 2}, "partial": False}
    odd = {"nan": math.nan, "nothing": None, "some": {"x"}}
    line, second = reported(capsys, ("silver.claimed", fields), ("a.b", {**odd, "path": object}))
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "silver.claimed", "level": "info", **fields}
    assert [second[name] for name in odd] == ["nan", None, ["x"]]


def test_a_run_stays_with_every_later_event_and_a_load_with_its_stage(capsys: pytest.CaptureFixture[str]) -> None:
    found = reported(
        capsys,
        ("spark.starting", {}),
        ("run.started", {"pipeline": "incidents", "run_id": "r1"}),
        ("silver.started", {}),
        ("silver.planned", {"load_seq": 7}),
        ("silver.partition_loaded", {"topic": "t", "partition": 3}),
        ("run.failed", {"exit_code": 3}),
        ("gate.started", {}),
        ("watch.alert_failed", {}),
    )
    assert [line.get("run_id") for line in found] == [None, *["r1"] * 7]
    assert {line["pipeline"] for line in found[1:]} == {"incidents"}
    assert [line.get("load_seq") for line in found] == [None, None, None, 7, 7, 7, None, None]
    assert [line["level"] for line in found] == [*["info"] * 5, "error", "info", "warning"]


def test_no_secret_is_shown_however_deep_or_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {
        "text": f"login {SECRET} failed",
        "nested": [{"a": (SECRET, {SECRET: 1})}],
        "raw": SECRET.encode(),
        "quoted": repr(SECRET) + json.dumps(SECRET),
        "error": ValueError(SECRET),
        "short": "the passage",
    }
    [line] = reported(capsys, ("run.failed", fields), secrets=[SECRET, "pass", ""])
    assert "word" not in json.dumps(line)
    assert line["nested"] == [{"a": [MASK, {MASK: 1}]}]
    assert line["text"] == f"login {MASK} failed"
    assert line["short"] == f"the {MASK}age"


def test_a_log_that_cannot_be_written_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", FullDisk())
    JsonReport(scrubber([])).event("silver.claimed", load_seq=1)


@pytest.mark.parametrize("width", [24, 80, 200])
def test_the_live_view_fits_its_terminal_and_shows_each_run_its_stages_and_counts(width: int) -> None:
    first = ("run.started", {"pipeline": "incidents", "run_id": "r1"}), ("bronze.finished", {"records": 200_000})
    second = ("run.started", {"pipeline": "incidents", "run_id": "r2"})
    claimed = ("silver.claimed", {"load_seq": 1, "counts": {"accepted": 190_000, "late": 0}})
    printed = shown(*first, second, claimed, width=width)
    for text in ("incidents r1", "bronze", "incidents r2", "silver"):
        assert text in printed
    assert all(len(line) <= width for line in lines(printed))
    if width == 200:
        assert "finished · records 200,000" in printed
        assert "claimed · load seq 1 · counts accepted 190,000" in printed
        assert "late" not in printed


def lines(printed: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", printed).splitlines()


def test_the_live_view_shows_no_secret_no_control_character_and_no_single_partition() -> None:
    printed = shown(
        ("bronze.read", {"topic": SECRET, "producer": "red\x1b[31mx"}),
        ("silver.partition_loaded", {"load_seq": 1, "partition": 3, "records": 7}),
        ("silver.loaded", {"load_seq": 1, "records": 9}),
        ("run.failed", {"message": f"No login.\n  observed: {SECRET}"}),
    )
    assert "records 9" in printed
    assert "tidemark: No login.\n  observed: ********" in printed
    assert "partition" not in printed
    assert "word" not in printed
    assert r"red\x1b[31mx" in printed


def test_the_live_view_says_how_far_a_long_stage_is_until_the_next_thing_happens() -> None:
    at_work = ("silver.claimed", {"load_seq": 1}), ("silver.working", {"tasks_done": 3, "tasks": 1_200})
    assert "claimed · task 3 of 1,200 · load seq 1" in shown(*at_work)
    assert "task 3" not in lines(shown(*at_work, ("silver.appended", {"records": 9})))[-1]
