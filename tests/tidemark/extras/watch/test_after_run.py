"""What those who watch a pipeline are told after a run: metrics in a file and on a port, alerts, and a state in between."""

import json
import re
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bronze.kafka import metadata
from lakehouse.errors import BreakerOpenError, GateFailedError, TidemarkError
from lakehouse.settings.pipeline import Settings
from pipelines import medallion as pipeline
from pipelines.job import Job
from tests.conftest import Events
from tests.support.receiver import SECRET, receiver
from tests.support.small_config import write_config
from tests.support.watched import AUDITED, SILVER, Medallion, write_tables
from tidemark.extras.demo.broker_process import free_port
from tidemark.extras.watch import after_run, metrics, state
from tidemark.process.context import load_settings
from tidemark.runner.once import run_once

Ran = Callable[..., Events]

ROOT = Path(__file__).parents[4]
WHOLE: dict[str, dict[str, Any]] = {
    "bronze": {"seconds": 2.5},
    "silver": SILVER,
    "gate": {"seconds": 1},
    "gold": {"last_load_seq": 2, "seconds": 3},
}
IN_FILE = {"metrics_file": "tidemark.prom"}
GATE_FAILED = GateFailedError("late records", observed="<script>")
NOTHING: Any = None


@pytest.fixture(autouse=True)
def brokers_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_SECONDS", 0.2)


def settings_for(folder: Path, **watched: Any) -> Settings:
    place = {"root": str(folder / "lakehouse")}
    kafka = {"bootstrap_servers": "127.0.0.1:1", "topics": ["incidents", "orders"]}
    return load_settings(write_config(folder, root="", lakehouse=place, kafka=kafka, watch=watched), None)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    def run(medallion: Medallion, **watched: Any) -> Events:
        report = Events()
        monkeypatch.setattr(pipeline, "run", medallion.run)
        try:
            run_once(Job.on(NOTHING, settings_for(tmp_path, **watched), report))
        except TidemarkError:
            report.event("failed")
        return report

    return run


def of_watch(report: Events) -> list[str]:
    return [name for name in report.names if name.startswith("watch.")]


def samples(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.pop("pipeline") == "tests"
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name.removeprefix('tidemark_')}{{{labels}}}" if labels else sample.name[9:]] = sample.value
    return found


def test_the_file_holds_what_runs_and_tables_say(tmp_path: Path, ran: Ran) -> None:
    write_tables(tmp_path / "lakehouse")

    report = ran(Medallion(WHOLE, AUDITED), **IN_FILE)

    found = samples((tmp_path / "tidemark.prom").read_text())
    times = [found.pop(name) for name in list(found) if "timestamp" in name]
    assert len({*times}) == 1
    assert found.pop("last_run_duration_seconds") < 60
    assert {name: value for name, value in found.items() if value and not name.startswith("build_info")} == {
        **{f"stage_duration_seconds{{stage={name}}}": float(WHOLE[name]["seconds"]) for name in WHOLE},
        "last_load_records{class=accepted}": 90,
        "last_load_records{class=duplicate}": 7,
        "last_load_records{class=late}": 2,
        "last_load_records{class=invalid}": 1,
        "records_total{class=accepted}": 180,
        "records_total{class=duplicate}": 14,
        "records_total{class=late}": 4,
        "records_total{class=invalid}": 2,
        "held_records{class=late}": 3,
        "held_records{class=invalid}": 2,
        "last_load": 2,
        "published_load": 1,
        "gate_unmet_expectations{severity=critical}": 1,
        "gate_unmet_expectations{severity=warn}": 1,
        "high_watermark{partition=0,topic=incidents}": 70,
        "last_offset{partition=0,topic=incidents}": 99,
        "high_watermark{partition=0,topic=orders}": 5,
        "last_offset{partition=0,topic=orders}": 4,
    }
    assert [found[name] for name in ("last_run_exit_code", "breaker_open", "gate_passed")] == [0, 0, 0]
    assert [file.name for file in tmp_path.glob("tidemark.prom*")] == ["tidemark.prom"]
    assert of_watch(report) == ["watch.lag_failed"]


def test_a_run_that_fails_leaves_the_successes_as_they_were(tmp_path: Path, ran: Ran) -> None:
    ran(Medallion(WHOLE, AUDITED), **IN_FILE)
    before = samples((tmp_path / "tidemark.prom").read_text())

    ran(Medallion({"bronze": {"seconds": 9}}, error=BreakerOpenError("odd")), **IN_FILE)

    after = samples((tmp_path / "tidemark.prom").read_text())
    changed = {name for name in after if before.get(name) != after[name]}
    times = {"last_success_timestamp_seconds{stage=bronze}", "last_run_timestamp_seconds", "last_run_duration_seconds"}
    assert changed - times == {"stage_duration_seconds{stage=bronze}", "last_run_exit_code", "breaker_open"}
    assert (after["last_run_exit_code"], after["breaker_open"]) == (5, 1)
    assert before.keys() == after.keys()


def test_damaged_tables_and_a_damaged_state_are_named_and_the_runs_alone_count(tmp_path: Path, ran: Ran) -> None:
    damaged = {"silver_loads/_delta_log/00000000000000000000.json": "{", "_watch/state.json": '{"exit_code": "many"}'}
    for name, text in damaged.items():
        file = tmp_path / "lakehouse" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)

    report = ran(Medallion(WHOLE, AUDITED), **IN_FILE)

    found = samples((tmp_path / "tidemark.prom").read_text())
    assert [found[name] for name in ("last_load", "published_load", "gate_passed")] == [2, 2, 1]
    assert "records_total{class=accepted}" not in found
    assert of_watch(report) == ["watch.state_failed", "watch.tables_failed"]
    assert state.read(state.place(settings_for(tmp_path))).run_id == "r7"


