"""Tombstones whose sequence is read from the value: which are skipped. Pure."""

from dataclasses import replace

import pyarrow as pa

from lakehouse.extract.sources import Source
from silver.decide.kernel import Decision
from silver.load.bronze_range import with_tombstones
from silver.load.planner import rejects_of
from silver.rules import Reading, Rules
from silver.state.watermarks import Watermarks

SKIPPING = Rules(
    Source("json", "$.id"),
    skips_tombstones=True,
    own=(("kept", Reading(Source("json", "$.id"))), ("h", Reading(Source("header")))),
)


def keys(*rows: tuple[str, int, int | None, str | None]) -> pa.Table:
    topics, offsets, sequences, problems = zip(*rows, strict=True)
    columns = {"topic": topics, "problem": pa.array(problems, pa.string()), "producer": pa.nulls(len(rows), pa.string())}
    numbers = {"partition": [0] * len(rows), "offset": offsets, "sequence": pa.array(sequences, pa.int64())}
    found = pa.table({**columns, **numbers, "epoch": [None if each is None else 0 for each in sequences]})
    return found.set_column(0, "topic", found["topic"].dictionary_encode())


def test_only_a_record_without_a_value_is_skipped_and_it_is_discarded_at_once() -> None:
    given = keys(
        *(("t", 0, 5, None), ("t", 1, None, "sequence_null"), ("t", 2, None, "sequence_missing"), ("t", 3, 6, None)),
        *(("kept", 0, None, "sequence_null"), ("h", 0, None, "sequence_null"), ("t@2", 0, None, "sequence_null")),
    )
    assert with_tombstones(given, replace(SKIPPING, skips_tombstones=False)) is given
    named = with_tombstones(given, SKIPPING)
    out = rejects_of(Decision(SKIPPING).decide(named, Watermarks({})).segments, 1, SKIPPING)
    found = {(row["topic"], row["first_offset"]): (row["class"], row["reason"], row["state"]) for row in out.to_pylist()}
    assert found == {
        ("t", 1): ("invalid", "value_tombstone", "discarded"),
        ("t", 2): ("invalid", "sequence_missing", "held"),
        ("kept", 0): ("invalid", "sequence_null", "held"),
        ("h", 0): ("invalid", "sequence_null", "held"),
        ("t@2", 0): ("invalid", "value_tombstone", "discarded"),
    }
