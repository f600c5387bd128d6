"""Who follows a run is told everything but secrets."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lakehouse.beside import LocalFolder
from lakehouse.run.reporting import MASK, JsonReport, open_report, save_result, scrubber
from lakehouse.run.terminal_view import LiveReport

SECRET = 'pass"word\n1'


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def live_view(width: int, **options: Any) -> tuple[LiveReport, io.StringIO]:
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=True, highlight=False, **options)
    return LiveReport(scrubber([SECRET]), console), screen


def test_an_event_is_one_line_of_json_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with open_report(terminal=False) as report:
        report.event("silver.claimed", load_seq=3, counts={"accepted": 2}, partial=False)
    [line] = lines(capsys)
    assert line.pop("timestamp").endswith("Z")
    expected = {"event": "silver.claimed", "level": "info", "load_seq": 3, "counts": {"accepted": 2}, "partial": False}
    assert line == expected


def test_pipeline_and_run_stay_with_every_later_event(capsys: pytest.CaptureFixture[str]) -> None:
    with open_report(terminal=False) as report:
        report.event("spark.starting")
        report.event("run.started", pipeline="incidents", run_id="r1")
        report.event("bronze.finished", records=1)
    before, _, after = lines(capsys)
    assert "run_id" not in before
    assert (after["pipeline"], after["run_id"]) == ("incidents", "r1")


def test_a_load_stays_with_its_stage_and_not_with_the_next_one(capsys: pytest.CaptureFixture[str]) -> None:
    with open_report(terminal=False) as report:
        for name, fields in (
            ("silver.started", {}),
            ("silver.planned", {"load_seq": 7}),
            ("silver.partition_loaded", {"topic": "t", "partition": 3}),
            ("run.failed", {}),
            ("gate.started", {}),
        ):
            report.event(name, **fields)
    assert [line.get("load_seq") for line in lines(capsys)] == [None, 7, 7, 7, None]


def test_a_failed_run_is_an_error_and_what_fails_beside_it_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    with open_report(terminal=False) as report:
        report.event("run.failed", exit_code=3)
        report.event("watch.alert_failed")
    assert [line["level"] for line in lines(capsys)] == ["error", "warning"]


def test_no_secret_is_shown_however_deep_or_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with open_report(secrets=[SECRET, "pass", ""], terminal=False) as report:
        report.event(
            "run.failed",
            text=f"login {SECRET} failed",
            nested=[{"a": (SECRET, {SECRET: 1})}],
            raw=SECRET.encode(),
            quoted=repr(SECRET) + json.dumps(SECRET),
            error=ValueError(SECRET),
            short="the passage",
        )
    [line] = lines(capsys)
    assert "word" not in json.dumps(line)
    assert line["nested"] == [{"a": [MASK, {MASK: 1}]}]
    assert line["text"] == f"login {MASK} failed"
    assert line["short"] == f"the {MASK}age"


def test_what_json_cannot_hold_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    with open_report(terminal=False) as report:
        report.event("a.b", nan=math.nan, path=object, nothing=None, some={"x"})
    [line] = lines(capsys)
    assert (line["nan"], line["nothing"], line["some"]) == ("nan", None, ["x"])


def test_a_log_that_cannot_be_written_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", FullDisk())
    JsonReport(scrubber([])).event("silver.claimed", load_seq=1)


@pytest.mark.parametrize("width", [24, 80, 200])
def test_the_live_view_fits_its_terminal_and_shows_stage_and_counts(width: int) -> None:
    report, screen = live_view(width, no_color=True)
    report.event("run.started", pipeline="incidents", run_id="r1")
    report.event("bronze.finished", records=200_000)
    report.event("silver.claimed", load_seq=1, counts={"accepted": 190_000, "late": 0})
    report.close()
    printed = screen.getvalue()
    assert "bronze" in printed
    assert "silver" in printed
    assert all(len(line) <= width for line in final_view(printed))
    if width == 200:
        assert "claimed · load seq 1 · counts accepted 190,000" in printed
        assert "late" not in printed


def final_view(printed: str) -> list[str]:
    """The screen's last lines, without the codes that colour and move."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", printed).splitlines()


def test_the_live_view_shows_no_secret_and_no_control_character() -> None:
    report, screen = live_view(120)
    report.event("bronze.read", topic=SECRET, producer="red\x1b[31mx")
    report.close()
    assert "word" not in screen.getvalue()
    assert r"red\x1b[31mx" in screen.getvalue()


def test_the_live_view_leaves_single_partitions_to_the_log() -> None:
    report, screen = live_view(200, no_color=True)
    report.event("silver.partition_loaded", load_seq=1, partition=3, records=7)
    report.event("silver.loaded", load_seq=1, records=9)
    report.close()
    assert "records 9" in screen.getvalue()
    assert "partition" not in screen.getvalue()


def test_the_live_view_says_how_far_a_long_stage_is_until_the_next_thing_happens() -> None:
    report, screen = live_view(200, no_color=True)
    report.event("silver.claimed", load_seq=1)
    report.event("silver.working", tasks_done=3, tasks=1_200)
    stage = "claimed · task 3 of 1,200 · load seq 1"
    report.close()
    assert stage in screen.getvalue()
    report.event("silver.working", tasks_done=3, tasks=1_200)
    report.event("silver.appended", records=9)
    report.close()
    assert "task 3" not in final_view(screen.getvalue())[-1]


def test_a_second_run_gets_a_view_of_its_own() -> None:
    report, screen = live_view(120)
    for records in (1, 2):
        report.event("run.started", pipeline="incidents", run_id=f"r{records}")
        report.event("bronze.finished", records=records)
    report.close()
    assert report.bound == {"pipeline": "incidents", "run_id": "r2"}
    assert "records 1" in screen.getvalue()
    assert "records 2" in screen.getvalue()


def test_without_a_terminal_there_is_no_view(capsys: pytest.CaptureFixture[str]) -> None:
    with open_report() as report:
        assert isinstance(report, JsonReport)


def test_a_result_is_kept_whole(tmp_path: Path) -> None:
    place = save_result(LocalFolder(tmp_path / "_reports"), {"run_id": "r1", "silver": {"accepted": 7}})
    kept = Path(place)
    assert kept == tmp_path / "_reports" / "r1.json"
    assert json.loads(kept.read_text()) == {"run_id": "r1", "silver": {"accepted": 7}}
    assert [file.name for file in kept.parent.iterdir()] == ["r1.json"]
