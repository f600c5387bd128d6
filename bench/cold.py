"""Measures `tidemark run` and `tidemark verify` in processes of their own, and Spark's own start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import floor
from bench.loads import write_config
from bench.peers.job import RUN, Job
from bench.sitting import require
from bench.topics import PARTITIONS, plan_topic, send_more, send_topic

if TYPE_CHECKING:
    from bench.sitting import Sitting

BARE_PROCESS = "its eight commits, bare, in another"
COLD, SPARK_START = "tidemark run, its own process", "Spark's own start, in another"
VERIFY = "tidemark verify, its own process"
NOTHING_NEW, FEW_NEW, SMALL = "0 new", "1,000 new", "small tables"

_RECORDS, _FEW = 2_000, 1_000
_OPEN = """
from lakehouse.spark.session import open_session
assert open_session("tidemark-bench").sql("SELECT 1").collect()[0][0] == 1
"""


def measure(sitting: Sitting, servers: str, folder: Path, rounds: int) -> None:
    """Read a small topic once; then run on nothing new and on a thousand records, verify, and start Spark alone, in turns.

    Raises:
        WrongResultError: A run read another number of records than were sent.
    """
    sitting.tell(f"Cold: sending {_RECORDS:,} records, and reading them once")
    topic = plan_topic("cold", _RECORDS)
    send_topic(servers, topic)
    config = write_config(servers, topic.name, folder / "cold")
    tidemark, options = str(Path(sys.executable).with_name("tidemark")), ["--json", "--config", str(config)]
    run = [tidemark, "run", *options]
    for expected in (_RECORDS, 0):  # the second one fills the page cache
        _require_records(subprocess.run(run, check=True, capture_output=True, text=True).stdout, expected)
    highest = max(topic.unique)
    bare = Job(RUN, servers=servers, topic=topic.name, work=str(folder / "bare-commits"))
    floor.copy_tables(config.parent, bare)
    subprocess.run(_bare_command(bare, highest), check=True, capture_output=True)
    for nth in range(rounds):
        sitting.start_round()
        steps: list[Callable[[], object]] = [
            lambda: _require_records(_measure(sitting, COLD, NOTHING_NEW, run), 0),
            lambda: _measure(sitting, SPARK_START, "", [sys.executable, "-c", _OPEN]),
            lambda: _measure(sitting, VERIFY, SMALL, [tidemark, "verify", *options]),
        ]
        for step in steps if nth % 2 else reversed(steps):
            step()
        send_more(servers, topic.name, highest + 1, _FEW)
        whole: list[Callable[[], object]] = [
            lambda: _require_records(_measure(sitting, COLD, FEW_NEW, run), _FEW),
            partial(_measure_bare, sitting, bare, highest),
        ]
        for step in whole if nth % 2 else reversed(whole):
            step()
        highest += _FEW // PARTITIONS


def _measure_bare(sitting: Sitting, bare: Job, first_offset: int) -> None:
    _measure(sitting, BARE_PROCESS, FEW_NEW, _bare_command(bare, first_offset))
    floor.require_gained(bare, first_offset, _FEW)


def _bare_command(bare: Job, first_offset: int) -> list[str]:
    return [sys.executable, "-m", "bench.floor", bare.servers, bare.topic, bare.work, str(first_offset)]


def _measure(sitting: Sitting, name: str, pattern: str, command: list[str]) -> str:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # Its output fits into the pipes. Its JVM holds them too, and ends a moment later, which is not measured.
        sitting.measure(name, pattern, 0, process.wait, watched=process.pid)
        said, errors = process.communicate()
    require(f"the end of {name}: {errors}", observed=process.returncode, expected=0)
    return said


def _require_records(said: str, expected: int) -> None:
    require("records of a run", observed=json.loads(said)["bronze"]["records"], expected=expected)
