"""Delta access: create, read at a version, append once, and read the log. Uses only DataFrames and SQL, for Spark Connect."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql.types import ArrayType, MapType, StructType

from lakehouse.contracts import views
from lakehouse.contracts.contract import sql_text
from lakehouse.delta import log_files
from lakehouse.delta.errors import (
    APPEND_ONLY,
    NO_TABLE,
    SPARK_ERRORS,
    TABLE_CHANGED,
    VERSION_GONE,
    has_condition,
    raise_if_conflict,
    unsupported,
)
from lakehouse.errors import AnotherWriterError, TableMissingError, UndoneError
from lakehouse.settings.payload_schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, Row, SparkSession
    from pyspark.sql.types import DataType

    from lakehouse.contracts.contract import Contract
    from lakehouse.table import Lakehouse, Table

_ADDING = (("STREAMING UPDATE", None), ("WRITE", "Append"))
_NOT_CHANGING = ("CREATE TABLE", "ADD COLUMNS", "SET TBLPROPERTIES", "OPTIMIZE", "VACUUM START", "VACUUM END")
_OF_COMMIT = ("operation", "operationParameters", "operationMetrics", "userMetadata")
_TRIES = 3
_LIKELY_VERSIONS = 10
"""How many commits to read at first: usually at least those of Bronze since the last load."""

Prefetch: TypeAlias = "Callable[[Sequence[Table]], object]"
"""Starts to compute the snapshots of tables."""


@dataclass(frozen=True)
class Transaction:
    """The idempotency key of an append. Delta skips the append if it has seen this or a later version of the application."""

    app_id: str
    version: int


@dataclass(frozen=True)
class Streamed:
    """A query's last micro-batch in a table; it `is_undone` if the table was restored to an earlier version since."""

    query_id: str
    batch: int
    is_undone: bool


def create(spark: SparkSession, table: Table, contract: Contract, *, check_columns: bool = True) -> None:
    """Create a table in one empty commit or, if `check_columns`, check an existing one and add new columns of its contract.

    Raises a `ContractError` if the table exists with other columns.
    """
    there = require_columns(spark, table, contract) if check_columns else open_if_exists(spark, table)
    if there is None:
        wanted = {**table.properties, **contract.properties}
        statement = (
            f"CREATE TABLE IF NOT EXISTS {table.sql} ({contract.ddl()}) USING delta COMMENT {sql_text(contract.grain)}"
            + (f" TBLPROPERTIES ({_pairs(wanted)})" if wanted else "")
            + (f" CLUSTER BY ({', '.join(contract.clustered_by)})" if contract.clustered_by else "")
        )
        with contextlib.suppress(AnotherWriterError):  # another run creates it at the same time, without a lock on the root
            execute(spark, statement, table)
        if not exists(spark, table):
            _create_by_append(spark, table, contract, wanted)
    elif check_columns:
        _add_columns(spark, table, contract, there)


def create_views(spark: SparkSession, lakehouse: Lakehouse, names: set[str]) -> None:
    """Create a catalog's missing views that read one of these tables, except views that also read a missing table."""
    if lakehouse.root is not None:
        return
    for name, query in views.queries(lambda each: lakehouse.table(each).sql).items():
        if not views.READ_BY[name] & names:
            continue
        try:
            spark.sql(f"CREATE VIEW IF NOT EXISTS {lakehouse.table(name).sql} AS {query}")
        except AnalysisException as error:
            if not has_condition(error, NO_TABLE):
                raise


def require_columns(spark: SparkSession, table: Table, contract: Contract) -> DataFrame | None:
    """Return a table or None. Checks its columns, except columns that `create` would add. Raises as `create`."""
    there = open_if_exists(spark, table)
    if there is not None:
        names = there.columns
        columns = tuple(each for each in contract.columns if each.name in names or not each.is_added_later)
        next_step = "The table was made by another version or with another value format: `tidemark rebuild` rebuilds Silver."
        dataclasses.replace(contract, columns=columns).check(there.schema, where=str(table), next_step=next_step)
    return there


def require_writable(spark: SparkSession, table: Table) -> None:
    """Check that this session may write to an existing table, with a statement that changes no row. Commits nothing.

    A local table with the features of Tidemark's own needs no statement. An append-only table is not checked: each statement
    that Delta allows there writes a file. Raises a `TableStateError` if the session lacks the table's features of Delta.
    """
    if (local := log_files.local(table)) is not None and log_files.has_own_features(local):
        return
    try:
        delete(spark, table, "false")
    except SPARK_ERRORS as error:
        if refused := unsupported(error, table):
            raise refused from error
        if not has_condition(error, APPEND_ONLY):
            raise


