"""A load over a table whose last commit is gone, in the two ways that Delta reads without a word."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import TableStateError
from lakehouse.run.context import Run
from pipelines.verify.run import verify
from silver.load import steps
from tests.support.bronze import put
from tests.support.silver import RULES, load_records, message

pytestmark = [pytest.mark.spark, pytest.mark.fault]


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_at: Callable[[Path], Run]) -> Run:
    run = run_at(tmp_path_factory.mktemp("loaded") / "lakehouse")
    load_records(spark, run, [message(0, 1), message(1, 2), message(2, 2)])
    load_records(spark, run, [message(3, 3), message(4, 3)])
    put(spark, run, [message(5, 4)])
    return run


def emptied(log: Path) -> None:
    log.write_bytes(b"")
    (log.parent / f".{log.name}.crc").unlink()  # Hadoop's own, which is lost where files are copied


def removed(log: Path) -> None:
    for file in log.parent.glob(f"*{log.stem}*"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (emptied, {"silver_watermarks": ["logs_are_whole"], "silver_rejects": ["logs_are_whole"]}),
        (removed, {"silver_watermarks": [], "silver_rejects": ["rejects_match_ledger", "each_offset_once"]}),
    ],
)
def test_without_its_last_commit_each_table_stops_the_load_is_healed_by_it_or_is_named_by_verify(
    spark: SparkSession,
    loaded: Run,
    copied: Callable[[Run, Path], Run],
    tmp_path: Path,
    *,
    damage: Callable[[Path], None],
    found: dict[str, list[str]],
) -> None:
    outcomes: dict[str, object] = {}
    for table in ("silver_loads", "silver_records", "silver_watermarks", "silver_rejects"):
        run = copied(loaded, tmp_path / table)
        damage(max((tmp_path / table / table / "_delta_log").glob("*.json")))
        try:
            while steps.load_once(spark, run, RULES) is not None:
                pass
        except TableStateError as error:
            outcomes[table] = str(error.where).replace(f"{tmp_path}/{table}/", "")
            continue
        silver = spark.read.table(run.table("silver_records").sql).orderBy("offset").collect()
        assert [(row["offset"], row["sequence"]) for row in silver] == [(0, 1), (1, 2), (3, 3), (5, 4)]
        proved = verify(spark, run, is_deep=False)
        outcomes[table] = [each["check"] for each in proved["checks"] if not each["ok"]]  # type: ignore[attr-defined] # its checks are a list

    assert outcomes == {"silver_loads": "silver_loads and silver_watermarks", "silver_records": "silver_records", **found}
