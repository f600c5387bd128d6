"""Search every file of a folder or of a store's prefix for a key, unpacking on the way, to prove that an erased key is gone.

Knows no Spark. Every file is searched as raw bytes and by content: Parquet values whatever their encoding, compressed files,
archives, JSON strings whatever their escapes, JSON within JSON. A key is also found in hexadecimal and in base64, and where
Delta's log cut it to its first characters. Data that a record's own value holds compressed (a gzip in a value) is not unpacked,
and a number is not compared as the text of its digits.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehouse.delta.stored_files import Files

SHORT = 8
"""A key of fewer bytes is matched as a whole value only: a few bytes occur in any file by chance."""

_CHUNK = 1 << 20
_ROWS = 8_192
_PREFIX = 32
"""Characters of a string that Delta keeps in a file's statistics; a maximum that was cut ends in one or two more."""
_DEPTH = 4
_PARQUET, _ZIP = b"PAR1", b"PK\x03\x04"
_PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"),
    b"\x04\x22\x4d\x18": lambda file: pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "lz4"),
}
_UNREADABLE = (pa.ArrowException, OSError, EOFError, ValueError, lzma.LZMAError, zipfile.BadZipFile)


_Log = tuple[Mapping[str, int], str]
"""Of a Delta log: all files that there are, and what the paths of its table's begin with."""


@dataclass(frozen=True, order=True)
class Found:
    """A place that holds the key.

    Attributes:
        file: The file, by its path from the place.
        where: Where in it: its bytes, its name, a column, a string, a statistic; for an archive, in which member.
    """

    file: str
    where: str


@dataclass
class Searched:
    """The result of a search.

    Attributes:
        files: How many files were read.
        bytes: Their size.
        found: Where the key is.
        unread: Files that cannot be read as the format they claim to be: what they hold is unknown.
    """

    files: int = 0
    bytes: int = 0
    found: list[Found] = field(default_factory=list)
    unread: list[Found] = field(default_factory=list)


def search(files: Files, key: bytes) -> Searched:
    """Search every file of a place for a key.

    Raises:
        ValueError: The key is empty.
        OSError: The files cannot be listed, or one cannot be opened.
    """
    if not key:
        raise ValueError("an empty key is everywhere")
    done, wanted = Searched(), _Wanted(key)
    sizes = files.sizes()
    for name, size in sizes.items():
        found: dict[str, None] = {}
        if wanted.is_in(name.encode(errors="surrogateescape")):
            found["its name"] = None
        table, is_in_log, _ = name.rpartition("_delta_log/")
        with files.open(name) as file:
            done.files += 1
            done.bytes += size
            try:
                found.update(dict.fromkeys(_look(file, wanted, (sizes, table) if is_in_log else None, 0)))
            except _UNREADABLE as error:
                done.unread.append(Found(name, f"{type(error).__name__}"))
        done.found.extend(Found(name, where) for where in found)
    return done