def _create_by_append(spark: SparkSession, table: Table, contract: Contract, properties: Mapping[str, str]) -> None:
    """Create a table whose log folder has no commit after a crash: `CREATE TABLE` would treat the folder as a table."""
    columns = spark.createDataFrame([], contract.ddl())
    _commit(_writer(columns, "append").options(**properties), table)
    if properties:
        set_properties(spark, table, properties)
    if contract.clustered_by:
        execute(spark, f"ALTER TABLE {table.sql} CLUSTER BY ({', '.join(contract.clustered_by)})", table)


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{sql_text(name)} = {sql_text(value)}" for name, value in properties.items())


def _add_columns(spark: SparkSession, table: Table, contract: Contract, there: DataFrame) -> None:
    """Add the new columns of a table's contract. Existing rows have null there."""
    missing = [column for column in contract.columns if column.is_added_later and column.name not in there.columns]
    if not missing:
        return
    try:
        execute(spark, f"ALTER TABLE {table.sql} ADD COLUMNS ({', '.join(column.ddl for column in missing)})", table)
    except AnalysisException:  # another run may have been first
        if not {column.name for column in missing} <= set(spark.read.table(table.sql).columns):
            raise


def add_fields(spark: SparkSession, table: Table, column: str, wanted: DataType) -> None:
    """Add the fields that a struct column lacks, in one commit; a commit before it enables the feature of a new type."""
    added = added_fields(spark.read.table(table.sql).schema[column].dataType, wanted, quoted(column))
    if added:
        _enable_features(spark, table, wanted)
        execute(spark, f"ALTER TABLE {table.sql} ADD COLUMNS ({', '.join(added)})", table)


def _enable_features(spark: SparkSession, table: Table, wanted: DataType) -> None:
    """Enable the feature that a new type needs: Delta does so only for new tables."""
    if _holds_timestamp_ntz(wanted):
        there = open_if_exists(spark, table)
        if there is not None and not _holds_timestamp_ntz(there.schema):
            set_properties(spark, table, {"delta.feature.timestampNtz": "supported"})


def _holds_timestamp_ntz(kind: DataType) -> bool:
    """Whether a type, or a type nested in it, is TIMESTAMP_NTZ.

    >>> from pyspark.sql.types import DateType, TimestampNTZType
    >>> nested = [StructType().add("timestamp_ntz", MapType(DateType(), each())) for each in (TimestampNTZType, DateType)]
    >>> [_holds_timestamp_ntz(each) for each in (TimestampNTZType(), *nested)]
    [True, True, False]
    """
    return re.search('(^|[tT]ype":)"timestamp_ntz"', kind.json()) is not None


def added_fields(there: DataType, wanted: DataType, path: str) -> list[str] | None:
    """Return the fields to add, with type and place, in the order to add them; None if the types also differ in other ways.

    `wanted` has the fields of `there` in the same order, and others between and after them. `path` is the quoted column.

    >>> from pyspark.sql.types import DateType, IntegerType
    >>> old = StructType().add("a", IntegerType()).add("l", ArrayType(StructType().add("b", IntegerType())))
    >>> items = StructType().add("b", IntegerType()).add("c", DateType())
    >>> added_fields(old, StructType().add("n", DateType()).add("a", IntegerType()).add("l", ArrayType(items)), "payload")
    ['payload.`n` date FIRST', 'payload.`l`.element.`c` date AFTER `b`']
    >>> added_fields(old, StructType().add("a", IntegerType()), "payload") is None
    True
    """
    if isinstance(there, StructType) and isinstance(wanted, StructType):
        return _added_to_struct(there, wanted, path)
    if isinstance(there, ArrayType) and isinstance(wanted, ArrayType):
        return added_fields(there.elementType, wanted.elementType, f"{path}.element")
    if isinstance(there, MapType) and isinstance(wanted, MapType) and there.keyType == wanted.keyType:
        return added_fields(there.valueType, wanted.valueType, f"{path}.value")
    return [] if there.simpleString() == wanted.simpleString() else None  # `simpleString` ignores nullability


