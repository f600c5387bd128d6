"""Publish the loads that passed the gate, or were released, to Gold, exactly once across several tables.

0. Leave out the range's rows in gold_rejects. Add the records that its loads released, under the number of the releasing load.
   Remove the rows of an earlier publish that died after it wrote other rows.
1. gold_records: append the range's rows, or replace the range if the table already holds it.
2. gold_latest: merge the latest record of each key, see `gold.latest`.
3. gold_stream_health: its highest load_seq is the last published load. After a crash before it, the next run repeats all steps.
4. Rebuild the operator's models that are not current. A broken one fails the run after the range is published.

A retry may cover more loads than the first try, so an append is numbered by the last load that the table holds. If two
publishers saw the same table, Delta accepts one. The other replaces the range, as does one whose number a RESTORE rolled
back. For streaming readers gold_records only grows, unless two publishers race or Silver was rebuilt.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from gold import rows as gold_rows
from gold import sql_models
from gold.latest import find_keys, is_by_current_rule, merge, rebuild
from gold.sql_models import refresh_models
from gold.undo import withdraw
from lakehouse.contracts.gold import RECORD_TABLES, STREAM_HEALTH, of_records
from lakehouse.contracts.silver import CUTOVERS, KEPT, LOADS, PLACE, is_rebuilt
from lakehouse.delta import small_tables, tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import ConservationError, GateFailedError, TableStateError
from lakehouse.protocol import cutover_fence, gold_rejects
from lakehouse.run.crash_points import crash_point
from lakehouse.spark import frames
from lakehouse.table import GOLD_LATEST_BY_STREAM, GOLD_RECORDS, GOLD_REJECTS, GOLD_STREAM_HEALTH, SILVER_LOADS, SILVER_RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.contract import Contract
    from lakehouse.contracts.gate import GateRun
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Gold


@dataclass(frozen=True)
class Published:
    """The published range, both loads inclusive, and the operator's models that were rebuilt."""

    gate_run_id: str
    first_load_seq: int
    last_load_seq: int
    records: int
    models: tuple[str, ...]


def publish(spark: SparkSession, run: Run, gate_run: GateRun, gold: Gold) -> Published:
    """Publish the loads of a gate run that passed or was released, without rejected loads, with the records that they released.

    Commits to gold_records, gold_latest_by_stream, gold_latest, gold_stream_health and the models' tables, in this order.

    Raises:
        GateFailedError: The gate run did not pass and was not released; nothing was written.
        TableStateError: The audited version is gone, and the loads do not hold what the ledger says; nothing was written.
        AnotherWriterError: Another run published the same loads at the same time.
        UndoneError: A restore or rebuild came after the gate run; the loads that remain are audited again.
        ConservationError: Gold's rows and those kept out do not add up to Silver's; the range is not published.
        ModelError: A model failed; the range is published, and the next run tries the model again.
    """
    if not gate_run.may_be_published:
        raise GateFailedError(
            "This range has not passed the gate; nothing was published.",
            where=f"gate run {gate_run.gate_run_id}",
            observed=", ".join(gate_run.failed),
            expected="no critical expectation unmet",
            next_step="See `tidemark gate show`.",
        )
    loads = _loads(spark, run, gate_run)
    if not loads:  # nothing is written then, so no write guard checks this
        cutover_fence.require_not_rolled_back(spark, run, gate_run.last_load_seq)
    silver = _silver(spark, run, gate_run, loads)
    kept = sum(row[name] for row in loads for name in KEPT)
    replaces_all = is_after_rebuild(spark, run, {row["kind"] for row in loads})
    whole = silver.where(F.col("erased").isNull()).drop("erased")
    quarantine = _Quarantine.of(spark, run, gate_run)
    records = quarantine.publishable(spark, whole)
    released = 0 if quarantine.released is None else quarantine.released.count()
    kept += released - len(quarantine.found)
    if replaces_all:
        _replace_all(spark, run, records, gate_run)
    is_old = not is_by_current_rule(spark, run)
    contracts = _create_tables(spark, run, records, except_for=GOLD_LATEST_BY_STREAM if is_old else None)
    adds_rows, published = kept > 0 and not replaces_all, gold_rows.published(records, gate_run.gate_run_id)
    if adds_rows and quarantine.is_in_use:
        _withdraw_changed_rows(spark, run, records, gate_run)
    with ThreadPoolExecutor() as pool:  # the queries of steps 2 and 3 read nothing that step 1 writes
        counts = pool.submit(gold_rows.stream_counts(silver).toArrow)
        keys = pool.submit(find_keys, spark, run, published) if adds_rows and not is_old else None
        if adds_rows:
            _write_records(spark, run, records, gate_run=gate_run, contract=contracts[GOLD_RECORDS])
    if is_old:
        rebuild(spark, run, up_to=gate_run.last_load_seq)
    elif keys is not None:
        merge(spark, run, published, keys.result(), up_to=gate_run.last_load_seq)
        crash_point("gold.latest")
    if quarantine.changes_range:
        _require_conservation(spark, run, whole, quarantine, released=released)
    ledger = frames.of_contract(spark, loads, LOADS)
    health = gold_rows.stream_health(ledger, frames.of_arrow(spark, counts.result()), gate_run.gate_run_id)
    _write_health(spark, run, health, first=0 if replaces_all else gate_run.first_load_seq, gate_run=gate_run)
    run.report.event(
        "gold.published",
        gate_run_id=gate_run.gate_run_id,
        first_load_seq=gate_run.first_load_seq,
        last_load_seq=gate_run.last_load_seq,
        records=kept,
    )
    made = refresh_models(spark, run, gold)
    return Published(gate_run.gate_run_id, gate_run.first_load_seq, gate_run.last_load_seq, kept, made)


