"""One writer on a local root."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from lakehouse.errors import AnotherWriterError
from lakehouse.run.lock import locked
from lakehouse.table import Lakehouse

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
import sys, time
from lakehouse.run.lock import locked
from lakehouse.table import Lakehouse
with locked(Lakehouse(root=sys.argv[1]), is_maintenance=sys.argv[3:] == ["maintenance"]):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def root(tmp_path: Path) -> Lakehouse:
    return Lakehouse(root=str(tmp_path))


def held(root: Lakehouse, seconds: float, *more: str) -> subprocess.Popen[str]:
    """Another process that holds the lock for so long."""
    command = [sys.executable, "-c", HOLDER, str(root.root), str(seconds), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_run_does_nothing_while_another_writes_and_goes_on_when_that_has_died(root: Lakehouse) -> None:
    with held(root, seconds=60) as other:
        with pytest.raises(AnotherWriterError), locked(root):
            pass
        other.kill()
        other.wait()
        with locked(root):
            pass


def test_a_person_waits_for_a_run_to_end(root: Lakehouse) -> None:
    with held(root, seconds=0.5):
        started = time.monotonic()
        with locked(root, wait_seconds=30):
            assert time.monotonic() - started > 0.1


def test_a_run_waits_for_maintenance_though_it_waits_for_no_other_run(root: Lakehouse) -> None:
    with held(root, 2, "maintenance"), locked(root):
        pass
