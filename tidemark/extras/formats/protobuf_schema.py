"""Protobuf schemas: descriptor sets, which fields of their messages a payload takes, and the plan that values are read by.

`ProtobufToAvro.java` turns a value into Avro of the wanted fields alone, so a recursive message is read as deep as these go.
Which types a field takes without loss is decided here. Imports Google's library with the first schema.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import importlib
import importlib.util
import re
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import ToolError
from lakehouse.settings import payload_schema
from lakehouse.settings.base import SettingError, from_config_folder
from tidemark.extras.formats import avro_schema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from pydantic import ValidationInfo

    from lakehouse.settings.payload_schema import Type
    from lakehouse.settings.pipeline import ValueFormat

AS_TEXT = "base64:"
"""Prefix of a descriptor set that is in the config itself, and not in a file."""

REFUSED = "!"
"""Prefix of a text that is no schema; the reason follows. Nothing is decoded by it."""

_MOST_GIVEN_BYTES = 16_000_000
"""Limit on a descriptor set as it is given, with comments."""

_MOST_BYTES = 1_000_000
"""Limit on one without comments: it goes to every task of a load."""
_MOST_MESSAGES = 10_000
_MOST_NAMED = 5
_VALUES = 2
"""The number of the field with the value in a map's entries."""
_NOTHING = '{"type": "record", "name": "nothing", "fields": []}'

_MAIN = "tidemark/value.proto"
_PROTOC_SECONDS = 60
_FILE_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]+(/(?!\.)[A-Za-z0-9_.-]+)*")

_SMALL = ("int32", "sint32", "sfixed32")
_SMALL_UNSIGNED = ("uint32", "fixed32")
_LARGE_DIGITS = {"int64": 19, "sint64": 19, "sfixed64": 19, "uint64": 20, "fixed64": 20}
_WHOLE = {**dict.fromkeys((*_SMALL, *_SMALL_UNSIGNED), 10), **_LARGE_DIGITS}
"""Whole numbers and their digits."""

# By type of a field: the types that it takes without loss.
_TAKES = {
    "KEY": (*_WHOLE, "string", "enum"),
    "STRING": ("string", "enum"),
    "BINARY": ("bytes",),
    "BOOLEAN": ("bool",),
    "INT": _SMALL,
    "BIGINT": tuple(_WHOLE),  # a value of uint64 that is above 2^63-1 cannot be decoded
    "FLOAT": ("float",),
    "DOUBLE": (*_SMALL, *_SMALL_UNSIGNED, "float", "double"),
}
_GOOGLES = "any api descriptor duration empty field_mask source_context struct timestamp type wrappers"
_WELL_KNOWN = {f"google/protobuf/{name}.proto" for name in _GOOGLES.split()}
_MOMENT = ".google.protobuf.Timestamp"
_WRAPPERS = {
    f".google.protobuf.{name}Value": name.lower()
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
"""Messages for a scalar that may be missing, and its type."""


class ProtobufSchemaError(ValueError):
    """The bytes are no descriptor set that values are decoded with, or a message lacks the fields' types. Says why."""


def content(given: str, info: ValidationInfo) -> str:
    """See `lakehouse.settings.formats.Schemas`. The text is the whole set as base64, after AS_TEXT."""
    expected = "the file that protoc writes with --include_imports and --descriptor_set_out"
    try:
        if given.startswith(AS_TEXT):
            found = read(given)
        else:
            with Path(from_config_folder(given, info)).open("rb") as opened:
                found = described(opened.read(_MOST_GIVEN_BYTES + 1))
    except OSError as error:
        next_step = "Name it relative to the config's folder, like incident.desc."
        raise SettingError(f"its file cannot be read: {error.strerror}", expected, next_step) from None
    except ProtobufSchemaError as error:
        next_step = "Compile it again: protoc --include_imports --descriptor_set_out=incident.desc incident.proto"
        raise SettingError(f"no descriptor set of Protobuf: {error}", expected, next_step) from None
    return f"{AS_TEXT}{found.text}"


def validate(settings: ValueFormat) -> str | None:
    """See `lakehouse.settings.formats.Schemas`."""
    if settings.descriptor is None or settings.message is None:
        return None
    return misfit(settings.descriptor, settings.message, payload_schema.of(settings.schema_))


def pinned(settings: ValueFormat) -> str:
    """See `lakehouse.settings.formats.Schemas`."""
    if settings.descriptor is None or settings.message is None:
        return ""
    return read(settings.descriptor).of(settings.message).text


@dataclass(frozen=True)
class Files:
    """The files of a descriptor set, each after its imports, the main one last."""

    files: Sequence[FileDescriptorProto]

    @cached_property
    def messages(self) -> dict[str, DescriptorProto]:
        """The messages by full name (`.shop.Order`)."""
        return {name: each for file in self.files for _, name, each in _messages(file)}

    @property
    def text(self) -> str:
        """The set as base64 text."""
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        return base64.b64encode(FileDescriptorSet(file=self.files).SerializeToString(deterministic=True)).decode()

    @property
    def own(self) -> Iterator[tuple[str, str, DescriptorProto]]:
        """The messages of the main file: the indexes by which a value names each, like `2.0`, its full name, and itself."""
        return _messages(self.files[-1])

    def of(self, message: str) -> Files:
        """Return a message's file and its imports; raise a `ProtobufSchemaError` if there is no such message."""
        held = next((file for file in self.files if any(name == f".{message}" for _, name, _ in _messages(file))), None)
        if held is None:
            found = [(name[1:], each) for file in reversed(self.files) for _, name, each in _messages(file)]
            known = [name for name, each in found if not each.options.map_entry and not name.startswith("google.")]
            named = ", ".join(known[:_MOST_NAMED]) + (", ..." if len(known) > _MOST_NAMED else "")
            raise ProtobufSchemaError(f"the descriptor set has no message {message}, but {named or 'none at all'}")
        needed = {held.name}
        for each in reversed(self.files):  # each is after those that it imports
            needed |= {*each.dependency} if each.name in needed else set()
        return Files([*(each for each in self.files if each.name in needed and each is not held), held])


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, str, DescriptorProto]]:
    """Yield the messages of a file, outer before inner ones, with their indexes and full names."""
    space = f".{file.package}" if file.package else ""
    found = deque((f"{nth}", f"{space}.{each.name}", each) for nth, each in enumerate(file.message_type))
    while found:
        path, name, each = found.popleft()
        yield path, name, each
        found += [(f"{path}.{nth}", f"{name}.{inner.name}", inner) for nth, inner in enumerate(each.nested_type)]