def require_tables_and_models(spark: SparkSession, run: Run, gold: Gold, payload: str | None) -> None:
    """Check Gold's columns and the models' queries. Commits nothing. Raises a `ContractError` or a `ModelError`."""
    contracts = _contracts(payload)
    for contract in contracts:
        tables.require_columns(spark, run.table(contract.name), contract)
    if gold.models:
        sql_models.require_models(spark, run, gold, contracts)


def _contracts(payload: str | None) -> tuple[Contract, ...]:
    return *(of_records(payload, name) for name in RECORD_TABLES), STREAM_HEALTH


def is_after_rebuild(spark: SparkSession, run: Run, kinds: Collection[str]) -> bool:
    """Whether a range with loads of these kinds follows a rebuild, and so replaces all of Gold."""
    if set(CUTOVERS).isdisjoint(kinds):
        return False
    ledger = small_tables.read(spark, run.table(SILVER_LOADS), ("load_seq", "kind"))
    published = small_tables.highest(spark, run.table(GOLD_STREAM_HEALTH), "load_seq")
    return is_rebuilt({row["load_seq"]: row["kind"] for row in ledger}, published)


@dataclass(frozen=True)
class _Quarantine:
    """Rows of gold_rejects that a range leaves out, and the released records that it adds, in Gold's columns."""

    gate_run: GateRun
    is_in_use: bool
    found: list[small_tables.Row]
    released: DataFrame | None

    @classmethod
    def of(cls, spark: SparkSession, run: Run, gate_run: GateRun) -> _Quarantine:
        if not tables.exists(spark, run.table(GOLD_REJECTS)):
            return cls(gate_run, is_in_use=False, found=[], released=None)
        found, rows = gold_rejects.found(spark, run, gate_run), gold_rejects.released_for_range(spark, run, gate_run)
        return cls(gate_run, is_in_use=True, found=found, released=_released_records(spark, run, rows) if rows else None)

    @property
    def changes_range(self) -> bool:
        return bool(self.found) or self.released is not None

    def publishable(self, spark: SparkSession, whole: DataFrame) -> DataFrame:
        rows = gold_rejects.without(spark, whole, self.found)
        return rows if self.released is None else rows.unionByName(self.released)


