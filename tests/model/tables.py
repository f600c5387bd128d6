"""The tables of the model, as small as they can be and still be lost, doubled or torn apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

PIPELINE = 0
"""The application of a transaction id that all runners share."""

NOBODY = -1
"""The owner of a claim whose run has ended: the same process, started again, is another run."""


NO_SWAP = -1
"""What a load keeps that takes nothing back."""


class Version(NamedTuple):
    """A Bronze version: it brings one partition a record that is kept and one that is held, or only one of them."""

    partition: int = 0
    has_kept: bool = True
    has_held: bool = True


@dataclass(frozen=True)
class World:
    """How much may happen.

    Attributes:
        bronze: The versions that Bronze gains, one by one.
        crashes: How often a runner may die.
        restores: How often the watermark table may be put back to an earlier load, or to nothing.
        has_person: Whether somebody comes where every run is refused, and puts the watermarks back to where they belong.
        has_release: Whether a person wants the first held record released.
        swaps: How often a person may take all tables back to an earlier load, by `tidemark restore`.
        runners: Runners at once.
    """

    bronze: tuple[Version, ...] = (Version(), Version())
    crashes: int = 2
    restores: int = 0
    has_person: bool = False
    has_release: bool = False
    swaps: int = 0
    runners: int = 2

    @property
    def partitions(self) -> int:
        """Partitions, which are streams here."""
        return 1 + max(version.partition for version in self.bronze)


class Mark(NamedTuple):
    """A row of silver_watermarks. Load 0 stands for no row; `last` is the last version decided, as last_offset is."""

    load: int = 0
    last: int = 0


class Claim(NamedTuple):
    """A load's rows in silver_loads, which are also its plan.

    A record is named by the version that brought it: v is the kept one, -v the held one once it is released.

    Attributes:
        load: The load's number.
        owner: The runner whose present run claimed it; NOBODY where that run has ended.
        after: The Bronze version that the load before ended with.
        to: The last Bronze version of the load.
        kept: Records for Silver.
        held: Held records for silver_rejects; those that a release settles.
        moved: The partitions that the load touches, and where their watermark stands after it.
        is_release: Whether a person asked for it.
        keep_to: Of a restore the last load that stays; all between that and its own go. NO_SWAP of any other load.
    """

    load: int
    owner: int
    after: int
    to: int
    kept: tuple[int, ...]
    held: tuple[int, ...]
    moved: tuple[tuple[int, int], ...]
    is_release: bool = False
    keep_to: int = NO_SWAP

    @property
    def is_swap(self) -> bool:
        """Whether it is a restore."""
        return self.keep_to != NO_SWAP

    def undoes(self, load: int) -> bool:
        """Whether it takes back what a load did."""
        return self.keep_to < load < self.load


class Kept(NamedTuple):
    """A row of silver_records."""

    load: int
    record: int


class Held(NamedTuple):
    """A row of silver_rejects: the version that brought it, and the load that released it (0: it waits)."""

    load: int
    version: int
    settled_by: int = 0


class Runner(NamedTuple):
    """A process: where it stands, and what it remembers. A crash, or the end of the run, makes it a new one.

    Attributes:
        at: What it does next: a step, or a part of one.
        kind: run, or by_hand for a person's release; by_hand_again once nothing of others is to be finished first.
        is_repeat: Whether it carries out a claim that it found.
        marks: The watermarks that it read.
        ledger: How many claims there were when it read the ledger.
        planned: The load that it carries out.
        seen: The property of the rejects when its transaction on them began; None where none has.
    """

    at: str = "recover"
    kind: str = "run"
    is_repeat: bool = False
    marks: tuple[Mark, ...] = ()
    ledger: int = 0
    planned: Claim | None = None
    seen: int | None = None


IDLE = Runner()


class Tables(NamedTuple):
    """Everything there is. A table changes in one step: a Delta commit is atomic.

    Attributes:
        bronze: Bronze's latest version.
        ledger: silver_loads, in the order of the commits.
        silver: silver_records, sorted.
        rejects: silver_rejects, sorted.
        marks: silver_watermarks, by partition.
        transactions: The last version of each application, by table and application: what Delta keeps with a table. A RESTORE
            takes rows back, not these.
        runners: The processes.
        crashes: How often one may still die.
        restores: How often the watermark table may still be put back.
        swaps: How often all tables may still be taken back.
        property: What the last restore has set on the rejects: a transaction that began before another value conflicts.
    """

    bronze: int
    ledger: tuple[Claim, ...]
    silver: tuple[Kept, ...]
    rejects: tuple[Held, ...]
    marks: tuple[Mark, ...]
    transactions: tuple[tuple[str, int, int], ...]
    runners: tuple[Runner, ...]
    crashes: int
    restores: int
    swaps: int = 0
    property: int = 0


def start(world: World) -> Tables:
    """Empty tables, and nobody at work."""
    marks, runners = (Mark(),) * world.partitions, (IDLE,) * world.runners
    return Tables(0, (), (), (), marks, (), runners, world.crashes, world.restores, world.swaps)


def ended(tables: Tables, who: int) -> Tables:
    """The tables when a runner's run is over, one way or another: it remembers nothing, and its claims are nobody's."""
    runners = (*tables.runners[:who], IDLE, *tables.runners[who + 1 :])
    ledger = tuple(claim._replace(owner=NOBODY) if claim.owner == who else claim for claim in tables.ledger)
    return tables._replace(runners=runners, ledger=ledger)


def finished(marks: tuple[Mark, ...]) -> int:
    """The last finished load, as `silver.state.watermarks.Watermarks.load_seq` reads it."""
    return max(mark.load for mark in marks)


def merged(marks: tuple[Mark, ...], claim: Claim) -> tuple[Mark, ...]:
    """The watermarks after a load's MERGE: a row moves only where the load is greater. After a restore they are its own."""
    rows = [Mark()] * len(marks) if claim.is_swap else list(marks)
    for partition, last in claim.moved:
        if claim.load > rows[partition].load:
            rows[partition] = Mark(claim.load, last)
    return tuple(rows)


