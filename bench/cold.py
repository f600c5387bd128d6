"""Cold: `tidemark run` on nothing new as a process of its own, and how much of that is Spark's own start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.loads import write_config
from bench.sitting import require
from bench.topics import plan_topic, send_topic

if TYPE_CHECKING:
    from bench.sitting import Sitting

COLD, SPARK_START = "tidemark run, its own process", "Spark's own start, in another"
NOTHING_NEW = "0 new"

_RECORDS = 2_000
_OPEN = """
from lakehouse.spark.session import open_session
assert open_session("tidemark-bench").sql("SELECT 1").collect()[0][0] == 1
"""


def measure(sitting: Sitting, servers: str, folder: Path, rounds: int) -> None:
    """Read a small topic once; then run on nothing new, and start Spark alone, in turns.

    Raises:
        WrongResultError: A run read something else than it had to.
    """
    sitting.tell(f"Cold: sending {_RECORDS:,} records, and reading them once")
    topic = plan_topic("cold", _RECORDS)
    send_topic(servers, topic)
    config = write_config(servers, topic.name, folder / "cold")
    run = [str(Path(sys.executable).with_name("tidemark")), "run", "--json", "--config", str(config)]
    for expected in (_RECORDS, 0):  # what the operating system keeps of the files is there from now on
        _require_records(subprocess.run(run, check=True, capture_output=True, text=True).stdout, expected)
    for nth in range(rounds):
        sitting.start_round()
        steps = {COLD: run, SPARK_START: [sys.executable, "-c", _OPEN]}
        for name in steps if nth % 2 else reversed(steps):
            said = _measure(sitting, name, steps[name])
            if name == COLD:
                _require_records(said, 0)


def _measure(sitting: Sitting, name: str, command: list[str]) -> str:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # What it says fits into the pipes. Its JVM holds them too, and ends a moment later: that is nobody's waiting.
        sitting.measure(name, NOTHING_NEW, 0, process.wait, watched=process.pid)
        said, errors = process.communicate()
    require(f"the end of {name}: {errors}", observed=process.returncode, expected=0)
    return said


def _require_records(said: str, expected: int) -> None:
    require("records of a run", observed=json.loads(said)["bronze"]["records"], expected=expected)
