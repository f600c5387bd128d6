"""Counts the rows of a result against what was planned to be sent, in the same way for every peer.

The sequence is read from the record's own header, never from a column of the peer. The order of a result is that of the
table's commits, and within a commit that of the Kafka offsets of each partition: rows of a commit have no other order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.sitting import WrongResultError
from bench.topics import HEADER
from lakehouse.contracts.silver import HELD, LATE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from bench.topics import Topic

    Sequences = NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """What a result holds, held against the plan.

    Attributes:
        lost: Sequences that were sent, and are neither in the result nor held.
        doubled: Rows whose sequence the result has already.
        out_of_order: Rows that stand behind one of their partition with a higher sequence.
        held: Sequences kept out of the result and listed, for somebody to decide on.
    """

    rows: int
    lost: int
    doubled: int
    out_of_order: int
    held: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the result has each record once, in order, but for those that are held."""
        return not (self.lost or self.doubled or self.out_of_order)


def count(topic: Topic, found: Mapping[int, Sequences], held: Mapping[int, Sequences] | None = None) -> Counts:
    """Count a result, the sequences of each partition in order, against a topic's plan.

    Raises:
        WrongResultError: It holds a sequence that was never sent, or holds back one that it has.

    >>> from bench.topics import Topic
    >>> count(Topic("t", (5,)), {0: np.array([1, 2, 5, 3, 3])})
    Counts(rows=5, lost=1, doubled=1, out_of_order=2, held=0)
    """
    totals = [0, 0, 0, 0, 0]
    none = np.empty(0, dtype=np.int64)
    for partition in sorted({*range(len(topic.unique)), *found, *(held or {})}):
        sent = topic.unique[partition] if partition < len(topic.unique) else 0
        rows = found.get(partition, none)
        aside = np.setdiff1d((held or {}).get(partition, none), rows)
        for each in (rows, aside):
            if each.size and not 1 <= each.min() <= each.max() <= sent:
                raise WrongResultError(f"partition {partition}: sequences {each.min()} to {each.max()}, sent were 1 to {sent}")
        unique = np.unique(rows).size
        highest = np.maximum.accumulate(rows)
        behind = int((rows[1:] < highest[:-1]).sum())
        figures = (rows.size, sent - unique - aside.size, rows.size - unique, behind, aside.size)
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
    return Counts(*totals)


def of_table(folder: Path) -> dict[int, Sequences]:
    """The sequences of a Delta table's rows, by partition, in the table's order."""
    versions = _live_files(folder)
    if not versions:
        return {}
    files = pa.table({"filename": [str(folder / name) for name in versions], "version": list(versions.values())})
    return _by_partition(
        f"""
        SELECT partition, decode(list_filter(headers, lambda header: header.key = '{HEADER}')[1].value)::BIGINT AS sequence
        FROM read_parquet(?, filename = true) JOIN files USING (filename)
        ORDER BY partition, version, "offset"
        """,
        {"files": files},
        files["filename"].to_pylist(),
    )


def held_in(folder: Path) -> dict[int, Sequences]:
    """The late sequences that wait in Silver's rejects, by partition."""
    files = [str(folder / name) for name in _live_files(folder)]
    if not files:
        return {}
    query = """
        SELECT partition, unnest(range(first_sequence, last_sequence + 1)) AS sequence FROM read_parquet($1)
        WHERE class = $2 AND state = $3 ORDER BY ALL
    """
    return _by_partition(query, {}, files, LATE, HELD)


def _by_partition(query: str, tables: Mapping[str, pa.Table], *parameters: object) -> dict[int, Sequences]:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        rows = connection.execute(query, list(parameters)).fetchnumpy()
    return split(np.asarray(rows["partition"]), np.asarray(rows["sequence"], dtype=np.int64))


def split(partitions: NDArray[Any], sequences: Sequences) -> dict[int, Sequences]:
    """Rows sorted by partition, as one array for each.

    >>> split(np.array([0, 0, 2]), np.array([1, 2, 1]))
    {0: array([1, 2]), 2: array([1])}
    """
    if not partitions.size:
        return {}  # split makes one empty part of nothing
    names, starts = np.unique(partitions, return_index=True)
    return dict(zip(names.tolist(), np.split(sequences, starts[1:]), strict=True))


def _live_files(folder: Path) -> dict[str, int]:
    """The files of a table's latest version, each with the version that added it: what the log of commits says."""
    live: dict[str, int] = {}
    for commit in sorted((folder / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                live[action["add"]["path"]] = int(commit.stem)
            elif "remove" in action:
                live.pop(action["remove"]["path"], None)
    return live
