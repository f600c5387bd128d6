"""Commits in Azure: what another writer committed just before is not overwritten, by Delta's own log store."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.storage.azure import AzureStorage
from tests.support.examples import examples
from tests.support.object_store import before_store
from tests.support.places import PLACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.table import Lakehouse
    from tests.support.object_store import Request

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(PLACE != "azure", reason="the session reaches Azure with TESTS_PLACE=azure only"),
]

TIMES = examples(few=6, many=50)


def append(spark: SparkSession, table: str, number: int) -> None:
    spark.range(number, number + 1).toDF("n").coalesce(1).write.format("delta").mode("append").save(table)


def merge(spark: SparkSession, table: str, number: int) -> None:
    spark.sql(f"MERGE INTO delta.`{table}` AS t USING (SELECT {number} AS n) AS s ON t.n = s.n WHEN NOT MATCHED THEN INSERT *")


@pytest.mark.parametrize("commit", [append, merge])
def test_a_commit_that_came_first_is_not_overwritten(
    commit: Callable[[SparkSession, str, int], None],
    spark: SparkSession,
    tmp_path: Path,
    lakehouse_at: Callable[[Path], Lakehouse],
) -> None:
    lakehouse = lakehouse_at(tmp_path)
    given, table = lakehouse.storage, f"{lakehouse.root}/numbers"
    assert isinstance(given, AzureStorage)
    port = int((given.endpoint or "").rpartition(":")[2])
    rivals: dict[str, bytes] = {}
    ours: list[int] = []
    is_armed = False

    def before(request: Request) -> None:
        nonlocal is_armed
        if is_armed and request.is_commit:
            is_armed = False
            path = request.path.partition("?")[0].partition("/devstoreaccount1/")[2]
            rivals[path] = json.dumps({"txn": {"appId": f"rival-{len(rivals)}", "version": 1}}).encode()
            with given.files().open_output_stream(path) as file:
                file.write(rivals[path])

    with before_store(port) as (proxy, interference):
        spark.conf.set("fs.azure.abfs.endpoint", f"127.0.0.1:{proxy}")
        spark.conf.set("fs.abfs.impl.disable.cache", "true")
        append(spark, table, 0)
        interference.before = before
        for number in range(1, TIMES + 1):
            is_armed = True
            with contextlib.suppress(*SPARK_ERRORS):  # a conflict: not acknowledged, the caller tries again
                commit(spark, table, number)
                ours.append(number)
        interference.before = lambda _: None
        found = sorted(row["n"] for row in spark.read.format("delta").load(table).collect())
        for name in ("fs.azure.abfs.endpoint", "fs.abfs.impl.disable.cache"):
            spark.conf.unset(name)

    assert len(rivals) == TIMES
    assert found == [0, *ours]
    assert {path: given.files().open_input_stream(path).readall() for path in rivals} == rivals