def _released_records(spark: SparkSession, run: Run, rows: list[small_tables.Row]) -> DataFrame:
    """Return released records under the load that released them. The latest version lacks records that were erased since."""
    table = run.table(SILVER_RECORDS)
    loads = [row["load_seq"] for row in rows]
    silver = tables.read(spark, table, version=tables.version(spark, table)).where(
        F.col("load_seq").between(min(loads), max(loads))
    )
    there = silver.where(F.col("erased").isNull()).drop("erased")
    places = gold_rejects.places(spark, rows, "settled_load_seq")
    joined = there.join(F.broadcast(places), on=list(PLACE), how="inner")
    return joined.withColumn("load_seq", F.col("settled_load_seq")).select(*there.columns)


def _withdraw_changed_rows(spark: SparkSession, run: Run, publishable: DataFrame, gate_run: GateRun) -> None:
    """Step 0. Remove the rows of an earlier publish of these loads, if it died and wrote other rows."""
    records = run.table(GOLD_RECORDS)
    held = small_tables.highest(spark, records, "load_seq")
    if held < gate_run.first_load_seq:
        return
    there = _places_of(tables.read(spark, records, version=tables.version(spark, records)).where(gate_run.range))
    wanted = _places_of(publishable.where(F.col("load_seq") <= held))
    if not there.exceptAll(wanted).unionByName(wanted.exceptAll(there)).isEmpty():
        last = gate_run.last_load_seq
        withdraw(spark, run, keep_to=gate_run.first_load_seq - 1, undo_to=last, by_load_seq=last)


def _places_of(rows: DataFrame) -> DataFrame:
    return rows.select(*PLACE, "load_seq")


def _require_conservation(spark: SparkSession, run: Run, whole: DataFrame, quarantine: _Quarantine, *, released: int) -> None:
    """Check that Silver's records of the range, and the released ones, are all in gold_records or gold_rejects."""
    records = run.table(GOLD_RECORDS)
    published = tables.read(spark, records, version=tables.version(spark, records)).where(quarantine.gate_run.range).count()
    silver, kept_out = whole.count(), 0
    if quarantine.found:
        places = F.broadcast(gold_rejects.places(spark, quarantine.found))
        kept_out = whole.join(places, on=list(PLACE), how="left_semi").count()
    if published + kept_out != silver + released:
        raise ConservationError(
            "Gold's records and its rejects do not add up to Silver's records; the range is not published.",
            where=f"{records}, {quarantine.gate_run.named}",
            observed=f"{published} in gold_records, {kept_out} in gold_rejects",
            expected=f"{silver} of silver_records, {released} released",
            next_step="See `tidemark verify`. The next run audits and publishes the range again.",
        )


def _replace_all(spark: SparkSession, run: Run, silver: DataFrame, gate_run: GateRun) -> None:
    """Steps 1 and 2 after a rebuild: replace everything, columns included."""
    if tables.exists(spark, run.table(GOLD_REJECTS)):
        tables.delete(spark, run.table(GOLD_REJECTS), f"load_seq < {gate_run.first_load_seq}")
    rows = cutover_fence.guarded(gold_rows.published(silver, gate_run.gate_run_id), run, gate_run.last_load_seq)
    tables.overwrite(rows, run.table(GOLD_RECORDS), metadata=_metadata(gate_run))
    crash_point("gold.replaced")
    rebuild(spark, run, up_to=gate_run.last_load_seq)


def _create_tables(spark: SparkSession, run: Run, silver: DataFrame, *, except_for: str | None) -> dict[str, Contract]:
    payload_type = None
    if "payload" in silver.columns:
        payload = StructType([StructField("payload", silver.schema["payload"].dataType)])
        payload_type = payload.toDDL().removeprefix("payload ")
    contracts = {each.name: each for each in _contracts(payload_type)}
    for name, contract in contracts.items():
        if name != except_for:
            tables.create(spark, run.table(name), contract)
            if payload_type and "payload" in contract.names:
                tables.add_fields(spark, run.table(name), "payload", silver.schema["payload"].dataType)
    return contracts


