"""Spark's own log of what its tasks did: what they spilled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_conf(folder: Path) -> Path:
    """A folder for SPARK_CONF_DIR that has Spark keep its log, as plain lines; the folder that the log goes to.

    Args:
        folder: The folder for the configuration; the log's is below it.
    """
    log = folder / "events"
    log.mkdir(parents=True)
    settings = {"enabled": "true", "dir": log.as_uri(), "rolling.enabled": "false", "compress": "false"}
    lines = [f"spark.eventLog.{name} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return log


def spilled(log: Path) -> tuple[int, int]:
    """The bytes that all tasks spilled: as they lay in memory, and as they were written to disk.

    Args:
        log: The folder of the log.

    Raises:
        FileNotFoundError: Spark has kept none: it would look like nothing spilled.
    """
    files = [file for file in log.iterdir() if file.is_file()]
    if not files:
        raise FileNotFoundError(f"no event log in {log}")
    memory = disk = 0
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if '"SparkListenerTaskEnd"' in line:
                    task = json.loads(line).get("Task Metrics") or {}
                    memory += task.get("Memory Bytes Spilled", 0)
                    disk += task.get("Disk Bytes Spilled", 0)
    return memory, disk
