"""Views over Silver's tables, in words that Spark and DuckDB both know.

`tidemark sql` has them; in a catalog's schema they are created beside the tables. Grain and columns:

- `silver_last_accepted`: a stream that has accepted a record. topic, partition, producer, epoch, sequence (the last accepted
  ones: the producer goes on with the next), last_offset, updated_at.
- `silver_missing`: an unbroken range of sequences of a contiguous stream that Silver lacks. topic, partition, producer, epoch,
  first_sequence, last_sequence, sequences (how many), load_seq (the load that stepped over them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lakehouse.table import SILVER_LOADS, SILVER_RECORDS, SILVER_WATERMARKS

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_ACCEPTED = "silver_last_accepted"
MISSING = "silver_missing"

READ_BY = {LAST_ACCEPTED: {SILVER_WATERMARKS}, MISSING: {SILVER_LOADS, SILVER_RECORDS}}
"""The tables that each view reads."""

Dialect = Literal["spark", "duckdb"]

_GAPS = {
    "spark": "{loads} LATERAL VIEW explode(missing_ranges) AS gap",
    "duckdb": "(SELECT *, unnest(missing_ranges) AS gap FROM {loads})",
}
"""A ledger row per range: the one thing that the two write differently."""

_LAST_ACCEPTED = """
    SELECT topic, partition, producer, epoch, high_watermark AS sequence, last_offset, updated_at
    FROM {watermarks} WHERE high_watermark IS NOT NULL
"""

# What Silver has of a range by now, of whatever arrival, cuts it: what lies between two cuts is open.
_MISSING = """
    WITH gaps AS (
      SELECT topic, partition, producer, load_seq, gap.epoch AS epoch, gap.first_sequence AS first_missing,
        gap.last_sequence AS last_missing
      FROM {gaps}
    ), cuts AS (
      SELECT *, first_missing - 1 AS cut FROM gaps
      UNION ALL
      SELECT gaps.*, kept.sequence
      FROM gaps JOIN {records} AS kept ON kept.topic = gaps.topic AND kept.partition = gaps.partition
        AND kept.producer IS NOT DISTINCT FROM gaps.producer AND kept.epoch = gaps.epoch
        AND kept.sequence BETWEEN first_missing AND last_missing
    ), parts AS (
      SELECT topic, partition, producer, epoch, load_seq, cut + 1 AS first_sequence, coalesce(
        lead(cut) OVER (PARTITION BY topic, partition, producer, epoch, first_missing ORDER BY cut) - 1, last_missing
      ) AS last_sequence
      FROM cuts
    )
    SELECT topic, partition, producer, epoch, first_sequence, last_sequence,
      last_sequence - first_sequence + 1 AS sequences, load_seq
    FROM parts WHERE first_sequence <= last_sequence
"""


def queries(dialect: Dialect, table: Callable[[str], str] = str) -> dict[str, str]:
    """The query of each view, by the view's name.

    Args:
        dialect: Who is to understand it.
        table: How a table is written; its bare name by default.
    """
    loads, records, watermarks = table(SILVER_LOADS), table(SILVER_RECORDS), table(SILVER_WATERMARKS)
    missing = _MISSING.format(gaps=_GAPS[dialect].format(loads=loads), records=records)
    return {LAST_ACCEPTED: _LAST_ACCEPTED.format(watermarks=watermarks), MISSING: missing}
