"""The whole path, wherever the tables are: a real topic, every stage, and the commands that people use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jobs import cli
from lakehouse.delta.stored_files import files_of
from tests.support.examples import IS_WHOLE
from tests.support.kafka import Sent, send, sequenced
from tests.support.places import PLACE
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.beside import Folder
    from lakehouse.table import Lakehouse
    from tests.support.places import Place

pytestmark = [pytest.mark.e2e, pytest.mark.everywhere]

WITHOUT_LATE = [{"sequence": number} for number in (1, 2, 3, 5, 6)]


@pytest.fixture
def name(topic: Callable[..., str]) -> str:
    return topic()


@pytest.fixture
def lakehouse(tmp_path: Path, lakehouse_at: Callable[[Path], Lakehouse]) -> Lakehouse:
    """Empty tables in this process's place."""
    return lakehouse_at(tmp_path / "lakehouse")


@pytest.fixture
def config(tmp_path: Path, broker: LocalBroker, name: str, place: Place, lakehouse: Lakehouse) -> Path:
    """The config of a pipeline over these tables, with files beside them."""
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [name]}
    beside = {"gate": {"data_docs": True}, "watch": {"metrics_file": str(tmp_path / "tidemark.prom")}}
    return write_config(tmp_path, root="", kafka=kafka, lakehouse=place.config(tmp_path / "lakehouse"), **beside)


def beside(lakehouse: Lakehouse, name: str) -> Folder:
    found = lakehouse.beside(name)
    assert found is not None
    return found


@pytest.fixture
def ran(config: Path) -> Callable[..., None]:
    """Runs commands that must end well, each given as words."""

    def run(*commands: str) -> None:
        for command in commands:
            assert cli.main([*command.split(), "--config", str(config)]) == 0, command

    return run


@pytest.mark.usefixtures("spark")
def test_from_a_topic_to_gold(
    broker: LocalBroker, name: str, config: Path, ran: Callable[..., None], *, asked: Callable[..., Any]
) -> None:
    send(broker.bootstrap_servers, name, sequenced(1, 2, 3, 2, 5))
    ran("run")
    send(broker.bootstrap_servers, name, sequenced(4, 6))
    ran("run")

    status = asked(config, "status")
    assert status["totals"] | {"records": 7, "accepted": 5, "duplicate": 1, "late": 1} == status["totals"]
    assert [row["high_watermark"] for row in status["streams"]] == [6]
    assert status["published"]["load_seq"] == 2
    assert asked(config, "sql", "SELECT sequence FROM gold_records ORDER BY sequence") == WITHOUT_LATE
    verified = asked(config, "verify")
    assert verified["ok"]
    of_files = {"logs_are_whole", "files_are_there"} & {each["check"] for each in verified["checks"]}
    assert len(of_files) == (0 if "metastore" in PLACE else 2)


@pytest.mark.usefixtures("spark")
def test_every_command_that_reads(
    broker: LocalBroker, name: str, config: Path, lakehouse: Lakehouse, ran: Callable[..., None], *, asked: Callable[..., Any]
) -> None:
    assert asked(config, "status")["streams"] == []
    assert asked(config, "topic", "list") == []
    send(broker.bootstrap_servers, name, sequenced(1, 2, 3, 2, 5))
    ran("run")
    send(broker.bootstrap_servers, name, sequenced(4, 6))
    ran("run")

    assert [row["high_watermark"] for row in asked(config, "watermark", "show")] == [6]
    assert [row["topic"] for row in asked(config, "topic", "list")] == [name]
    assert asked(config, "sql", "SELECT topic, sequence FROM silver_last_accepted") == [{"topic": name, "sequence": 6}]
    [listed] = asked(config, "quarantine", "list", "--older-than", "0")
    assert (listed["class"], listed["first_offset"]) == ("late", 5)
    assert asked(config, "quarantine", "list", "--topic", "it's ${another}\\") == []
    assert asked(config, "quarantine", "show", name, "0", "5")["class"] == "late"
    assert [asked(config, "why", name, "0", str(offset))["class"] for offset in (0, 3)] == ["accepted", "duplicate"]
    assert asked(config, "why", name, "0", "3")["winner"]["offset"] == 1
    told = asked(config, "report", "--offline")
    assert [row["accepted"] for row in told["streams"]] == [5]
    assert told["quarantine_total"]["records"] == 1
    assert asked(config, "gate", "show")["passed"]
    assert [run["records"] for run in told["runs"]] == [2, 5]
    assert json.loads(beside(lakehouse, "_watch").read("state.json"))["load_seq"] == 2
    assert "index.html" in beside(lakehouse, "_data_docs").names()
    for refused in ("DELETE FROM silver_records", "SELECT * FROM text.`/etc/hostname`"):
        assert cli.main(["sql", "--config", str(config), refused]) == 2


