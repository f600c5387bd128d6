"""Commits in a local folder: of several writers of one version one succeeds, and the others are told."""

import contextlib
import functools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.machine.storage_jar import LOCAL_FILES, LOCAL_LOG_STORE
from lakehouse.protocol import bronze_owner
from lakehouse.run.context import Run
from tests.support import strace

_OF_DELTA = "io.delta.storage.HDFSLogStore"
_VERSIONS, _WRITERS = 50, 4
_TRACER_SECONDS = 10
_STOPS_CALLS = pytest.mark.skipif(not strace.IS_INSTALLED, reason="strace is not installed, and nothing else does it")


class Writers:
    def __init__(self, spark: SparkSession, store: str, folder: Path) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        named: Any = functools.reduce(getattr, store.split("."), self._jvm)
        self._store = named(self._conf)
        self._folder = folder

    def write(self, version: int, writer: int) -> bool:
        lines = self._jvm.java.util.ArrayList()
        lines.add(f"{version} by {writer}")
        path = self._jvm.org.apache.hadoop.fs.Path(str(self._folder / f"{version}.json"))
        try:
            self._store.write(path, lines.iterator(), False, self._conf)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.nio.file.FileAlreadyExistsException":
                return False
            raise
        return True

    def listed(self, start: str) -> list[tuple[str, int, bool]]:
        """Name, length and whether it is a folder, of each file from a name on."""
        path = self._jvm.org.apache.hadoop.fs.Path(str(self._folder / start))
        found, each = [], self._store.listFrom(path, self._conf)
        while each.hasNext():
            file = each.next()
            found.append((file.getPath().getName(), file.getLen(), file.isDirectory()))
        return found

    def meet(self, version: int) -> list[int]:
        """Let all write the same version at once; who was told that the version is theirs."""
        with ThreadPoolExecutor(_WRITERS) as pool:
            told = pool.map(lambda writer: self.write(version, writer), range(_WRITERS))
            return [writer for writer, was_free in enumerate(told) if was_free]


@contextlib.contextmanager
def struck(spark: SparkSession, calls: str, injected: str) -> Iterator[None]:
    machine: Any = spark._jvm
    jvm = machine.java.lang.ProcessHandle.current().pid()
    try:
        tracer = strace.attached(jvm, calls, injected, patience_seconds=_TRACER_SECONDS)
    except PermissionError as error:
        pytest.skip(str(error))
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait()


def test_of_writers_of_one_version_one_succeeds_and_its_commit_is_there(spark: SparkSession, tmp_path: Path) -> None:
    writers = Writers(spark, LOCAL_LOG_STORE, tmp_path)

    told = [writers.meet(version) for version in range(_VERSIONS)]

    assert [len(each) for each in told] == [1] * _VERSIONS
    for version, (winner,) in enumerate(told):
        assert (tmp_path / f"{version}.json").read_text() == f"{version} by {winner}\n"
    names = {f"{version}.json" for version in range(_VERSIONS)}
    assert {path.name for path in tmp_path.iterdir()} == names | {f".{name}.crc" for name in names}


@_STOPS_CALLS
@pytest.mark.parametrize(("store", "calls", "most"), [(LOCAL_LOG_STORE, "link,linkat", 1), (_OF_DELTA, "rename", _WRITERS)])
def test_of_writers_that_meet_only_one_succeeds(spark: SparkSession, tmp_path: Path, store: str, calls: str, most: int) -> None:
    """Delta's own acknowledges all of them, and keeps the last. Or else the test before this one proves nothing."""
    writers = Writers(spark, store, tmp_path)

    with struck(spark, calls, "delay_enter=1000000"):
        told = [writers.meet(version) for version in range(3)]

    assert [len(each) for each in told] == [most] * 3


def test_a_log_is_listed_from_a_version_on_as_deltas_own_log_store_lists_it(spark: SparkSession, tmp_path: Path) -> None:
    of_9 = ["9.json", "9.crc", ".9.json.crc", ".9.crc.crc", "9.1.checkpoint.parquet", "9:1.json"]
    for name in ["8.json", *of_9, "_last_checkpoint"]:
        (tmp_path / name).write_text(name)
    (tmp_path / "_staged").mkdir()

    def listed(store: str, start: str) -> list[tuple[str, int, bool]]:
        return Writers(spark, store, tmp_path).listed(start)

    names = " ".join(name for name, _, _ in listed(LOCAL_LOG_STORE, "9"))
    assert names == "9.1.checkpoint.parquet 9.crc 9.json 9:1.json _last_checkpoint _staged"
    for start in ("0", "9", "9.json", "_m"):
        assert listed(LOCAL_LOG_STORE, start) == listed(_OF_DELTA, start)
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        Writers(spark, LOCAL_LOG_STORE, tmp_path / "none").listed("0")


def test_a_session_writes_folders_so_and_refuses_a_commit_that_was_changed(spark: SparkSession, tmp_path: Path) -> None:
    machine: Any = spark._jvm
    files = machine.org.apache.hadoop.fs.Path(str(tmp_path)).getFileSystem(spark._jsc.hadoopConfiguration())
    assert files.getClass().getName() == LOCAL_FILES
    assert spark.conf.get("spark.delta.logStore.file.impl") == LOCAL_LOG_STORE

    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    commit = tmp_path / "table" / "_delta_log" / f"{0:020}.json"
    commit.write_bytes(commit.read_bytes().replace(b'"modificationTime":1', b'"modificationTime":2'))
    with pytest.raises(Exception, match="Checksum error"):
        spark.sql(f"SELECT * FROM delta.`{shutil.copytree(tmp_path / 'table', tmp_path / 'copy')}`").collect()


@_STOPS_CALLS
def test_where_there_are_no_links_a_commit_is_renamed(spark: SparkSession, tmp_path: Path) -> None:
    writers = Writers(spark, LOCAL_LOG_STORE, tmp_path)

    with struck(spark, "link,linkat", "error=EPERM"):
        told = [writers.write(0, 1), writers.write(0, 2), writers.write(1, 2)]

    assert told == [True, False, True]
    assert [(tmp_path / f"{version}.json").read_text() for version in (0, 1)] == ["0 by 1\n", "1 by 2\n"]


@pytest.mark.parametrize("left", [(), (".00000000000000000000.json.0a1b.tmp",)], ids=["nothing", "a temporary file"])
def test_a_table_is_created_where_a_run_died_before_its_commit(
    spark: SparkSession, new_run: Callable[[], Run], left: tuple[str, ...]
) -> None:
    run = new_run()
    folder = run.table("bronze_records").local_folder
    assert folder is not None
    (folder / "_delta_log").mkdir(parents=True)
    for name in left:
        (folder / "_delta_log" / name).touch()

    bronze_owner.create_bronze(spark, run)

    assert bronze_owner.read_owner(spark, run) == run.pipeline
    table = run.table("bronze_records")
    BRONZE.check(spark.read.table(table.sql).schema, where=str(table), next_step="none")
    assert tables.properties(spark, table).items() >= BRONZE.properties.items()
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]
    assert tuple(detail["clusteringColumns"]) == BRONZE.clustered_by
    fields = {field.name: field.metadata.get("comment") for field in spark.read.table(table.sql).schema}
    assert fields == {column.name: column.comment for column in BRONZE.columns}
