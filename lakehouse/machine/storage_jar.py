"""Tidemark's own jar: commits that overwrite nothing, in a local folder and in S3, and functions that read Protobuf.

Spark's Java compiler, Janino, compiles it on first use: no JDK is needed, and no binary is in the repository. The result is
the same to the byte everywhere, and is pinned and verified like the other jars.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakehouse.errors import ToolError
from lakehouse.machine import jars
from lakehouse.machine.java import java_executable

SOURCES = tuple(Path(__file__).with_name(name) for name in ("LogStores.java", "ProtobufToAvro.java"))
LOG_STORE = "tidemark.storage.ConditionalLogStore"
CHECKPOINTS = "tidemark.storage.ConditionalCheckpoints"
LOCAL_LOG_STORE = "tidemark.storage.LinkingLogStore"
LOCAL_FILES = "tidemark.storage.LocalFiles"
PROTOBUF_TO_AVRO = "tidemark.formats.ProtobufToAvro"
PROTOBUF_MESSAGE_PATH = "tidemark.formats.ProtobufMessagePath"
SHA256 = "30e85ac24226e90140f84aeed87c9d64a4a0d417eabbdb6fecd42d6d4dc3fd27"
"""SHA-256 of the compiled jar. After a change of a source, run `python -m lakehouse.machine.storage_jar` and review it."""

_SIGNATURES = {
    PROTOBUF_TO_AVRO: "Ljava/lang/Object;Lorg/apache/spark/sql/api/java/UDF2<[B[B[B>;",
    PROTOBUF_MESSAGE_PATH: "Ljava/lang/Object;Lorg/apache/spark/sql/api/java/UDF1<[BLjava/lang/String;>;",
}
"""The types of the functions' interfaces, which Spark needs and the compiler does not write."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def storage_jar() -> Path:
    """Return the jar, compiled first if needed; raise a `ToolError` if that fails, or the result is not the pinned jar."""
    jar = jars.cache_dir() / f"tidemark-{SHA256[:12]}.jar"
    if _is_pinned(jar):
        return jar
    jars.spark_jars()  # fetched before the lock, which their fetch takes too
    with jars.at_work(jar.parent) as work:
        if not _is_pinned(jar):  # another process compiled it while this one waited
            content = compiled()
            if (found := jars.sha256(content)) != SHA256:
                raise ToolError(
                    "Tidemark's compiled jar is not the one that is pinned. No JVM was started from it.",
                    where=str(SOURCES[0].parent),
                    observed=f"SHA-256 {found}",
                    expected=SHA256,
                    next_step="Reinstall Tidemark and its pyspark: a source, or the compiler in pyspark, was changed.",
                )
            made = work / jar.name
            made.write_bytes(content)
            made.replace(jar)
    return jar


def compiled() -> bytes:
    """Compile the sources to a jar whose bytes depend only on them and the compiler; raise a `ToolError` if that fails."""
    classes: dict[str, bytes] = {}
    with _jvm() as jvm:
        for source in SOURCES:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setTargetVersion(8)
            try:
                compiler.cook(source.read_text(encoding="utf-8"))
            except Exception as error:  # whatever Java raises
                raise ToolError("A source of the jar does not compile.", where=str(source), observed=str(error)) from error
            classes |= {str(name): _signed(jvm, str(name), bytes(code)) for name, code in compiler.getBytecodes().items()}
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as content:
        for name, code in sorted(classes.items()):
            content.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class", _EPOCH), code)
    return jar.getvalue()


def _signed(jvm: Any, name: str, code: bytes) -> bytes:
    """Add the types of its interface to a class of functions; return other classes unchanged."""
    from py4j.java_gateway import set_field

    if name not in _SIGNATURES:
        return code
    library = jvm.org.apache.xbean.asm9
    node, writer = library.tree.ClassNode(), library.ClassWriter(0)
    library.ClassReader(code).accept(node, 0)
    set_field(node, "signature", _SIGNATURES[name])
    node.accept(writer)
    return bytes(writer.toByteArray())


@contextlib.contextmanager
def _jvm() -> Iterator[Any]:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    home = jars.pyspark_folder()
    if home is None:
        raise ToolError("There is no pyspark, whose Java compiler is needed.", where="this Python environment")
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
    return jar.is_file() and jars.sha256(jar.read_bytes()) == SHA256


if __name__ == "__main__":
    sys.stdout.write(f"{jars.sha256(compiled())}\n")
