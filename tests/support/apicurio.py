"""A real schema registry on this machine: Apicurio, which speaks Confluent's protocol. Its version is the last for Java 17."""

import contextlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from lakehouse.machine import jars
from lakehouse.machine.java import java_executable
from tests.support.served import kept_program, served
from tidemark.extras.demo.broker_process import HOST, free_port

VERSION = "2.6.13.Final"

_LOCK = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tidemark" module="registry"/>
  <configurations><conf name="registry"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" conf="registry->master">
      <artifact name="apicurio-registry-app" type="jar" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://{HOST}:{port}/apis/ccompat/v7"
    [program] = _program().glob("*-runner.jar")
    settings = (f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}")
    command = [str(java_executable()), "-Xmx256m", *settings, "-jar", str(program)]
    with served(command, folder, lambda: urlopen(f"{url}/subjects", timeout=5).close()):  # noqa: S310 -- the URL above
        yield url


def _program() -> Path:
    def fetch(work: Path) -> Path:
        lock, unpacked = work / "ivy.xml", work / "apicurio"
        lock.write_text(_LOCK, encoding="utf-8")
        [packed] = jars.retrieve(lock, "registry", work / "fetched").iterdir()
        with tarfile.open(packed) as files:
            files.extractall(unpacked, filter="data")
        return unpacked

    return kept_program(f"apicurio-{VERSION}", fetch)
