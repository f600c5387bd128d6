"""A registry's schema of Protobuf as a descriptor set: put together of compiled files, or compiled of its text by protoc.

A registry gives text, and some give compiled files. protoc comes with `grpcio-tools`, which is only asked for where there is
text.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import ToolError
from lakehouse.settings import protobuf_schema
from lakehouse.settings.protobuf_schema import ProtobufSchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_MAIN = "tidemark/value.proto"
_SECONDS = 60
_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]+(/(?!\.)[A-Za-z0-9_.-]+)*")


def assembled(main: str, others: Mapping[str, str]) -> str:
    """The descriptor set of a schema, as `protobuf_schema.read` takes it: what no such set can be made of begins with REFUSED.

    Args:
        main: The schema: a .proto file's text, or base64 of a compiled file.
        others: What it imports, and what these do, by the names that imports have; the well-known files need not be there.

    Raises:
        ToolError: It is text, and nothing here compiles it.
    """
    files = {name: as_file(text) for name, text in {**others, _MAIN: main}.items()}
    compiled = [_named(each, name) for name, each in files.items() if each is not None]
    try:
        if len(compiled) == len(files):
            return protobuf_schema.of_files(compiled).text
        if compiled:
            return f"{protobuf_schema.REFUSED}the registry gives some of its files as text and others compiled"
        return protobuf_schema.described(_by_protoc({**others, _MAIN: main})).text
    except ProtobufSchemaError as error:
        return f"{protobuf_schema.REFUSED}{error}"


def as_file(text: str) -> FileDescriptorProto | None:
    """The compiled file that a text is base64 of; None if it is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return found if text else None


def _named(file: FileDescriptorProto, name: str) -> FileDescriptorProto:
    file.name = name
    return file


def _by_protoc(files: Mapping[str, str]) -> bytes:
    """What protoc makes of texts, of which _MAIN needs the others.

    Raises:
        ProtobufSchemaError: It refuses them.
        ToolError: It is not installed.
    """
    if importlib.util.find_spec("grpc_tools") is None:
        raise ToolError(
            "The schema registry gives Protobuf schemas as text, and nothing here compiles them.",
            where="this Python environment",
            observed="no grpcio-tools",
            expected="grpcio-tools, which has protoc",
            next_step="Nothing is lost. Install it: pip install 'tidemark-lakehouse[protobuf]'.",
        )
    with tempfile.TemporaryDirectory(prefix="tidemark-protoc-") as folder:
        root, made = Path(folder) / "given", Path(folder) / "set"
        for name, text in files.items():
            if not _NAME.fullmatch(name):
                raise ProtobufSchemaError(f"it imports a file under a name that none can have: {name[:100]!r}")
            try:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            except (OSError, ValueError) as error:
                raise ProtobufSchemaError(f"its file {name} cannot be written: {type(error).__name__}") from error
        # -P: nothing that a registry names is taken for a module. A process of its own: protoc writes to its streams, and may
        # die.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports"]
        try:
            ran = subprocess.run(
                [*command, f"--descriptor_set_out={made}", _MAIN], capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ProtobufSchemaError(f"protoc has no end after {_SECONDS} s") from error
        if ran.returncode or not made.is_file():
            told = ran.stderr.decode(errors="replace").replace(str(root), "").strip().splitlines()
            raise ProtobufSchemaError(f"protoc refuses it: {' '.join(told[:3])[:500] or f'status {ran.returncode}'}")
        return made.read_bytes()
