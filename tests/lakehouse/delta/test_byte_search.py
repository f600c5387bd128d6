"""A key looked for in files of every form."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.delta.byte_search import search
from lakehouse.delta.stored_files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "ann.o'brien@exämple.org".encode()
UUID = "5f1c7a52-0b44-4c6e-9d0e-6f6a3f6f9a17"


def parquet(file: Path, values: Any, **options: Any) -> None:
    pq.write_table(pa.table({"c": values}), file, **options)


def zipped(file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.json", json.dumps({"a": KEY.decode()}))


FORMS: dict[str, Callable[[Path], object]] = {
    "its bytes": lambda file: file.write_bytes(b"x" * 5_000_000 + KEY),
    "text in JSON": lambda file: file.write_text(json.dumps({"a": [KEY.decode()]}), encoding="utf-8"),
    "JSON in JSON": lambda file: file.write_text(json.dumps({"stats": json.dumps({"min": KEY.decode()})}), encoding="utf-8"),
    "every letter escaped": lambda file: file.write_text(
        '{"a": "' + "".join(f"\\u{ord(each):04X}" for each in KEY.decode()) + '"}', encoding="utf-8"
    ),
    "hexadecimal": lambda file: file.write_text(f"key={KEY.hex().upper()}", encoding="utf-8"),
    "base64": lambda file: file.write_bytes(base64.b64encode(KEY + b"!")),
    "gzip": lambda file: file.write_bytes(gzip.compress(KEY * 2)),
    "gzip twice": lambda file: file.write_bytes(gzip.compress(gzip.compress(KEY))),
    "bz2": lambda file: file.write_bytes(bz2.compress(KEY)),
    "xz": lambda file: file.write_bytes(lzma.compress(KEY)),
    "zstd": lambda file: file.write_bytes(pa.compress(KEY * 9, codec="zstd", asbytes=True)),
    "zip": zipped,
    "binary column": lambda file: parquet(file, [b"a", None, b"<" + KEY + b">"]),
    "text column": lambda file: parquet(file, [KEY.decode()] * 3),
    "delta byte array": lambda file: parquet(
        file, [KEY[:12], KEY], use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY", write_statistics=False
    ),
    "nested": lambda file: parquet(file, [{"a": [{"k": "x", "v": KEY}]}], compression="zstd", write_statistics=False),
    "map": lambda file: parquet(file, pa.array([[("k", KEY)]], pa.map_(pa.string(), pa.binary()))),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_found_in_a_file_of_every_form_and_another_one_is_not(tmp_path: Path, form: str) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    FORMS[form](tmp_path / "deep" / "er" / "file")

    found, other = search(LocalFiles(tmp_path), KEY), search(LocalFiles(tmp_path), b"bob@example.org")

    assert {each.file for each in found.found} == {"deep/er/file"}
    assert (found.files, other.found, other.unread) == (1, [], [])


def test_a_name_of_a_file_is_searched_and_links_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "loop").symlink_to(tmp_path / "root")
    (tmp_path / "aside").mkdir()
    (tmp_path / "root" / "aside").symlink_to(tmp_path / "aside")
    (tmp_path / "aside" / f"key={UUID}").touch()

    assert [(each.file, each.where) for each in search(LocalFiles(tmp_path / "root"), UUID.encode()).found] == [
        (f"aside/key={UUID}", "its name")
    ]


def test_a_short_key_is_compared_with_whole_values_only(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", [b"412", b"4"])
    parquet(tmp_path / "b.parquet", [b"42", b"4"])
    (tmp_path / "c.json").write_text('{"a": "42", "b": "142"}', encoding="utf-8")
    (tmp_path / "d.txt").write_text("42", encoding="utf-8")

    assert [each.file for each in search(LocalFiles(tmp_path), b"42").found] == ["b.parquet", "c.json"]


def test_what_statistics_kept_of_a_long_key_counts_unless_its_data_file_is_there_and_was_read(tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    least = json.dumps({"minValues": {"id": UUID[:32]}, "maxValues": {"id": UUID[:32] + "\U0010ffff"}})
    added = {"add": {"path": "part-0.parquet", "stats": least}}
    (log / f"{1:020}.json").write_text(json.dumps(added), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist([added]), log / f"{1:020}.checkpoint.parquet")

    gone = search(LocalFiles(tmp_path), UUID.encode())
    parquet(tmp_path / "t" / "part-0.parquet", [UUID[:35] + "8"])
    there = search(LocalFiles(tmp_path), UUID.encode())

    assert {each.file.rpartition("/")[2][20:] for each in gone.found} == {".json", ".checkpoint.parquet"}
    assert there.found == []


def test_a_file_that_is_not_what_it_says_is_named_as_unread(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"x" * 100)[:20])

    done = search(LocalFiles(tmp_path), KEY)

    assert ([each.file for each in done.unread], done.files) == (["a.parquet", "b.gz"], 2)
