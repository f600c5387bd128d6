"""`tidemark quarantine list`: records kept out of Silver or Gold that wait."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import HELD, QUARANTINED
from tidemark.process import output
from tidemark.readers import database as query

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse
    from silver.state.request import RecordFilter

_WAITING = (
    f"""
        SELECT class, reason, topic, partition, producer, epoch, first_sequence, first_offset, load_seq
        FROM silver_rejects WHERE state = '{HELD}'
    """,  # noqa: S608 -- the class and state are ours; what a user names is a parameter
    f"""
        SELECT '{UNMET}' AS class, reason, topic, partition, producer, epoch, sequence AS first_sequence,
            "offset" AS first_offset, load_seq
        FROM gold_rejects SEMI JOIN gold_stream_health USING (load_seq, gate_run_id) WHERE state = '{HELD}'
    """,  # noqa: S608 -- as above
)
_FILTERED = """
    FROM ({waiting}) AS waiting
    LEFT JOIN (SELECT load_seq, max(claimed_at) AS claimed_at FROM silver_loads GROUP BY load_seq) AS loads USING (load_seq)
    WHERE list_contains($classes, class) AND ($topic IS NULL OR topic = $topic)
        AND ($partition IS NULL OR partition = $partition) AND ($offset IS NULL OR first_offset = $offset)
        AND ($producer IS NULL OR producer = $producer) AND ($until IS NULL OR claimed_at <= $until)
"""
_LISTED = f"""
    SELECT waiting.*, loads.claimed_at AS kept_out_at {_FILTERED}
    ORDER BY class = '{UNMET}', topic, partition, first_offset LIMIT $most
"""
_COUNTED = f"SELECT count(*) AS held {_FILTERED}"


def held(lakehouse: Lakehouse, wanted: RecordFilter, *, most: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """List at most `most` records that wait in quarantine, by offset, each with its load's claim time; and their total.

    Records kept out of Silver come first, then, as class `unmet`, those that an expectation kept out of Gold.
    """
    filters = asdict(wanted)
    kind, days = filters.pop("kind"), filters.pop("days")
    filters["classes"] = [kind] if kind else [*QUARANTINED, UNMET]
    filters["until"] = None if days is None else datetime.now(UTC) - timedelta(days=days)
    with query.connect(lakehouse) as tables:
        waiting = " UNION ALL ".join(each for each in _WAITING if tables.have(each))
        if not waiting:
            return [], 0
        found = tables.rows(_LISTED.format(waiting=waiting), {**filters, "most": query.ALL if most is None else most})
        return found, len(found) if most is None else tables.rows(_COUNTED.format(waiting=waiting), filters)[0]["held"]


def write_held(found: list[dict[str, Any]], count: int) -> None:
    """Print the waiting records as a table, on stdout."""
    if not found:
        output.write("Nothing waits in quarantine.")
        return
    output.write_rows(found)
    output.write("1 record waits." if count == 1 else f"{count:,} records wait.")