def as_of(tables: Tables, load: int) -> tuple[Mark, ...]:
    """The watermarks as the loads up to one left them."""
    marks = (Mark(),) * len(tables.marks)
    for claim in tables.ledger:
        if claim.load <= load:
            marks = merged(marks, claim)
    return marks


def last_transaction(tables: Tables, table: str, application: int) -> int:
    """The last version that Delta knows of an application; 0 for none."""
    return next((version for name, app, version in tables.transactions if (name, app) == (table, application)), 0)


def noted(tables: Tables, table: str, application: int, version: int) -> tuple[tuple[str, int, int], ...]:
    """The transactions, with one more."""
    others = [each for each in tables.transactions if each[:2] != (table, application)]
    return tuple(sorted([*others, (table, application, version)]))


def open_swap(tables: Tables) -> Claim | None:
    """The restore that was claimed and is not finished."""
    last = max(tables.ledger, key=lambda claim: claim.load, default=None)
    return last if last is not None and last.is_swap and last.load > finished(tables.marks) else None


def highest(tables: Tables) -> int:
    """The highest number that any table has seen, and that a claim can no longer take."""
    loads = [claim.load for claim in tables.ledger] + [mark.load for mark in tables.marks]
    loads += [row.load for row in tables.silver] + [row.load for row in tables.rejects]
    return max([last_transaction(tables, "claim", PIPELINE), *loads])


def is_whole_up_to(tables: Tables, load: int) -> bool:
    """Whether records and rejects hold what the loads up to one brought, as `pipelines.recover.restore` requires it."""
    kept = {row.record for row in tables.silver if row.load <= load}
    held = {row.version for row in tables.rejects if row.load <= load}
    settled = {row.version for row in tables.rejects if row.settled_by}
    return all(
        kept >= set(claim.kept) and (settled if claim.is_release else held) >= set(claim.held)
        for claim in tables.ledger
        if claim.load <= load
    )
