"""`tidemark quarantine list`: records kept out of Silver or Gold that wait."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import HELD, QUARANTINED
from lakehouse.table import GOLD_REJECTS, GOLD_STREAM_HEALTH, SILVER_LOADS, SILVER_REJECTS
from tidemark.process import output
from tidemark.readers import database as query
from tidemark.readers.answer import ALL

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse
    from silver.state.request import RecordFilter

_HELD = f"""
    SELECT rejects.class, rejects.reason, rejects.topic, rejects.partition, rejects.producer, rejects.epoch,
        rejects.first_sequence, rejects.first_offset, rejects.load_seq, loads.claimed_at AS kept_out_at,
        count(*) OVER () AS held
    FROM {SILVER_REJECTS} AS rejects
    LEFT JOIN (SELECT load_seq, max(claimed_at) AS claimed_at FROM {SILVER_LOADS} GROUP BY load_seq) AS loads USING (load_seq)
    WHERE rejects.state = '{HELD}' AND list_contains($classes, rejects.class)
        AND ($topic IS NULL OR rejects.topic = $topic) AND ($partition IS NULL OR rejects.partition = $partition)
        AND ($offset IS NULL OR rejects.first_offset = $offset) AND ($producer IS NULL OR rejects.producer = $producer)
        AND ($until IS NULL OR loads.claimed_at <= $until)
    ORDER BY rejects.topic, rejects.partition, rejects.first_offset LIMIT $most
"""  # noqa: S608 -- the tables' names are ours; what a user names is a parameter

_ASIDE = f"""
    FROM {GOLD_REJECTS} AS rejects
    SEMI JOIN {GOLD_STREAM_HEALTH} AS health USING (load_seq, gate_run_id)
    LEFT JOIN (SELECT load_seq, max(claimed_at) AS claimed_at FROM {SILVER_LOADS} GROUP BY load_seq) AS loads USING (load_seq)
    WHERE rejects.state = '{HELD}'
        AND ($topic IS NULL OR rejects.topic = $topic) AND ($partition IS NULL OR rejects.partition = $partition)
        AND ($offset IS NULL OR rejects."offset" = $offset) AND ($producer IS NULL OR rejects.producer = $producer)
        AND ($until IS NULL OR loads.claimed_at <= $until)
"""  # noqa: S608 -- as above
_KEPT_ASIDE = f"""
    SELECT '{UNMET}' AS class, rejects.reason, rejects.topic, rejects.partition, rejects.producer, rejects.epoch,
        rejects.sequence AS first_sequence, rejects."offset" AS first_offset, rejects.load_seq,
        loads.claimed_at AS kept_out_at
    {_ASIDE} ORDER BY rejects.topic, rejects.partition, rejects."offset" LIMIT $most
"""
_KEPT_ASIDE_COUNT = f"SELECT count(*) AS held {_ASIDE}"


def held(lakehouse: Lakehouse, wanted: RecordFilter, *, most: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """List at most `most` records that wait in quarantine, by offset, each with its load's claim time; and their total.

    Records kept out of Silver come first, then, as class `unmet`, those that an expectation kept out of Gold.
    """
    filters = asdict(wanted)
    classes = [wanted.kind] if wanted.kind else list(QUARANTINED)
    del filters["kind"]
    days = filters.pop("days")
    filters["until"] = None if days is None else datetime.now(UTC) - timedelta(days=days)
    found: list[dict[str, Any]] = []
    with query.connect(lakehouse, [SILVER_REJECTS, SILVER_LOADS, GOLD_REJECTS, GOLD_STREAM_HEALTH]) as tables:
        if SILVER_REJECTS in tables.names:
            found += tables.rows(_HELD, {**filters, "classes": classes, "most": ALL if most is None else most})
        count = found[0]["held"] if found else 0
        if {GOLD_REJECTS, GOLD_STREAM_HEALTH} <= set(tables.names) and wanted.kind in (None, UNMET):
            aside = tables.rows(_KEPT_ASIDE, {**filters, "most": ALL if most is None else most - len(found)})
            count += len(aside) if most is None else tables.rows(_KEPT_ASIDE_COUNT, filters)[0]["held"]
            found += aside
    return [{name: value for name, value in row.items() if name != "held"} for row in found], count


def write_held(found: list[dict[str, Any]], count: int) -> None:
    """Print the waiting records as a table, on stdout."""
    if not found:
        output.write("Nothing waits in quarantine.")
        return
    output.write_table(list(found[0]), [list(row.values()) for row in found])
    output.write("1 record waits." if count == 1 else f"{count:,} records wait.")
