"""Named crash points, where a test kills or stops the whole process to prove that the next run finishes what was begun."""

from __future__ import annotations

import os
import signal

_SIGNALS = {"TIDEMARK_CRASH_AT": signal.SIGKILL, "TIDEMARK_STOP_AT": signal.SIGSTOP}


def crash_point(name: str) -> None:
    """Die or stop here if the environment says so (`TIDEMARK_CRASH_AT`, `TIDEMARK_STOP_AT`); otherwise do nothing.

    SIGKILL: no handler runs, nothing is flushed, as when a machine goes away. SIGSTOP: the process is paused until a test
    resumes it, as when a machine is paused; what it knows of the tables is stale by then.
    """
    for variable, number in _SIGNALS.items():
        if os.environ.get(variable) == name:
            os.kill(os.getpid(), number)
