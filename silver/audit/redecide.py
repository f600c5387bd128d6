"""Decide a load again from Bronze by offset, and compare the result with the ledger and the rejects. Read-only.

An offset's bytes never change, so compaction and lost versions of Bronze do not matter. Replays are not counted again: it is
unknown which load read the second copy.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.contracts.silver import CLASSES, RECORDS, REPLAY, stream_of, stream_text
from lakehouse.run.findings import Violation
from lakehouse.table import SILVER_LOADS, SILVER_REJECTS
from silver import model
from silver.audit.ledger_checks import as_of
from silver.decide import decision
from silver.extract.columns import from_bytes, narrow
from silver.extract.payload import with_schemas
from silver.load import bronze_range, key_columns, planner
from silver.load.recover import WATERMARK_AFTER
from silver.rules import Rules
from silver.state import ledger
from silver.suspects.known_records import KnownRecords

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.silver import Stream
    from lakehouse.run.context import Run
    from silver.audit.ledger_checks import Row
    from silver.state.watermarks import Watermarks

_OUTCOME = (*(name for name in CLASSES if name != REPLAY), "late_accepted", *WATERMARK_AFTER, "missing")
_REJECT = tuple(name for name in model.REJECT.names if name not in ("load_seq", "settled_load_seq"))
_SHARED = tuple(name for name in _REJECT if name not in (*model.SPAN, "records"))


def redecide_load(
    spark: SparkSession, run: Run, claim: Sequence[Row], before: Watermarks, tables: Mapping[str, DataFrame]
) -> Iterator[Violation]:
    """Decide a load again; yield its differences from the ledger and the rejects. Skips operators' requests.

    `claim` holds the load's ledger rows with their rules, `before` the watermarks before the load, from the ledger. `tables`
    has `bronze`, `silver` and `rejects`, each at one version.
    """
    decided = [row for row in claim if row["records"] > row[REPLAY]]
    if not decided or claim[0]["kind"] != RECORDS:
        return
    load_seq, rules = claim[0]["load_seq"], Rules.from_json(claim[0]["rules"])
    silver, rejects = tables["silver"].where(F.col("load_seq") < load_seq), tables["rejects"]

    def known() -> KnownRecords:
        return KnownRecords(lambda: silver, lambda: as_of(rejects, load_seq - 1), before, rules)

    claimed = bronze_range.by_offset(after_version=-1, to_version=-1, above=before.last_offsets, rows=decided)
    records = bronze_range.within(from_bytes(tables["bronze"]), claimed)
    rules = with_schemas(spark, run, records, rules)
    counted = sum(row["records"] for row in decided)
    chunks = key_columns.in_chunks(narrow(records, rules), model.LIMITS.records, counted=counted)
    found = planner.classify(chunks, records, rules, load_seq=load_seq, resolve=lambda _: before, known=known)
    summed = (segment for segment in decision.summary(found.segments) if segment.kind != REPLAY)
    loads = ledger.stream_loads(summed, [], before)
    again = {stream_of(row): row for row in ledger.rows(loads, before, dict.fromkeys(("load_seq",), load_seq), rules)}
    yield from _other_outcomes(load_seq, {stream_of(row): row for row in decided}, again)
    of_load = as_of(rejects, load_seq).where(F.col("load_seq") == load_seq)
    yield from other_rejects(load_seq, of_load.toArrow().to_pylist(), found.rejects.to_pylist())


def _other_outcomes(
    load_seq: int, claimed: Mapping[Stream, Row], again: Mapping[Stream, Mapping[str, Any]]
) -> Iterator[Violation]:
    for stream in sorted({**claimed, **again}, key=str):
        where = f"{SILVER_LOADS}, load {load_seq}, {stream_text(stream)}"
        row, other = claimed.get(stream), again.get(stream)
        if row is None or other is None:
            yield Violation(where, "a row" if row else "no row", "none: Bronze has no record of it" if row else "a row of it")
            continue
        differing = [name for name in _OUTCOME if row[name] != other[name]]
        if differing:
            observed, expected = (", ".join(f"{name} {each[name]}" for name in differing) for each in (row, other))
            yield Violation(where, observed, f"{expected}, as Bronze decides it")


def other_rejects(load_seq: int, listed: Iterable[Row], again: Iterable[Row]) -> Iterator[Violation]:
    """Compare the load's rows of `silver_rejects`, in their state after the load, with the rows decided now.

    Compares the total of all blocks of a class, because an offset that Bronze held twice splits a block.
    """
    found, expected = ({tuple(row[name] for name in _REJECT) for row in rows} for rows in (listed, again))
    by_kind: defaultdict[tuple[object, ...], tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, differing in enumerate((found - expected, expected - found)):
        for values in differing:
            row = dict(zip(_REJECT, values, strict=True))
            by_kind[tuple(row[name] for name in _SHARED)][side].append(row)
    for sides in by_kind.values():
        if _sum(sides[0]) == _sum(sides[1]):
            continue
        for kind, rows in zip(("listed", "not listed"), sides, strict=True):
            for row in sorted(rows, key=itemgetter("first_offset")):
                where = f"{SILVER_REJECTS}, load {load_seq}, {stream_text(stream_of(row))}, offset {row['first_offset']}"
                shown = f"{row['class']}, {row['records']} records, up to offset {row['last_offset']}"
                yield Violation(where, f"{kind}: {shown}", "what Bronze decides it to be")


def _sum(blocks: list[Row]) -> tuple[object, ...] | None:
    """Return the range that blocks cover together: first and last offset and sequence, and the number of records."""
    if not blocks:
        return None
    first, last = min(blocks, key=itemgetter("first_offset")), max(blocks, key=itemgetter("last_offset"))
    ends = (first["first_offset"], first["first_sequence"], last["last_offset"], last["last_sequence"])
    return *ends, sum(row["records"] for row in blocks)
