"""Commits in Azure: what another writer committed just before is not overwritten, by Delta's own log store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakehouse.storage.azure import AzureStorage
from tests.support.examples import examples
from tests.support.object_store import before_store
from tests.support.places import PLACE
from tests.support.rivals import acknowledged, append, merge, numbers

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

    def rival(request: Request) -> None:
        path = request.path.partition("?")[0].partition("/devstoreaccount1/")[2]
        rivals[path] = json.dumps({"txn": {"appId": f"rival-{len(rivals)}", "version": 1}}).encode()
        with given.files().open_output_stream(path) as file:
            file.write(rivals[path])

    with before_store(port) as (proxy, interference):
        spark.conf.set("fs.azure.abfs.endpoint", f"127.0.0.1:{proxy}")
        spark.conf.set("fs.abfs.impl.disable.cache", "true")
        ours = acknowledged(spark, table, interference, commit, rival, times=TIMES)
        found = numbers(spark, table)
        for name in ("fs.azure.abfs.endpoint", "fs.abfs.impl.disable.cache"):
            spark.conf.unset(name)

    assert len(rivals) == TIMES
    assert found == [0, *ours]
    assert {path: given.files().open_input_stream(path).readall() for path in rivals} == rivals
