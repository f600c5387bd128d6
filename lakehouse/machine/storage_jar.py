"""A jar of our own for tables in S3: commits and checkpoint entries that overwrite nothing (`ConditionalPut.java`).

Compiled on first use by Janino, the Java compiler that Spark generates its own code with: no JDK is needed, and no binary is in
the repository. The result is the same to the byte wherever it is made, and is pinned and verified as the other jars are.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lakehouse.errors import ToolError
from lakehouse.machine import jars
from lakehouse.machine.java import java_executable

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).with_name("ConditionalPut.java")
LOG_STORE = "tidemark.storage.ConditionalLogStore"
CHECKPOINTS = "tidemark.storage.ConditionalCheckpoints"
SHA256 = "4172fabb6eb96fa9cd7c53a1b7d636001403560a32b85b434fac296745f66c12"
"""Of the compiled jar. After a change of the source: `python -m lakehouse.machine.storage_jar`, and review it."""

_NAME = "tidemark-storage.jar"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_JAVA_8 = 8


def storage_jar() -> Path:
    """Return the jar, compiling it first if it is not in the cache, next to the other jars for S3.

    Raises:
        ToolError: It cannot be compiled, or what was compiled is not what is pinned.
    """
    folder = jars.cache_dir() / "s3"
    jar = folder / _NAME
    if _is_pinned(jar):
        return jar
    jars.spark_jars()  # it is compiled against them, and their fetch takes the same lock
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(jars.cache_dir() / ".lock"):
        if not _is_pinned(jar):  # another process compiled it while this one waited
            made = compiled()
            if _sha256(made) != SHA256:
                raise ToolError(
                    "The jar for object stores is not the one that is pinned. No JVM was started from it.",
                    where=str(SOURCE),
                    observed=f"SHA-256 {_sha256(made)}",
                    expected=SHA256,
                    next_step="Install Tidemark and its pyspark anew: the source, or the compiler in pyspark, was changed.",
                )
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(made)
            Path(file.name).replace(jar)
    return jar


def compiled() -> bytes:
    """Compile the source: a jar whose bytes depend on the source and the compiler only.

    Raises:
        ToolError: Java or pyspark is missing, or the source does not compile.
    """
    with _jvm() as jvm:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setTargetVersion(_JAVA_8)
        try:
            compiler.cook(SOURCE.read_text(encoding="utf-8"))
        except Exception as error:  # whatever Java raises
            raise ToolError("The source for object stores does not compile.", where=str(SOURCE), observed=str(error)) from error
        classes = {str(name): bytes(code) for name, code in compiler.getBytecodes().items()}
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as content:
        for name, code in sorted(classes.items()):
            content.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class", _EPOCH), code)
    return jar.getvalue()


@contextlib.contextmanager
def _jvm() -> Iterator[Any]:
    """A JVM with the compiler, and with what the source is compiled against."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    home = jars.pyspark_folder()
    if home is None:
        raise ToolError("There is no pyspark, whose compiler is needed.", where="this Python environment")
    libraries = home / "jars"
    classpath = os.pathsep.join([str(libraries / "*"), *(str(jar) for jar in jars.spark_jars())])
    bridge = next(libraries.glob("py4j-*.jar"))
    port, token, process = launch_gateway(
        jarpath=str(bridge), classpath=classpath, java_path=str(java_executable()), enable_auth=True, return_proc=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.kill()
        process.stdin.close()
        process.wait()  # py4j's own threads read its output and close it


def _is_pinned(jar: Path) -> bool:
    return jar.is_file() and _sha256(jar.read_bytes()) == SHA256


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(f"{_sha256(compiled())}\n")