def described(content: bytes) -> Files:
    """Read a descriptor set of `protoc --include_imports --descriptor_set_out`; raise a `ProtobufSchemaError` if it is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    if len(content) > _MOST_GIVEN_BYTES:
        raise ProtobufSchemaError(f"it has more than {_MOST_GIVEN_BYTES:,} bytes")
    try:
        given = FileDescriptorSet.FromString(content)
    except DecodeError as error:
        raise ProtobufSchemaError("it is no descriptor set") from error
    return of_files(given.file)


def of_files(given: Sequence[FileDescriptorProto]) -> Files:
    """Put files together, the main one last; Google's well-known files need not be there. Raises as `described`."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    if not given:
        raise ProtobufSchemaError("it is no descriptor set: there is no file in it")
    pool, files = DescriptorPool(), []
    for each in _imports_first(_with_well_known(given)):
        try:
            # The library's own form: each type by its full name, no unknown fields, no comments.
            known = FileDescriptorProto()
            pool.AddSerializedFile(each.SerializeToString())
            pool.FindFileByName(each.name).CopyToProto(known)
        except (TypeError, ValueError, KeyError) as error:
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ProtobufSchemaError(f"its file {each.name} is refused: {why}") from error
        files.append(_strict(known))
    if sum(each.ByteSize() for each in files) > _MOST_BYTES:
        raise ProtobufSchemaError(f"its files have more than {_MOST_BYTES:,} bytes")
    found = Files(files)
    if len(found.messages) > _MOST_MESSAGES:
        raise ProtobufSchemaError(f"it has more than {_MOST_MESSAGES:,} messages")
    return found


