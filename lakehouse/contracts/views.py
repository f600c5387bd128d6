"""Views over the tables, in SQL that both Spark and DuckDB understand; docs/queries.md lists their grain and columns.

`tidemark sql` offers them; in a catalog's schema they are created next to the tables. Times are UTC, `*_share` is 0 to 1.
"""

from collections.abc import Callable

from lakehouse.contracts.silver import CLASSES
from lakehouse.table import TABLE_NAMES

WATERMARK_STATUS = "watermark_status"
MISSING = "silver_missing"
IN_DUCKDB = "CREATE MACRO explode(list) AS unnest(list)"
"""Makes DuckDB understand the views: it has one of their functions under another name."""

_SUMMED = ("records", *CLASSES, "missing", "jumps_forward", "jumps_backward")
# A producer may skip nearly all numbers in each of two epochs: more than a bigint holds.
_MISSING_SUM = "CAST(least(sum(CAST(missing AS DECIMAL(38, 0))), 9223372036854775807) AS BIGINT)"
_WORDS = {
    "sums": ", ".join(f"{_MISSING_SUM if name == 'missing' else f'CAST(sum({name}) AS BIGINT)'} AS {name}" for name in _SUMMED),
    "summed": ", ".join(f"summed.{name}" for name in _SUMMED),
}

_QUERIES = {
    WATERMARK_STATUS: """
        WITH summed AS (
          SELECT topic, partition, producer, count(DISTINCT load_seq) AS loads, {sums}
          FROM {silver_loads} GROUP BY topic, partition, producer
        )
        SELECT mark.topic, mark.partition, mark.producer, mark.epoch, mark.high_watermark, mark.last_offset, mark.load_seq,
          mark.updated_at, summed.loads, {summed}
        FROM {silver_watermarks} AS mark LEFT JOIN summed ON summed.topic = mark.topic AND summed.partition = mark.partition
          AND summed.producer IS NOT DISTINCT FROM mark.producer
    """,
    "duplicates_by_partition": """
        SELECT topic, partition, CAST(sum(records) AS BIGINT) AS records, CAST(sum(duplicate) AS BIGINT) AS duplicate,
          CAST(sum(late) AS BIGINT) AS late,
          CASE WHEN sum(records) > 0 THEN CAST(sum(duplicate) AS DOUBLE) / sum(records) ELSE 0 END AS duplicate_share,
          CASE WHEN sum(records) > 0 THEN CAST(sum(late) AS DOUBLE) / sum(records) ELSE 0 END AS late_share,
          max(CASE WHEN duplicate > 0 THEN claimed_at END) AS last_duplicate_at
        FROM {silver_loads} GROUP BY topic, partition
    """,
    "quarantine_open": """
        WITH claimed AS (SELECT load_seq, max(claimed_at) AS kept_out_at FROM {silver_loads} GROUP BY load_seq)
        SELECT reject.topic, reject.partition, reject.producer, reject.epoch, reject.class, reject.reason, reject.first_offset,
          reject.last_offset, reject.first_sequence, reject.last_sequence, reject.records, reject.load_seq, claimed.kept_out_at
        FROM {silver_rejects} AS reject LEFT JOIN claimed ON claimed.load_seq = reject.load_seq
        WHERE reject.state = 'held'
    """,
    "gate_history": """
        WITH verdicts AS (
          SELECT gate_run_id,
            sum(CASE WHEN severity = 'critical' AND outcome <> 'passed' THEN 1 ELSE 0 END) = 0 AS gate_passed
          FROM {gate_results} GROUP BY gate_run_id
        )
        SELECT result.gate_run_id, result.first_load_seq, result.last_load_seq, result.evaluated_at, verdicts.gate_passed,
          result.expectation, result.column, result.severity, result.outcome, result.observed, result.expected
        FROM {gate_results} AS result JOIN verdicts ON verdicts.gate_run_id = result.gate_run_id
    """,
    "lag": """
        WITH held AS (
          SELECT bronze.topic, bronze.partition, min(bronze.offset) AS first_offset, max(bronze.offset) AS bronze_offset
          FROM {bronze_records} AS bronze GROUP BY bronze.topic, bronze.partition
        ), decided AS (
          SELECT topic, partition, max(last_offset) AS decided_offset FROM {silver_watermarks} GROUP BY topic, partition
        )
        SELECT held.topic, held.partition, held.bronze_offset, decided.decided_offset,
          greatest(0, held.bronze_offset - coalesce(decided.decided_offset, held.first_offset - 1)) AS offsets
        FROM held LEFT JOIN decided ON decided.topic = held.topic AND decided.partition = held.partition
    """,
    "silver_last_accepted": """
        SELECT topic, partition, producer, epoch, high_watermark AS sequence, last_offset, updated_at
        FROM {silver_watermarks} WHERE high_watermark IS NOT NULL
    """,
    # Records that Silver has accepted since then cut a range into the parts that are still missing.
    MISSING: """
        WITH ranges AS (
          SELECT topic, partition, producer, load_seq, explode(missing_ranges) AS gap FROM {silver_loads}
        ), gaps AS (
          SELECT topic, partition, producer, load_seq, gap.epoch AS epoch, gap.first_sequence AS first_missing,
            gap.last_sequence AS last_missing
          FROM ranges
        ), cuts AS (
          SELECT *, first_missing - 1 AS cut FROM gaps
          UNION ALL
          SELECT gaps.*, kept.sequence
          FROM gaps JOIN {silver_records} AS kept ON kept.topic = gaps.topic AND kept.partition = gaps.partition
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
    """,
}


READ_BY = {name: {table for table in TABLE_NAMES if f"{{{table}}}" in query} for name, query in _QUERIES.items()}


def queries(table: Callable[[str], str] = str) -> dict[str, str]:
    """Return the query of each view by its name. `table` writes a table's name; bare by default."""
    tables = {name: table(name) for name in TABLE_NAMES}
    return {name: query.format(**_WORDS, **tables) for name, query in _QUERIES.items()}
