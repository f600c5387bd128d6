"""How each peer's process is started: in this Python or on a JVM."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from bench.peers import jars
from lakehouse.machine.java import java_executable

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers.registry import Peer

_HEAP = "-Xmx2g"
# Flink's serializers look into the JDK's own classes.
_OPENS = ("java.base/java.lang", "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.nio")


def command(peer: Peer, folder: Path) -> list[str]:
    """The command of a peer's process. Fetches what it needs, and compiles it into the folder.

    Raises:
        ToolError: Something could not be fetched or compiled.
    """
    kind, *arguments = peer.program
    if kind in jars.CONFIGURATIONS:
        classes = folder / "classes" / kind
        classes.mkdir(parents=True, exist_ok=True)
        opens = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS]
        return [str(java_executable()), _HEAP, *opens, "-cp", jars.compiled(kind, classes), *arguments]
    return [sys.executable, "-m", "bench.peers.worker", kind]


def versions() -> dict[str, str]:
    """The versions of what the peers bring along, as their locks and this environment have them."""
    locked = dict(re.findall(r'name="([^"]+)" rev="([^"]+)"', jars.LOCK_FILE.read_text(encoding="utf-8")))
    return {
        "Kafka Streams": locked["kafka-streams"],
        "Flink": locked["flink-runtime"],
        "Flink's Kafka connector": locked["flink-connector-kafka"],
        "DuckDB": version("duckdb"),
        "delta-rs": version("deltalake"),
    }
