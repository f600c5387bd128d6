"""A registry's Protobuf schema as a descriptor set: built from compiled files, or compiled by grpcio-tools' protoc."""

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
    """Return a schema's descriptor set, for `protobuf_schema.read`; or a text that starts with REFUSED if it has none.

    `main` is a .proto file's text, or base64 of a compiled file. `others` are its direct and indirect imports by name, without
    the well-known files. Text raises a `ToolError` if no compiler is installed.
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
    """Decode a compiled file from base64; None if the text is not one."""
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
    """Compile _MAIN with the files that it imports; raise a `ProtobufSchemaError` or, without protoc, a `ToolError`."""
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
        # -P: no name from a registry is imported as a module. A separate process: protoc writes to its streams, and may die.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports"]
        try:
            ran = subprocess.run(
                [*command, f"--descriptor_set_out={made}", _MAIN], capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ProtobufSchemaError(f"protoc has no end after {_SECONDS} s") from error
        if ran.returncode or not made.is_file():
            said = ran.stderr.decode(errors="replace").replace(str(root), "").strip().splitlines()
            raise ProtobufSchemaError(f"protoc refuses it: {' '.join(said[:3])[:500] or f'status {ran.returncode}'}")
        return made.read_bytes()
