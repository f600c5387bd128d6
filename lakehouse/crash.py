"""Named crash points: where a test kills the whole process, to prove that the next run finishes what was begun."""

from __future__ import annotations

import os
import signal


def crash_point(name: str) -> None:
    """Die here if the environment says so (`TIDEMARK_CRASH_AT`); otherwise do nothing.

    The process gets SIGKILL: no handler runs, nothing is flushed, as when a machine goes away.
    """
    if os.environ.get("TIDEMARK_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
