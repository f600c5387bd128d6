"""What says that it only looks commits nothing: every table's versions are counted around each such command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer

from jobs.cli.commands import app, main
from lakehouse.delta import log_files
from pipelines.operate import requests
from silver.state.request import Erase, Request
from tests.jobs.cli.test_hostile import leaves
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of, write_config
from tests.support.stages import loaded, published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

REASON = ["--reason", "a look"]
LOOKS = [
    ["plan"],
    ["rebuild", *REASON],
    ["verify"],
    ["verify", "--deep"],
    ["status"],
    ["status", "--lag"],
    ["why", "t", "0", "1"],
    ["quarantine", "list"],
    ["quarantine", "show", "t", "0", "4"],
    ["quarantine", "release", "--all", *REASON, "--dry-run"],
    ["quarantine", "discard", "--all", *REASON, "--dry-run"],
    ["gate", "show"],
    ["gate", "release", *REASON, "--dry-run"],
    ["gate", "reject", *REASON, "--dry-run"],
    ["topic", "list"],
    ["topic", "accept", "t", *REASON, "--dry-run"],
    ["watermark", "show"],
    ["watermark", "reset", "t", "0", "--to", "90", *REASON, "--dry-run"],
    ["watermark", "reset", "t", "0", "--new-epoch", *REASON, "--dry-run"],
    ["order"],
    ["report", "--offline"],
    ["sql", "SELECT count(*) FROM silver_records"],
    ["config", "show"],
    ["config", "check"],
    ["doctor"],
    ["check"],
    ["erase", "--topic", "t", "--key", "someone-else", *REASON, "--dry-run"],
    ["restore", "--to", "1", *REASON, "--dry-run"],
    ["maintain", "--dry-run"],
    ["maintain", "--erase", "--key", "key-of-ann", "--dry-run"],
]
MAY_REFUSE = ("gate release", "gate reject", "doctor", "check", "maintain --erase", "topic", "status --lag")
"""A gate that passed has nothing to decide; doctor says what this machine lacks; the key is in old versions still; there is no
broker."""
NEVER_ONLY_LOOKS = {"run", "demo", "init", "broker up", "broker down", "jars fetch", "jars archive"}
"""Commands that write, or do not look at a lakehouse, whatever their options."""


def dry_runs(group: Any, prefix: str = "") -> Iterator[str]:
    """The names of all commands below a group that take --dry-run."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from dry_runs(command, f"{prefix}{name} ")
        elif any("--dry-run" in option.opts for option in command.params):
            yield prefix + name


def test_every_command_that_can_only_look_is_listed() -> None:
    whole = typer.main.get_command(app)
    lines = [" ".join(argv) for argv in LOOKS]
    named = {name for name in leaves(whole) if any(line == name or line.startswith(f"{name} ") for line in lines)}
    assert named == set(leaves(whole)) - NEVER_ONLY_LOOKS
    dry = {name for name in dry_runs(whole) if any(line.startswith(f"{name} ") and "--dry-run" in line for line in lines)}
    assert dry == set(dry_runs(whole))


def versions(root: Path) -> dict[str, int]:
    """The last version of every table under the root, shadows apart: those are what a look writes."""
    logs = [log for log in root.rglob("_delta_log") if "_shadow" not in log.parts]
    return {str(log.parent.relative_to(root)): log_files.last_version(log.parent) for log in logs}


def test_no_command_that_only_looks_commits_to_any_table(
    spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    settings = settings_of(run)
    root = run.lakehouse.local_root
    assert root is not None
    for key in (b"key-of-ann", b"key-of-bob"):  # after an erasure the ledger has one to repeat
        at = 3 * (key == b"key-of-bob")
        headers = [(("seq", number),) for number in (b"%d" % (at + 1), b"%d" % (at + 2), b"x")]
        loaded(spark, new_run(), settings, [Record(at + nth, b"v", key, each) for nth, each in enumerate(headers)])
        asked = Request("erase", "asked", "ann", erase=Erase.of("t", key))
        requests.carry_out(spark, new_run(), settings, asked, is_dry_run=False)
    loaded(spark, new_run(), settings, [Record.of(6, 7), Record.of(7, 8), Record.of(8, "x")])
    published(spark, new_run(), settings)
    put(spark, run, [Record.of(9, 9)])
    write_config(tmp_path, root=str(root), kafka={"bootstrap_servers": "localhost:9092", "topics": ["t"]})
    monkeypatch.chdir(tmp_path)
    before = versions(root)

    ended = {" ".join(argv): (main(argv), versions(root)) for argv in LOOKS}

    assert {name: after for name, (_, after) in ended.items() if after != before} == {}
    assert [name for name, (code, _) in ended.items() if code and not name.startswith(MAY_REFUSE)] == []
    assert len(before) >= 9
