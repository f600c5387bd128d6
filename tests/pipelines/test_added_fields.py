"""Fields that are added to `value.schema`: to every table, null before; and what asks for a rebuild instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.errors import ContractError
from pipelines.recover import rebuild
from silver.load import steps
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import Stopped, ran, require_sound, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

pytestmark = pytest.mark.spark

OLD = "id STRING, l ARRAY<STRUCT<n: INT>>"
NEW = "at DATE, id STRING, l ARRAY<STRUCT<n: INT, `odd-one`: STRING>>, m MAP<STRING, DOUBLE>"


def of(run: Run, schema: str) -> Settings:
    return settings_of(run, value={"format": "json", "schema": schema})


def sent(number: int) -> Record:
    value = b'{"id": "i%d", "l": [{"n": %d, "odd-one": "o"}], "m": {"k": 1}, "at": "2026-11-26"}' % (number, number)
    return Record(number, value=value, key=b"k%d" % number, headers=(("seq", b"%d" % number),))


def payloads(spark: SparkSession, run: Run, name: str) -> list[Any]:
    rows = spark.read.table(run.table(name).sql).orderBy("sequence").select("payload").toArrow().to_pylist()
    return [row["payload"] for row in rows]


def before(number: int) -> dict[str, Any]:
    return {"at": None, "id": f"i{number}", "l": [{"n": number, "odd-one": None}], "m": None}


def test_an_added_field_is_in_every_table_and_null_before(
    spark: SparkSession, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(spark, run, [sent(0)])
    ran(spark, run, of(run, OLD))
    put(spark, run, [sent(1)])
    with monkeypatch.context() as patched:
        patched.setattr(steps, "append_silver", stop)
        with pytest.raises(Stopped):
            ran(spark, run, of(run, OLD))

    put(spark, run, [sent(2)])
    ran(spark, run, of(run, NEW))

    for name in ("silver_records", "gold_records", "gold_latest"):
        *old, new = payloads(spark, run, name)
        assert old == [before(0), before(1)], name  # the second load was claimed under the old schema
        assert (str(new["at"]), new["l"], new["m"]) == ("2026-11-26", [{"n": 2, "odd-one": "o"}], [("k", 1.0)]), name
    done = rebuild.rebuild(spark, run, of(run, NEW), is_applied=True, reason="all of it", by="ann")
    assert done["changes"] == []
    assert [str(each["at"]) for each in payloads(spark, run, "silver_records")] == ["2026-11-26"] * 3
    require_sound(spark, run, is_deep=True)


def test_a_schema_that_adds_no_field_is_refused_with_the_rebuild(spark: SparkSession, run: Run) -> None:
    put(spark, run, [sent(0)])
    ran(spark, run, of(run, OLD))
    for schema in ("id INT, l ARRAY<STRUCT<n: INT>>", "id STRING", "l ARRAY<STRUCT<n: INT>>, id STRING"):
        with pytest.raises(ContractError, match="tidemark rebuild"):
            ran(spark, run, of(run, schema))

    ran(spark, run, of(run, OLD))
