"""Small Delta tables in their contracts' columns, written with delta-rs: no JVM. Columns that a test does not name are null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts.model import Contract

_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<struct<key:string,value:binary>>": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def write_rows(root: Path, contract: Contract, rows: list[dict[str, Any]]) -> None:
    """Append rows to a table under the root, made if it is not there."""
    schema = pa.schema([(column.name, _TYPES[column.type]) for column in contract.columns])
    whole = [{name: row.get(name) for name in schema.names} for row in rows]
    write_deltalake(str(root / contract.name), pa.Table.from_pylist(whole, schema=schema), mode="append")
