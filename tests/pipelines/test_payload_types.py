"""Every type of a payload and the largest numbers, through every stage and every reader; fields that are added or not."""

import hashlib
import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from lakehouse.contracts import views
from lakehouse.delta import tables
from lakehouse.errors import ContractError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines.operate import requests
from silver.load import steps
from silver.state.request import Erase, Request
from tests.conftest import Runs
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import loaded, published, ran, require_sound, stopped_at
from tidemark.extras.report.facts import facts
from tidemark.readers.database import run_query
from tidemark.readers.status import status

SCHEMA = (
    "s STRING NOT NULL, x BINARY, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, d "
    "DECIMAL(38,10), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, a ARRAY<DECIMAL(5,2)>, m MAP<STRING, BIGINT>, "
    "o STRUCT<m: MAP<STRING, ARRAY<MAP<STRING, STRUCT<at: TIMESTAMP NOT NULL>>>>, `odd-n\u00e4me`: INT COMMENT 'it\\'s'>"
)
WHOLE = (
    """{"s": "t", "x": "AP8=", "b": true, "i1": 1, "i2": 2, "i4": 4, "i8": 9223372036854775807, "f4": 1.5, "f8": 1e300, """
    """"d": 1.25, "day": "9999-12-31", "at": "0001-01-01T00:00:00Z", "local": "9999-12-31T23:59:59", "a": [1, null, 2.5], """
    """"m": {"k": 1, "l": null}, "o": {"m": {"k": [{"l": {"at": 0}}, null]}, "odd-n\u00e4me": 7}}"""
)
VALUES: list[bytes | None] = [
    WHOLE.encode(),
    *(b'{"s": ""}', b'{"s": null}', b'{"i4": 1}', WHOLE.replace("0001-01-01T00:00:00Z", "+294247-01-10T04:00:54Z").encode()),
    *(b'{"s": "", "d": 1e32000000}', b"\xff", None),
]


def test_every_accepted_type_goes_through_every_stage_and_every_reader(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run, value={"format": "json", "schema": SCHEMA, "undecodable": "accept"})
    records = [
        Record(offset, value=value, key=b"k%d" % offset, headers=(("seq", b"%d" % offset),))
        for offset, value in enumerate(VALUES)
    ]
    loaded(spark, run, settings, records)
    published(spark, run, settings)

    silver = spark.read.table(run.table("silver_records").sql).orderBy("offset")
    assert [row[0] for row in silver.selectExpr("payload IS NULL").collect()] == [False, False, *[True] * 6]
    for name in ("silver_records", "gold_records", "gold_latest"):
        _read_alike(spark, run, name)

    asked = Request("erase", "asked", "ann", erase=Erase("t", hashlib.sha256(b"k0").hexdigest()))
    requests.carry_out(spark, run, settings, asked, is_dry_run=False)
    published(spark, run, settings)
    require_sound(spark, run, is_deep=True)
    _read_alike(spark, run, "gold_records")


def _read_alike(spark: SparkSession, run: Run, name: str) -> None:
    expected = sorted(map(_told, spark.read.table(run.table(name).sql).select("offset", "payload").toArrow().to_pylist()))
    location = run.table(name).location
    rows = QueryBuilder().register("t", DeltaTable(location)).execute('SELECT "offset", payload FROM t').read_all()
    assert sorted(map(_told, pa.table(rows).to_pylist())) == expected
    with run_query(run.lakehouse, f'SELECT "offset", payload FROM {name}') as found:
        assert sorted(map(_told, found.arrow().read_all().to_pylist())) == expected


def _told(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, sort_keys=True)


def test_a_table_that_was_made_with_not_null_still_takes_what_lacks_the_field(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run, value={"format": "json", "schema": "id STRING NOT NULL", "undecodable": "accept"})
    loaded(spark, run, settings, [Record(0, value=b'{"id": "a"}', headers=(("seq", b"1"),))])
    table = run.table("silver_records")
    old = spark.read.table(table.sql).drop("payload")
    made_before = old.selectExpr("*", "named_struct('id', 'a') AS payload")  # a literal: NOT NULL, as version 0.1 made it
    made_before.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(table.location)
    assert spark.read.table(table.sql).count() == 1

    done = loaded(spark, run, settings, [Record(1, value=b"{}", headers=(("seq", b"2"),))])

    assert done.counts["accepted"] == 1
    assert spark.read.table(table.sql).where("payload IS NULL").count() == 1


