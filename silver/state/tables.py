"""Create Silver's missing tables, compare them with their contracts, and read them as of a load."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.silver import LOADS, REJECTS, WATERMARKS, silver_records
from lakehouse.delta import small_tables, tables
from lakehouse.errors import ConfigError, ContractError
from lakehouse.settings import payload_schema
from lakehouse.settings.base import SettingError
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS, Table
from silver.extract.payload import decoded, require_decoders
from silver.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from lakehouse.contracts.contract import Contract
    from lakehouse.run.context import Run


def before_load(spark: SparkSession, run: Run, contract: Contract, load_seq: int) -> DataFrame:
    """Read a table without the rows of a load and later ones; empty if there is no table yet."""
    table = run.table(contract.name)
    if load_seq == 1 and not tables.exists(spark, table):
        return frames.of_contract(spark, [], contract)
    return spark.read.table(table.sql).where(F.col("load_seq") < load_seq)


def latest_bronze(spark: SparkSession, run: Run) -> DataFrame:
    """Read Bronze as of its latest version: an offset's bytes never change, and earlier versions may be vacuumed."""
    bronze = run.table(BRONZE_RECORDS)
    return tables.read(spark, bronze, version=tables.version(spark, bronze))


def merge_rows(rows: DataFrame, view: str, statement: str, table: Table) -> int:
    """Run a MERGE that names the rows by a temporary view; see `lakehouse.delta.tables.merge`."""
    rows.createOrReplaceTempView(view)
    try:
        return tables.merge(rows.sparkSession, statement, table)
    finally:
        rows.sparkSession.catalog.dropTempView(view)


def create_tables(spark: SparkSession, run: Run, rules: Rules) -> None:
    """Create Silver's missing tables and a catalog's views; add fields to the payload. Precedes any claim.

    ConfigError if Spark does not know a type of the payload's schema, ContractError if a table has other columns or types.
    """
    create_missing(spark, run, rules, check_columns=True)
    tables.create_views(spark, run.lakehouse, {SILVER_WATERMARKS, SILVER_LOADS})
    if rules.decodes:
        tables.add_fields(spark, run.table(SILVER_RECORDS), "payload", _payload_to_have(spark, run, rules))


def require_tables(spark: SparkSession, run: Run, rules: Rules) -> None:
    """Raise the errors that `create_tables` would raise. Commits nothing."""
    if rules.decodes:
        _payload_type(spark, rules)
    contracts = (records_contract(rules), WATERMARKS, REJECTS, LOADS)
    records, *_ = [tables.require_columns(spark, run.table(contract.name), contract) for contract in contracts]
    if rules.decodes and records is not None:
        _payload_to_have(spark, run, rules)


def are_of_earlier_version(spark: SparkSession, run: Run) -> bool:
    """Whether a table of Bronze or Silver lacks a column that a run would add."""
    for contract in (BRONZE, silver_records(), WATERMARKS, REJECTS, LOADS):
        rows = tables.open_if_exists(spark, run.table(contract.name))
        added = [column.name for column in contract.columns if column.is_added_later]
        if rows is not None and not set(added) <= set(rows.columns):
            return True
    return False


def create_missing(spark: SparkSession, run: Run, rules: Rules, *, check_columns: bool = False) -> None:
    """Create Silver's missing tables; with `check_columns`, also raise as `create_tables` for one with other columns."""
    if rules.decodes:
        _payload_type(spark, rules)
    for contract in (records_contract(rules), WATERMARKS, REJECTS, LOADS):
        tables.create(spark, run.table(contract.name), contract, check_columns=check_columns)


def records_contract(rules: Rules) -> Contract:
    """The contract of `silver_records` under the rules' payload."""
    kind = rules.payload_type
    return silver_records(None if kind is None else kind.sql())


def _payload_to_have(spark: SparkSession, run: Run, rules: Rules) -> DataType:
    """Return the config's payload type, with the fields of topics that are no longer decided."""
    table = run.table(SILVER_RECORDS)
    observed = spark.read.table(table.sql).schema["payload"].dataType
    wanted = expected = _payload_type(spark, rules)
    if tables.added_fields(observed, wanted, "payload") is None and (kept := rules.keeping(last_rules(spark, run))) != rules:
        wanted = _payload_type(spark, kept)
    if tables.added_fields(observed, wanted, "payload") is None:
        raise ContractError(
            str(table),
            missing=[],
            unexpected=[],
            wrong_type=[("payload", observed.simpleString(), expected.simpleString())],
            next_step="Only fields can be added to a table. Put `value` back, or rebuild Silver from Bronze: `tidemark "
            "rebuild` shows what changes.",
        )
    return wanted


def last_rules(spark: SparkSession, run: Run) -> Rules | None:
    """The rules of the last claimed load; None before the first."""
    return rules_of(small_tables.last(spark, run.table(SILVER_LOADS), ("load_seq", "rules"), by="load_seq"))


def rules_of(ledger: Iterable[small_tables.Row]) -> Rules | None:
    """Return the rules of the last load in some ledger rows; None if there are no rows."""
    last = max(ledger, key=lambda row: row["load_seq"], default=None)
    return None if last is None else Rules.from_json(last["rules"])


def _payload_type(spark: SparkSession, rules: Rules) -> DataType:
    """Return the payload's type. Analyses the decoding, so that a schema that Spark rejects fails before the claim."""
    require_decoders(spark, rules)
    try:
        kind = rules.payload_type or payload_schema.of(None)
        decoded(frames.of_tuples(spark, [], "topic string, value binary"), rules).schema  # noqa: B018 -- reading `schema` runs the analysis
        return spark.sql(f"SELECT CAST(NULL AS {kind.sql()})").schema[0].dataType
    except (SettingError, PySparkException) as error:
        raise ConfigError(
            f"The payload's schema cannot be used to decode and store values: {str(error).splitlines()[0]}",
            where="value.schema",
            observed="; ".join(each.payload.schema for each, _ in rules.decodings if each.payload),
            expected="columns as in CREATE TABLE, for example id STRING, amount DOUBLE",
        ) from error
