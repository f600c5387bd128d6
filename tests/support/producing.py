"""Senders in processes of their own, which a test may kill at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

KIT_PATH = os.pathsep.join([str(Path(__file__).parents[2] / "producer"), os.environ.get("PYTHONPATH", "")])
"""Where Python finds the kit, installed or not."""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program that may import the kit; its output can be read line by line."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": KIT_PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(process: subprocess.Popen[str]) -> list[str]:
    """Kill a program, and return the lines of its output that were not read, the last one only if it is whole.

    It must have been running: what ends by itself has failed.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    process.send_signal(signal.SIGKILL)
    with process:
        *whole, _ = process.stdout.read().split("\n")
        said = process.stderr.read()
    assert process.returncode == -signal.SIGKILL, said
    return whole
