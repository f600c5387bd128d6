"""Classify the errors of Spark and Delta: a missing table, a lost version, another writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakehouse.errors import AnotherWriterError, TableStateError, UndoneError
from lakehouse.spark.storage_errors import whole_text

if TYPE_CHECKING:
    from lakehouse.table import Table

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""Spark's errors. Classic PySpark raises Py4J's errors where it has no class (Delta's conflicts, a missing file)."""

UNDONE = "tidemark_undone"
"""The message of a guarded write that fails, see `lakehouse.protocol.cutover_fence`."""

OVERTAKEN = "tidemark_overtaken"
"""The message of a guarded claim that fails, because other loads were claimed meanwhile."""

_CONFLICTS = (
    OVERTAKEN,
    "DELTA_CONCURRENT_TRANSACTION",
    "ConcurrentTransactionException",
    "DELTA_CONCURRENT_APPEND",
    "ConcurrentAppendException",
    "DELTA_CONCURRENT_DELETE",
    "ConcurrentDelete",
)
TABLE_CHANGED = (
    "DELTA_METADATA_CHANGED",
    "MetadataChangedException",
    "DELTA_PROTOCOL_CHANGED",  # also if two writers create a table at once
    "ProtocolChangedException",
)
"""A commit changed the table's columns, properties or features during a transaction on it."""
NO_TABLE = (
    "PATH_NOT_FOUND",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_ONLY_OPERATION",  # DESCRIBE HISTORY of a folder that does not exist
    "TABLE_OR_VIEW_NOT_FOUND",
)
"""The table does not exist."""
VERSION_GONE = (
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND",  # a change feed whose versions were cleaned from the log
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "Could not find any delta files for version",  # a version is missing between two others; Delta has no condition for that
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
)
"""A version can no longer be read: it left the log, or its files were vacuumed."""

_UNSUPPORTED = (
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
    "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
    "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH",
    "DELTA_INVALID_PROTOCOL_VERSION",
    "EXPRESSION_DECODING_FAILED",  # of the log: a protocol version that this Delta does not know
)
APPEND_ONLY = ("DELTA_CANNOT_MODIFY_APPEND_ONLY",)
FIXED_SETTING = ("CONFIG_NOT_AVAILABLE", "CANNOT_MODIFY_CONFIG", "CANNOT_MODIFY_STATIC_CONFIG")
"""The platform forbids a session to change this setting."""


def raise_if_conflict(error: Exception, table: Table) -> None:
    """Raise an `AnotherWriterError` for a conflict between writers, an `UndoneError` if a guarded write's load was undone."""
    if has_condition(error, (UNDONE,)):
        raise UndoneError.of(str(table)) from None
    if has_condition(error, TABLE_CHANGED):
        what = "The table's columns or properties changed while this run wrote to it; this commit was not made."
        next_step = "Nothing to do: the next run goes on. Change a table's properties between two runs."
        raise AnotherWriterError(what, where=str(table), next_step=next_step) from error
    if has_condition(error, _CONFLICTS):
        what = "Another run committed the same load first; nothing of this one was written."
        next_step = "Nothing to do: the next run continues from what the other one wrote."
        raise AnotherWriterError(what, where=str(table), next_step=next_step) from error


def unsupported(error: Exception, table: Table) -> TableStateError | None:
    """Return the error for a table with features of Delta that this session lacks; None for any other error."""
    lines = [line for line in whole_text(error).splitlines() if any(sign in line for sign in _UNSUPPORTED)]
    if not lines:
        return None
    return TableStateError(
        "This session does not support the table's features of Delta Lake.",
        where=str(table),
        observed=lines[0].strip().removeprefix(": ").removeprefix("Caused by: "),
        expected="features that this version of Delta Lake reads and writes",
        next_step="Use a later Delta Lake, or drop the feature in the engine that added it: ALTER TABLE ... DROP FEATURE.",
    )


def has_condition(error: Exception, conditions: tuple[str, ...]) -> bool:
    """Whether an error of Spark or Delta has one of these conditions, or names one in its text."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    text = f"{condition or ''} {error}"
    return any(each in text for each in conditions)
