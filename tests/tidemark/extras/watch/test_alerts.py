"""When somebody is alerted, and that the words get there: by HTTP to a real server, and through a real program."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import BreakerOpenError, GateFailedError, SourceError
from lakehouse.settings.watch import Webhook
from tests.support.receiver import SECRET, receiver
from tests.support.watched import NOON
from tidemark.extras.watch import alerts, channels
from tidemark.extras.watch.alerts import Alert, Finding


def an_alert(**changes: Any) -> Alert:
    lag = {"alert": "lag", "text": "behind", "details": "t/0: 7 offsets", "run_id": "r1"}
    return Alert(**{"pipeline": "incidents", **lag, "at": NOON, **changes})


@pytest.mark.parametrize(
    ("finding", "alerted", "is_sent"),
    [
        (Finding("lag", is_on=True), {}, True),
        (Finding("lag", is_on=True), {"lag": ""}, False),
        (Finding("lag", is_on=True), {"gate_failed": ""}, True),
        (Finding("lag", is_on=False), {"lag": ""}, False),
        (Finding("lag", is_on=None), {}, False),
        (Finding("gate_failed", is_on=True, cause="budget_late"), {"gate_failed": "budget_late"}, False),
        (Finding("gate_failed", is_on=True, cause="budget_late, keys"), {"gate_failed": "budget_late"}, True),
        (Finding("gate_failed", is_on=True), {"gate_failed": "budget_late"}, False),  # this run cannot say what failed
    ],
)
def test_an_alert_is_sent_for_what_the_last_run_did_not_have(finding: Finding, alerted: dict[str, str], is_sent: bool) -> None:
    assert alerts.due([finding], alerted) == [finding] * is_sent


def test_a_failed_gate_and_an_open_breaker_keep_a_producers_words_in_the_details() -> None:
    audited = {"failed": ["b", "a"], "warned": ["c"], "first_load_seq": 3, "last_load_seq": 5}
    found = alerts.of_gate(audited, GateFailedError("no", observed="<script>"), is_finished=False)
    assert found.cause == "a, b"
    assert all(each in found.text for each in ("loads 3 to 5", "a, b"))
    assert ("script" in found.text, "<script>" in found.details) == (False, True)
    assert alerts.of_gate(None, None, is_finished=False).is_on is None  # a run of other stages

    opened = alerts.of_breaker(BreakerOpenError("too much", where="producer <script>"), is_finished=False)
    assert (opened.is_on, "script" in opened.text, "script" in opened.details) == (True, False, True)
    assert alerts.of_breaker(None, is_finished=True).is_on is False  # Silver loaded again
    assert alerts.of_breaker(SourceError("gone"), is_finished=False).is_on is None


def test_the_lag_counts_by_partition_and_is_unknown_without_a_broker() -> None:
    lags = [{"topic": "t", "partition": each, "lag": lag} for each, lag in enumerate([100, 101, 5_000])]
    found = alerts.of_lag(lags, 100)
    assert (found.is_on, found.details) == (True, "t/2: 5,000 offsets\nt/1: 101 offsets")
    assert "2 of 3 partitions" in found.text
    others = [alerts.of_lag(given, most).is_on for given, most in ((lags[:1], 100), (None, 100), (lags, None))]
    assert others == [False, None, None]


def test_skipped_topics_are_named_and_another_list_is_another_cause() -> None:
    skipped = [{"topic": "t", "reason": "A topic does not exist. <script>"}, {"topic": "u", "reason": "gone"}]
    found = alerts.of_topics({"skipped": skipped})
    assert (found.is_on, found.cause, "script" in found.text) == (True, "t, u", False)
    assert found.details == "t: A topic does not exist. <script>\nu: gone"
    others: list[dict[str, Any] | None] = [{"skipped": []}, {}, None]
    assert [alerts.of_topics(each).is_on for each in others] == [False, False, None]


def webhook(url: str, **more: Any) -> Webhook:
    return Webhook.model_validate({"url": url, "headers": {"Authorization": f"Bearer {SECRET}"}, "timeout_seconds": 1, **more})


def test_a_webhook_gets_the_alert_as_json_with_the_headers() -> None:
    with receiver(204) as (url, got):
        channels.post(an_alert(details="a\nred \x1b[31m"), webhook(url))
    [(path, headers, body)] = got
    assert (path, headers["Authorization"]) == (f"/hook?key={SECRET}", f"Bearer {SECRET}")
    assert headers["Content-Type"] == "application/json"
    said = {"text": "incidents: behind", "details": "  a\n  red \\x1b[31m", "at": "2026-11-21T12:00:00+00:00"}
    assert body == {"pipeline": "incidents", "alert": "lag", "run_id": "r1", **said}


def test_a_busy_webhook_is_tried_again_sooner_than_it_asks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with receiver(503, 200) as (url, got):
        channels.post(an_alert(), webhook(url))
    assert len(got) == 2
    assert SECRET not in caplog.text


def test_a_webhook_that_refuses_is_told_without_its_secrets() -> None:
    for status, tries in ((500, 3), (403, 1), (307, 1)):
        with receiver(status) as (url, got), pytest.raises(channels.NotSentError) as failed:
            channels.post(an_alert(), webhook(url))
        assert (str(failed.value), len(got)) == (f"HTTP status {status}", tries)


def test_a_webhook_that_hangs_or_is_not_there_is_left_without_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system takes the connection, and nobody answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{SECRET}"
        with pytest.raises(channels.NotSentError, match=r"^no answer within 1 s$"):
            channels.post(an_alert(), webhook(url))
    with pytest.raises(channels.NotSentError, match=r"^cannot connect$"):
        channels.post(an_alert(), webhook(url))


def program(tmp_path: Path, body: str) -> list[str]:
    script = tmp_path / "mailer.py"
    script.write_text(f"import pathlib, sys, time\nhere = pathlib.Path({str(tmp_path)!r})\n{body}\n")
    return [sys.executable, str(script), "$(touch hacked)", "ops@example.org"]


def test_a_program_gets_the_text_on_its_input_and_no_shell_reads_any_of_it(tmp_path: Path) -> None:
    command = program(tmp_path, "(here / 'mail').write_text(repr(sys.argv[1:]) + sys.stdin.read())")
    channels.run_program(an_alert(details="~! touch hacked\n`touch hacked`\n.\nred \x1b[31m"), command)
    assert (tmp_path / "mail").read_text() == (
        "['$(touch hacked)', 'ops@example.org']"
        "incidents: behind\n\n  ~! touch hacked\n  `touch hacked`\n  .\n  red \\x1b[31m\n\n"
        "alert lag; 2026-11-21 12:00:00 UTC; run r1\n"
    )
    assert not (tmp_path / "hacked").exists()


def test_a_program_that_fails_says_with_what_and_one_that_is_not_there_too(tmp_path: Path) -> None:
    failing = program(tmp_path, "print('no such user'); sys.exit(3)")
    with pytest.raises(channels.NotSentError, match="ended with 3: no such user"):
        channels.run_program(an_alert(), failing)
    with pytest.raises(channels.NotSentError, match="cannot be started: No such file"):
        channels.run_program(an_alert(), [str(tmp_path / "none")])


def test_a_program_without_an_end_is_killed_though_its_child_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_PROGRAM_SECONDS", 1)
    child = "import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)']); time.sleep(60)"
    with pytest.raises(channels.NotSentError, match="was killed"):
        channels.run_program(an_alert(text="x" * 200_000), program(tmp_path, child))
