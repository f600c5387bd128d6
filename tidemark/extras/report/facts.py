"""The facts behind `tidemark report`, counted in SQL over the tables: never a row per stream and load."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.gate import CRITICAL, PASSED
from lakehouse.contracts.silver import CLASSES
from tidemark.readers import database as query
from tidemark.readers.status import status
from tidemark.runner.summary import STAGES

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Kafka, Settings
    from lakehouse.sidecar_files import Files
    from lakehouse.table import Lakehouse
    from tidemark.readers.database import Rows, Tables

MAX_STREAMS = 500
"""Streams listed one by one: those with the most records kept out. The others are combined."""
MAX_SLICES = 120
MAX_CELLS = 30_000
"""Maximum of streams times slices of loads, which bounds the file's size."""
MAX_ROWS = 200
"""Maximum rows of a long list."""
MAX_GATE_RUNS = 120
MAX_RUNS = 120
_STARTED = "%Y%m%dT%H%M%S"

_COUNTS = ("records", *CLASSES, "jumps_forward", "jumps_backward", "missing")
_LARGEST = 2**63 - 1
"""Limit of a sum of sequences in gaps: a producer may skip nearly all numbers in each of two streams."""
_SUMS = ", ".join(f'least(sum(each."{name}"), {_LARGEST})::BIGINT AS "{name}"' for name in _COUNTS)
_KEPT_OUT = " + ".join(f'"{name}"' for name in CLASSES[1:])

_NUMBERED_STREAMS = f"""
    SELECT row_number() OVER (
      ORDER BY {_KEPT_OUT} DESC NULLS LAST, records DESC NULLS LAST, topic, partition, producer NULLS FIRST
    ) - 1 AS stream, * FROM watermark_status
"""  # noqa: S608 -- the names are ours; as in every query below
_STREAMS = f"SELECT * FROM ({_NUMBERED_STREAMS}) AS numbered WHERE stream < $most ORDER BY stream"  # noqa: S608 -- as above
_COUNT_STREAMS = "FROM silver_watermarks SELECT count(*) AS n"
_COUNT_LOADS = "FROM silver_loads SELECT count(DISTINCT load_seq) AS n"

# Loads in order, in slices of about equal size.
_SLICED_LOADS = """
    SELECT load_seq, claimed_at, (row_number() OVER (ORDER BY load_seq) - 1) * $slices // $loads AS slice
    FROM (SELECT load_seq, max(claimed_at) AS claimed_at FROM silver_loads GROUP BY load_seq) AS claimed
"""
_SLICES = f"""
    SELECT min(load_seq) AS first_load_seq, max(load_seq) AS last_load_seq, min(claimed_at) AS first_claimed_at,
      max(claimed_at) AS last_claimed_at
    FROM ({_SLICED_LOADS}) AS sliced GROUP BY slice ORDER BY slice
"""  # noqa: S608 -- as above
_HISTORY = f"""
    SELECT coalesce(shown.stream, -1) AS stream, slice, {_SUMS}
    FROM silver_loads AS each JOIN ({_SLICED_LOADS}) AS sliced USING (load_seq) LEFT JOIN ({_STREAMS}) AS shown
      ON shown.topic = each.topic AND shown.partition = each.partition AND shown.producer IS NOT DISTINCT FROM each.producer
    GROUP BY ALL HAVING sum(each.records) > 0 ORDER BY ALL
"""  # noqa: S608 -- as above

_LAG = "SELECT topic, partition, decided_offset, bronze_offset, offsets AS lag FROM lag"
_MISSING = f"FROM silver_missing ORDER BY sequences DESC, topic, partition, first_sequence LIMIT {MAX_ROWS}"
_COUNT_MISSING = f"""
    FROM silver_missing SELECT count(*) AS ranges, least(coalesce(sum(sequences), 0), {_LARGEST})::BIGINT AS sequences
"""
_QUARANTINE = f"""
    SELECT topic, partition, producer, class, reason, sum(records)::BIGINT AS records,
      min(first_offset) AS first_offset, min(kept_out_at) AS oldest
    FROM quarantine_open GROUP BY ALL ORDER BY records DESC, topic, partition, producer, class, reason LIMIT {MAX_ROWS}
"""  # noqa: S608 -- as above
_COUNT_QUARANTINE = """
    SELECT coalesce(sum(records), 0)::BIGINT AS records, min(kept_out_at) AS oldest FROM quarantine_open
"""
_GATE_RUNS = f"""
    SELECT gate_run_id, min(first_load_seq) AS first_load_seq, max(last_load_seq) AS last_load_seq,
      max(evaluated_at) AS evaluated_at, bool_and(gate_passed) AS passed, count(*) AS expectations,
      count(*) FILTER (outcome <> '{PASSED}' AND severity = '{CRITICAL}') AS unmet_critical,
      count(*) FILTER (outcome <> '{PASSED}' AND severity <> '{CRITICAL}') AS unmet_warn
    FROM gate_history GROUP BY gate_run_id ORDER BY evaluated_at DESC, gate_run_id DESC LIMIT {MAX_GATE_RUNS}
"""  # noqa: S608 -- as above
_GATE_RESULTS = f"""
    FROM gate_history
    WHERE outcome <> '{PASSED}' OR evaluated_at = (SELECT max(evaluated_at) FROM gate_history)
    ORDER BY evaluated_at DESC, gate_run_id DESC, outcome = '{PASSED}', severity, expectation LIMIT {MAX_ROWS}
"""  # noqa: S608 -- as above


