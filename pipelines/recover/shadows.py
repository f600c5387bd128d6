"""The shadows of rebuilds that were not applied, next to the tables."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from lakehouse.table import SHADOWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run


def drop(spark: SparkSession, run: Run) -> str | None:
    """Remove all shadows: folders, objects of a store, or a catalog's tables. No unfinished rebuild may still need one.

    Returns None, or the shadows' folder if only Spark reaches the root and nothing was removed.
    """
    place = run.lakehouse
    if place.local_root is not None:
        shutil.rmtree(place.local_root / SHADOWS, ignore_errors=True)
    elif place.root is None:
        found = spark.sql(f"SHOW TABLES IN `{place.catalog}`.`{place.schema}` LIKE '{SHADOWS}*'").collect()
        for row in found:
            spark.sql(f"DROP TABLE IF EXISTS {place.table(row['tableName']).sql}")
    elif (files := place.table_files) is not None:
        kept = files.below(SHADOWS)
        for name in kept.sizes():
            kept.remove(name)
    else:
        return place.folder(SHADOWS)
    return None
