"""Commits in S3: what another writer committed just before is not overwritten, and a lost answer costs nothing."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import ToolError
from lakehouse.spark.session import require_log_store
from lakehouse.storage import S3Storage
from lakehouse.table import Lakehouse
from tests.support.examples import examples
from tests.support.object_store import Interference, Request, before_store, make_bucket, storage
from tests.support.rivals import acknowledged, append, merge, numbers

TIMES = examples(few=6, many=100)  # how often each kind of commit meets a rival's

pytestmark = pytest.mark.timeout(1800 + 30 * TIMES)


@pytest.fixture
def proxied(spark: SparkSession, s3: int, in_s3: Callable[..., Lakehouse]) -> Iterator[tuple[Lakehouse, Interference]]:
    with before_store(s3) as (port, interference):
        bucket = f"behind-{port}"  # Hadoop keeps one client a bucket, with the first address that it was given
        make_bucket(s3, bucket)
        yield in_s3(port, bucket), interference


def change(spark: SparkSession, table: str, number: int) -> None:
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('tests.n' = '{number}')")
    append(spark, table, number)


def met_by_a_rival(
    spark: SparkSession, table: str, store: int, interference: Interference, commit: Callable[[SparkSession, str, int], None]
) -> tuple[list[int], list[int]]:
    rivals: list[int] = []

    def rival(_: Request) -> None:
        rivals.append(1_000_000 + len(rivals))
        rows = pa.table({"n": pa.array(rivals[-1:], pa.int64())})
        write_deltalake(table.replace("s3n:", "s3:"), rows, mode="append", storage_options=storage(store).for_delta_rs())

    ours = acknowledged(spark, table, interference, commit, rival, times=TIMES)
    assert len(rivals) == TIMES
    return rivals, ours


@pytest.mark.parametrize("commit", [append, merge, change])
def test_a_commit_that_came_first_is_not_overwritten(
    commit: Callable[..., None], spark: SparkSession, s3: int, proxied: tuple[Lakehouse, Interference]
) -> None:
    lakehouse, interference = proxied
    table = f"{lakehouse.root}/numbers"

    rivals, ours = met_by_a_rival(spark, table, s3, interference, commit)

    # A MERGE that read what the rival changed is refused, as it must be; nothing that was acknowledged is lost.
    assert numbers(spark, table) == [0, *ours, *rivals]


def test_deltas_own_log_store_overwrites_it(spark: SparkSession, s3: int, proxied: tuple[Lakehouse, Interference]) -> None:
    lakehouse, interference = proxied
    spark.conf.set("fs.s3n.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
    table = f"{lakehouse.root}/numbers".replace("s3:", "s3n:")  # a scheme for which no log store is named

    rivals, ours = met_by_a_rival(spark, table, s3, interference, append)

    assert ours == list(range(1, TIMES + 1))
    assert not set(rivals) & set(numbers(spark, table))


def test_an_answer_that_is_lost_doubles_and_loses_nothing(spark: SparkSession, proxied: tuple[Lakehouse, Interference]) -> None:
    lakehouse, interference = proxied
    table = f"{lakehouse.root}/numbers"
    append(spark, table, 0)
    lost: set[str] = set()

    def is_lost(request: Request) -> bool:
        is_first = request.is_commit and request.path not in lost
        lost.update([request.path] if is_first else [])
        return is_first

    interference.is_lost = is_lost
    for number in range(1, TIMES + 1):
        append(spark, table, number)

    assert len(lost) == TIMES
    assert numbers(spark, table) == list(range(TIMES + 1))


def test_a_store_that_ignores_the_condition_is_refused(spark: SparkSession, proxied: tuple[Lakehouse, Interference]) -> None:
    lakehouse, interference = proxied
    interference.hides_refusals = True

    with pytest.raises(SPARK_ERRORS, match="TIDEMARK_NO_PUT_IF_ABSENT"):
        append(spark, f"{lakehouse.root}/numbers", 0)


def test_a_session_that_would_overwrite_is_refused() -> None:
    """One of another maker: no log store is named."""
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
    single = Lakehouse(root="s3a://bucket/lake", storage=S3Storage(is_single_writer=True))
    for lakehouse in (Lakehouse(root="s3n://bucket/lake"), Lakehouse(root="/data/lake"), single):
        require_log_store(session, lakehouse)
    with pytest.raises(ToolError, match="overwrite those of others"):
        require_log_store(session, Lakehouse(root="s3a://bucket/lake", storage=S3Storage()))
