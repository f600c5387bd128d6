"""Programs of ours as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]


def ended(config: Path, *program: str, at: str | None = None) -> int:
    """Run a program of ours to its end, or until it dies at the point; its exit code."""
    command = [sys.executable, "-m", *program, "--config", str(config)]
    environment = os.environ | ({"TIDEMARK_CRASH_AT": at} if at else {})
    return subprocess.run(command, cwd=_REPOSITORY, env=environment, capture_output=True, check=False, timeout=900).returncode
