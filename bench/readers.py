"""What the commands that read cost on tables in a folder and in S3: the same tables, in turns, a process each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow.fs import LocalFileSystem, copy_files

from bench.loads import Place, settings_of, write_config
from bench.look import LookPipeline
from bench.sitting import require
from pipelines import silver_to_gold
from tests.support.object_store import BUCKET, object_store, storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.sitting import Sitting

READERS = ("status", "why", "sql", "report")
FOLDER, S3 = "in a folder", "in S3"
_NAME = "readers"
_ARGUMENTS = {
    "why": ["look", "0", "7"],
    "sql": ["SELECT count(*) AS n FROM gold_records WHERE sequence > 0"],
    "report": ["--offline"],
}


def measure(sitting: Sitting, spark: SparkSession, folder: Path, history: int, rounds: int) -> None:
    """Make a history with its Gold, copy it into a bucket, and ask both.

    Raises:
        WrongResultError: A command failed, or counted something else.
    """
    sitting.tell(f"Readers: making {history:,} records")
    place = Place(spark, "localhost:1", folder)
    pipeline = LookPipeline(place, history, _NAME)
    root = Path(str(pipeline.run.lakehouse.root))
    settings = settings_of(place, _NAME, root)
    silver_to_gold.run_gate(spark, pipeline.run, settings)
    silver_to_gold.run_gold(spark, pipeline.run, settings)
    configs = {FOLDER: write_config(place.servers, _NAME, root)}
    with object_store(folder / "store") as port:
        given = storage(port)
        copy_files(str(root), f"{BUCKET}/{_NAME}", source_filesystem=LocalFileSystem(), destination_filesystem=given.files())
        os.environ |= {"AWS_ACCESS_KEY_ID": given.access_key_id or "", "AWS_SECRET_ACCESS_KEY": given.secret_access_key or ""}
        stored = json.loads(configs[FOLDER].read_text(encoding="utf-8"))
        stored["lakehouse"] = {"root": f"s3://{BUCKET}/{_NAME}", "storage": {"endpoint": given.endpoint}}
        configs[S3] = folder / "s3.yml"
        configs[S3].write_text(json.dumps(stored), encoding="utf-8")
        for nth in range(rounds + 1):
            if nth:  # what the operating system keeps of the files is there after the first
                sitting.start_round()
            for name in READERS:
                for where in configs if nth % 2 else reversed(configs):
                    _measure(sitting if nth else None, name, where, configs[where], history)


def _measure(sitting: Sitting | None, name: str, where: str, config: Path, history: int) -> None:
    program = Path(sys.executable).with_name("tidemark")
    command = [str(program), name, "--config", str(config), "--json", *_ARGUMENTS.get(name, [])]
    said: list[str] = []

    def ask() -> None:
        said.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    if sitting:
        sitting.measure(f"tidemark {name}", where, 0, ask)
    else:
        ask()
    require(f"what {name} counts {where}", observed=_counted(name, json.loads(said[0]), history), expected=history)


def _counted(name: str, found: Any, history: int) -> int:
    """The accepted records that a command counts; `why` tells of one only, which must be one of them."""
    if name == "sql":
        return int(found[0]["n"])
    if name == "why":
        return history if found["class"] == "accepted" else 0
    return int(found["totals"]["accepted"])
