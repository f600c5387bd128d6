"""Values that are not of their format: kept out, listed, released, decided anew; or accepted, over real tables."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines.operate import requests
from pipelines.recover import rebuild
from silver.state.request import Erase, RecordFilter, Request
from tests.conftest import Prepared
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound
from tidemark.commands.recovery import write_rebuilt
from tidemark.readers import quarantine
from tidemark.readers.why import why

EXAMPLE = {
    name: section
    for name, section in yaml.safe_load(
        re.findall(r"```yaml\n(.*?)```", Path("docs/configuration.md").read_text(encoding="utf-8"), flags=re.DOTALL)[0]
    ).items()
    if name in ("producer", "epoch", "value", "policies", "gate")
}  # what the first config of that page says of values, streams and the gate
SCHEMA = EXAMPLE.pop("value")


def example(run: Run, **value: Any) -> Settings:
    return settings_of(run, value={**SCHEMA, **value}, **EXAMPLE)


def sent(offset: int, sequence: int, value: bytes | None = None, *, key: bytes = b"k") -> Record:
    known = json.dumps({"id": f"id{sequence}", "amount": 1.5}).encode()
    headers = (("seq", str(sequence).encode()), ("producer", b"p"), ("epoch", b"0"))
    return Record(offset, known if value is None else value, key=key, headers=headers)


def offsets(spark: SparkSession, run: Run, name: str) -> list[int]:
    return sorted(row["offset"] for row in spark.read.table(run.table(name).sql).select("offset").collect())


def rejected(spark: SparkSession, run: Run) -> list[tuple[object, ...]]:
    names = ("first_offset", "class", "reason", "producer", "epoch", "first_sequence", "state")
    rows = spark.read.table(run.table("silver_rejects").sql).orderBy("first_offset").collect()
    return [tuple(row[name] for name in names) for row in rows]


def marks(spark: SparkSession, run: Run) -> list[int]:
    rows = spark.read.table(run.table("silver_watermarks").sql).where("high_watermark IS NOT NULL").collect()
    return [row["high_watermark"] for row in rows]


def held(spark: SparkSession, run: Run) -> None:
    """Two records in Gold and three held, under the documented config."""
    odd = [sent(1, 2, b"not json", key=b"mine"), sent(3, 2, b"not json", key=b"mine")]
    put(spark, run, [sent(0, 1), sent(2, 3), *odd, sent(4, 4, b'{"id": "b", "amount": "1.50"}')])
    ran(spark, run, example(run))


def test_by_the_documented_config_undecodable_values_wait(spark: SparkSession, prepared: Prepared) -> None:
    run = prepared(held)
    assert offsets(spark, run, "gold_records") == offsets(spark, run, "silver_records") == [0, 2]
    assert marks(spark, run) == [3]
    out = ("invalid", "value_undecodable", "p", 0)
    assert rejected(spark, run) == [(1, *out, 2, "held"), (3, *out, 2, "held"), (4, *out, 4, "held")]
    assert [row["first_sequence"] for row in quarantine.held(run.lakehouse, RecordFilter(kind="invalid"))[0]] == [2, 2, 4]
    row = why(run.lakehouse, "t", 0, 1)
    assert (row["class"], row["reason"], row["sequence"], row["state"]) == ("invalid", "value_undecodable", 2, "held")
    assert row["rule"] == "its value is not in the format that `value` names"
    misfits = [why(run.lakehouse, "t", 0, offset)["misfit"] for offset in (0, 1, 4)]
    assert misfits == [
        None,
        "the value: not one document of strict JSON: something in it is no JSON value",
        "amount: text, where DOUBLE is wanted",
    ]

    # The second copy of a sequence stays; the last one raises the watermark when it is released, and not before.
    release = Request("release", "looked at", "ann", wanted=RecordFilter(kind="invalid"))
    done: Any = requests.carry_out(spark, run, example(run), release, is_dry_run=False)
    assert (done["records"], done["left"]) == (2, {"already_kept": 1})
    assert marks(spark, run) == [4]
    silver = spark.read.table(run.table("silver_records").sql).where("offset IN (1, 4)").collect()
    assert {(row["sequence"], row["arrival"], row["payload"]) for row in silver} == {(2, "late", None), (4, "late", None)}
    assert [why(run.lakehouse, "t", 0, offset)["is_undecodable"] for offset in (0, 1)] == [False, True]
    put(spark, run, [sent(5, 2, b"not json", key=b"mine"), sent(6, 2), sent(7, 5)])
    last = ran(spark, run, settings_of(run, value=SCHEMA, **{**EXAMPLE, "gate": {}}))
    assert (last["invalid"], last["undecodable"]) == (1, 1)
    assert offsets(spark, run, "gold_records") == [0, 1, 2, 4, 7]
    states = {1: "released", 3: "held", 4: "released", 5: "held", 6: "held"}
    kinds = {row[0]: (row[1], row[-1]) for row in rejected(spark, run)}
    assert kinds == {offset: ("collision" if offset == 6 else "invalid", state) for offset, state in states.items()}
    require_sound(spark, run, is_deep=True)


def test_a_rebuild_decodes_by_a_corrected_schema_and_erased_values_stay_so(
    spark: SparkSession, prepared: Prepared, capsys: pytest.CaptureFixture[str]
) -> None:
    run = prepared(held)
    erase = Request("erase", "asked to", "ann", erase=Erase.of("t", b"mine"))
    requests.carry_out(spark, run, example(run), erase, is_dry_run=False)
    assert [row[-1] for row in rejected(spark, run)] == ["discarded", "discarded", "held"]
    corrected = example(run, schema="id STRING, amount DECIMAL(10,2)")
    done: Any = rebuild.rebuild(spark, run, corrected, apply=True, reason="some amounts are texts", by="ann")
    assert done["payload_fields"] == [{"field": "amount", "before": "DOUBLE", "after": "DECIMAL(10,2)"}]
    write_rebuilt(done)
    assert re.search(r"amount +DOUBLE +DECIMAL\(10,2\)", capsys.readouterr().out)
    ran(spark, run, corrected)

    assert offsets(spark, run, "gold_records") == [0, 2, 4]
    assert [row[:-1] for row in rejected(spark, run)] == [(each, "invalid", "value_undecodable", "p", 0, 2) for each in (1, 3)]
    require_sound(spark, run, is_deep=True)