def facts(settings: Settings, lakehouse: Lakehouse, *, asks_kafka: bool = True) -> dict[str, Any]:
    """Collect what the tables, the brokers (if `asks_kafka`) and the saved results of runs say about a pipeline.

    Returns:
        The keys of `tidemark.readers.status.status`; `streams` as in `watermark_status`, at most `MAX_STREAMS`; `partitions`
        and `kafka`, see `ends`; `slices` (consecutive loads) and `history` (records by class, jumps and sequences in gaps of a
        stream in a slice; stream -1 is all others); `gate_results`, those not met in any run and all of the last one; `runs`,
        see `last_runs`. Times are UTC.
    """
    found = status(settings.pipeline, lakehouse, most_streams=MAX_ROWS) | {"made_at": datetime.now(UTC)}
    with query.connect(lakehouse) as tables:
        topics, bronze = (tables.rows_if_any(each) for each in ("FROM bronze_topics", _LAG))
        found |= _streams(tables)
        for name, rows, total in (("missing", _MISSING, _COUNT_MISSING), ("quarantine", _QUARANTINE, _COUNT_QUARANTINE)):
            found[f"{name}_rows"] = tables.rows_if_any(rows)
            found[f"{name}_total"] = next(iter(tables.rows_if_any(total)), None)
        found |= {"gate_runs": tables.rows_if_any(_GATE_RUNS), "gate_results": tables.rows_if_any(_GATE_RESULTS)}
    found |= ends(settings.kafka if asks_kafka else None, bronze, topics)
    return {**found, "runs": last_runs(lakehouse.sidecar_files("_reports"))}


def _streams(tables: Tables) -> dict[str, Any]:
    most = {"most": MAX_STREAMS}
    streams = tables.rows_if_any(_STREAMS, most)
    if not streams:
        return {"streams": [], "stream_count": 0, "slices": [], "history": []}
    loads = tables.rows(_COUNT_LOADS)[0]["n"]
    sliced = {"slices": min(loads, MAX_SLICES, max(1, MAX_CELLS // len(streams))), "loads": max(loads, 1)}
    count = tables.rows(_COUNT_STREAMS)[0]["n"]
    slices, history = tables.rows(_SLICES, sliced), tables.rows(_HISTORY, {**sliced, **most})
    return {"streams": streams, "stream_count": count, "slices": slices, "history": history}


def ends(kafka: Kafka | None, bronze: Rows, topics: Rows) -> dict[str, Any]:
    """Find where each partition ends, from the view `lag`, `bronze_topics`, and Kafka unless that is None.

    Returns:
        `kafka`: whether it was asked, and why not. `partitions`, by topic (as the tables name it) and partition:
        decided_offset, bronze_offset and end_offset (of the next record), each None if unknown; lag (offsets up to Kafka's end,
        or to Bronze's if Kafka gives none, or None).
    """
    places = {(row["topic"], row["partition"]): {**row, "end_offset": None} for row in bronze}
    why = _add_kafka(places, kafka, bronze, topics) if kafka else "--offline"
    return {"kafka": {"asked": why is None, "why": why}, "partitions": [places[place] for place in sorted(places)]}


def _add_kafka(places: dict[tuple[str, int], dict[str, Any]], kafka: Kafka, bronze: Rows, topics: Rows) -> str | None:
    """Add the brokers' offsets, or return why they cannot be queried."""
    from bronze.kafka.metadata import LookError
    from tidemark.readers.lag import lags

    # A recreated topic continues under another name in the tables.
    stored = {row["topic"]: row["stored_as"] for row in sorted(topics, key=lambda row: row["incarnation"])}
    gone = {row["stored_as"] for row in topics} - set(stored.values())
    kafkas = {name: topic for topic, name in stored.items()}
    decided = [
        {**row, "topic": kafkas.get(row["topic"], row["topic"]), "last_offset": row["decided_offset"]}
        for row in bronze
        if row["decided_offset"] is not None and row["topic"] not in gone
    ]
    try:
        asked = lags(kafka, decided)
    except LookError as error:
        return str(error)
    for row in asked:
        place = stored.get(row["topic"], row["topic"]), row["partition"]
        known = places.get(place, {"bronze_offset": None})
        found = {"decided_offset": row["last_offset"], "end_offset": row["end_offset"], "lag": row["lag"]}
        places[place] = {**known, "topic": place[0], "partition": place[1], **found}
    return None


def last_runs(folder: Files | None) -> list[dict[str, Any]]:
    """Read the last runs from their files in `_reports`, the latest first. Files that are not a result are left out.

    Columns: run_id, started_at (UTC, or None), seconds, `stages` (seconds of each that ended), records that Silver decided, and
    error and exit_code of a failed run, else None.
    """
    if folder is None:
        return []
    names = sorted((name for name in folder.sizes() if name.endswith(".json") and "/" not in name), reverse=True)[:MAX_RUNS]
    return [run for name in names if (run := _run(folder, name))]


def _run(folder: Files, name: str) -> dict[str, Any] | None:
    try:
        result = json.loads(folder.read(name))
        done = {name: result[name] for name in STAGES if result.get(name)}
        return {
            **{key: result.get(key) for key in ("seconds", "error", "exit_code")},
            "run_id": str(result["run_id"]),
            "started_at": _started_at(str(result["run_id"])),
            "stages": {name: float(stage["seconds"]) for name, stage in done.items() if "seconds" in stage},
            "records": done.get("silver", {}).get("records"),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # a foreign file, or one still being written


def _started_at(run_id: str) -> datetime | None:
    try:
        return datetime.strptime(run_id.partition("-")[0], _STARTED).replace(tzinfo=UTC)
    except ValueError:
        return None
