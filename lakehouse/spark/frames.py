"""Small frames from rows on the driver, by Arrow: `createDataFrame` of a list starts a Python worker, 0.1 s or more."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.contracts.contract import Contract
from lakehouse.contracts.silver import STREAM

_SCALARS = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_AT_ONCE, _DISK = 500_000, StorageLevel.DISK_ONLY


def of_contract(spark: SparkSession, rows: Sequence[Mapping[str, object]], contract: Contract) -> DataFrame:
    """Return rows as a frame with a contract's columns; a column that a row lacks is null."""
    return of_arrow(spark, pa.Table.from_pylist(rows, arrow_schema(contract))).coalesce(1)  # written as one file


def arrow_schema(contract: Contract) -> pa.Schema:
    """Return a contract's columns in Arrow's types."""
    return pa.schema([(column.name, _arrow_type(column.type)) for column in contract.columns])


def _arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a type that a contract names. A struct of theirs has scalars only."""
    outer, _, inner = kind.removesuffix(">").partition("<")
    if outer == "array":
        return pa.list_(_arrow_type(inner))
    if outer == "struct":
        return pa.struct([(name, _SCALARS[of]) for name, of in (field.split(":") for field in inner.split(","))])
    return _SCALARS[kind]


def of_tuples(spark: SparkSession, rows: Iterable[Sequence[object]], columns: str) -> DataFrame:
    """Return tuples as a frame; `columns` are names and Spark types, as in `topic string, partition int`."""
    schema = pa.schema([(name, _SCALARS[kind]) for name, kind in (column.split() for column in columns.split(","))])
    return of_arrow(spark, pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))


def of_arrow(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return an Arrow table as a frame, with columns by Arrow's types unless there is a schema.

    Classic Spark loses all rows after an empty chunk, which a filter may leave, so the table is combined into one chunk. Over
    Spark Connect a table without rows loses its columns, so a row of nulls is sent and filtered out.
    """
    if table.num_rows:
        whole = table.combine_chunks()
        return spark.createDataFrame(whole) if schema is None else spark.createDataFrame(whole, schema=schema)
    nullable = pa.schema([(field.name, field.type) for field in table.schema])
    return spark.createDataFrame(pa.Table.from_pylist([{}], nullable)).where("false")


def of_many(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table of any size as a frame. The driver sends a large one in parts to the disks of the executors."""
    if len(table) <= _AT_ONCE:
        return of_arrow(spark, table)
    parts = (of_arrow(spark, table.slice(first, _AT_ONCE)) for first in range(0, len(table), _AT_ONCE))
    return reduce(lambda one, other: one.unionAll(other), (part.localCheckpoint(storageLevel=_DISK) for part in parts))


def of_streams(spark: SparkSession, rows: DataFrame, streams: Iterable[Sequence[object]]) -> DataFrame:
    """Return the rows of a few streams (topic, partition, producer); nulls are equal."""
    wanted = of_tuples(spark, streams, "topic string, partition int, producer string")
    return rows.join(F.broadcast(wanted), on=same_stream(rows, wanted), how="left_semi")


def same_stream(rows: DataFrame, others: DataFrame, *more: str) -> Column:
    """Return the condition of a join on topic, partition, producer and more columns; nulls are equal."""
    return reduce(and_, [rows[name].eqNullSafe(others[name]) for name in (*STREAM, *more)])
