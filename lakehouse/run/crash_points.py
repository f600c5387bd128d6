"""Named crash points. A test kills or stops the process there to prove that the next run finishes the work."""

from __future__ import annotations

import os
import signal

_SIGNALS = {"TIDEMARK_CRASH_AT": signal.SIGKILL, "TIDEMARK_STOP_AT": signal.SIGSTOP}


def crash_point(name: str) -> None:
    """Kill or pause the process, without a handler, if TIDEMARK_CRASH_AT or TIDEMARK_STOP_AT names this point."""
    for variable, number in _SIGNALS.items():
        if os.environ.get(variable) == name:
            os.kill(os.getpid(), number)
