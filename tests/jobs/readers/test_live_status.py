"""`tidemark status --watch`, on a real terminal and in a pipe, and `--lag`, where no broker answers."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from bronze.kafka import metadata
from jobs.cli import main
from jobs.process.context import load_settings
from jobs.readers.live_status import Looks, view
from lakehouse.contracts.silver import LOADS
from tests.support.small_config import write_config
from tests.support.small_tables import write_rows
from tests.support.watched import NOON, write_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_tables(tmp_path / "lakehouse")
    kafka = {"bootstrap_servers": "127.0.0.1:1", "topics": ["incidents"]}
    return write_config(tmp_path, root=str(tmp_path / "lakehouse"), kafka=kafka)


def started(config: Path, *flags: str, **streams: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "jobs.cli", "status", "--watch", "--every", "0.2", "--config", str(config), *flags]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, **streams)


def shown(terminal: int) -> Iterator[str]:
    """What has come to the terminal so far, without the codes that move the cursor, as it grows."""
    text = ""
    while True:
        text += os.read(terminal, 65_536).decode()
        yield re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_on_a_terminal_the_view_is_drawn_again_until_ctrl_c(config: Path) -> None:
    terminal, screen = pty.openpty()
    with started(config, stdout=screen) as process:
        os.close(screen)
        text = next(text for text in shown(terminal) if text.count("Ctrl-C ends it") > 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    os.close(terminal)
    assert "Pipeline tests in" in text
    assert "Gate: FAILED" in text
    assert "Silver decided 0.0 records/s since the last look" in text
    assert "Lag: unknown; Kafka cannot be asked" in text


def test_as_json_each_look_is_a_line_with_its_rates(config: Path, tmp_path: Path) -> None:
    with started(config, "--json", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        write_rows(tmp_path / "lakehouse", LOADS, [{"topic": "incidents", "load_seq": 3, "records": 50, "claimed_at": NOON}])
        second = next(each for line in process.stdout if (each := json.loads(line))["last_load"]["load_seq"] == 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert first["rates"]["decided"] == {"since_last_look": None, "last_minute": None}
    assert second["rates"]["decided"]["last_minute"] > 0
    assert (first["lag"], first["lag_unknown"]) == (None, "no broker answered at 127.0.0.1:1 within 10 s")


def test_without_a_terminal_the_way_out_is_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--watch", "--config", str(config)]) == 2
    assert "--json" in capsys.readouterr().err
    assert main(["status", "--every", "2", "--config", str(config)]) == 2
    assert "--watch" in capsys.readouterr().err


def test_a_lag_that_cannot_be_asked_is_said_and_no_error(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metadata, "_SECONDS", 0.2)
    assert main(["status", "--lag", "--config", str(config)]) == 0
    assert "Lag: unknown; Kafka cannot be asked" in capsys.readouterr().out
    assert main(["status", "--lag", "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lag"] is None


def test_a_look_that_fails_is_shown_and_the_partitions_furthest_behind_come_first(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_SECONDS", 0.2)
    found = Looks(load_settings(config, None)).look(is_patient=True)
    lag = [{"topic": "incidents", "partition": each, "last_offset": 5, "end_offset": 90, "lag": each} for each in range(50)]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(view({**found, "lag": lag}, lines=30))
    console.print(view({"looked_at": NOON, "error": "red \x1b[31m"}, lines=30))
    text = console.export_text()
    assert "Partitions, 6 of 51" in text
    assert re.findall(r"incidents +(\d+)", text) == ["49", "48", "47", "46", "45", "44"]
    assert r"cannot be read just now: red \x1b[31m" in text
