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
from lakehouse.session import open_session
assert open_session("tidemark-bench").sql("SELECT 1").collect()[0][0] == 1
"""


def measure(sitting: Sitting, servers: str, folder: Path, rounds: int) -> None:
    """Read a small topic once; then run on nothing new, and start Spark alone, in turns.

    Raises:
        WrongResultError: A run read something else than it had to.
    """
    topic = plan_topic("cold", _RECORDS)
    send_topic(servers, topic)
    config = write_config(servers, topic.name, folder / "cold")
    _run(config, expected=_RECORDS)
    _run(config, expected=0)  # what the operating system keeps of the files is there from now on
    for nth in range(rounds):
        sitting.start_round()
        steps = {COLD: lambda: _run(config, expected=0), SPARK_START: _start_spark}
        for name in steps if nth % 2 else reversed(steps):
            sitting.measure(name, NOTHING_NEW, 0, steps[name])


def _run(config: Path, *, expected: int) -> None:
    command = [str(Path(sys.executable).with_name("tidemark")), "run", "--json", "--config", str(config)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    require("records of a run", observed=json.loads(done.stdout)["bronze"]["records"], expected=expected)


def _start_spark() -> None:
    subprocess.run([sys.executable, "-c", _OPEN], check=True, capture_output=True)
