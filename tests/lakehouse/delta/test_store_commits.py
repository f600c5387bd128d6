"""Commits in Azure and in Google's store: Delta's own log stores do not overwrite what another writer committed just before."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import obstore
import pytest
from pyspark.sql import SparkSession

from lakehouse.sidecar_files import Files
from lakehouse.storage import AzureStorage, GoogleStorage
from lakehouse.table import Lakehouse
from tests.support.examples import examples
from tests.support.object_store import Request, before_store
from tests.support.places import PLACE
from tests.support.rivals import acknowledged, append, merge, numbers

pytestmark = [pytest.mark.skipif(PLACE not in ("azure", "google"), reason="the session reaches them with TESTS_PLACE only")]

TIMES = examples(few=6, many=50)


def by_way_of(proxy: int) -> dict[str, str]:
    if PLACE == "azure":
        return {"fs.azure.abfs.endpoint": f"127.0.0.1:{proxy}", "fs.abfs.impl.disable.cache": "true"}
    return {"fs.gs.storage.root.url": f"http://127.0.0.1:{proxy}/", "fs.gs.impl.disable.cache": "true"}


def written(request: Request) -> str:
    """The object that a request writes, its bucket or container first."""
    if PLACE == "azure":
        return request.path.partition("?")[0].partition("/devstoreaccount1/")[2]
    bucket, _, query = request.path.partition("/b/")[2].partition("/o?")
    name = re.search(r"(?:^|&)name=([^&]+)", query)
    return f"{bucket}/{unquote(name[1])}" if name else ""


def is_commit(request: Request) -> bool:
    return request.method == "PUT" and bool(re.search(r"/_delta_log/\d+\.json$", written(request)))


@pytest.mark.parametrize("commit", [append, merge])
def test_a_commit_that_came_first_is_not_overwritten(
    commit: Callable[[SparkSession, str, int], None],
    spark: SparkSession,
    tmp_path: Path,
    lakehouse_at: Callable[[Path], Lakehouse],
) -> None:
    lakehouse = lakehouse_at(tmp_path)
    given = lakehouse.storage
    assert isinstance(given, AzureStorage | GoogleStorage)
    bucket = Files(str(lakehouse.root).rpartition("/")[0], given)
    table, port = f"{lakehouse.root}/numbers", int((given.endpoint or "").rpartition(":")[2])
    rivals: dict[str, bytes] = {}

    def rival(request: Request) -> None:
        path = written(request).partition("/")[2]
        rivals[path] = json.dumps({"txn": {"appId": f"rival-{len(rivals)}", "version": 1}}).encode()
        obstore.put(bucket.store, path, rivals[path])

    with before_store(port) as (proxy, interference):
        settings = by_way_of(proxy)
        for name, value in settings.items():
            spark.conf.set(name, value)
        ours = acknowledged(spark, table, interference, commit, rival, times=TIMES, is_commit=is_commit)
        found = numbers(spark, table)
        for name in settings:
            spark.conf.unset(name)

    assert len(rivals) == TIMES
    assert found == [0, *ours]
    assert {path: bucket.read(path) for path in rivals} == rivals