def test_what_fails_next_to_a_run_fails_and_leaks_nothing(tmp_path: Path, ran: Ran, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    (tmp_path / "file").touch()
    alerts = {"webhook": {"url": f"http://127.0.0.1:1/{SECRET}"}, "mail_command": ["/none"], "max_lag": 1}
    files = {"metrics_file": "file/tidemark.prom", "state_file": "file/state.json"}

    report = ran(Medallion({}, error=GATE_FAILED), **files, alerts=alerts)

    failed = ["watch.state_failed", "watch.lag_failed", "watch.metrics_failed", "watch.alert_failed", "watch.alert_failed"]
    assert of_watch(report) == [*failed, "watch.state_failed"]
    order = [report.names.index(name) for name in ("run.failed", "watch.state_failed", "failed")]
    assert order == sorted(order)
    assert SECRET not in repr(report.seen) + caplog.text


def test_a_failed_gate_is_alerted_once_until_a_run_finds_it_passed(tmp_path: Path, ran: Ran) -> None:
    failed = {**AUDITED, "failed": ["budget_late"]}
    fails = Medallion({"silver": SILVER}, failed, GATE_FAILED)
    ends_early = Medallion({"bronze": {"seconds": 1}}, error=TidemarkError("Kafka is gone"))  # says nothing of the gate
    with receiver(200) as (url, got):
        for medallion in (fails, fails, ends_early, fails, Medallion(WHOLE, AUDITED), fails):
            assert SECRET not in repr(ran(medallion, alerts={"webhook": {"url": url}}).seen)
    assert [(each.body["alert"], each.body["run_id"]) for each in got] == [("gate_failed", "r7")] * 2
    assert "budget_late" in got[0].body["text"]
    assert "<script>" in got[0].body["details"]
    assert not (tmp_path / "tidemark.prom").exists()


def test_an_alert_that_nobody_took_is_told_after_the_next_run(ran: Ran) -> None:
    stopped = Medallion({}, error=BreakerOpenError("odd"))
    with receiver(403, 200) as (url, got):
        events = [of_watch(ran(stopped, alerts={"webhook": {"url": url}})) for _ in range(3)]
    assert events == [["watch.alert_failed"], ["watch.alerted"], []]
    assert [each.body["alert"] for each in got] == ["breaker_open"] * 2


def test_a_pipeline_that_nobody_watches_writes_nothing(tmp_path: Path, ran: Ran) -> None:
    assert of_watch(ran(Medallion(WHOLE))) == []
    assert sorted(file.name for file in (tmp_path / "lakehouse").rglob("*")) == ["_reports", "r7.json"]
    kept = json.loads((tmp_path / "lakehouse" / "_reports" / "r7.json").read_text())
    assert kept == {"pipeline": "tests", "run_id": "r7", "seconds": 1.0, **WHOLE}


def scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return samples(answer.read().decode())


def test_the_port_answers_with_the_last_run_also_one_of_an_earlier_process(tmp_path: Path, ran: Ran) -> None:
    port, report = free_port(), Events()
    settings = settings_for(tmp_path, metrics_port=port)
    state.write(state.place(settings), state.State(run_id="r6", ended_at="2026-11-21T12:00Z", exit_code=3))  # type: ignore[arg-type] # pydantic reads the text
    write_tables(tmp_path / "lakehouse")

    with after_run.listening(settings, report):
        before = scraped(port)
        ran(Medallion(WHOLE, AUDITED), metrics_port=port)
        after = scraped(port)

    assert (before["last_run_exit_code"], after["last_run_exit_code"]) == (3, 0)
    assert after["records_total{class=accepted}"] == 180
    assert of_watch(report) == ["watch.listening"]
    with pytest.raises(OSError, match="refused"):
        scraped(port)


def test_a_port_that_is_taken_is_told_and_the_runs_go_on(tmp_path: Path) -> None:
    report = Events()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = settings_for(tmp_path, metrics_port=taken.getsockname()[1])
        with after_run.listening(settings, report):
            report.event("run.started")
    assert report.names == ["watch.metrics_port_failed", "run.started"]


def test_the_file_has_each_metric_of_the_dashboard(tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path / "lakehouse")
    monkeypatch.setattr(after_run, "_lags", lambda *_: [{"topic": "incidents", "partition": 0, "lag": 3}])
    monkeypatch.setattr(metrics, "freshness", {})
    after_run.keep_freshness(settings_for(tmp_path, **IN_FILE), {"p50": 4.2})
    ran(Medallion(WHOLE, AUDITED), **IN_FILE)
    assert 'tidemark_freshness_seconds{percentile="p50",pipeline="tests"} 4.2' in (tmp_path / "tidemark.prom").read_text()
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families((tmp_path / "tidemark.prom").read_text()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)

    dashboard = json.loads((ROOT / "docs" / "grafana" / "tidemark.json").read_text(encoding="utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    for target in targets:
        names = set(re.findall(r"tidemark_\w+", target["expr"]))
        assert names, target["expr"]
        assert names <= labels.keys(), target["expr"]
        known = set.intersection(*(labels[name] for name in names))
        asked = re.findall(r"by \(([^)]*)\)", target["expr"]) + re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        assert {label.strip() for each in asked for label in each.split(",")} <= known, target["expr"]
    asked_for = set(re.findall(r"tidemark_\w+", json.dumps(dashboard)))
    assert asked_for >= metrics.METRICS.keys() - {"tidemark_build_info"}


def test_the_documentation_names_every_metric() -> None:
    text = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(tidemark_[a-z_]+)`", text)) == metrics.METRICS.keys()
    for name, meaning in metrics.METRICS.items():
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        assert row == f"| `{name}` | {', '.join(meaning.labels)} | {meaning.help} |"
