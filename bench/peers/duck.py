"""DuckDB and delta-rs, without Spark: what one node can do at best with SQL over the same files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from deltalake import DeltaTable, write_deltalake

from bench.peers.job import PREPARE, Answer
from bench.topics import HEADER
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from bench.peers.job import Job

_BATCH_RECORDS = 65_536
_QUERY = f"""
    SELECT topic, partition, sequence, "offset", timestamp, key, value, headers
    FROM (SELECT *, decode(list_filter(headers, lambda header: header.key = '{HEADER}')[1].value)::BIGINT AS sequence
          FROM read_parquet(?))
    QUALIFY row_number() OVER (PARTITION BY topic, partition, sequence ORDER BY "offset") = 1
"""


def do(job: Job) -> Answer:
    """The row of each record that has the lowest offset, into a new Delta table."""
    if job.do == PREPARE:
        return Answer()
    bronze = DeltaTable(Path(job.root) / BRONZE_RECORDS)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET temp_directory = ?", [str(Path(job.work) / "spilled")])
        kept = connection.execute(_QUERY, [bronze.file_uris()]).to_arrow_reader(_BATCH_RECORDS)
        write_deltalake(job.table, kept, mode="append")
    return Answer(table=str(job.table))
