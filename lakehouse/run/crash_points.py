"""Named points at which a test kills or stops the process, to prove that the next run finishes the work."""

import os
import signal

_SIGNALS = {"TIDEMARK_CRASH_AT": signal.SIGKILL, "TIDEMARK_STOP_AT": signal.SIGSTOP}


def crash_point(name: str) -> None:
    """Kill the process if TIDEMARK_CRASH_AT names this point, or stop it if TIDEMARK_STOP_AT does."""
    for variable, number in _SIGNALS.items():
        if os.environ.get(variable) == name:
            os.kill(os.getpid(), number)