class _Wanted:
    """A key in all the forms in which a file may hold it."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.is_short = len(key) < SHORT
        forms = {key}
        try:
            self.text: str | None = key.decode()
        except UnicodeDecodeError:
            self.text = None
        if not self.is_short:
            # Of its base64, only the characters that do not depend on the bytes after the key.
            forms |= {key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key)[: len(key) * 4 // 3]}
        if self.text is not None and not self.is_short:
            once = json.dumps(self.text)[1:-1]
            forms |= {once.encode(), json.dumps(once)[1:-1].encode()}
        self.forms = sorted(forms)
        self.longest = max(map(len, self.forms))
        is_cut = self.text is not None and len(self.text) > _PREFIX
        self.prefix = self.text[:_PREFIX] if self.text is not None and is_cut else None

    def is_in(self, value: bytes) -> bool:
        """Whether a value is the key, or contains it if the key is long enough for that to mean something."""
        return value in self.forms if self.is_short else any(form in value for form in self.forms)

    def is_cut_in(self, text: str) -> bool:
        """Whether a statistic may be the key as Delta cuts it."""
        return self.prefix is not None and text.startswith(self.prefix) and len(text) <= _PREFIX + 2

    def in_column(self, values: pa.Array) -> bool:
        matches: Callable[..., Any] = pc.equal if self.is_short else pc.match_substring
        is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        for form in self.forms:
            if is_text:
                try:
                    pattern: Any = form.decode()
                except UnicodeDecodeError:
                    continue
            else:
                pattern = form
            wanted = pa.scalar(pattern, values.type) if self.is_short else pattern
            if pc.any(matches(values, wanted)).as_py():
                return True
        return False


def _look(file: IO[bytes], wanted: _Wanted, log: _Log | None, depth: int) -> Iterator[str]:
    """Where an open file holds the key. `log` is the one that it belongs to, whose statistics may hold a cut key."""
    if not wanted.is_short and _in_bytes(file, wanted):
        yield "its bytes"
    file.seek(0)
    head = file.read(8)
    file.seek(0)
    if head.startswith(_PARQUET):
        yield from _in_parquet(file, wanted, log)
    elif head.startswith(_ZIP) and depth < _DEPTH:
        yield from _in_zip(file, wanted, depth)
    elif (opened := next((each for magic, each in _PACKED.items() if head.startswith(magic)), None)) and depth < _DEPTH:
        with opened(file) as packed:
            yield from _unpacked(packed, wanted, "unpacked", depth)
    elif head.lstrip()[:1] in (b"{", b"[", b'"'):
        yield from _in_json(file, wanted, log)


def _in_bytes(file: IO[bytes], wanted: _Wanted) -> bool:
    kept = b""
    while chunk := file.read(_CHUNK):
        kept += chunk
        if wanted.is_in(kept):
            return True
        kept = kept[-wanted.longest :]
    return False


def _unpacked(packed: Any, wanted: _Wanted, what: str, depth: int) -> Iterator[str]:
    with tempfile.TemporaryFile() as whole:
        shutil.copyfileobj(packed, whole, _CHUNK)
        whole.seek(0)
        yield from (f"{what}: {where}" for where in _look(cast("IO[bytes]", whole), wanted, None, depth + 1))


def _in_zip(file: IO[bytes], wanted: _Wanted, depth: int) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            with archive.open(name) as part:
                yield from _unpacked(part, wanted, name, depth)


def _in_parquet(file: IO[bytes], wanted: _Wanted, log: _Log | None) -> Iterator[str]:
    parquet = pq.ParquetFile(file)
    for batch in parquet.iter_batches(_ROWS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            yield from (f"column {name}{inner}" for inner in _in_array(column, wanted))
            if log is not None:  # a checkpoint's column is an action
                for row in column.to_pylist():
                    yield from _in_value(row, wanted, log, None)


def _in_array(values: pa.Array, wanted: _Wanted) -> Iterator[str]:
    kind = values.type
    if pa.types.is_struct(kind):
        for at, inner in enumerate(values.flatten()):
            yield from (f".{kind.field(at).name}{name}" for name in _in_array(inner, wanted))
    elif pa.types.is_map(kind):
        yield from _in_array(cast("pa.MapArray", values).keys, wanted)
        yield from _in_array(cast("pa.MapArray", values).items, wanted)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _in_array(cast("pa.ListArray[Any]", values).flatten(), wanted)
    elif pa.types.is_dictionary(kind):
        yield from _in_array(cast("pa.DictionaryArray", values).dictionary, wanted)
    else:
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if (is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)) and wanted.in_column(values):
            yield ""


def _in_json(file: IO[bytes], wanted: _Wanted, log: _Log | None) -> Iterator[str]:
    """Search a file of JSON or of JSON lines; one that is neither is left to the search of its bytes."""
    lines = file.read().splitlines()
    try:
        values = [json.loads(line) for line in lines if line.strip()]
    except ValueError:
        try:
            values = [json.loads(b"\n".join(lines))]
        except ValueError:
            return
    for value in values:
        yield from _in_value(value, wanted, log, None)


def _in_value(value: Any, wanted: _Wanted, log: _Log | None, data: str | None) -> Iterator[str]:
    """Where a JSON value, or a row, holds the key; `data` is the data file that it describes."""
    if isinstance(value, dict):
        path = value.get("path")
        data = path if isinstance(path, str) else data
        for name, inner in value.items():
            yield from _in_value(name, wanted, log, data)
            yield from _in_value(inner, wanted, log, data)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _in_value(inner, wanted, log, data)
    elif isinstance(value, str):
        if wanted.is_in(value.encode(errors="surrogatepass")):
            yield "a string"
        # If the data file exists, its values are searched themselves: what the statistic was cut from is known.
        elif log is not None and wanted.is_cut_in(value) and not (data and f"{log[1]}{data}" in log[0]):
            yield "the beginning of a string, as statistics have it"
        if value[:1] in ("{", "[", '"'):
            try:
                inside = json.loads(value)
            except ValueError:
                return
            yield from _in_value(inside, wanted, log, data)
