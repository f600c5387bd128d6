"""Measures the commands that read, on the same tables in a folder and in S3, in turns, each in its own process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.generated import TOPIC, fill_silver
from bench.loads import Place, Silent, settings_of, write_config
from bench.sitting import Sitting, require
from lakehouse.run.context import Run
from lakehouse.sidecar_files import Files
from lakehouse.table import Lakehouse
from pipelines import silver_to_gold
from tests.support.object_store import BUCKET, object_store, storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READERS = ("status", "why", "sql", "report")
FOLDER, S3 = "in a folder", "in S3"
_NAME, _SERVERS = "readers", "localhost:1"
_ARGUMENTS = {
    "why": [TOPIC, "0", "7"],
    "sql": ["SELECT count(*) AS n FROM gold_records WHERE sequence > 0"],
    "report": ["--offline"],
}


def measure(sitting: Sitting, spark: SparkSession, folder: Path, history: int, rounds: int) -> None:
    """Make a history with its Gold, copy it into a bucket, and run each command on both.

    Raises:
        WrongResultError: A command failed, or counted something else.
    """
    sitting.tell(f"Readers: making {history:,} records")
    root = folder / _NAME
    config = write_config(_SERVERS, TOPIC, root)
    run, settings = Run("bench", Lakehouse(root=str(root)), Silent()), settings_of(Place(spark, _SERVERS, folder), TOPIC, root)
    fill_silver(spark, run, history)
    silver_to_gold.run_gate(spark, run, settings)
    silver_to_gold.run_gold(spark, run, settings)
    configs = {FOLDER: config}
    with object_store(folder / "store") as port:
        given = storage(port)
        Files(f"s3://{BUCKET}/{_NAME}", given).fill(lambda made: shutil.copytree(root, made, dirs_exist_ok=True))
        os.environ |= {"AWS_ACCESS_KEY_ID": given.access_key_id or "", "AWS_SECRET_ACCESS_KEY": given.secret_access_key or ""}
        stored = json.loads(configs[FOLDER].read_text(encoding="utf-8"))
        stored["lakehouse"] = {"root": f"s3://{BUCKET}/{_NAME}", "storage": {"endpoint": given.endpoint}}
        configs[S3] = folder / "s3.yml"
        configs[S3].write_text(json.dumps(stored), encoding="utf-8")
        for nth in range(rounds + 1):
            if nth:  # the first round fills the page cache
                sitting.start_round()
            for name in READERS:
                for where in configs if nth % 2 else reversed(configs):
                    _measure(sitting if nth else Sitting(), name, where, configs[where], history)


def _measure(sitting: Sitting, name: str, where: str, config: Path, history: int) -> None:
    program = Path(sys.executable).with_name("tidemark")
    command = [str(program), name, "--config", str(config), "--json", *_ARGUMENTS.get(name, [])]
    done = sitting.measure(
        f"tidemark {name}", where, 0, lambda: subprocess.run(command, check=True, capture_output=True, text=True)
    )
    require(f"what {name} counts {where}", observed=_counted(name, json.loads(done.stdout), history), expected=history)


def _counted(name: str, found: Any, history: int) -> int:
    """The accepted records that a command counts; `why` finds one of them."""
    if name == "sql":
        return int(found[0]["n"])
    if name == "why":
        return history if found["class"] == "accepted" else 0
    return int(found["totals"]["accepted"])
