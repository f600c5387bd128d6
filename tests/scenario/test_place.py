"""The whole path, wherever the tables are: a real topic, every stage, and the commands that people use."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.table import Lakehouse
from tests.support.kafka import Sent, send, sequenced
from tests.support.places import PLACE, Place
from tests.support.small_config import write_config
from tidemark.commands import main
from tidemark.extras.demo.broker import LocalBroker

pytestmark = [pytest.mark.e2e, pytest.mark.everywhere]

IN_CATALOG = "metastore" in PLACE
WITHOUT_LATE = [{"sequence": number} for number in (1, 2, 3, 5, 6)]
GOLD = ("sql", "SELECT sequence FROM gold_records ORDER BY sequence")


@pytest.fixture
def name(topic: Callable[..., str]) -> str:
    return topic()


@pytest.fixture
def lakehouse(tmp_path: Path, lakehouse_at: Callable[[Path], Lakehouse]) -> Lakehouse:
    return lakehouse_at(tmp_path / "lakehouse")


@pytest.fixture
def config(tmp_path: Path, broker: LocalBroker, name: str, place: Place, lakehouse: Lakehouse) -> Path:
    """The config of a pipeline over these tables, with files next to them."""
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [name]}
    more = {"gate": {"data_docs": True}, "watch": {"metrics_file": str(tmp_path / "tidemark.prom")}}
    return write_config(tmp_path, root="", kafka=kafka, lakehouse=place.config(tmp_path / "lakehouse"), **more)


@pytest.fixture
def ran(config: Path) -> Callable[..., None]:

    def run(*commands: str) -> None:
        for command in commands:
            assert main([*command.split(), "--config", str(config)]) == 0, command

    return run


def test_a_topic_reaches_gold_and_every_command_works(
    spark: SparkSession,
    broker: LocalBroker,
    name: str,
    config: Path,
    lakehouse: Lakehouse,
    *,
    ran: Callable[..., None],
    asked: Callable[..., Any],
) -> None:
    """Two loads, in which 2 is resent and 4 is late. Before them there is nothing to see, and that is no error."""
    ran("status", "topic list")
    send(broker.bootstrap_servers, name, sequenced(1, 2, 3, 2, 5))
    ran("run")
    send(broker.bootstrap_servers, name, sequenced(4, 6))
    ran("run")

    check_commands_that_read(name, config, lakehouse, asked)

    ran(f"quarantine release --reason seen --topic {name} --class late", "run")
    assert asked(config, *GOLD) == [{"sequence": number} for number in range(1, 7)]
    send(broker.bootstrap_servers, name, [Sent(b"v", b"somebody-at-example", [("seq", b"7")])])
    ran("maintain", "restore --to 2 --reason seen", "run")
    assert asked(config, *GOLD) == [*WITHOUT_LATE, {"sequence": 7}]
    ran("rebuild --reason look")  # the shadows of a rebuild hold the key too
    ended = "maintain --erase --key somebody-at-example --set maintenance.allow_short_retention=true"
    if not IN_CATALOG:  # which keeps its tables' files to itself
        assert main([*ended.split(), "--dry-run", "--config", str(config)]) == 1
    ran(f"erase --topic {name} --key k --reason asked", f"erase --topic {name} --key somebody-at-example --reason asked")
    ran("run", "rebuild --apply --reason again", *([] if IN_CATALOG else [ended]))
    assert asked(config, "sql", "SELECT count(*) AS n FROM silver_records WHERE value IS NOT NULL") == [{"n": 0}]
    assert asked(config, "verify", "--deep")["ok"]
    files = lakehouse.table_files
    if files is not None:
        assert not any(file.startswith("_shadow/") for file in files.sizes())
        files.remove(next(file for file in files.sizes() if file.startswith("bronze_records/part-")))
        assert main(["verify", "--config", str(config)]) == 1
    if IN_CATALOG:
        assert spark.sql(f"SHOW TABLES IN {lakehouse.schema} LIKE '_shadow*'").isEmpty()


def read(lakehouse: Lakehouse, folder: str, file: str) -> str:
    found = lakehouse.sidecar_files(folder)
    assert found is not None
    return found.read(file).decode()


def check_commands_that_read(name: str, config: Path, lakehouse: Lakehouse, asked: Callable[..., Any]) -> None:
    status = asked(config, "status")
    assert status["totals"] | {"records": 7, "accepted": 5, "duplicate": 1, "late": 1} == status["totals"]
    assert status["published"]["load_seq"] == 2
    assert asked(config, *GOLD) == WITHOUT_LATE
    verified = asked(config, "verify")
    assert verified["ok"]
    of_files = {"logs_are_whole", "files_are_there"} & {each["check"] for each in verified["checks"]}
    assert len(of_files) == (0 if IN_CATALOG else 2)

    assert [row["high_watermark"] for row in asked(config, "watermark", "show")] == [6]
    assert [row["topic"] for row in asked(config, "topic", "list")] == [name]
    assert asked(config, "sql", "SELECT topic, sequence FROM silver_last_accepted") == [{"topic": name, "sequence": 6}]
    [listed] = asked(config, "quarantine", "list", "--older-than", "0")
    assert (listed["class"], listed["first_offset"]) == ("late", 5)
    assert asked(config, "quarantine", "show", name, "0", "5")["class"] == "late"
    assert asked(config, "why", name, "0", "3")["winner"]["offset"] == 1
    found = asked(config, "report", "--offline")
    assert ([row["accepted"] for row in found["streams"]], found["quarantine_total"]["records"]) == ([5], 1)
    assert [run["records"] for run in found["runs"]] == [2, 5]
    assert asked(config, "gate", "show")["passed"]
    assert json.loads(read(lakehouse, "_watch", "state.json"))["load_seq"] == 2
    assert read(lakehouse, "_data_docs", "index.html")
    for refused in ("DELETE FROM silver_records", "SELECT * FROM text.`/etc/hostname`"):
        assert main(["sql", "--config", str(config), refused]) == 2