def _added_to_struct(there: StructType, wanted: StructType, path: str) -> list[str] | None:
    known = {field.name: field.dataType for field in there.fields}
    if list(known) != [field.name for field in wanted.fields if field.name in known]:
        return None
    found: list[str] = []
    place = "FIRST"
    for field in wanted.fields:
        if field.name in known:
            inner = added_fields(known[field.name], field.dataType, f"{path}.{quoted(field.name)}")
            if inner is None:
                return None
            found += inner
        else:
            found.append(f"{path}.{quoted(field.name)} {_type_sql(field.dataType)} {place}")
        place = f"AFTER {quoted(field.name)}"
    return found


def _type_sql(kind: DataType) -> str:
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {_type_sql(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_type_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_type_sql(kind.keyType)}, {_type_sql(kind.valueType)}>"
    return kind.simpleString()


def exists(spark: SparkSession, table: Table) -> bool:
    """Whether the table exists, as a Delta table."""
    folder = table.local_folder
    return (folder is not None and log_files.last_version(folder) >= 0) or open_if_exists(spark, table) is not None


def open_if_exists(spark: SparkSession, table: Table) -> DataFrame | None:
    """Return the table, or None if it does not exist; raise a `TableStateError` if the session lacks its features of Delta."""
    folder = table.local_folder
    if folder is not None and not folder.exists() and any(folder.parent.glob("*/_delta_log")):
        return None  # the folder of other tables; Spark needs a quarter of a second to find out
    try:
        rows = spark.read.table(table.sql)
        rows.schema  # noqa: B018 -- over Spark Connect only reading the schema looks up the table
    except SPARK_ERRORS as error:
        if isinstance(error, AnalysisException) and has_condition(error, NO_TABLE):
            return None
        if refused := unsupported(error, table):
            raise refused from error
        raise
    return rows


def version(spark: SparkSession, table: Table) -> int:
    """Return the table's latest Delta version; raise a `TableMissingError` if it does not exist."""
    if (folder := table.local_folder) is not None and (last := log_files.last_version(folder)) >= 0:
        return last
    return int(_history(spark, table, 1)[0]["version"])


def streamed(spark: SparkSession, table: Table) -> tuple[int, Streamed | None]:
    """Return the latest Delta version, and the last micro-batch in the log or None. Raises as `version`."""
    commits = _history(spark, table, _LIKELY_VERSIONS)
    if all(each["operation"] != "STREAMING UPDATE" for each in commits) and commits[-1]["version"]:
        commits = _history(spark, table, commits[0]["version"] + 1)
    later: set[str] = set()
    for each in commits:
        if each["operation"] == "STREAMING UPDATE":
            named = each["operationParameters"]
            return commits[0]["version"], Streamed(named["queryId"], int(named["epochId"]), is_undone="RESTORE" in later)
        later.add(each["operation"])
    return commits[0]["version"], None


def last_batch(spark: SparkSession, table: Table, query_id: str) -> Streamed:
    """Return a query's last micro-batch by the log's checkpoints, which keep transactions longer than the commits.

    For a table whose commits have no batch of the query. Without a transaction the query id is empty and the batch is -1.
    """
    location = table.location if table.is_path else spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]["location"]
    try:
        checkpoints = spark.read.parquet(f"{location}/_delta_log/*.checkpoint*.parquet")
        batch = checkpoints.where(checkpoints["txn.appId"] == query_id).selectExpr("max(txn.version)").collect()[0][0]
    except AnalysisException as error:
        if not has_condition(error, NO_TABLE):
            raise
        batch = None  # no checkpoint was written yet: the log still has every commit
    commits = _history(spark, table, version(spark, table) + 1)
    is_undone = any(commit["operation"] == "RESTORE" for commit in commits)
    return Streamed("", -1, is_undone=is_undone) if batch is None else Streamed(query_id, batch, is_undone=is_undone)


class Appended(NamedTuple):
    """How many rows some versions added, None if unknown; the last version; and whether later ones were left out."""

    version: int
    rows: int | None
    is_cut: bool = False