def _write_records(spark: SparkSession, run: Run, silver: DataFrame, *, gate_run: GateRun, contract: Contract) -> None:
    """Step 1. Write the loads that the table lacks: those above its highest load, because commits hold whole loads."""
    held = small_tables.highest(spark, run.table(GOLD_RECORDS), "load_seq")
    first = max(gate_run.first_load_seq, held + 1)
    if first <= gate_run.last_load_seq:
        rows = gold_rows.published(silver.where(F.col("load_seq") >= first), gate_run.gate_run_id)
        _put(spark, run, rows, contract, first=first, held=held, gate_run=gate_run)
    crash_point("gold.records")


def _write_health(spark: SparkSession, run: Run, rows: DataFrame, *, first: int, gate_run: GateRun) -> None:
    """Step 3. This commit marks the range as published."""
    held = small_tables.highest(spark, run.table(GOLD_STREAM_HEALTH), "load_seq")
    _put(spark, run, rows, STREAM_HEALTH, first=first, held=held, gate_run=gate_run)
    crash_point("gold.published")


def _put(  # noqa: PLR0913 -- what is written, where, and under which name
    spark: SparkSession, run: Run, rows: DataFrame, contract: Contract, *, first: int, held: int, gate_run: GateRun
) -> None:
    """Write the loads from `first` on in one commit. Appends if possible: a replacement has to search for rows."""
    table, metadata = run.table(contract.name), _metadata(gate_run)
    rows = cutover_fence.guarded(rows, run, gate_run.last_load_seq)
    if held < first:
        tables.append(rows, table, contract, transaction=Transaction(run.app_id(contract.name), held + 1), metadata=metadata)
        if tables.last_metadata(spark, table) == metadata:
            return
    tables.replace(
        rows, table, contract, where=f"load_seq >= {first} AND load_seq <= {gate_run.last_load_seq}", metadata=metadata
    )


def _loads(spark: SparkSession, run: Run, gate_run: GateRun) -> list[small_tables.Row]:
    """Return the ledger's rows of the range without rejected loads. Those of a finished load never change."""
    rows = small_tables.read(spark, run.table(SILVER_LOADS), LOADS.names, start=("load_seq", gate_run.first_load_seq))
    return [row for row in rows if row["load_seq"] <= gate_run.last_load_seq and row["load_seq"] not in gate_run.rejected]


def _silver(spark: SparkSession, run: Run, gate_run: GateRun, loads: list[small_tables.Row]) -> DataFrame:
    """Return Silver's rows of the range, from the audited version.

    If that version is gone, uses the latest: only an erasure changes a load's rows, and Gold must apply it too. Raises a
    `TableStateError` if the ledger counts other rows.
    """
    table, version = run.table(SILVER_RECORDS), gate_run.silver_version
    latest = tables.version(spark, table)
    if version == latest or tables.can_read(spark, table, version=version, where=gate_run.range):
        others = small_tables.boxes_outside("load_seq", gate_run.first_load_seq, gate_run.last_load_seq)
        return small_tables.frame(spark, table, version=version, without=others).where(gate_run.range)
    run.report.event("gold.audited_version_gone", gate_run_id=gate_run.gate_run_id, silver_version=version, read=latest)
    rows = tables.read(spark, table, version=latest).where(gate_run.range)
    expected = Counter[int]()
    for row in loads:
        expected[row["load_seq"]] += sum(row[name] for name in KEPT)
    observed = {row["load_seq"]: row["count"] for row in rows.groupBy("load_seq").count().collect()}
    if observed != +expected:
        raise TableStateError(
            "The audited version is gone, and its loads hold other rows now; nothing was published.",
            where=str(table),
            observed=f"rows by load: {observed}",
            expected=f"rows by load: {dict(+expected)}, as the ledger says",
            next_step="`tidemark verify` names the damage and the next step.",
        )
    return rows


def _metadata(gate_run: GateRun) -> str:
    return json.dumps({"gate_run_id": gate_run.gate_run_id, "silver_version": gate_run.silver_version})
