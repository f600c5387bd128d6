"""Small Delta tables in their contracts' columns, written with delta-rs: no JVM. Columns that a test does not name are null."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse.contracts.contract import Contract
from lakehouse.spark.frames import arrow_schema


def write_rows(root: Path, contract: Contract, rows: list[dict[str, Any]]) -> None:
    schema = arrow_schema(contract)
    whole = [{name: row.get(name) for name in schema.names} for row in rows]
    write_deltalake(str(root / contract.name), pa.Table.from_pylist(whole, schema=schema), mode="append")
