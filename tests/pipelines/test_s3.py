"""The whole path in S3: a real topic, every stage, and every command that reads."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from jobs import cli
from lakehouse.storage import Storage
from tests.support.kafka import Sent, send
from tests.support.object_store import before_store, make_bucket, storage
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.table import Lakehouse
    from tests.support.object_store import Request

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(900)]


def numbered(*sequences: int) -> list[Sent]:
    return [Sent(b"v%d" % number, key=b"k", headers=[("seq", b"%d" % number)]) for number in sequences]


def config_of(folder: Path, lakehouse: Lakehouse, broker: LocalBroker, topic: str) -> Path:
    """The config of a pipeline in S3; credentials are references, as a user writes them."""
    given = lakehouse.storage or Storage()
    os.environ["TESTS_KEY_ID"], os.environ["TESTS_SECRET"] = given.access_key_id or "", given.secret_access_key or ""
    keys = {"access_key_id": "${env:TESTS_KEY_ID}", "secret_access_key": "${env:TESTS_SECRET}"}
    place = {"root": lakehouse.root, "storage": {"endpoint": given.endpoint, **keys}}
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [topic]}
    return write_config(folder, root="", kafka=kafka, lakehouse=place)


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command with --json, and answers what it says."""

    def ask(config: Path, *command: str) -> Any:
        capsys.readouterr()
        assert cli.main([*command[:2], "--config", str(config), "--json", *command[2:]]) == 0, command
        return json.loads(capsys.readouterr().out)

    return ask


def test_from_a_topic_to_gold_and_every_command_that_reads(
    tmp_path: Path,
    broker: LocalBroker,
    topic: Callable[..., str],
    in_s3: Callable[..., Lakehouse],
    *,
    asked: Callable[..., Any],
) -> None:
    name = topic()
    config = config_of(tmp_path, in_s3(), broker, name)
    run = ["run", "--config", str(config)]

    send(broker.bootstrap_servers, name, numbered(1, 2, 3, 2, 5))
    assert cli.main(run) == 0
    send(broker.bootstrap_servers, name, numbered(4, 6))
    assert cli.main(run) == 0
    assert cli.main(run) == 0  # nothing new

    status = asked(config, "status")
    assert status["totals"] | {"records": 7, "accepted": 5, "duplicate": 1, "late": 1} == status["totals"]
    assert [row["high_watermark"] for row in status["streams"]] == [6]
    assert status["published"]["load_seq"] == 2
    assert asked(config, "sql", "SELECT sequence FROM gold_records ORDER BY ALL") == [
        {"sequence": number} for number in (1, 2, 3, 5, 6)
    ]
    [listed] = asked(config, "quarantine", "list")
    assert listed["class"] == "late"
    assert asked(config, "why", name, "0", "5")["class"] == "late"
    assert asked(config, "verify")["ok"]
    assert cli.main(["report", "--config", str(config), "--offline", "-o", str(tmp_path / "report.html")]) == 0
    assert name in (tmp_path / "report.html").read_text(encoding="utf-8")

    # Then the next run publishes it.
    release = ["quarantine", "release", "--config", str(config), "--reason", "seen", "--topic", name, "--class", "late"]
    assert cli.main(release) == 0
    assert cli.main(run) == 0
    assert asked(config, "sql", "SELECT count(*) AS n FROM gold_records") == [{"n": 6}]


def test_no_commit_of_a_pipeline_overwrites_another_writers(
    tmp_path: Path,
    broker: LocalBroker,
    topic: Callable[..., str],
    s3: int,
    in_s3: Callable[..., Lakehouse],
    *,
    asked: Callable[..., Any],
) -> None:
    name = topic()
    with before_store(s3) as (port, interference):
        make_bucket(s3, f"behind-{port}")
        lakehouse = in_s3(port, f"behind-{port}")
        files = storage(s3).files()  # the rival's way, past the proxy
        config = config_of(tmp_path, lakehouse, broker, name)
        rivals: dict[str, bytes] = {}
        lost: list[str] = []

        def before(request: Request) -> None:
            """Commit first, once at every other version of a table: a commit that changes nothing."""
            path = request.path.lstrip("/")
            version = int(path.rpartition("/")[2].removesuffix(".json")) if request.is_commit else 0
            if version % 2 and path not in rivals:
                rivals[path] = json.dumps({"commitInfo": {"operation": "RIVAL", "timestamp": version}}).encode()
                with files.open_output_stream(path) as stream:
                    stream.write(rivals[path])

        def is_lost(request: Request) -> bool:
            """Keep the answers to all other commits back, once each."""
            is_first = request.is_commit and request.status == 200 and request.path not in lost
            if is_first:
                lost.append(request.path)
            return is_first

        interference.before = before
        for sequences in ((1, 2, 3), (2, 3, 5), (4, 6)):
            send(broker.bootstrap_servers, name, numbered(*sequences))
            assert cli.main(["run", "--config", str(config)]) == 0
        interference.before = lambda _: None
        interference.is_lost = is_lost
        for sequences in ((7, 8), (8, 9)):
            send(broker.bootstrap_servers, name, numbered(*sequences))
            assert cli.main(["run", "--config", str(config)]) == 0
        interference.is_lost = lambda _: False

        tables = {path.split("/")[-3] for path in rivals}
        assert tables >= {
            "bronze_records",
            "silver_records",
            "silver_loads",
            "silver_watermarks",
            "gate_results",
            "gold_records",
        }
        for path, content in rivals.items():
            with files.open_input_stream(path) as stream:
                assert stream.read() == content
        assert len(lost) >= 12
        totals = asked(config, "status")["totals"]
        assert totals | {"records": 12, "accepted": 8, "duplicate": 3, "late": 1} == totals
        assert asked(config, "sql", "SELECT count(*) AS n, count(DISTINCT sequence) AS d FROM gold_records") == [
            {"n": 8, "d": 8}
        ]
        assert asked(config, "verify", "--deep")["ok"]
