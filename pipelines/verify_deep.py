"""What `tidemark verify --deep` adds: every data file read whole, every payload decoded again, every load decided again."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import RECORDS
from lakehouse.findings import Violation, finding
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_REJECTS
from silver import again
from silver.extract import decode
from silver.rules import Rules
from silver.watermarks import Watermarks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakehouse.findings import Finding
    from lakehouse.run import Run
    from pipelines.verify_pins import Pins

_OUT = (
    "`tidemark rebuild` shows what Bronze gives, and puts it in place. A custom extractor whose code has changed gives another "
    "outcome too."
)


def rules(spark: SparkSession, run: Run, pins: Pins) -> Rules | None:
    """The rules of the last finished load: its extractors are those of all loads."""
    loads = pins.read(spark, run, SILVER_LOADS).where(F.col("load_seq") == pins.finished).select("rules").limit(1).collect()
    return Rules.from_json(loads[0]["rules"]) if loads else None


def findings(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Finding]:
    """The checks that take long, in this order: files, payloads, decisions."""
    for name in pins.versions:
        rows = pins.read(spark, run, name)
        rows.agg(F.bit_xor(F.xxhash64(*(F.col(f"`{column}`") for column in rows.columns)))).collect()
    read = f"every page of {len(pins.versions)} tables"
    yield finding("files_can_be_read", [], where=str(run.lakehouse.folder("")), holds=read, next_step=_OUT)
    silver = str(run.table(SILVER_RECORDS))
    yield finding("payloads", _payloads(spark, run, pins), where=silver, holds="as their values decode", next_step=_OUT)
    loads = str(run.table(SILVER_LOADS))
    count = len({row["load_seq"] for row in pins.loads if row["kind"] == RECORDS})
    decided = f"{count:,} loads, with the same outcome"
    yield finding("decided_again", _decided(spark, run, pins), where=loads, holds=decided, next_step=_OUT)


def _payloads(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Violation]:
    """The decoded values that their bytes do not give."""
    last = rules(spark, run, pins)
    silver = pins.read(spark, run, SILVER_RECORDS).where(F.col("load_seq") <= pins.finished)
    if last is None or last.payload is None or "payload" not in silver.columns:
        return
    differs = ~F.col("payload").eqNullSafe(decode(last.payload))
    place = F.struct("topic", "partition", "offset")
    found = silver.where(differs).agg(F.count(F.lit(1)).alias("records"), F.min(place).alias("first")).collect()[0]
    if found["records"]:
        first = found["first"]
        where = f"{SILVER_RECORDS}, topic {first['topic']}, partition {first['partition']}, offset {first['offset']}"
        yield Violation(where, f"{found['records']:,} payloads that are not their values", "the value, decoded")


def _decided(spark: SparkSession, run: Run, pins: Pins) -> Iterator[Violation]:
    """Each load once more, in order, from the watermarks that the ledger had before it."""
    names = {"bronze": BRONZE_RECORDS, "silver": SILVER_RECORDS, "rejects": SILVER_REJECTS}
    tables = {name: pins.read(spark, run, table) for name, table in names.items()}
    texts = pins.read(spark, run, SILVER_LOADS).groupBy("load_seq").agg(F.first("rules").alias("rules"))
    rules_of = {row["load_seq"]: row["rules"] for row in texts.toArrow().to_pylist()}
    before = Watermarks({})
    for load_seq, of_load in groupby(pins.loads, key=lambda row: row["load_seq"]):
        claim = [{**row, "rules": rules_of[load_seq]} for row in of_load]
        yield from again.decide(spark, claim, before, tables)
        before = before.after(claim)
        run.report.event("verify.decided_again", load_seq=load_seq)
