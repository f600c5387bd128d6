"""The plan of a load, and the ledger: a row per stream that the load touches. The commit of the rows is the load's claim.

The claim is the write-ahead log: it is committed before anything else of the load. Sums are Python's unbounded integers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts import silver as contract
from lakehouse.contracts.silver import CLASSES, STREAM, Ordinal, Partition, Stream, stream_of
from lakehouse.delta import log_files, tables
from lakehouse.delta.tables import Transaction
from lakehouse.errors import AnotherWriterError, ConservationError, TableStateError
from lakehouse.protocol.gold_rejects import ROW
from lakehouse.run.crash_points import crash_point
from lakehouse.settings.policies import LATE_OUTCOMES
from lakehouse.table import SILVER_LOADS, SILVER_WATERMARKS
from silver.model import REJECT, Range, by_name, rows_of, tuples_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.delta.small_tables import Row
    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.request import Request
    from silver.state.watermarks import Watermarks

_LARGEST = 2**63 - 1
_COPIED = ("released", "discarded", "erased", "last_offset", "jumps_forward", "jumps_backward")
_MOST_RANGES = 1_000
Arrived = tuple[int, int]
"""A partition's records in a Bronze range, and how many of them are at or below its last decided offset."""


@dataclass(frozen=True)
class BronzeRange:
    """The Bronze versions after `after_version` up to `to_version`, above each partition's last decided offset.

    `counted` is the number of records in these versions, by their commits; None if unknown. `up_to` has the last offset of each
    partition if the versions can no longer be read. The previous load did not decide the topics in `joined`: records of theirs
    may lie in earlier versions. `is_current`: Bronze extracted all of the range's records by the load's rules.
    """

    after_version: int
    to_version: int
    above: Mapping[Partition, int]
    counted: int | None
    up_to: Mapping[Partition, int] | None = None
    topics: Sequence[str] | None = None
    joined: Collection[str] = ()
    is_cut: bool = False
    is_current: bool = False


@dataclass(frozen=True)
class Settled:
    """The earlier rows of `silver_rejects` and `gold_rejects` that a request settles; `left` counts the others by reason."""

    rows: pa.Table = field(default_factory=REJECT.empty_table)
    in_gold: pa.Table = field(default_factory=ROW.empty_table)
    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A load before it is written: everything that its commits need. The rejects of all chunks but the last are on disk.

    `watermarks` are those before the load, including retired streams that occur again. `out` are offsets that Silver does not
    get, as `lakehouse.spark.bitmaps.blocks`; `late` those of late records that it gets; `replayed` those that occur twice.
    `counts_replays`: whether `replay` counts repeated ingests, which is unknown once those versions are gone.
    """

    load_seq: int
    rules: Rules
    watermarks: Watermarks
    range: BronzeRange
    ledger: list[dict[str, Any]]
    rejects: pa.Table
    out: pa.Table | None = None
    late: pa.Table | None = None
    replayed: pa.Table | None = None
    settled: Settled = field(default_factory=Settled)
    request: Request | None = None
    counts_replays: bool = True

    def count(self, name: str) -> int:
        """Sum one of the ledger's counts over all streams."""
        return sum(map(itemgetter(name), self.ledger))

    @property
    def undecodable(self) -> int:
        """The invalid records that only lack a decodable value."""
        found: int = self.rejects.filter(pc.field("reason") == contract.UNDECODABLE).num_rows  # each is a single record
        return found


@dataclass
class StreamLoad:
    """The totals of one stream in a load, named as in the ledger. `declared_epoch` is a new epoch; None leaves it unchanged.

    `ordinal` is the highest accepted (epoch, sequence). `missing_ranges` are sequences that a contiguous stream skipped.
    """

    ordinal: Ordinal | None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    last_offset: int = -1
    missing: int = 0
    jumps_forward: int = 0
    jumps_backward: int = 0
    missing_ranges: Sequence[Range] = ()
    released: int = 0
    discarded: int = 0
    erased: int = 0
    declared_epoch: int | None = None

    def add(self, segment: Row) -> None:
        """Add a row of `silver.model.SEGMENT`; accepted ones must come in ascending order of epoch."""
        self.counts[segment["class"]] += segment["records"]
        self.last_offset = max(self.last_offset, segment["last_offset"])
        if segment["class"] == contract.ACCEPTED:
            known, epoch, first, last = self.ordinal, segment["epoch"], segment["first_sequence"], segment["last_sequence"]
            below = known[1] if known is not None and known[0] == epoch else first - 1
            missing = last - below - segment["records"]
            if missing < 0 or (known is not None and (epoch, first) <= known):
                topic, partition, producer = stream_of(segment)
                above = "" if known is None else f", above (epoch, sequence) {known}"
                raise ConservationError(
                    "More records of a stream were accepted than it has sequences; nothing was written.",
                    where=f"topic {topic}, partition {partition}, producer {producer!r}",
                    observed=f"{segment['records']} records accepted, of epoch {epoch} and sequences {first} to {last}",
                    expected=f"each sequence once{above}",
                    next_step="This is a fault of Tidemark: please report it, with what `tidemark plan` prints. "
                    "Bronze holds the records.",
                )
            self.missing += missing
            self.ordinal = (epoch, last)


