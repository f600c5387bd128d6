"""One writer on a local root."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakehouse.errors import AnotherWriterError
from lakehouse.run.lock import locked
from lakehouse.table import Lakehouse

HOLDER = """
import sys, time
from lakehouse.run.lock import locked
from lakehouse.table import Lakehouse
with locked(Lakehouse(root=sys.argv[1]), is_maintenance=sys.argv[3:] == ["maintenance"]):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def held(root: Path, seconds: float, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(root), str(seconds), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_run_does_nothing_while_another_writes_and_goes_on_when_that_has_died(tmp_path: Path) -> None:
    root = Lakehouse(root=str(tmp_path))
    with held(tmp_path, 60) as other:
        with pytest.raises(AnotherWriterError), locked(root):
            pass
        other.kill()
        other.wait()
        with locked(root):
            pass


@pytest.mark.parametrize(("holder", "seconds"), [([], 30), (["maintenance"], 0)])
def test_a_person_waits_for_a_run_to_end_and_a_run_for_maintenance(tmp_path: Path, holder: list[str], seconds: float) -> None:
    with held(tmp_path, 1, *holder):
        started = time.monotonic()
        with locked(Lakehouse(root=str(tmp_path)), wait_seconds=seconds):
            assert time.monotonic() - started > 0.1
