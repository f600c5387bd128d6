"""The demo's output: what the tables hold next to what was sent, with every difference collected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import ACCEPTED, DUPLICATE, INVALID
from lakehouse.table import GOLD_RECORDS, SILVER_RECORDS
from tidemark.process import output
from tidemark.readers import database, files
from tidemark.readers.status import status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.table import Lakehouse, Table
    from tidemark.extras.demo.producer import Sent

_KEPT_INCIDENTS = f"""
    SELECT key::VARCHAR AS incident, list(payload.id ORDER BY "offset") AS ids, list(payload.data ORDER BY "offset") AS data
    FROM {GOLD_RECORDS} GROUP BY incident ORDER BY incident
"""  # noqa: S608 -- the table's name is ours


@dataclass
class Findings:
    """The differences between what was sent and what the tables hold, one sentence each."""

    differences: list[str] = field(default_factory=list)

    def expect(self, what: str, *, observed: Any, expected: Any) -> bool:
        """Return whether both are equal; record the difference if not."""
        if observed == expected:
            return True
        self.differences.append(f"{what}: {observed}, not {expected}")
        return False


def compare_incidents(lakehouse: Lakehouse, sent: Sent, found: Findings) -> None:
    """Print the article's incidents as Gold holds them: every id once, in the order of each incident."""
    totals = status("incidents", lakehouse)["totals"]
    kept = _rows(lakehouse, _KEPT_INCIDENTS)
    output.write(f"The article's example: {totals['records']} records arrived, {totals[ACCEPTED]} were kept.")
    rows = [(row["incident"], ", ".join(map(str, row["ids"])), ", ".join(row["data"])) for row in kept]
    output.write_table(["incident", "id", "data"], rows)
    found.expect("records of the example", observed=totals["records"], expected=sent.incident_records)
    found.expect("ids by incident", observed={row["incident"]: row["ids"] for row in kept}, expected=sent.incidents)
    _check_tables(lakehouse, totals[ACCEPTED], found)


def compare_events(lakehouse: Lakehouse, sent: Sent, found: Findings) -> None:
    """Print the long stream: classes next to what was sent, watermarks, the gate's verdict, and the tables' row counts."""
    state = status("events", lakehouse)
    totals, expected = state["totals"], Counter(sent.classes)
    rows = [
        ("new", expected[ACCEPTED], ACCEPTED, totals[ACCEPTED]),
        ("again", expected[DUPLICATE], DUPLICATE, totals[DUPLICATE]),
        ("bad", expected[INVALID], INVALID, totals[INVALID]),
        ("in all", expected.total(), "in all", totals["records"]),
    ]
    output.write(f"\nA stream of {totals['records']:,} records over {len(sent.high_watermarks)} partitions.")
    output.write_table(["sent", "records", "ended as", "records in the tables"], rows)
    for label, count, name, observed in rows:
        found.expect(f"records sent {label} that ended as {name}", observed=observed, expected=count)
    _compare_watermarks(state["streams"], sent.high_watermarks, found)
    _check_gate(state["gate"], found)
    _check_tables(lakehouse, totals[ACCEPTED], found)


def compare_second_run(first: Mapping[str, Any], second: Mapping[str, Any], found: Findings) -> None:
    """Print what the second run of each pipeline did: nothing, since Kafka had nothing new."""
    output.write("\nThe same again, with nothing new in Kafka:")
    columns = ["pipeline", "run", "read from Kafka", "accepted", "published", "seconds"]
    rows = []
    for name in first:
        for label, result in (("first", first[name]), ("second", second[name])):
            counts = [
                _count(result, "bronze", "records"),
                _count(result, "silver", ACCEPTED),
                _count(result, "gold", "records"),
            ]
            rows.append([name, label, *counts, result["seconds"]])
            if label == "second":
                found.expect(f"records of the second run of {name}", observed=counts, expected=[0, 0, 0])
    output.write_table(columns, rows)


def _compare_watermarks(streams: list[dict[str, Any]], expected: Mapping[int, int], found: Findings) -> None:
    columns = ["topic", "partition", "high_watermark", "last_offset"]
    output.write_table(columns, [[stream[name] for name in columns] for stream in streams], title="Watermarks")
    observed = {stream["partition"]: stream["high_watermark"] for stream in streams}
    found.expect("watermarks by partition", observed=observed, expected=dict(expected))


def _check_gate(gate: dict[str, Any] | None, found: Findings) -> None:
    passed = gate is not None and gate["passed"]
    expectations = f"{gate['expectations']} expectations, {len(gate['unmet'])} not met" if gate else "it has not run"
    output.write(f"\nGate: {'passed' if passed else 'FAILED'}; {expectations}.")
    found.expect("the gate passed", observed=passed, expected=True)


def _check_tables(lakehouse: Lakehouse, accepted: int, found: Findings) -> None:
    """Print every table with its row count and folder; Silver and Gold must hold what was accepted."""
    folders = files.tables(lakehouse)
    rows = {name: _rows(lakehouse, f'SELECT count(*) AS "rows" FROM "{name}"')[0]["rows"] for name in folders}  # noqa: S608 -- our tables
    output.write_table(
        ["table", "rows", "folder"], [(name, rows[name], str(folders[name])) for name in _ordered(folders)], title="Tables"
    )
    for name in (SILVER_RECORDS, GOLD_RECORDS):
        found.expect(f"rows of {name}", observed=rows.get(name), expected=accepted)


def _ordered(folders: Mapping[str, Table]) -> list[str]:
    layers = ("bronze", "silver", "gate", "gold")
    return sorted(folders, key=lambda name: (layers.index(name.partition("_")[0]), name))


def _count(result: Mapping[str, Any], stage: str, name: str) -> int:
    return int((result[stage] or {}).get(name) or 0)


def _rows(lakehouse: Lakehouse, sql: str) -> list[dict[str, Any]]:
    with database.run_query(lakehouse, sql) as found:
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
