"""The jars and classes of the peers that run on a JVM of their own: locked, fetched once, compiled for each benchmark.

`python -m bench.peers.jars pin` resolves `jvm.xml` again and writes `jvm.sha256`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from filelock import FileLock

from lakehouse.errors import ToolError
from lakehouse.machine import jars
from lakehouse.machine.java import java_executable

CONFIGURATIONS = ("streams", "flink")
LOCK_FILE = Path(__file__).with_name("jvm.xml")
CHECKSUM_FILE = Path(__file__).with_name("jvm.sha256")
SOURCES = Path(__file__).with_name("java")


def classpath(conf: str) -> str:
    """The Java class path of a configuration, fetched first if need be.

    Raises:
        ToolError: The jars could not be fetched, or are not those that the lock pins.
    """
    digest = hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:12]
    root = jars.cache_dir().parent / f"bench-{digest}"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / conf
    with FileLock(root / ".lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=".fetching-", dir=root) as work:
                arrived = jars.retrieve(LOCK_FILE, conf, Path(work))
                _check(arrived, conf)
                arrived.rename(folder)
    return os.pathsep.join(str(jar) for jar in sorted(folder.iterdir()))


@cache
def compiled(conf: str, into: Path) -> str:
    """The class path of a configuration and of the peers' own classes for it, compiled into a folder.

    Raises:
        ToolError: The Java in use has no compiler, or the compiler refuses.
    """
    libraries = classpath(conf)
    compiler = java_executable().resolve().with_name("javac")
    sources = [str(source) for source in sorted({*SOURCES.glob("*.java"), *(SOURCES / conf).glob("*.java")})]
    command = [str(compiler), "-nowarn", "-proc:none", "-d", str(into), "-cp", libraries, *sources]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise _not_compiled(conf, str(error)) from error
    if done.returncode != 0:
        raise _not_compiled(conf, done.stderr)
    return os.pathsep.join((str(into), libraries))


def _not_compiled(conf: str, observed: str) -> ToolError:
    return ToolError(
        "The peer could not be compiled.",
        where=f"the Java sources of {conf}",
        observed=observed,
        expected="classes",
        next_step="Install a JDK, not only a JRE: openjdk-17-jdk-headless on Debian and Ubuntu.",
    )


def _check(arrived: Path, conf: str) -> None:
    lines = [line.split() for line in CHECKSUM_FILE.read_text(encoding="utf-8").splitlines()]
    expected = {path: digest for digest, path in lines if Path(path).parent.name == conf}
    observed = {f"{conf}/{name}": digest for name, digest in jars.checksums(arrived).items()}
    if observed != expected:
        differing = sorted({name for name, _ in observed.items() ^ expected.items()})
        raise ToolError(
            "The jars that arrived are not the ones the lock pins.",
            where=f"configuration {conf} of {LOCK_FILE.name}",
            observed=", ".join(differing),
            expected=f"the names and checksums of {CHECKSUM_FILE.name}",
            next_step="After a change of the lock: `python -m bench.peers.jars pin`.",
        )


def pin() -> None:
    """Resolve the lock again and write its checksums."""
    lines = []
    for conf in CONFIGURATIONS:
        with tempfile.TemporaryDirectory(prefix="tidemark-pin-") as work:
            arrived = jars.checksums(jars.retrieve(LOCK_FILE, conf, Path(work)))
            lines += [f"{digest}  {conf}/{name}\n" for name, digest in arrived.items()]
    CHECKSUM_FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["pin"]:
        sys.exit("python -m bench.peers.jars pin")
    pin()
