"""Creating tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.protocol import bronze_owner

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("left", [(), (".00000000000000000000.json.0a1b.tmp",)], ids=["nothing", "a temporary file"])
def test_a_table_is_created_where_a_run_died_between_making_the_log_and_its_first_commit(
    spark: SparkSession, new_run: Callable[[], Run], left: tuple[str, ...]
) -> None:
    run = new_run()
    folder = run.table("bronze_records").local_folder
    assert folder is not None
    (folder / "_delta_log").mkdir(parents=True)
    for name in left:
        (folder / "_delta_log" / name).touch()

    bronze_owner.create_bronze(spark, run)

    assert bronze_owner.require(spark, run) == run.pipeline
    table = run.table("bronze_records")
    BRONZE.check(spark.read.table(table.sql).schema, where=str(table), next_step="none")
    assert tables.properties(spark, table).items() >= BRONZE.properties.items()
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]
    assert tuple(detail["clusteringColumns"]) == BRONZE.clustered_by
    fields = {field.name: field.metadata.get("comment") for field in spark.read.table(table.sql).schema}
    assert fields == {column.name: column.comment for column in BRONZE.columns}
