"""Backfill: one load of 20,000,000 records by the installed command, in a driver of 2 GB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from bench import event_log, generated, truth
from bench.loads import write_config
from bench.peers import programs
from bench.peers.job import GENERATE, Job
from bench.peers.process import Process
from bench.peers.registry import PEERS
from bench.peers.sizes import live_bytes
from bench.sitting import WrongResultError, require
from bench.topics import PARTITIONS, Topic
from lakehouse.table import BRONZE_RECORDS, SILVER_RECORDS, Lakehouse

if TYPE_CHECKING:
    from typing import TextIO

    from bench.sitting import Sitting

BACKFILL = "backfill, one Silver load"
INPUT_BYTES, SPILLED_BYTES = "live files of Bronze", "spilled by all tasks, on disk"
SPILLED_IN_MEMORY_BYTES = "spilled by all tasks, as it lay in memory"
LONGEST_SILENCE, WORDS = "longest time without a word of progress", "words of progress"
RECORDS = 20_000_000
DRIVER_MEMORY = "2g"

_STEP_RECORDS = 2_000_000
_SERVERS = "none:9092"


def measure(sitting: Sitting, folder: Path, records: int) -> None:
    """Fill Bronze, then load all of it at once.

    Raises:
        WrongResultError: Silver does not hold each record once, in order, or the command failed.
        PeerFailedError: Bronze could not be filled.
    """
    lakehouse = Lakehouse(root=str(folder / "backfill"))
    config = write_config(_SERVERS, generated.TOPIC, folder / "backfill")
    sitting.tell(f"Backfill: making {records:,} records up")
    _fill(folder, str(lakehouse.root), records)
    log = event_log.write_conf(folder / "conf")
    sitting.start_round()
    pattern = f"{records:,} records in {DRIVER_MEMORY}"
    os.sync()
    with (folder / "said").open("w", encoding="utf-8") as errors, _start(config, log.parent) as process:
        words, said = sitting.measure(BACKFILL, pattern, records, lambda: _follow(process, errors), watched=process.pid)
    if process.returncode:
        raise WrongResultError(f"{BACKFILL}: ended with {process.returncode}: {(folder / 'said').read_text(encoding='utf-8')}")
    require("accepted records", observed=json.loads(said)["silver"]["accepted"], expected=records)
    in_memory, on_disk = event_log.spilled(log)
    found = {
        INPUT_BYTES: (live_bytes(Path(lakehouse.table(BRONZE_RECORDS).location)), "bytes"),
        SPILLED_BYTES: (on_disk, "bytes"),
        SPILLED_IN_MEMORY_BYTES: (in_memory, "bytes"),
        WORDS: (len(words) - 2, "lines"),
        LONGEST_SILENCE: (max(later - earlier for earlier, later in pairwise(words)), "s"),
    }
    for name, (value, unit) in found.items():
        sitting.count(name, pattern, value, unit)
    topic = Topic(generated.TOPIC, (records // PARTITIONS,) * PARTITIONS)
    counts = truth.count(topic, truth.of_table(Path(lakehouse.table(SILVER_RECORDS).location)))
    require(f"Silver after the {BACKFILL}: {counts}", observed=(counts.rows, counts.is_exact), expected=(records, True))


def _fill(folder: Path, root: str, records: int) -> None:
    """In a process of its own, in steps: what is measured starts from nothing."""
    ours = next(peer for peer in PEERS if peer.name == "ours")
    job = Job(GENERATE, servers=_SERVERS, topic=generated.TOPIC, root=root)
    with Process(programs.command(ours, folder), folder / "fill.log") as process:
        for start in range(0, records, _STEP_RECORDS):
            process.ask(replace(job, records=min(_STEP_RECORDS, records - start), after_records=start))


def _start(config: Path, conf: Path) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).with_name("tidemark")), "run", "--stage", "silver", "--json", "--config", str(config)]
    # Spark's own names: the second one has it read the settings of its log from there.
    known = {"SPARK_DRIVER_MEMORY": DRIVER_MEMORY, "SPARK_CONF_DIR": str(conf)}
    return subprocess.Popen(command, env={**os.environ, **known}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _follow(process: subprocess.Popen[str], errors: TextIO) -> tuple[list[float], str]:
    """The moments from the command's start over each line of its log to its end, and what it printed."""
    words = [time.monotonic()]
    try:
        for line in process.stderr or ():
            errors.write(line)
            if line.startswith("{"):
                words.append(time.monotonic())
        said = process.stdout.read() if process.stdout else ""
        process.wait()
    except BaseException:  # else it would go on, and be waited for
        process.terminate()
        raise
    errors.flush()
    return [*words, time.monotonic()], said
