"""How each peer's process is started: in this Python, in one of its own, or on a JVM."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from bench.peers import jars
from lakehouse.errors import ToolError
from lakehouse.machine.jars import cache_dir
from lakehouse.machine.java import java_executable

if TYPE_CHECKING:
    from bench.peers.registry import Peer

QUIX_LOCK = Path(__file__).with_name("quix.lock")
_HEAP = "-Xmx2g"
# Flink's serializers look into the JDK's own classes.
_OPENS = ("java.base/java.lang", "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.nio")


def command(peer: Peer, folder: Path) -> list[str]:
    """The command of a peer's process, with whatever it needs fetched, installed or compiled before.

    Args:
        peer: The peer.
        folder: A folder that may hold compiled classes.

    Raises:
        ToolError: Something could not be fetched, installed or compiled.
    """
    kind, *arguments = peer.program
    if kind in jars.CONFIGURATIONS:
        classes = folder / "classes" / kind
        classes.mkdir(parents=True, exist_ok=True)
        opens = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS]
        return [str(java_executable()), _HEAP, *opens, "-cp", jars.compiled(kind, classes), *arguments]
    python = _quix_python() if kind == "quix" else sys.executable
    return [python, "-m", "bench.peers.worker", kind]


def versions() -> dict[str, str]:
    """The versions of what the peers bring along, as their locks and this environment have them."""
    locked = dict(re.findall(r'name="([^"]+)" rev="([^"]+)"', jars.LOCK_FILE.read_text(encoding="utf-8")))
    quix = next(line for line in QUIX_LOCK.read_text(encoding="utf-8").splitlines() if line.startswith("quixstreams=="))
    return {
        "Kafka Streams": locked["kafka-streams"],
        "Flink": locked["flink-runtime"],
        "Flink's Kafka connector": locked["flink-connector-kafka"],
        "Quix Streams": quix.split()[0].partition("==")[2],
        "DuckDB": version("duckdb"),
        "delta-rs": version("deltalake"),
    }


@cache
def _quix_python() -> str:
    """The Python of an environment that holds Quix Streams in locked versions, made first if need be."""
    digest = hashlib.sha256(QUIX_LOCK.read_bytes()).hexdigest()[:12]
    folder = cache_dir().parent / f"bench-quix-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    python, stamp = folder / "bin" / "python", folder / ".installed"
    with FileLock(f"{folder}.lock"):
        if not stamp.exists():
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            _run([str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(QUIX_LOCK)])
            stamp.touch()
    return str(python)


def _run(asked: list[str]) -> None:
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(
            "Quix Streams could not be installed.",
            where=QUIX_LOCK.name,
            observed=done.stderr[-500:],
            expected="an environment of its own",
            next_step="Check the network and pip's configuration.",
        )