OLD = "id STRING, l ARRAY<STRUCT<n: INT>>"
NEW = "at DATE, local TIMESTAMP_NTZ, id STRING, l ARRAY<STRUCT<n: INT, `odd-one`: STRING>>, m MAP<STRING, DOUBLE>"
NO_ADDITIONS = ("id INT, l ARRAY<STRUCT<n: INT>>", "id STRING", "l ARRAY<STRUCT<n: INT>>, id STRING")


LOCAL = b'"local": "2026-11-26T09:30:00"'


def of_schema(run: Run, schema: str) -> Settings:
    return settings_of(run, value={"format": "json", "schema": schema})


def sent(number: int) -> Record:
    value = b'{"id": "i%d", "l": [{"n": %d, "odd-one": "o"}], "m": {"k": 1}, "at": "2026-11-26", %s}' % (number, number, LOCAL)
    return Record(number, value=value, key=b"k%d" % number, headers=(("seq", b"%d" % number),))


def payloads(spark: SparkSession, run: Run, name: str) -> list[Any]:
    rows = spark.read.table(run.table(name).sql).orderBy("sequence").select("payload").toArrow().to_pylist()
    return [row["payload"] for row in rows]


def test_a_field_can_be_added_and_not_changed(spark: SparkSession, run: Run) -> None:
    put(spark, run, [sent(0)])
    ran(spark, run, of_schema(run, OLD))
    for schema in NO_ADDITIONS:
        with pytest.raises(ContractError, match="tidemark rebuild"):
            ran(spark, run, of_schema(run, schema))
    put(spark, run, [sent(1)])
    with stopped_at(steps, "append_silver"):
        ran(spark, run, of_schema(run, OLD))

    put(spark, run, [sent(2)])
    before = tables.version(spark, run.table("silver_records"))
    ran(spark, run, of_schema(run, NEW))

    history = spark.sql(f"DESCRIBE HISTORY {run.table('silver_records').sql}").where(f"version > {before}").collect()
    added = [row["operation"] for row in history if row["operation"] != "WRITE"]
    assert added == ["ADD COLUMNS", "SET TBLPROPERTIES"]
    for name in ("silver_records", "gold_records", "gold_latest"):
        *old, new = payloads(spark, run, name)
        lacking = [
            {"at": None, "local": None, "id": f"i{number}", "l": [{"n": number, "odd-one": None}], "m": None}
            for number in (0, 1)
        ]
        assert old == lacking, name  # the second load was claimed under the old schema
        assert (str(new["at"]), new["l"], new["m"]) == ("2026-11-26", [{"n": 2, "odd-one": "o"}], [("k", 1.0)]), name
        assert str(new["local"]) == "2026-11-26 09:30:00", name
    require_sound(spark, run, is_deep=True)


LARGEST = 2**63 - 1


@pytest.mark.usefixtures("created_tables")
def test_a_stream_may_step_over_nearly_all_numbers(spark: SparkSession, new_run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run()
    policies = {"contiguous": True, "max_quarantined_share": 1}
    settings = settings_of(run, epoch={"header": "epoch"}, policies=policies)
    sent = [(0, 0), (0, LARGEST), (0, LARGEST), (LARGEST, 0), (LARGEST, LARGEST), (LARGEST, 5)]
    records = [
        Record.of(LARGEST - 10 + nth, sequence, epoch=epoch, partition=partition)
        for nth, (epoch, sequence) in enumerate(sent)
        for partition in (0, 1)
    ]
    loaded(spark, new_run(), settings, records[:6])
    last = loaded(spark, new_run(), settings, records[6:])
    published(spark, new_run(), settings)

    assert [last.counts[name] for name in ("accepted", "late")] == [4, 2]
    require_sound(spark, new_run(), is_deep=True)
    found = status(run.pipeline, run.lakehouse)
    assert [(row["epoch"], row["high_watermark"]) for row in found["streams"]] == [(LARGEST, LARGEST)] * 2
    assert [(row["sequences"], row["ranges"]) for row in found["missing"]] == [(LARGEST, 2)] * 2
    monkeypatch.setattr("tidemark.extras.report.facts.MAX_SLICES", 1)
    reported = facts(settings, run.lakehouse, asks_kafka=False)
    assert [row["missing"] for row in reported["history"]] == [LARGEST] * 2
    with run_query(run.lakehouse, f"SELECT missing FROM {views.WATERMARK_STATUS}") as rows:
        assert list(rows.rows) == [(LARGEST,)] * 2
    query = views.queries(lambda name: run.table(name).sql)[views.WATERMARK_STATUS]
    assert [row["missing"] for row in spark.sql(query).collect()] == [LARGEST] * 2
