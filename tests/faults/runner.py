"""`python -m tests.faults.runner CONFIG [without_fences]` runs the pipeline on order. Orders and events are lines of JSON."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock
from pyspark.sql import SparkSession

from lakehouse.errors import AnotherWriterError, TidemarkError
from lakehouse.settings.pipeline import Settings
from lakehouse.table import Lakehouse
from pipelines.job import Job
from tests.support.quick import QUICK
from tidemark.process.context import load_settings, open_session
from tidemark.runner.once import run_once


class Lines:
    def __init__(self, write: Callable[[Mapping[str, object]], None]) -> None:
        self._write = write

    def event(self, name: str, **fields: object) -> None:
        self._write({"event": name, "at": time.monotonic(), **fields})


def main() -> None:
    out = os.fdopen(os.dup(1), "w")  # not handed on to the JVM: its end is this process's end
    os.dup2(2, 1)

    def write(fields: Mapping[str, object]) -> None:
        out.write(json.dumps(fields, default=str) + "\n")
        out.flush()

    config, report = Path(sys.argv[1]), Lines(write)
    spark = open_session(Lakehouse.of(load_settings(config, None)), report, "tidemark faults")
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    from tests.faults import without_fences  # after the session, as what it imports asks for

    if "without_fences" in sys.argv[2:]:
        without_fences.take_off()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    write({"event": "ready", "jvm": gateway.proc.pid})
    for line in sys.stdin:
        write({"event": "done", **_run(spark, config, report, json.loads(line))})


def _run(spark: SparkSession, config: Path, report: Lines, order: Mapping[str, Any]) -> dict[str, object]:
    from tests.faults import without_fences

    config = Path(order.get("config") or config)
    settings = load_settings(config, order.get("settings"))
    os.environ.update({"TIDEMARK_CRASH_AT": order.get("crash_at") or "", "TIDEMARK_STOP_AT": order.get("stop_at") or ""})
    without_fences.set_lock(is_on=order.get("is_locked", True))
    while True:
        try:
            return {"exit_code": 0, **run_once(Job.on(spark, settings, report), stage=order.get("stage"))}
        except AnotherWriterError as error:
            if not order.get("waits"):
                return {"exit_code": error.exit_code, "error": str(error)}
            _wait(settings)
        except TidemarkError as error:
            return {"exit_code": error.exit_code, "error": str(error)}
        except Exception as error:  # noqa: BLE001 -- what a job's edge would end with: the harness judges it
            return {"exit_code": 1, "error": f"{type(error).__name__}: {error}"}


def _wait(settings: Settings) -> None:
    """Until the holder of the lock has ended, or died: what a scheduler's next try meets, within milliseconds."""
    root = Lakehouse.of(settings).local_root
    assert root is not None
    lock = FileLock(root / ".tidemark.lock")
    lock.acquire(poll_interval=0.01)
    lock.release()


if __name__ == "__main__":
    main()
