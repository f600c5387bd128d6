"""Tables as they are long after: the files of their logs are old, and Delta has cleaned away what its retention lets go."""

import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.run.context import Run

_SECONDS = 60 * 24 * 3600  # twice what Delta keeps a log for, where nothing else is said


def clean(spark: SparkSession, run: Run, *names: str) -> dict[str, int]:
    """Age and clean the logs of tables by a checkpoint of each; the latest of the first versions that the logs still have."""
    root = Path(str(run.lakehouse.root))
    there = sorted(path.name for path in root.iterdir() if (path / "_delta_log").is_dir())
    return {name: _clean(spark, root / name) for name in names or there}


def _clean(spark: SparkSession, table: Path) -> int:
    log = table / "_delta_log"
    commits = _commits(log)
    if len(commits) == 1 and any(log.glob(f"{commits[0]:020}.checkpoint*.parquet")):
        return commits[0]  # nothing was committed since it was cleaned
    for nth, file in enumerate(sorted(path for path in log.iterdir() if path.is_file())):
        then = time.time() - _SECONDS + nth  # Delta wants the times of commits to rise
        os.utime(file, (then, then))
    jvm: Any = spark._jvm  # Delta has no SQL for a checkpoint
    none = jvm.scala.Option.empty()
    of_delta = jvm.org.apache.spark.sql.delta.DeltaLog
    of_delta.clearCache()  # another process finds the files as they are, and so does this one
    opened = of_delta.forTable(spark._jsparkSession, str(table))
    opened.checkpoint(opened.update(False, none, none), none)
    of_delta.clearCache()
    return min(_commits(log))


def _commits(log: Path) -> list[int]:
    return [int(file.stem) for file in log.glob("*.json") if file.stem.isdecimal()]
