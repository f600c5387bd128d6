"""The tables of the model, as small as they can be and still be lost, doubled or torn apart."""

from dataclasses import dataclass
from typing import NamedTuple

PIPELINE = 0  # the application of a transaction id that all runners share
NOBODY = -1  # the owner of a claim whose run has ended: the same process, started again, is another run
NO_SWAP = -1  # what a load keeps that takes nothing back
NO_MARK = -1  # the mark of rules without one


class Version(NamedTuple):
    """A Bronze version: it brings one partition a record that is kept and one that is held, or only one of them."""

    partition: int = 0
    has_kept: bool = True
    has_held: bool = True
    copies: int = 0  # the version whose kept record comes again: in the next incarnation, or in another partition; 0 for none


@dataclass(frozen=True)
class World:
    bronze: tuple[Version, ...] = (Version(), Version())  # the versions that Bronze gains, in this order
    crashes: int = 2  # how often a runner may die
    restores: int = 0  # how often the watermark table may be put back to an earlier load, or to nothing
    has_person: bool = False  # a person puts the watermarks right if every run is refused
    has_release: bool = False  # a person wants the first held record released
    swaps: int = 0  # how often a person may take all tables back to an earlier load, by `tidemark restore`
    runners: int = 2  # runners at once
    sent_before: int = 0  # the versions sent before the producers knew a partition that the topic got; 0 if it gets none

    @property
    def has_copies(self) -> bool:
        return any(version.copies for version in self.bronze)

    @property
    def moves(self) -> bool:
        """Whether the topic moves: a person accepts that before Bronze reads the copies."""
        return self.has_copies and not self.sent_before

    @property
    def partitions(self) -> int:
        return 1 + max(version.partition for version in self.bronze)


class Mark(NamedTuple):
    """A row of silver_watermarks. Load 0 stands for no row; `last` is the last version decided, as last_offset is."""

    load: int = 0
    last: int = 0


class Claim(NamedTuple):
    """A load's rows in silver_loads, its plan. A record is named by its version: v if kept, -v if held and then released."""

    load: int  # the load's number
    owner: int  # the runner whose present run claimed it; NOBODY if that run has ended
    after: int  # the Bronze version that the load before ended with
    to: int  # the last Bronze version of the load
    kept: tuple[int, ...]  # records for Silver
    held: tuple[int, ...]  # held records for silver_rejects; those that a release settles
    moved: tuple[tuple[int, int], ...]  # the partitions that the load touches, with their watermarks after it
    is_release: bool = False  # a person requested it
    keep_to: int = NO_SWAP  # the last load that a restore keeps; NO_SWAP for any other load
    is_accept: bool = False  # a person accepted that the topic moved
    has_numbering: bool = False  # its rules say that the next incarnation, or the partition added, continues the numbers
    mark: int = NO_MARK  # its rules compare records up to this one with other partitions; NO_MARK for all
    is_last: bool = False  # its rules say that it decides all that was sent before the producers knew the partition

    @property
    def is_swap(self) -> bool:
        return self.keep_to != NO_SWAP

    def undoes(self, load: int) -> bool:
        return self.keep_to < load < self.load


class Kept(NamedTuple):
    load: int
    record: int


class Held(NamedTuple):
    """A row of silver_rejects: the version that brought it, and the load that released it (0: it waits)."""

    load: int
    version: int
    settled_by: int = 0


class Runner(NamedTuple):
    """A process: its next step and its memory. A crash, or the end of the run, makes it a new one."""

    at: str = "recover"  # its next step, or part of a step
    kind: str = "run"  # run, or by_hand for a release; by_hand_again after it finished another run's load
    is_repeat: bool = False  # it executes a claim that it found
    marks: tuple[Mark, ...] = ()  # the watermarks that it read
    ledger: int = 0  # how many claims there were when it read the ledger
    planned: Claim | None = None  # the load that it executes
    seen: int | None = None  # the property of the rejects at the begin of its transaction on them; None before
    pinned_to: int | None = None  # the Bronze version that it pinned before it read the numbering; None before
    has_numbering: bool = False  # what it read of the numbering at its begin


IDLE = Runner()


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


class Tables(NamedTuple):
    """The whole state. A table changes in one step: a Delta commit is atomic."""

    bronze: int  # Bronze's latest version
    ledger: tuple[Claim, ...]  # silver_loads, in the order of the commits
    silver: tuple[Kept, ...]  # silver_records, sorted
    rejects: tuple[Held, ...]  # silver_rejects, sorted
    marks: tuple[Mark, ...]  # silver_watermarks, by partition
    # the last version of each application, by table and application, as Delta keeps them: a RESTORE does not take them back
    transactions: tuple[tuple[str, int, int], ...]
    runners: tuple[Runner, ...]  # the processes
    crashes: int  # how often one may still die
    restores: int  # how often the watermark table may still be put back
    swaps: int = 0  # how often all tables may still be taken back
    is_accepted: bool = False  # bronze_topics says that the topic moved, and has the same numbering, or that it got a partition
    is_read: bool = False  # bronze_topics says that all sent before the producers knew the partition is read
    property: int = 0  # of the rejects, set by the last restore: a transaction that began under another value conflicts

    def ended(self, who: int) -> "Tables":
        runners = (*self.runners[:who], IDLE, *self.runners[who + 1 :])
        ledger = tuple(claim._replace(owner=NOBODY) if claim.owner == who else claim for claim in self.ledger)
        return self._replace(runners=runners, ledger=ledger)

    def as_of(self, load: int) -> tuple[Mark, ...]:
        marks = (Mark(),) * len(self.marks)
        for claim in self.ledger:
            if claim.load <= load:
                marks = merged(marks, claim)
        return marks

    def last_transaction(self, table: str, application: int) -> int:
        return next((version for name, app, version in self.transactions if (name, app) == (table, application)), 0)

    def noted(self, table: str, application: int, version: int) -> "Tables":
        others = [each for each in self.transactions if each[:2] != (table, application)]
        return self._replace(transactions=tuple(sorted([*others, (table, application, version)])))

    def open_swap(self) -> Claim | None:
        last = max(self.ledger, key=lambda claim: claim.load, default=None)
        return last if last is not None and last.is_swap and last.load > finished(self.marks) else None

    def highest(self) -> int:
        """The highest number that any table has seen, and that a claim can no longer take."""
        loads = [claim.load for claim in self.ledger] + [mark.load for mark in self.marks]
        loads += [row.load for row in self.silver] + [row.load for row in self.rejects]
        return max([self.last_transaction("claim", PIPELINE), *loads])

    def is_whole_up_to(self, load: int) -> bool:
        """Whether records and rejects hold what the loads up to one brought, as `pipelines.recover.restore` requires it."""
        kept = {row.record for row in self.silver if row.load <= load}
        held = {row.version for row in self.rejects if row.load <= load}
        settled = {row.version for row in self.rejects if row.settled_by}
        return all(
            kept >= set(claim.kept) and (settled if claim.is_release else held) >= set(claim.held)
            for claim in self.ledger
            if claim.load <= load
        )


def start(world: World) -> Tables:
    marks, runners = (Mark(),) * world.partitions, (IDLE,) * world.runners
    return Tables(0, (), (), (), marks, (), runners, world.crashes, world.restores, world.swaps)
