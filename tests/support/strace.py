"""strace beside a process: nothing else stops at a system call, delays it or lets it fail."""

import os
import shutil
import subprocess
import time
from pathlib import Path

IS_INSTALLED = shutil.which("strace") is not None


def attached(process: int, calls: str, injected: str, *more: str, patience_seconds: float) -> subprocess.Popen[bytes]:
    """Interfere with calls of a process, as strace's `inject` has it, until strace is ended."""
    command = ["strace", "-f", "-q", "-o", os.devnull, *more, "-e", f"trace={calls}", "-e", f"inject={calls}:{injected}"]
    tracer = subprocess.Popen([*command, "-p", str(process)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + patience_seconds
    status = Path(f"/proc/{process}/status")
    while f"TracerPid:\t{tracer.pid}" not in status.read_text():
        if tracer.poll() is not None:
            raise PermissionError("strace may not look at another process here")
        if time.monotonic() > until:
            tracer.kill()
            raise TimeoutError("strace does not get to the process")
        time.sleep(0.01)
    return tracer