def _with_well_known(given: Sequence[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return the files after those of Google's that they import and that are not there."""
    there, found, open_files = {each.name for each in given}, [], list(given)
    while open_files:
        for name in open_files.pop().dependency:
            if name not in there and name in _WELL_KNOWN:
                there.add(name)
                module = importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
                found.append(type(given[0]).FromString(module.DESCRIPTOR.serialized_pb))
                open_files.append(found[-1])
    return [*found, *given]


def _imports_first(given: Sequence[FileDescriptorProto]) -> list[FileDescriptorProto]:
    by_name = {each.name: each for each in given}
    done: dict[str, FileDescriptorProto] = {}
    open_names: dict[str, None] = {}
    for first in given:
        open_names[first.name] = None
        while open_names:
            name = next(reversed(open_names))
            missing = next((each for each in by_name[name].dependency if each not in done), None)
            if missing is None:
                done.setdefault(name, by_name[name])
                open_names.popitem()
            elif missing not in by_name:
                raise ProtobufSchemaError(f"it lacks the file {missing}, which {name} imports")
            elif missing in open_names:
                raise ProtobufSchemaError(f"its file {missing} imports itself")
            else:
                open_names[missing] = None
    last = by_name[given[-1].name]
    if any(last.name in each.dependency for each in done.values()):
        return list(done.values())
    return [*(each for each in done.values() if each is not last), last]


def _strict(file: FileDescriptorProto) -> FileDescriptorProto:
    """Have every text checked to be UTF-8: otherwise Java replaces what is not."""
    if file.syntax == "editions":
        file.options.features.utf8_validation = file.options.features.VERIFY
        for _, _, message in _messages(file):
            for each in (*message.field, *message.extension):
                each.options.features.ClearField("utf8_validation")
    elif file.syntax != "proto3":
        file.options.java_string_check_utf8 = True
    return file


@lru_cache(maxsize=256)
def read(text: str) -> Files:
    """Read a descriptor set from base64, with or without AS_TEXT; raise a `ProtobufSchemaError`, if REFUSED with its reason."""
    if text.startswith(REFUSED) or not text:
        raise ProtobufSchemaError(text.removeprefix(REFUSED) or "it is no Protobuf schema")
    try:
        return described(base64.b64decode(text.removeprefix(AS_TEXT), validate=True))
    except binascii.Error as error:
        raise ProtobufSchemaError("it is no descriptor set") from error


def assembled(main: str, others: Mapping[str, str]) -> str:
    """Return a schema's descriptor set, for `read`; or a text that starts with REFUSED if it has none.

    `main` is a .proto file's text, or base64 of a compiled file. `others` are its direct and indirect imports by name, without
    the well-known files. Text raises a `ToolError` if no compiler is installed.
    """
    files = {name: as_file(text) for name, text in {**others, _MAIN: main}.items()}
    compiled = [_named(each, name) for name, each in files.items() if each is not None]
    try:
        if len(compiled) == len(files):
            return of_files(compiled).text
        if compiled:
            return f"{REFUSED}the registry gives some of its files as text and others compiled"
        return described(_by_protoc({**others, _MAIN: main})).text
    except ProtobufSchemaError as error:
        return f"{REFUSED}{error}"


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
            if not _FILE_NAME.fullmatch(name):
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
                [*command, f"--descriptor_set_out={made}", _MAIN], capture_output=True, timeout=_PROTOC_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ProtobufSchemaError(f"protoc has no end after {_PROTOC_SECONDS} s") from error
        if ran.returncode or not made.is_file():
            said = ran.stderr.decode(errors="replace").replace(str(root), "").strip().splitlines()
            raise ProtobufSchemaError(f"protoc refuses it: {' '.join(said[:3])[:500] or f'status {ran.returncode}'}")
        return made.read_bytes()


@lru_cache(maxsize=256)
def misfit(text: str, message: str, wanted: Type) -> str | None:
    """Return why no value that is a message can be read as the wanted fields; None if it can. A missing field is null."""
    try:
        files = read(text).of(message)
        _check_message(files, files.messages[f".{message}"], wanted, "")
    except ProtobufSchemaError as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def misfits(text: str, wanted: Type) -> dict[str, str]:
    """Return why messages of a set's main file cannot be read as the wanted fields, by their indexes. Raises as `read`."""
    files = read(text)
    found = {}
    for path, name, each in files.own:
        try:
            _check_message(files, each, wanted, "")
        except ProtobufSchemaError as error:
            found[path] = f"{name[1:]}: {error}"
    return found


def misfit_at(text: str, path: str, wanted: Type) -> str | None:
    """Return the same as `misfit`, for the message that a value names by its indexes."""
    try:
        known = {each for each, _, _ in read(text).own}
        return misfits(text, wanted).get(path) if path in known else f"it has no message with the indexes {path}"
    except ProtobufSchemaError as error:
        return str(error)


def _check_message(files: Files, message: DescriptorProto, wanted: Type, path: str) -> None:
    given = {each.name: each for each in message.field}
    for each in wanted.fields:
        if each.name in given:
            _check(files, given[each.name], each.type, f"{path}.{each.name}".lstrip("."))


def _check(files: Files, given: FieldDescriptorProto, wanted: Type, path: str) -> None:
    """Raise if the wanted type does not take a field."""
    entry = files.messages.get(given.type_name)
    of_map = next((each for each in entry.field if each.number == _VALUES), None) if entry and entry.options.map_entry else None
    if given.label != given.LABEL_REPEATED:
        _check_one(files, given, wanted, path)
    elif wanted.of and wanted.kind == ("map" if of_map else "array"):
        _check_one(files, of_map or given, wanted.of, f"{path}{{}}" if of_map else f"{path}[]")
    else:
        kind = "a map" if of_map else f"repeated {_type_in_words(given)}"
        raise _unfit(kind, wanted, path)


def _check_one(files: Files, given: FieldDescriptorProto, wanted: Type, path: str) -> None:
    message = files.messages.get(given.type_name) if given.type in (given.TYPE_MESSAGE, given.TYPE_GROUP) else None
    if message is not None and wanted.kind == "struct":
        _check_message(files, message, wanted, path)
        return
    if message is None:
        is_taken = wanted.kind == "scalar" and _is_taken(_kind(given), wanted)
    elif wanted.name == "TIMESTAMP":
        is_taken = given.type_name == _MOMENT and _scalars(message) == {1: "int64", 2: "int32"}
    else:
        kind = _WRAPPERS.get(given.type_name, "")
        is_taken = wanted.kind == "scalar" and _scalars(message) == {1: kind} and _is_taken(kind, wanted)
    if not is_taken:
        raise _unfit(_type_in_words(given), wanted, path)


def _is_taken(kind: str, wanted: Type) -> bool:
    if wanted.digits is None:
        return kind in _TAKES.get(wanted.name, ())
    precision, scale = wanted.digits
    return kind in _WHOLE and _WHOLE[kind] <= precision - scale


def _scalars(message: DescriptorProto) -> dict[int, str]:
    return {each.number: "repeated" if each.label == each.LABEL_REPEATED else _kind(each) for each in message.field}


def _kind(given: FieldDescriptorProto) -> str:
    return str(given.Type.Name(given.type)).removeprefix("TYPE_").lower()


def _type_in_words(given: FieldDescriptorProto) -> str:
    return f"{_kind(given)} {given.type_name[1:]}".strip()


def _unfit(kind: str, wanted: Type, path: str) -> ProtobufSchemaError:
    return ProtobufSchemaError(f"{path} is {kind}, and {avro_schema.wanted_in_words(wanted)} is wanted")


def target(wanted: Type) -> str:
    """Return the Avro schema of the wanted fields, each nullable, and of CORRUPT, false in decoded values."""
    return avro_schema.reader(avro_schema.writer(_NOTHING), wanted)


def plan(schemas: Iterable[tuple[int, str]], wanted: Type, *, message: str | None = None) -> bytes:
    """Return the plan of `ProtobufToAvro.java`: how to read values by descriptor sets, each with its id.

    Without a `message`, values begin with an id and their message's indexes. An empty or REFUSED set decodes nothing.
    """
    sets: dict[bytes, int] = {}
    entries, only = [], "" if message is None else "0"
    for number, schema in schemas:
        nth, odd = -1, []
        with contextlib.suppress(ProtobufSchemaError):
            if message is None:
                content, odd = base64.b64decode(read(schema).text), list(misfits(schema, wanted))
                nth = sets.setdefault(content, len(sets))
            elif misfit(schema, message, wanted) is None:
                files = read(schema).of(message)
                only = next(path for path, name, _ in files.own if name == f".{message}")
                nth = sets.setdefault(base64.b64decode(files.text), len(sets))
        entries.append(struct.pack(">qii", number, nth, len(odd)) + b"".join(_packed(path.encode()) for path in odd))
    head = _packed(target(wanted).encode()) + struct.pack(">i", len(sets)) + b"".join(map(_packed, sets))
    return head + _packed(only.encode()) + struct.pack(">i", len(entries)) + b"".join(entries)


def _packed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