def records_of(segments: pa.Table) -> dict[Partition, int]:
    """Return the number of decided records of each partition."""
    summed = segments.group_by(list(contract.PARTITION)).aggregate([("records", "sum")])
    return {(topic, partition): records for topic, partition, records in tuples_of(summed, summed.column_names)}


def stream_loads(
    segments: pa.Table, jumps: pa.Table, arrivals: Mapping[Partition, Arrived], watermarks: Watermarks
) -> dict[Stream, StreamLoad]:
    """Sum up segments and `jumps` of `silver.decide.kernel.Decided` per stream.

    Replays count in the partition's own row, whose producer is null.
    ConservationError if a partition's classes do not add up to its Bronze records, or a stream accepted too many.
    """
    known = watermarks.ordinals
    loads: dict[Stream, StreamLoad] = {}
    counted = records_of(segments)
    for segment in rows_of(segments.sort_by("epoch")):
        topic, partition, producer = stream_of(segment)
        stream = (topic, partition, None if segment["class"] == contract.REPLAY else producer)
        loads.setdefault(stream, StreamLoad(known.get(stream))).add(segment)
    for topic, partition, producer, forward, backward in tuples_of(jumps, jumps.column_names):
        load = loads[topic, partition, producer]
        load.jumps_forward += forward
        load.jumps_backward += backward
    for place, (records, replayed) in arrivals.items():
        if replayed:
            load = loads.setdefault((*place, None), StreamLoad(known.get((*place, None))))
            load.counts[contract.REPLAY] += replayed
            load.last_offset = max(load.last_offset, watermarks.last_offsets[place])
        if (classes := counted.get(place, 0) + replayed) != records:
            raise ConservationError(
                "The classes do not add up to the records that Bronze holds; nothing was written.",
                where=f"topic {place[0]}, partition {place[1]}",
                observed=f"{classes} records in all classes",
                expected=f"{records} records in Bronze",
                next_step="Run `tidemark doctor`, and see whether bronze_records was changed by anything but Tidemark.",
            )
    return loads


def rows(
    loads: Mapping[Stream, StreamLoad], watermarks: Watermarks, claim: Mapping[str, object], rules: Rules
) -> list[dict[str, object]]:
    """Return the load's ledger rows, see `lakehouse.contracts.silver.LOADS`; `claim` has the columns that all rows share.

    It may be a row of the same load, as in a repeat.
    """
    before, last_offsets = watermarks.ordinals, watermarks.last_offsets
    policies = {topic: rules.policy(topic) for topic in {topic for topic, _, _ in loads}}
    fingerprints = {topic: rules.of_topic(topic).fingerprint for topic in policies} if rules.own else {}
    return [
        {
            **claim,
            **dict(zip(STREAM, stream, strict=True)),
            **({"rules_fingerprint": fingerprints[stream[0]]} if rules.own else {}),
            "records": sum(load.counts.values()),
            **load.counts,
            "late_accepted": load.counts[contract.LATE] if LATE_OUTCOMES[policies[stream[0]].late] == "kept" else 0,
            **{name: getattr(load, name) for name in _COPIED},
            **dict(zip(("epoch_before", "high_watermark_before"), before.get(stream, (None, None)), strict=True)),
            **dict(zip(("epoch_after", "high_watermark_after"), load.ordinal or (None, None), strict=True)),
            "last_offset_before": last_offsets.get(stream[:2]),
            "declared_epoch": watermarks.declared.get(stream) if load.declared_epoch is None else load.declared_epoch,
            "missing": min(load.missing, _LARGEST),
            "missing_ranges": _ranges(load, is_contiguous=policies[stream[0]].contiguous),
        }
        for stream, load in sorted(loads.items(), key=lambda item: by_name(item[0]))
    ]


