"""The checks of `tidemark doctor`: whether this machine can run Tidemark. Starts no Spark and uses no network."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lakehouse.errors import ToolError
from lakehouse.machine import jars
from lakehouse.machine.java import HOW_TO_GET_JAVA, MINIMUM_VERSION, java_executable, java_version

MINIMUM_PYTHON = (3, 11)
MINIMUM_MEMORY_BYTES = 3 * 1024**3
MINIMUM_DISK_BYTES = 2 * 1024**3
PACKAGES = {"pyspark": "4.2", "delta-spark": "4.4", "great-expectations": "1.24"}
"""Versions that were tested together, each as its first two numbers."""


@dataclass(frozen=True)
class Finding:
    """The result of one check; `next_step` is empty if it is ok."""

    name: str
    ok: bool
    observed: str
    expected: str
    next_step: str


def diagnose(*, store: str | None = None) -> list[Finding]:
    """Run every check, in the order in which to fix them. Jars of a `store` are required, others checked if they exist."""
    confs = [conf for conf in jars.CONFIGURATIONS if conf in {*jars.REQUIRED, store} or (jars.cache_dir() / conf).is_dir()]
    return [
        check_python(),
        check_java(),
        *(check_package(name, expected) for name, expected in PACKAGES.items()),
        *map(check_jars, confs),
        check_memory(),
        check_writable(jars.cache_dir()),
        check_disk(jars.cache_dir()),
    ]


def check_python(running: tuple[int, ...] = sys.version_info[:2]) -> Finding:
    """Check that Python is recent enough."""
    observed, expected = ".".join(map(str, running)), ".".join(map(str, MINIMUM_PYTHON)) + " or later"
    return _finding("Python", (running >= MINIMUM_PYTHON, observed, expected), "Install Tidemark with a later Python.")


def check_java() -> Finding:
    """Check that the Java that will run Spark and the broker is recent enough."""
    expected = f"{MINIMUM_VERSION} or later"
    try:
        found, where = java_version(), java_executable()
    except ToolError as error:
        return Finding("Java", ok=False, observed=str(error.observed), expected=expected, next_step=error.next_step or "")
    return _finding("Java", (found >= MINIMUM_VERSION, f"{found} ({where})", expected), HOW_TO_GET_JAVA)


def check_package(name: str, expected: str) -> Finding:
    """Check that a Python package is installed in the version that was tested with the others."""
    try:
        found = version(name)
    except PackageNotFoundError:
        found = "missing"
    next_step = "pip install 'tidemark-lakehouse[local]', or use the platform's own Spark."
    return _finding(name, (f"{found}.".startswith(f"{expected}."), found, f"{expected}.x"), next_step)


def check_jars(conf: str) -> Finding:
    """Check that a set of jars is in the cache and matches the lock."""
    (absent, changed), total = jars.compare(conf), len(jars.pinned(conf))
    others = f", {len(changed)} more that differ from the lock: {', '.join(changed)}" if changed else ""
    observed = f"{total - len(absent) - len(changed)} in {jars.cache_dir() / conf}{others}"
    return _finding(f"{conf} jars", (not absent and not changed, observed, str(total)), f"tidemark jars fetch {conf}")


def check_memory() -> Finding:
    """Check that the machine, or its container, has enough memory for Spark and a broker together."""
    found = memory_bytes()
    verdict = (found >= MINIMUM_MEMORY_BYTES, _gib(found), f"{_gib(MINIMUM_MEMORY_BYTES)} or more")
    return _finding("memory", verdict, "Give the machine or the container more memory.")


def check_writable(folder: Path) -> Finding:
    """Check that the cache folder can be written or created."""
    existing, problem = _nearest_folder(folder), ""
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        problem = error.strerror or str(error)
    observed = f"{existing}: {problem}" if problem else str(folder)
    return _finding("cache folder", (not problem, observed, "writable"), "Set TIDEMARK_JARS to a folder that can be written.")


def check_disk(folder: Path) -> Finding:
    """Check that the cache folder's disk has space for the jars and Spark's temporary files."""
    free = shutil.disk_usage(_nearest_folder(folder)).free
    verdict = (free >= MINIMUM_DISK_BYTES, f"{_gib(free)} free", f"{_gib(MINIMUM_DISK_BYTES)} free")
    return _finding("disk", verdict, "Free space there, or set TIDEMARK_JARS to a folder on another disk.")


def memory_bytes() -> int:
    """Return the memory of this machine, or the limit of its container if that is lower."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    texts = [limit.read_text(encoding="ascii").strip() for limit in limits if limit.is_file()]
    return min([physical, *(int(text) for text in texts if text.isdigit())])


def _finding(name: str, verdict: tuple[bool, str, str], next_step: str) -> Finding:
    ok, observed, expected = verdict
    return Finding(name, ok=ok, observed=observed, expected=expected, next_step="" if ok else next_step)


def _nearest_folder(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / 1024**3:.1f} GiB"