def appended(
    spark: SparkSession, table: Table, *, after_version: int, to_version: int | None = None, most: int | None = None
) -> Appended:
    """Return how many rows the versions (after_version, to_version] added according to their commits. Raises as `version`.

    If that is more than `most`, the range ends earlier, after at least one commit with rows. If a commit is gone, removed rows
    or has no row count, the number is unknown, and the range is not cut.
    """
    commits = _history(spark, table, _LIKELY_VERSIONS)
    if len(commits) == _LIKELY_VERSIONS and commits[-1]["version"] > after_version + 1:
        commits = _history(spark, table, commits[0]["version"] - after_version + _LIKELY_VERSIONS)  # some come meanwhile
    to_version = int(commits[0]["version"]) if to_version is None else to_version
    added = {each["version"]: _added(each) for each in commits if after_version < each["version"] <= to_version}
    known = {version: count for version, count in sorted(added.items()) if count is not None}
    if len(known) < to_version - after_version:
        return Appended(to_version, None)
    total = 0
    for version, count in known.items():
        if most is not None and total and total + count > most:
            return Appended(version - 1, total, is_cut=True)
        total += count
    return Appended(to_version, total)


def _history(spark: SparkSession, table: Table, limit: int) -> Sequence[Mapping[str, Any] | Row]:
    """Return the last commits, newest first, from the log files of a local folder or by a query."""
    if (folder := table.local_folder) is not None and (commits := log_files.last_commits(folder, limit)) is not None:
        return [{**dict.fromkeys(_OF_COMMIT), **said, "version": version} for version, said in commits]
    try:
        return spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT {limit}").select("version", *_OF_COMMIT).collect()
    except AnalysisException as error:
        if has_condition(error, NO_TABLE):
            next_step = "Run the stage that writes it first, or all stages: `tidemark run`."
            raise TableMissingError("The table does not exist.", where=str(table), next_step=next_step) from error
        raise


def _added(commit: Mapping[str, Any] | Row) -> int | None:
    operation, mode = commit["operation"], (commit["operationParameters"] or {}).get("mode")
    if operation in _NOT_CHANGING:
        return 0
    metrics = commit["operationMetrics"] or {}
    if operation == "MERGE":  # an erasure: it changes rows and adds none
        added = metrics.get("numTargetRowsInserted")
    else:
        added = metrics.get("numOutputRows") if (operation, mode) in _ADDING else None
    return None if added is None else int(added)


def read(spark: SparkSession, table: Table, *, version: int) -> DataFrame:
    """Return a table as of one Delta version, so that a second evaluation sees the same rows."""
    return spark.read.option("versionAsOf", version).table(table.sql)


def can_read(spark: SparkSession, table: Table, *, version: int, where: str) -> bool:
    """Whether the rows of a condition can be read as of a version: it is in the log and their files exist. Reads a column."""
    try:
        read(spark, table, version=version).where(where).count()
    except SPARK_ERRORS as error:
        if has_condition(error, VERSION_GONE):
            return False
        raise
    return True


def collect_appended(
    spark: SparkSession,
    table: Table,
    *,
    after_version: int,
    to_version: int,
    summary: Callable[[DataFrame], DataFrame],
) -> list[Row] | None:
    """Summarise the rows that the versions (after_version, to_version] appended, even if they were compacted since.

    The table's change feed must be on. Its scan returns rows one by one: select few and narrow columns. The summary also gets
    `_commit_version` (bigint). None if a version or its files are gone, which Delta says only when the rows are read.
    """
    feed = spark.read.options(readChangeFeed="true", startingVersion=after_version + 1, endingVersion=to_version)
    try:
        rows: list[Row] = summary(feed.table(table.sql).where("_change_type = 'insert'")).collect()
    except SPARK_ERRORS as error:
        if has_condition(error, VERSION_GONE):
            return None
        raise
    return rows


def append(
    rows: DataFrame, table: Table, contract: Contract, *, transaction: Transaction | None = None, metadata: str | None = None
) -> None:
    """Append rows in one commit; with a transaction, at most once. Columns that are not in the contract are left out.

    `metadata` is stored with the commit. The transaction is an option of this write, because session settings would persist.
    Raises an `AnotherWriterError` if another writer commits under the same key, and as `Contract.select`.
    """
    _commit(_writer(contract.select(rows), "append", transaction, metadata), table)


def commit_transaction_only(spark: SparkSession, table: Table, transaction: Transaction) -> None:
    """Commit a transaction without rows. The table then skips appends of the application up to it. Raises as `execute`."""
    _commit(_writer(spark.read.table(table.sql).limit(0), "append", transaction), table)


def properties(spark: SparkSession, table: Table) -> dict[str, str]:
    """Return the properties of an existing table; raise a `TableStateError` if the session lacks its features of Delta."""
    if (local := log_files.local(table)) is not None:
        return local.metadata().configuration
    try:
        return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {table.sql}").collect()}
    except SPARK_ERRORS as error:
        if refused := unsupported(error, table):
            raise refused from error
        raise


