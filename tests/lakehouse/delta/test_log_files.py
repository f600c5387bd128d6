"""The files of a Delta log: what is whole is replayed, what is damaged is named."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.delta.log_files import Append, damaged_files, last_append, last_version, old_files, read_log
from lakehouse.sidecar_files import Files

SCHEMA = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
META = {"id": "x", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
PROTOCOL: list[dict[str, Any]] = [
    {"metaData": {**META, "schemaString": json.dumps(SCHEMA)}},
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
]
FILE = {"partitionValues": {}, "modificationTime": 0, "dataChange": True}


def added(name: str, rows: int = 1, size: int = 4) -> dict[str, Any]:
    return {"add": {**FILE, "path": name, "size": size, "stats": json.dumps({"numRecords": rows})}}


def info(operation: str, **metrics: int) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, "operationMetrics": {name: str(value) for name, value in metrics.items()}}}


def log_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def commit(table: Path, version: int, *actions: dict[str, Any], checksum: dict[str, Any] | None = None) -> Path:
    file = log_file(table, version)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    if checksum is not None:
        file.with_suffix(".crc").write_text(json.dumps(checksum), encoding="utf-8")
    for action in actions:
        if "add" in action:
            (table / action["add"]["path"]).write_bytes(b"PAR1")
    return file


@pytest.fixture
def table(tmp_path: Path) -> Path:
    commit(tmp_path, 0, info("CREATE TABLE"), *PROTOCOL, checksum={"numFiles": 0, "tableSizeBytes": 0})
    transaction = {"txn": {"appId": "a", "version": 1}}
    known = {"numFiles": 2, "tableSizeBytes": 8, "setTransactions": [{"appId": "a", "version": 1}]}
    # A file that turned out empty is counted and not listed.
    commit(tmp_path, 1, info("WRITE", numFiles=3, numOutputRows=3), transaction, added("a", 2), added("b"), checksum=known)
    merged = info("MERGE", numTargetFilesRemoved=1, numTargetFilesAdded=1, numOutputRows=2)
    commit(tmp_path, 2, merged, added("c", 2), {"remove": {"path": "a", "dataChange": True}}, checksum=known)
    return tmp_path


def violations_of(table: Path) -> list[tuple[str, str]]:
    return [(Path(each.where.split(",")[0]).name, each.observed) for each in read_log(Files(str(table))).violations]


def test_a_whole_log_is_replayed_and_a_data_file_that_is_gone_or_cut_is_named(table: Path) -> None:
    log = read_log(Files(str(table)))
    assert (log.version, log.files, log.violations) == (2, {"b": 4, "c": 4}, [])
    assert list(damaged_files(Files(str(table)), log)) == []
    assert last_version(table) == 2

    (table / "b").unlink()
    (table / "c").write_bytes(b"PAR")
    found = [(Path(each.where).name, each.observed) for each in damaged_files(Files(str(table)), read_log(Files(str(table))))]
    assert found == [("b", "no such file"), ("c", "3 bytes")]


@pytest.mark.parametrize(
    ("left", "observed"),
    [
        (b"", "0 bytes"),
        (b"\n", "1 bytes"),
        (b'{"commitInfo": {}}\n{"add": {"pa', "12 bytes that are no JSON"),
        (b'{"add": {"path": "c", "size": 4}}\n', "no commitInfo"),
    ],
)
def test_an_emptied_or_torn_commit_is_named(table: Path, left: bytes, observed: str) -> None:
    file = log_file(table, 2)
    file.write_bytes(left)
    assert violations_of(table) == [(file.name, observed)]


def test_a_commit_that_is_gone_is_named_whether_in_the_middle_or_at_the_end(table: Path) -> None:
    file = log_file(table, 2)
    file.unlink()
    assert violations_of(table) == [(file.name, f"no such file, though {2:020}.crc is there")]
    commit(table, 3, info("WRITE", numOutputRows=1), added("d"))
    assert violations_of(table) == [(file.name, "no such file")]
    assert old_files(Files(str(table))) is None, "what is old is unknown where a commit is gone"


def test_an_append_is_known_while_it_is_the_last_commit_and_whole_with_its_files(tmp_path: Path) -> None:
    said, transaction = info("WRITE"), {"txn": {"appId": "a", "version": 7}}
    said["commitInfo"]["userMetadata"] = "run"
    file = commit(tmp_path, 0, said, transaction, added("x", 2), added("y", 3))

    assert last_append(tmp_path, "a", 7) == Append(rows=5, metadata="run")
    assert last_append(tmp_path, "a", 6) is None
    assert last_append(tmp_path, "b", 7) is None
    assert last_append(tmp_path / "nowhere", "a", 7) is None
    (tmp_path / "y").write_bytes(b"PAR")
    assert last_append(tmp_path, "a", 7) is None, "a data file is shorter"
    (tmp_path / "y").write_bytes(b"PAR1")
    later = commit(tmp_path, 1, info("DELETE"), {"remove": {"path": "y"}})
    assert last_append(tmp_path, "a", 7) is None, "something was committed after it"
    later.unlink()
    file.write_bytes(file.read_bytes()[:-5])
    assert last_append(tmp_path, "a", 7) is None, "the commit is torn"
    commit(tmp_path, 0, said, transaction, {"add": {"path": "x", "size": 4}})
    assert last_append(tmp_path, "a", 7) is None, "it does not say what it added"


def test_a_log_is_read_from_its_last_checkpoint_on(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"n": [number]}), mode="append")
    DeltaTable(str(tmp_path)).create_checkpoint()
    write_deltalake(str(tmp_path), pa.table({"n": [3]}), mode="append")
    for version in (0, 1):
        log_file(tmp_path, version).unlink()

    log = read_log(Files(str(tmp_path)))

    assert (log.version, log.violations) == (3, [])
    assert len(log.files or ()) == 4
    assert list(damaged_files(Files(str(tmp_path)), log)) == []
    checkpoint = tmp_path / "_delta_log" / f"{2:020}.checkpoint.parquet"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    [(where, observed)] = violations_of(tmp_path)
    assert (where, observed[:15]) == ("_delta_log", "cannot be read:")
    assert violations_of(tmp_path / "nowhere") == [("_delta_log", "no commit")]


def test_old_files_are_those_that_the_folder_or_the_log_has_beyond_the_last_version(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": [1]}), mode="append")
    assert old_files(Files(str(tmp_path))) == []
    [first] = [each.name for each in tmp_path.glob("*.parquet")]
    write_deltalake(str(tmp_path), pa.table({"n": [2]}), mode="overwrite")
    assert old_files(Files(str(tmp_path))) == [first]

    (tmp_path / first).unlink()
    assert old_files(Files(str(tmp_path))) == [first]  # two commits name it
    DeltaTable(str(tmp_path)).create_checkpoint()
    assert set(old_files(Files(str(tmp_path))) or ()) == {first, f"_delta_log/{0:020}.json"}

    (tmp_path / "_change_data").mkdir()
    (tmp_path / "_change_data" / "cdc-0.parquet").touch()
    (tmp_path / "_change_data" / ".cdc-0.parquet.crc").touch()
    assert (old_files(Files(str(tmp_path))) or [])[0] == "_change_data/cdc-0.parquet"
