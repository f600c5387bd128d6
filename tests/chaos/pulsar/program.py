"""Pulsar's jars, fetched once into the cache folder at a pinned version, and the commands of its JVMs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bronze.dev_broker.process import LOGGING
from lakehouse.machine import jars
from lakehouse.machine.java import java_executable
from tests.support.served import kept_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VERSION = "4.0.7"

# Ivy passes over these three: they are published as archives for several systems, with jars as well.
_ARCHIVED = "".join(
    f"""<dependency org="org.apache.bookkeeper" name="{name}" rev="4.17.2" conf="pulsar->master">
      <artifact name="{name}" type="jar"/>
    </dependency>"""
    for name in ("native-io", "circe-checksum", "cpu-affinity")
)
# The excluded module keeps metadata in etcd.
_LOCK = f"""<ivy-module version="2.0">
  <info organisation="tidemark" module="pulsar"/>
  <configurations><conf name="pulsar"/></configurations>
  <dependencies>
    <dependency org="org.apache.pulsar" name="pulsar-broker" rev="{VERSION}" conf="pulsar->runtime,master"/>
    {_ARCHIVED}
    <exclude module="jetcd-core-shaded"/>
  </dependencies>
</ivy-module>
"""
_NAMES = "[artifact]-[revision](-[classifier]).[ext]"
_OPEN = (
    *("java.management/sun.management", "java.base/sun.net", "java.base/java.lang", "java.base/java.nio"),
    "java.base/jdk.internal.platform",
)


def classpath() -> str:
    """The jars' folder, as a class path."""

    def fetch(work: Path) -> Path:
        lock = work / "ivy.xml"
        lock.write_text(_LOCK, encoding="utf-8")
        return jars.retrieve(lock, "pulsar", work / "fetched", _NAMES)

    return str(kept_program(f"pulsar-{VERSION}", fetch) / "*")


def java(folder: Path, libraries: str, *, memory: int) -> list[str]:
    """The command that starts a JVM, up to the class to run.

    Args:
        folder: A folder for its settings; it exists already.
        libraries: Its class path.
        memory: The limit of its heap, and of its direct memory, in MiB.
    """
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING, encoding="utf-8")
    return [
        *(str(java_executable()), f"-Xmx{memory}m", f"-XX:MaxDirectMemorySize={memory}m", "-XX:+UseSerialGC"),
        *("-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError", "-Dio.netty.tryReflectionSetAccessible=true"),
        *(option for name in _OPEN for option in ("--add-opens", f"{name}=ALL-UNNAMED")),
        *(f"-Dlog4j2.configurationFile={logging}", "-cp", libraries),
    ]


def start(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a JVM whose output goes to a log in its folder."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)


def last_lines(log: Path) -> str:
    """The end of a log."""
    return log.read_text(encoding="utf-8", errors="replace")[-2_000:]
