"""A lakehouse of version 0.1 (c6cf1be, `make_0_1.py.txt`) is read, continued, verified, rebuilt and restored."""

import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.delta import tables
from lakehouse.extract.sources import Sources
from lakehouse.protocol import bronze_owner
from lakehouse.run.context import Run
from pipelines.recover import rebuild, restore
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import published, ran, require_sound
from tidemark.readers.why import why

_FIXTURE = Path(__file__).with_name("lakehouse-0.1.tar.gz")


def sent(offset: int, sequence: int, *, partition: int = 0, producer: str = "p") -> Record:
    return Record.of(offset, sequence, partition=partition, producer=producer)


def kept(spark: SparkSession, run: Run, table: str) -> list[tuple[object, ...]]:
    rows = spark.read.table(run.table(table).sql).select("partition", "offset", "producer", "sequence", "arrival")
    return sorted(tuple(row) for row in rows.collect())


def require_kept(spark: SparkSession, run: Run, rows: Sequence[tuple[object, ...]]) -> None:
    assert kept(spark, run, "silver_records") == sorted(rows)
    assert kept(spark, run, "gold_records") == sorted(row for row in rows if row[:2] != (0, 10))


def test_a_lakehouse_of_0_1_is_continued_verified_restored_rebuilt(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run = new_run()
    settings = settings_of(run, producer={"header": "producer"})
    with tarfile.open(_FIXTURE) as archive:
        archive.extractall(str(run.lakehouse.root), filter="data")
    of_0_1: list[tuple[object, ...]] = [
        *((0, offset, "p", sequence, "in_order") for offset, sequence in enumerate((1, 2, 3))),
        (0, 5, "p", 6, "in_order"),
        (0, 6, "p", 4, "late"),
        (0, 10, "p", 7, "in_order"),
        (0, 11, "p", 8, "in_order"),
        (0, 12, "p", 9, "in_order"),
        (1, 0, "q", 1, "in_order"),
        (1, 1, "q", 2, "in_order"),
    ]

    # Read as it is.
    require_sound(spark, run, is_deep=True)
    require_kept(spark, run, of_0_1)
    found = why(run.lakehouse, "t", 0, 7)
    assert (found["class"], found["sequence"], found["state"]) == ("late", 5, "held")
    assert why(run.lakehouse, "t", 0, 10)["erased_load_seq"] == 3

    # Continued: what 0.1 kept, or keeps waiting, is known to the records that come now.
    bronze_owner.create_bronze(spark, new_run())
    version = tables.version(spark, run.table("bronze_records"))
    bronze_owner.create_bronze(spark, new_run())
    assert tables.version(spark, run.table("bronze_records")) == version
    again = [sent(14, 9), sent(15, 5), sent(16, 10), sent(12, 9)]  # the last one is read again
    again += [sent(offset, offset, partition=1, producer="q") for offset in (2, 3)]
    put(spark, new_run(), again, Sources.of(settings))
    done = ran(spark, new_run(), settings)
    assert (done["accepted"], done["duplicate"], done["replay"], done["records"]) == (2, 3, 1, 6)
    bronze = spark.read.table(run.table("bronze_records").sql)
    assert bronze.columns == BRONZE.names
    assert bronze.where(F.col("rules_fingerprint").isNotNull()).count() == len(again)

    continued = [*of_0_1, (0, 16, "p", 10, "in_order"), (1, 3, "q", 3, "in_order")]
    require_kept(spark, run, continued)

    # Restored to the erasure, the last load of 0.1 but one; then what came since is decided again.
    restore.restore(spark, new_run(), settings, 3, reason="an upgrade", by="ann", is_dry_run=False)
    ran(spark, new_run(), settings)
    require_kept(spark, run, continued)

    # Rebuilt: nothing is decided otherwise, whoever read the records.
    rebuilt = rebuild.rebuild(spark, new_run(), settings, apply=True, reason="an upgrade", by="ann")
    assert (rebuilt["changes"], rebuilt["not_repeated"]) == ([], [])
    published(spark, new_run(), settings)
    require_kept(spark, run, continued)
    require_sound(spark, new_run(), is_deep=True)