@pytest.mark.usefixtures("spark")
def test_every_command_that_changes_tables(
    broker: LocalBroker, name: str, config: Path, ran: Callable[..., None], *, asked: Callable[..., Any]
) -> None:
    send(broker.bootstrap_servers, name, sequenced(1, 2, 3, 2, 5))
    ran("run")
    send(broker.bootstrap_servers, name, sequenced(4, 6))
    ran("run", f"quarantine release --reason seen --topic {name} --class late", "run")
    assert asked(config, "sql", "SELECT count(*) AS n FROM gold_records") == [{"n": 6}]
    ran("maintain", "restore --to 2 --reason seen", "run")
    assert asked(config, "sql", "SELECT sequence FROM gold_records ORDER BY sequence") == WITHOUT_LATE
    page = config.with_name("report.html")
    ran(f"report --offline -o {page}")
    assert name in page.read_text(encoding="utf-8")
    ran(f"erase --topic {name} --key k --reason asked", "run", "rebuild --apply --reason again")
    assert asked(config, "sql", "SELECT count(*) AS n FROM silver_records WHERE value IS NOT NULL") == [{"n": 0}]
    assert asked(config, "verify", "--deep")["ok"]


@pytest.mark.usefixtures("spark")
@pytest.mark.skipif("metastore" in PLACE, reason="a catalog keeps its tables' files to itself")
def test_an_erased_key_is_in_no_file(
    broker: LocalBroker, name: str, config: Path, lakehouse: Lakehouse, ran: Callable[..., None], *, asked: Callable[..., Any]
) -> None:
    ended = "maintain --erase --key somebody-at-example --set maintenance.allow_short_retention=true"
    send(broker.bootstrap_servers, name, [Sent(b"v", b"somebody-at-example", [("seq", b"%d" % number)]) for number in (1, 2)])
    ran("run", "rebuild --reason look")  # the shadows of a rebuild hold it too
    assert cli.main([*ended.split(), "--dry-run", "--config", str(config)]) == 1
    ran(f"erase --topic {name} --key somebody-at-example --reason asked", ended)

    files = files_of(lakehouse)
    assert files is not None
    assert not any(file.startswith("_shadow/") for file in files.sizes())
    assert asked(config, "verify", "--deep")["ok"]
    data = next(file for file in files.sizes() if file.startswith("bronze_records/part-"))
    files.remove(data)
    assert cli.main(["verify", "--config", str(config)]) == 1


@pytest.mark.skipif(PLACE.startswith("metastore"), reason="this is that process")
def test_the_same_in_a_metastore() -> None:
    """In a process of its own: a session has one catalog."""
    tests = [test_from_a_topic_to_gold, *([test_every_command_that_reads] if IS_WHOLE else [])]
    asked = [f"{__file__}::{test.__name__}" for test in tests]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *asked]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, env={**environment, "TESTS_PLACE": "metastore"}, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"{len(tests)} passed" in done.stdout