def set_properties(spark: SparkSession, table: Table, wanted: Mapping[str, str]) -> None:
    """Set properties. If a value changes, transactions on the table that began before fail. Raises as `execute`."""
    execute(spark, f"ALTER TABLE {table.sql} SET TBLPROPERTIES ({_pairs(wanted)})", table)


def replace(rows: DataFrame, table: Table, contract: Contract, *, where: str, metadata: str | None = None) -> None:
    """Replace the rows that a condition selects, in one commit; append if it selects none. Idempotent.

    `where` is SQL that Tidemark writes, never input. Delta refuses rows that do not meet it. If two concurrent writes have
    rows in the same place, one fails. Raises as `append`.
    """
    _commit(_writer(contract.select(rows), "overwrite", metadata=metadata).option("replaceWhere", where), table)


def merge(spark: SparkSession, statement: str, table: Table) -> int:
    """Run a MERGE, UPDATE or DELETE and return how many rows it affected. Raises as `execute`, after three tries.

    A conflict is retried, since maintenance compacts files that a MERGE has read. So a statement must give the same
    rows when it is repeated. A guarded one (`lakehouse.protocol.cutover_fence`) raises an `UndoneError`.
    """
    for _ in range(_TRIES - 1):
        try:
            return int(execute(spark, statement, table)[0]["num_affected_rows"])
        except UndoneError:
            raise
        except AnotherWriterError:
            continue
    return int(execute(spark, statement, table)[0]["num_affected_rows"])


def execute(spark: SparkSession, statement: str, table: Table) -> list[Row]:
    """Run a statement that commits to a table and return its rows; raise an `AnotherWriterError` on a conflict."""
    try:
        return spark.sql(statement).collect()
    except SPARK_ERRORS as error:
        raise_if_conflict(error, table)
        raise


def delete(spark: SparkSession, table: Table, where: str) -> int:
    """Delete the rows that a condition selects; return how many. No commit if it selects none. Raises as `merge`."""
    return merge(spark, f"DELETE FROM {table.sql} WHERE {where}", table)  # noqa: S608 -- a condition that Tidemark writes


def overwrite(rows: DataFrame, table: Table, *, metadata: str | None = None, transaction: Transaction | None = None) -> None:
    """Replace all of a table's rows and columns, in one commit; create the table if it does not exist.

    A commit before it enables the table feature of a new type, see `add_fields`. Raises an `AnotherWriterError` on a conflict.
    """
    _enable_features(rows.sparkSession, table, rows.schema)
    writer = _writer(rows, "overwrite", transaction, metadata)
    _commit(writer.option("overwriteSchema", "true").options(**table.properties), table)


def last_metadata(spark: SparkSession, table: Table) -> str | None:
    """Return the text stored with the last commit that changed rows; None if it has none, or the table does not exist."""
    commits = _history(spark, table, _LIKELY_VERSIONS) if exists(spark, table) else []
    return next((commit["userMetadata"] for commit in commits if commit["operation"] not in _NOT_CHANGING), None)


def _writer(rows: DataFrame, mode: str, transaction: Transaction | None = None, metadata: str | None = None) -> DataFrameWriter:
    options = {} if metadata is None else {"userMetadata": metadata}
    if transaction is not None:
        options |= {"txnAppId": transaction.app_id, "txnVersion": str(transaction.version)}
    return rows.write.format("delta").mode(mode).options(**options)


@contextlib.contextmanager
def prefetch_snapshots(spark: SparkSession) -> Iterator[Prefetch]:
    """Yield a function that computes snapshots while the block runs. It ignores errors, which recur when the table is written.

    After a commit Delta queries the table's state only when the next append with a transaction, MERGE or replacement needs it.
    """

    def describe(table: Table) -> None:
        with contextlib.suppress(*SPARK_ERRORS):
            spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()

    with ThreadPoolExecutor() as pool:
        yield lambda tables: pool.map(describe, tables)


def _commit(writer: DataFrameWriter, table: Table) -> None:
    """Commit. Retry once if another writer changed the table's properties: Delta then checks the rows again."""
    for tries_left in (1, 0):
        try:
            writer.save(table.location) if table.is_path else writer.saveAsTable(table.sql)
        except SPARK_ERRORS as error:
            if tries_left and has_condition(error, TABLE_CHANGED):
                continue
            raise_if_conflict(error, table)
            raise
        return
