"""What the benchmark sees of processes below it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.peers.sizes import Watch

_BURN = "import sys, time\nwhile time.process_time() < 0.6: pass\nprint(flush=True)\n"
_LEFT_BEHIND = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {_BURN + "sys.stdin.read()"!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
time.sleep(1.2)
os._exit(0)
"""
_WAITED_FOR = f"""
import subprocess, sys, time
subprocess.run([sys.executable, "-c", {_BURN!r}], stdout=subprocess.DEVNULL)
time.sleep(1.2)
"""


def lost_cpu_seconds(script: str) -> float:
    with subprocess.Popen([sys.executable, "-c", script]) as process, Watch(process.pid) as watch:
        process.wait()
    return watch.lost_cpu_seconds


def test_the_time_of_a_process_that_outlives_its_parent_is_not_taken_for_others() -> None:
    assert 0.5 <= lost_cpu_seconds(_LEFT_BEHIND) < 2


def test_nor_where_that_parent_has_not_been_waited_for_itself() -> None:
    with subprocess.Popen([sys.executable, "-c", _LEFT_BEHIND]) as process:
        with Watch(process.pid) as watch:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            time.sleep(1)  # a look at it while it is dead and still there
        assert 0.5 <= watch.lost_cpu_seconds < 2


def test_the_time_of_a_process_that_its_parent_waited_for_is_not_counted_twice() -> None:
    assert lost_cpu_seconds(_WAITED_FOR) < 0.1
