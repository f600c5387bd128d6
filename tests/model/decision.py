"""How a protocol may differ, and what a run makes of what it read: the checks of `recover`, and the plans. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tests.model.tables import Claim, Kept, Mark, Tables, World, finished

if TYPE_CHECKING:
    from collections.abc import Sequence


ORDER = ("claim", "append_silver", "append_rejects", "advance")
"""What commits, in the order of `silver.load.steps`."""


@dataclass(frozen=True)
class Protocol:
    """A way to do a load: by default ours."""

    order: tuple[str, ...] = ORDER  # of the steps that commit
    has_transactions: bool = True  # appends carry a transaction id
    # the id belongs to the runner's own checkpoint, as a batch id does, and not to the pipeline
    is_id_of_checkpoint: bool = False
    reads_back: bool = True  # a run reads its claim back and stops if another run's came first
    replans_claims: bool = False  # an open claim is planned with Bronze's present version
    merge_has_transaction: bool = False  # so does the MERGE of the watermarks
    repeat_knows_its_own: bool = True  # the repeat of a release also chooses records that this load settled
    has_checks: bool = True  # `recover` compares the tables, and a repeat compares its plan with the claim
    advances_in_order: bool = True  # the MERGE moves nothing unless the watermarks are at the load before
    advances_past_swaps: bool = False  # the MERGE also moves rows if the watermarks are beyond that load
    swap_is_noted: bool = True  # a restore commits to records and rejects under its own number
    mark_looks: bool = True  # a release looks for a restore in the ledger, in the transaction that marks rejects
    swap_sets_property: bool = True  # a restore changes a property of the rejects before it changes rows


class Refused(NamedTuple):
    """The run ends with an error, and has written nothing."""

    why: str


class Found(NamedTuple):
    """The tables that a runner read in `recover`, one after the other."""

    marks: tuple[Mark, ...]  # the watermarks
    ledger: tuple[Claim, ...]  # the claims

    @property
    def last(self) -> Claim | None:
        """The last finished load."""
        return self.claim_of(finished(self.marks))

    @property
    def open_claim(self) -> Claim | None:
        """The load that was claimed and is not finished, as far as was read."""
        return self.claim_of(finished(self.marks) + 1)

    @property
    def bronze_version(self) -> int:
        """The Bronze version that the last finished load ended with."""
        return self.last.to if self.last else 0

    def claim_of(self, load: int) -> Claim | None:
        """The first claim of a load."""
        return next((claim for claim in self.ledger if claim.load == load), None)


def ledger_contradicts(found: Found) -> bool:
    """As `recover`: the last claim is neither the last finished load nor the next, or the finished one was never claimed."""
    last = finished(found.marks)
    loads = {claim.load for claim in found.ledger if claim.load >= last}
    return max(loads, default=0) not in (last, last + 1) or bool(last and last not in loads)


def silver_contradicts(found: Found, silver: Sequence[Kept]) -> bool:
    """As `recover._require_silver`: the last load's rows are there, a claimed one's all or none, and nothing is beyond."""
    last = finished(found.marks)
    observed = Counter(row.load for row in silver if row.load >= max(last, 1))
    expected: Counter[int] = Counter()
    for claim in found.ledger:
        if claim.load >= last and claim.kept:
            expected[claim.load] += len(claim.kept)
    if not observed[last + 1]:
        expected.pop(last + 1, None)
    return dict(+observed) != dict(expected)


def marks_contradict(found: Found) -> bool:
    """As `recover._require_marks`: a partition of the last finished load is not where the ledger left it."""
    moved = found.last.moved if found.last else ()
    return any(not found.marks[partition].load or found.marks[partition].last != last for partition, last in moved)


def decided(world: World, found: Found, pinned: Claim) -> Claim | Refused:
    """As `silver.load.planner.plan_range`: what lies above the watermarks in Bronze as of the pinned version.

    Bronze's change feed says how many records the range brought each partition. As in `ledger._require_conservation`, a
    partition that the range does not touch is not compared.
    """
    partition_of = {number: version.partition for number, version in enumerate(world.bronze[: pinned.to], start=1)}
    versions = [number for number, partition in partition_of.items() if number > found.marks[partition].last]
    touched = {partition_of[number] for number in range(pinned.after + 1, pinned.to + 1)}
    if any(partition_of[old] in touched for old in versions if old <= pinned.after):
        return Refused("the classes do not add up")
    moved = {partition: found.marks[partition].last for partition in touched}
    moved |= {partition_of[number]: number for number in versions}
    return pinned._replace(
        kept=tuple(number for number in versions if world.bronze[number - 1].has_kept),
        held=tuple(number for number in versions if world.bronze[number - 1].has_held),
        moved=tuple(sorted(moved.items())),
    )


def answered(
    world: World, tables: Tables, marks: tuple[Mark, ...], pinned: Claim, *, knows_its_own: bool
) -> Claim | Refused | None:
    """As `silver.requests.planner.plan_request` of a release: the wanted record, held still or settled by this very load."""
    settled_by = (0, pinned.load) if knows_its_own else (0,)
    in_silver = {row.record for row in tables.silver if row.load < pinned.load}
    meant = [
        row.version
        for row in tables.rejects
        if row.version == wanted(world)
        and row.load < pinned.load
        and row.settled_by in settled_by
        and -row.version not in in_silver
    ]
    if not meant:
        return None
    partition = world.bronze[meant[0] - 1].partition
    if not marks[partition].load:
        return Refused("the stream has no watermark")
    moved = ((partition, marks[partition].last),)
    return pinned._replace(kept=tuple(-version for version in meant), held=tuple(meant), moved=moved)


def wanted(world: World) -> int:
    """The record that a person wants released: the first held one."""
    return next(number for number, version in enumerate(world.bronze, start=1) if version.has_held)


def is_waiting(world: World, tables: Tables) -> bool:
    """Whether the record that a person wants released is held."""
    return any(row.version == wanted(world) and not row.settled_by for row in tables.rejects)
