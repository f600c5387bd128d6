"""The scenario: a lakehouse made once from a hostile corpus by the pipeline itself, and copied as files."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.config.load import load
from lakehouse.settings.pipeline import Settings
from lakehouse.table import Lakehouse
from tests.scenario import corpus
from tests.support.kafka import send
from tests.support.planted import MAILER, PROPERTIES, planted
from tests.support.small_config import small_config
from tidemark.commands.commands import main
from tidemark.extras.demo.broker import create_topic

TEXTS, ORDERS = "scenario-texts", "scenario-orders"
FOLDER, METRICS = "lakehouse", "tidemark.prom"
_N_AT_MOST = {"expect_column_values_to_be_between": {"column": "payload.n", "max_value": 100, "on_fail": "quarantine_rows"}}
_WHY = ["--reason", corpus.FORGED, "--by", corpus.FORGED]


@dataclass(frozen=True)
class Scenario:
    """A lakehouse with the config that belongs to it, as a file and as what the file holds."""

    file: Path
    config: Mapping[str, Any]

    @property
    def settings(self) -> Settings:
        return load(self.file, overrides={}, environ=os.environ)

    @property
    def lakehouse(self) -> Lakehouse:
        return Lakehouse.of(self.settings)

    @property
    def root(self) -> Path:
        return self.file.parent / FOLDER

    def copy_to(self, folder: Path) -> "Scenario":
        """Copy the tables into another folder: Delta's paths are relative."""
        shutil.copytree(self.root, folder / FOLDER)
        return written(folder, {**self.config, "lakehouse": {"root": str(folder / FOLDER)}})

    def shown(self, secret: str) -> list[str]:
        """The files of runs that have a text: results, metrics, and what alerts keep."""
        files = [
            self.file.parent / METRICS,
            *(file for name in ("_reports", "_watch") for file in (self.root / name).glob("*")),
        ]
        return [str(file) for file in files if file.is_file() and secret in file.read_text(encoding="utf-8")]

    def commits(self) -> dict[str, int]:
        """The last version of every table, shadows left out: those are what a rebuild shows."""
        files = self.lakehouse.table_files
        assert files is not None
        found: dict[str, int] = {}
        for name in files.sizes():
            table, log, commit = name.rpartition("/_delta_log/")
            if log and commit.removesuffix(".json").isdigit() and not table.startswith("_shadow"):
                found[table] = max(found.get(table, -1), int(commit.removesuffix(".json")))
        return found


def written(folder: Path, config: Mapping[str, Any]) -> Scenario:
    file = folder / "tidemark.yml"
    file.write_text(json.dumps(config), encoding="utf-8")
    return Scenario(file, config)


def build(servers: str, folder: Path) -> Scenario:
    """Publish four loads: records, a release, an erasure, records. A person released the failed gate run of the last two.
    Load 5 waits behind a failed gate run. Bronze holds a load more, at which the breaker opens."""
    create_topic(servers, TEXTS, 1, {"max.message.bytes": "8000000"})
    create_topic(servers, ORDERS, 1)
    config = small_config(
        str(folder / FOLDER),
        kafka={"bootstrap_servers": servers, "topics": [TEXTS, ORDERS], "properties": planted(PROPERTIES)},
        producer={"header": "producer"},
        value=corpus.VALUE,
        topics={TEXTS: {"value": {"undecodable": "accept"}}, ORDERS: {"epoch": {"header": "epoch"}}},
        gate={"budgets": {"late": {"warn": 0, "critical": 2}}, "expectations": [_N_AT_MOST]},
        policies={
            "max_new_streams": None,
            "max_quarantined_share": 0.6,
            "topics": {ORDERS: {"max_jump": 50, "contiguous": True}},
        },
        watch={"metrics_file": METRICS, "alerts": {"mail_command": planted(MAILER)}},
    )
    made = written(folder, config)

    def ran(*command: str, code: int = 0) -> None:
        assert main([*command, "--config", str(made.file)]) == code, command

    send(servers, TEXTS, corpus.texts_first())
    send(servers, ORDERS, corpus.ORDERS_FIRST)
    ran("run")
    ran("quarantine", "release", ORDERS, "0", str(corpus.LATE), *_WHY)
    ran("erase", "--topic", ORDERS, "--key", corpus.ERASED.decode(), *_WHY)
    send(servers, ORDERS, corpus.ORDERS_AGAIN)
    ran("run", code=3)
    ran("gate", "release", *_WHY)
    send(servers, ORDERS, corpus.ORDERS_LATE)
    ran("run", code=3)
    send(servers, TEXTS, corpus.texts_again())
    ran("run", code=5)
    return made
