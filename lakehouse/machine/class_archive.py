"""An archive of the classes that a local session loads, with which a JVM starts seconds sooner (Java's AppCDS).

`python -m lakehouse.machine.class_archive` makes it from a small demo, in this Python environment: each machine has its own.
A JVM that starts from other jars ignores it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lakehouse.errors import ToolError
from lakehouse.machine import jars
from lakehouse.machine.java import FIRST_COMPILER, java_executable, java_version
from lakehouse.machine.storage_jar import SHA256

_FOLDER = Path(sys.prefix)
_SILENT = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_SECONDS = 900


def archive_file() -> Path:
    """Return the archive's path; its name depends on the Java, the jars and pyspark. Raises a `ToolError` without Java."""
    java = java_executable().resolve()
    of = [str(java), str(java.stat().st_mtime_ns), str(jars.cache_dir()), SHA256, str(jars.pyspark_folder())]
    return _FOLDER / f"classes-{hashlib.sha256('|'.join(of).encode()).hexdigest()[:12]}.jsa"


def jvm_options() -> tuple[str, ...]:
    """Return the options of a JVM that starts from the archive; empty if there is no archive."""
    made = archive_file()
    return (f"-XX:SharedArchiveFile={made}", *_SILENT) if made.exists() else ()


def make(command: Sequence[str]) -> Path:
    """Make the archive from the classes that a command loads, and remove former ones; raise a `ToolError` on failure."""
    kept = archive_file()
    java_version()  # raises the error of a Java that does not run
    try:
        for former in _FOLDER.glob("classes-*.jsa"):
            former.unlink()
        with tempfile.TemporaryDirectory(prefix=".archiving-", dir=_FOLDER) as folder:
            made = Path(folder, kept.name)
            given = os.environ.get("SPARK_SUBMIT_OPTS", "")
            options = [given, *FIRST_COMPILER, f"-XX:ArchiveClassesAtExit={made}", *_SILENT]
            # The JVM inherits the output and ends after the command, so the output ends after both.
            run = subprocess.run(
                list(command),
                env={**os.environ, "SPARK_SUBMIT_OPTS": " ".join(options).strip()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
            if run.returncode != 0 or not made.exists():
                raise _not_made("\n".join(run.stdout.splitlines()[-8:]) or f"exit code {run.returncode}")
            made.replace(kept)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_made(str(error)) from error
    return kept


def _not_made(observed: str) -> ToolError:
    return ToolError(
        "The archive of classes was not made. Sessions start without it, some seconds later.",
        where=str(_FOLDER),
        observed=observed,
        expected="a folder that this user can write, with 300 MB free, and a demo that runs: `tidemark demo`",
        next_step="Correct that, then run `python -m lakehouse.machine.class_archive` again.",
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as into:
        # -P: a folder `tidemark` in the working folder is not ours.
        make([sys.executable, "-P", "-m", "tidemark", "demo", "--records", "2000", "--into", into])