def by_partition(ledger: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Sum up a load's rows by partition, for the log: records, the classes that occur, and the last offset."""
    for (topic, partition), rows in groupby(ledger, key=itemgetter("topic", "partition")):
        streams = list(rows)
        counts = {name: sum(map(itemgetter(name), streams)) for name in ("records", *CLASSES)}
        counted = {name: count for name, count in counts.items() if count or name == "records"}
        last_offset = max(row["last_offset"] for row in streams)
        yield {"topic": topic, "partition": partition, **counted, "last_offset": last_offset}


def _ranges(load: StreamLoad, *, is_contiguous: bool) -> list[dict[str, int]] | None:
    """Return the missing ranges. Ranges past the limit become one per epoch, which may cover accepted sequences."""
    if not is_contiguous:
        return None
    ranges = list(load.missing_ranges[:_MOST_RANGES])
    rest: dict[int, tuple[int, int]] = {}
    for epoch, first, last in load.missing_ranges[_MOST_RANGES:]:
        rest[epoch] = (min(first, rest.get(epoch, (first, last))[0]), last)
    ranges += [(epoch, *reach) for epoch, reach in rest.items()]
    return [dict(zip(("epoch", "first_sequence", "last_sequence"), found, strict=True)) for found in ranges]


def load_of(stream: Stream, watermarks: Watermarks) -> StreamLoad:
    """Return the totals of a stream that takes nothing from Bronze; TableStateError if it has no watermark."""
    mark = watermarks.rows.get(stream)
    if mark is None:
        raise TableStateError(
            "A decided record's stream has no watermark.",
            where=f"{SILVER_WATERMARKS}: topic {stream[0]}, partition {stream[1]}, producer {stream[2]}",
            observed="no row",
            expected="a row: each decided record updates its stream's row",
            next_step="`tidemark restore --to LOAD` takes all of Silver's tables back to the same load.",
        )
    return StreamLoad(mark.ordinal, last_offset=mark.last_offset)


def try_claim(spark: SparkSession, run: Run, rows: DataFrame, load_seq: int, *, records: int = 0) -> bool:
    """Step 3. Append a load's ledger rows; False if its number is used up and the ledger has no claim under it.

    Two runs that claim the same load conflict, or Delta silently skips the later one: so the claim is read back.
    AnotherWriterError if another run claimed the load.
    """
    table, transaction = run.table(SILVER_LOADS), Transaction(run.app_id(SILVER_LOADS), load_seq)
    tables.append(rows, table, contract.LOADS, transaction=transaction, metadata=run.run_id)
    last = log_files.last_append(table.local_folder, transaction.app_id, load_seq)
    if last and last.metadata:
        claimed_by = {last.metadata}
    else:
        claims = spark.read.table(table.sql).where(F.col("load_seq") == load_seq).select("run_id").collect()
        claimed_by = {row["run_id"] for row in claims}
    if claimed_by and claimed_by != {run.run_id}:
        raise AnotherWriterError(
            f"Another run claimed load {load_seq} first; nothing of this one was written.",
            where=str(table),
            observed=", ".join(sorted(claimed_by)),
            expected=run.run_id,
            next_step="Nothing to do: the next run continues from what the other one wrote.",
        )
    if claimed_by:
        run.report.event("silver.claimed", load_seq=load_seq, records=records)
        crash_point("silver.claimed")
    return bool(claimed_by)


def shared_columns(
    run: Run, rules: Rules, versions: tuple[int, int], *, load_seq: int, request: Request | None = None
) -> dict[str, Any]:
    """Return the ledger columns that all rows of a load share. It takes Bronze after the first of the versions."""
    return {
        "load_seq": load_seq,
        "kind": request.kind if request else contract.RECORDS,
        "pipeline": run.pipeline,
        "bronze_after_version": versions[0],
        "bronze_to_version": versions[1],
        "rules_fingerprint": rules.fingerprint,
        "rules": rules.to_json(),
        "request": request.to_json() if request else None,
        "reason": request.reason if request else None,
        "requested_by": request.requested_by if request else None,
        "run_id": run.run_id,
        "claimed_at": datetime.now(UTC),
    }


def open_cutover(ledger: Iterable[Row], finished: int) -> list[Row]:
    """Return the ledger's rows of its last load if that is an unfinished cutover; otherwise empty."""
    unfinished = [row for row in ledger if row["load_seq"] > finished]
    last = max((row["load_seq"] for row in unfinished), default=0)
    return [row for row in unfinished if row["load_seq"] == last and row["kind"] in contract.CUTOVERS]
