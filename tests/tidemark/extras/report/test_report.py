"""What `tidemark report` counts and writes, over tables that delta-rs wrote. How it looks: `tests/browser`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.settings.pipeline import Kafka, Settings
from lakehouse.sidecar_files import Files
from lakehouse.table import Lakehouse
from tests.support.kafka import Sent, send
from tests.support.report_tables import HOSTILE, NOON, Shape, write_lake
from tests.support.small_config import small_config, write_config
from tests.tidemark.conftest import rows
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.report import facts as report_facts
from tidemark.extras.report.facts import ends, facts, last_runs
from tidemark.extras.report.summary import tiles, verdict

SHAPE = Shape(loads=7)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    write_lake(folder, SHAPE)
    return folder


@pytest.fixture(scope="module")
def settings(root: Path) -> Settings:
    return Settings.model_validate(small_config(str(root)), context={"folder": root})


@pytest.fixture(scope="module")
def found(root: Path, settings: Settings) -> dict[str, Any]:
    return facts(settings, Lakehouse(root=str(root)), asks_kafka=False)


def test_history_is_the_ledger_summed_up(found: dict[str, Any], root: Path) -> None:
    stream = found["streams"][3]
    here = [row for row in found["history"] if row["stream"] == 3]
    ledger = f"""
        SELECT load_seq - 1, records, accepted, duplicate, late, invalid, jumps_forward, jumps_backward FROM silver_loads
        WHERE topic = '{stream["topic"]}' AND partition = {stream["partition"]} AND producer = $${stream["producer"]}$$
        ORDER BY 1
    """
    names = ("slice", "records", "accepted", "duplicate", "late", "invalid", "jumps_forward", "jumps_backward")
    assert [tuple(row[name] for name in names) for row in here] == rows(root, ledger)
    assert [(each["first_load_seq"], each["last_load_seq"]) for each in found["slices"]] == [(n, n) for n in range(1, 8)]


def test_many_streams_are_shown_as_one_and_many_loads_in_slices(
    root: Path, settings: Settings, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_facts, "MAX_STREAMS", 3)
    monkeypatch.setattr(report_facts, "MAX_CELLS", 9)
    few = facts(settings, Lakehouse(root=str(root)), asks_kafka=False)

    assert (len(few["streams"]), few["stream_count"]) == (3, 8)
    assert [(each["first_load_seq"], each["last_load_seq"]) for each in few["slices"]] == [(1, 3), (4, 5), (6, 7)]
    assert {row["stream"] for row in few["history"]} == {-1, 0, 1, 2}
    for name in ("records", "duplicate", "late", "missing"):
        assert sum(row[name] for row in few["history"]) == sum(row[name] for row in found["history"])
    assert few["streams"] == found["streams"][:3]


def test_streams_gate_runs_and_quarantine_are_listed_with_their_totals(found: dict[str, Any], root: Path) -> None:
    kept_out = [row["records"] - row["accepted"] for row in found["streams"]]
    assert kept_out == sorted(kept_out, reverse=True), "the streams that most was kept out of come first"
    assert [run["last_load_seq"] for run in found["gate_runs"]] == [7, 6, 5, 4, 3, 2, 1]
    assert [run["passed"] for run in found["gate_runs"]] == [True, False, True, True, False, True, True]
    last = [(row["expectation"], row["outcome"]) for row in found["gate_results"] if row["last_load_seq"] == 7]
    assert last == [("records_are_conserved", "passed"), ("budget_late", "passed")]
    assert {row["outcome"] for row in found["gate_results"] if row["last_load_seq"] < 7} == {"failed"}, "of others the unmet"
    assert found["quarantine_total"]["records"] == rows(root, "SELECT sum(records) FROM quarantine_open")[0][0]
    first = found["quarantine_rows"][0]
    at = f"topic = '{first['topic']}' AND partition = {first['partition']} AND class = '{first['class']}'"
    assert (first["first_offset"],) in rows(root, f"SELECT first_offset FROM quarantine_open WHERE {at}")


def test_gaps_are_what_the_gate_counts_with_what_contiguous_streams_lack(found: dict[str, Any], root: Path) -> None:
    [(ranges, sequences)] = rows(root, "SELECT count(*), sum(sequences) FROM silver_missing")
    assert ({**found["missing_total"]}, len(found["missing_rows"])) == ({"ranges": ranges, "sequences": sequences}, ranges)
    (gaps,) = [tile for tile in tiles(found) if tile["label"] == "Gaps"]
    [(stepped_over,)] = rows(root, "SELECT sum(missing) FROM silver_loads")
    assert gaps["number"] == f"{stepped_over:,}"
    assert f"{sequences:,} missing in {ranges:,} ranges of contiguous streams" in gaps["detail"]
    assert tiles({**found, "missing_total": None})[5]["detail"] == "sequences that a stream stepped over"


def test_a_gate_that_failed_says_what_comes_next_until_somebody_decided(found: dict[str, Any]) -> None:
    by = {"decision": "released", "decided_by": "ann", "decided_at": NOON, "reason": "looked at"}
    for decision, is_decided in ((None, False), (by, True)):
        gate = {**found["gate"], "passed": False, "decision": decision}
        said = " ".join(verdict({**found, "gate": gate})["said"])
        assert ("released by ann" in said, "tidemark gate show" in said) == (is_decided, not is_decided)


def test_the_last_runs_are_told_with_their_stages_and_failures(root: Path) -> None:
    (root / "_reports" / "zzz.json").write_text("not ours")
    runs = last_runs(Files(str(root / "_reports")))
    assert [run["exit_code"] for run in runs] == [None, None, None, 3, None, None, None]
    assert runs[0]["stages"] == dict.fromkeys(("bronze", "silver", "gate", "gold"), 1.5)
    assert (runs[0]["seconds"], runs[0]["records"]) == (6.25, 7)
    assert (runs[-1]["started_at"] - NOON).total_seconds() == 60


def test_where_kafka_cannot_be_asked_the_facts_say_why_and_count_up_to_bronzes_end(root: Path) -> None:
    properties = {"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"}
    kafka = {"bootstrap_servers": "localhost:1", "topics": ["incidents"], "properties": properties}
    settings = Settings.model_validate(small_config(str(root), kafka=kafka), context={"folder": root})
    told = facts(settings, Lakehouse(root=str(root)))
    assert told["kafka"] == {"asked": False, "why": "librdkafka cannot read a JKS file as ssl.truststore.location"}
    lags = [(row["topic"], row["partition"], row["end_offset"], row["lag"]) for row in told["partitions"]]
    assert ends(None, [], []) == {"kafka": {"asked": False, "why": "--offline"}, "partitions": []}
    assert lags == [("incidents", 0, None, 0), ("incidents", 1, None, 10), ("payments", 0, None, 20), ("payments", 1, None, 30)]


def test_lag_is_counted_up_to_kafkas_end_for_every_partition_and_topic(broker: LocalBroker, topic: Callable[..., str]) -> None:
    name, again = topic(3), topic()
    send(broker.bootstrap_servers, name, [Sent(b"v", partition=partition) for partition in (0, 0, 0, 0, 0, 1, 1)])
    send(broker.bootstrap_servers, again, [Sent(b"v")] * 5)
    kafka = Kafka.model_validate({"bootstrap_servers": broker.bootstrap_servers, "topics": [name, again]})
    # One topic was created again: it goes on under another name. Of the other, no table knows two partitions.
    stored = [{"topic": again, "stored_as": each, "incarnation": nth + 1} for nth, each in enumerate((again, f"{again}@2"))]
    columns = ("topic", "partition", "decided_offset", "bronze_offset", "lag")
    rows = [(name, 0, 1, 3, 2), (again, 0, 99, 99, 0), (f"{again}@2", 0, 2, 2, 0)]

    found = ends(kafka, [dict(zip(columns, row, strict=True)) for row in rows], stored)

    assert found["kafka"] == {"asked": True, "why": None}
    shown = (*columns[:4], "end_offset", "lag")
    assert {tuple(row[column] for column in shown) for row in found["partitions"]} == {
        (name, 0, 1, 3, 5, 3),
        (name, 1, None, None, 2, 2),
        (name, 2, None, None, 0, 0),
        (again, 0, 99, 99, None, 0),
        (f"{again}@2", 0, 2, 2, 5, 2),
    }


def test_report_and_sql_start_no_jvm_and_json_writes_no_file(root: Path, tmp_path: Path) -> None:
    write_config(tmp_path, root=str(root))
    program = (
        "import sys, tidemark.commands\n"
        "report, query = ['report', '--offline'], ['sql', 'SELECT count(*) AS n FROM silver_records']\n"
        "codes = [tidemark.commands.main(each) for each in ([*report, '--json', '-o', 'none.html'], query, report)]\n"
        "sys.exit(any(codes) or ', '.join({'pyspark', 'great_expectations'} & set(sys.modules)) or 0)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    facts, said = done.stdout.split("\n}\n")
    shown = json.loads(facts + "}")
    assert (shown["pipeline"], shown["stream_count"], shown["totals"]["records"]) == ("tests", 8, 8 * 7 * 100)
    assert {row["producer"] for row in shown["streams"]} == {"ann", HOSTILE}
    assert said.startswith("n\n1\nreport.html (")
    assert said.endswith("The gate passed.\n")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not (tmp_path / "none.html").exists()
