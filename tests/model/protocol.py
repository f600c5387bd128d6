"""The protocol of a load as steps over the tables of the model. Methods carry the names of the code's functions.

What one step may do is what the real one can: read one table, or commit to one table. Between any two, other runners go on,
a process dies, Bronze grows or a table is put back. A run that ends is followed by another, whenever. Where Delta skips a write
it may as well report a conflict: which of the two depends on when the write began, and the model allows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.model.checker import Step
from tests.model.decision import (
    Found,
    Protocol,
    Refused,
    answered,
    decided,
    is_waiting,
    ledger_contradicts,
    marks_contradict,
    silver_contradicts,
)
from tests.model.tables import (
    IDLE,
    NOBODY,
    PIPELINE,
    Claim,
    Held,
    Kept,
    Runner,
    Tables,
    World,
    as_of,
    ended,
    finished,
    highest,
    is_whole_up_to,
    last_transaction,
    merged,
    noted,
    open_swap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

STEPS = {
    "recover": "silver.load.recover",
    "planned_again": "silver.load.steps",
    "plan": "silver.load.planner",
    "plan_request": "silver.requests.planner",
    "claim": "silver.load.steps",
    "append_silver": "silver.load.steps",
    "append_rejects": "silver.load.steps",
    "advance": "silver.load.steps",
}
"""Each step of the model, and the module whose function it stands for."""

SWAP_STEPS = {
    "restore": "pipelines.recover.restore",
    "close": "lakehouse.protocol.swap_fence",
    "_cut": "silver.load.cutover",
    "carry_out": "silver.load.cutover",
}
"""The same of a restore; it is claimed as any load is."""

SWAP_ORDER = (
    "restore",
    "claim",
    "close: records",
    "close: rejects",
    "close: property",
    "_cut: records",
    "_cut: rejects",
    "_cut: settled",
    "carry_out: ledger",
    "carry_out: marks",
)
"""What a restore commits, in the order of `silver.load.cutover.carry_out`."""


@dataclass(frozen=True)
class Load:
    """The steps of runners that follow a protocol in a world."""

    protocol: Protocol  # the protocol
    world: World  # the world

    def steps(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """What a runner may do next."""
        runner = tables.runners[who]
        yield from PARTS[runner.at](self, tables, who)
        if runner == IDLE and self.world.has_release and is_waiting(self.world, tables):
            yield from self.recover(tables, who, kind="by_hand")
        if runner == IDLE and tables.swaps:
            yield from self.restore(tables, who)

    def restore(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """A person takes all tables back to an earlier load that is whole, whatever was claimed since."""
        if open_swap(tables) is not None:
            return  # it is finished first, as any run does
        ahead = tables._replace(swaps=tables.swaps - 1)
        for to in tables.ledger:
            if to.load < highest(tables) and is_whole_up_to(tables, to.load):
                marks = as_of(tables, to.load)
                moved = tuple((partition, mark.last) for partition, mark in enumerate(marks) if mark.load)
                asked = Claim(highest(tables) + 1, who, to.to, to.to, (), (), moved, keep_to=to.load)
                yield _to(ahead, who, f"restore --to {to.load}", self._following(Runner("restore", planned=asked)))

    def swap(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """The next commit of a restore."""
        at, by = tables.runners[who].at, _planned(tables, who)
        if at.startswith("close") and at != "close: property":
            name = "append_silver" if at == "close: records" else "append_rejects"
            is_known = last_transaction(tables, name, PIPELINE) >= by.load
            known = tables if is_known else tables._replace(transactions=noted(tables, name, PIPELINE, by.load))
            yield self._goes_on(known if self.protocol.swap_is_noted else tables, who, at)
        elif at == "close: property":
            yield self._goes_on(tables._replace(property=by.load) if self.protocol.swap_sets_property else tables, who, at)
        elif at == "_cut: records":
            left = tuple(row for row in tables.silver if not by.undoes(row.load))
            yield self._goes_on(tables._replace(silver=left), who, at)
        elif at == "_cut: rejects":
            waiting = tuple(row for row in tables.rejects if not by.undoes(row.load))
            yield self._goes_on(tables._replace(rejects=waiting), who, at)
        elif at == "_cut: settled":
            again = tuple(row._replace(settled_by=0) if by.undoes(row.settled_by) else row for row in tables.rejects)
            yield self._goes_on(tables._replace(rejects=again), who, at)
        elif at == "carry_out: ledger":
            standing = tuple(claim for claim in tables.ledger if not by.undoes(claim.load))
            yield self._goes_on(tables._replace(ledger=standing), who, at)
        else:
            marks = tables.marks
            for claim in tables.ledger:
                marks = merged(marks, claim) if claim.load == by.load else marks
            yield from self._append(tables, who, at, tables._replace(marks=marks))

    def recover(self, tables: Tables, who: int, kind: str | None = None) -> Iterator[Step[Tables]]:
        """Read the watermarks. A run begins with it; one for a release does it again once it has finished another's load."""
        kind = kind or tables.runners[who].kind
        name = "recover: watermarks" if kind == "run" else "recover: watermarks, for a release"
        yield _to(tables, who, name, Runner("recover: ledger", kind, marks=tables.marks))

    def recover_ledger(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Read the ledger, and hold it against the watermarks."""
        runner = tables.runners[who]._replace(at="recover: silver", ledger=len(tables.ledger))
        last = tables.ledger[-1] if tables.ledger else None
        if last is not None and last.is_swap and last.load > finished(runner.marks):
            swapping = Runner("claim", runner.kind, is_repeat=True, planned=last._replace(owner=NOBODY))
            yield _to(tables, who, "recover: a restore is not finished", self._following(swapping))
        elif self.protocol.has_checks and ledger_contradicts(found_by(tables, runner)):
            yield _ends(tables, who, "recover refuses: ledger and watermarks")
        else:
            yield _to(tables, who, "recover: ledger", runner)

    def recover_silver(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Read Silver, and hold it against what was read before."""
        runner = tables.runners[who]
        found = found_by(tables, runner)
        if self.protocol.has_checks and (silver_contradicts(found, tables.silver) or marks_contradict(found)):
            yield _ends(tables, who, "recover refuses: Silver or a watermark")
        else:
            yield _to(tables, who, "recover: silver", runner._replace(at="plan"))

    def plan(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Plan the next load, an open claim's again, or what a person asked for."""
        runner = tables.runners[who]
        name, planned = self.planned(tables, who)
        if isinstance(planned, Refused):
            yield _ends(tables, who, f"{name} refuses: {planned.why}")
        elif planned is None:
            yield _ends(tables, who, f"{name}: nothing to do")
        else:
            kind = "by_hand_again" if name == "plan_request" else runner.kind
            ready = Runner("plan", kind, is_repeat=name == "planned_again", planned=planned)
            yield _to(tables, who, f"{name} load {planned.load}", self._following(ready))

    def planned(self, tables: Tables, who: int) -> tuple[str, Claim | Refused | None]:
        """The step that plans, and the plan."""
        runner = tables.runners[who]
        found = found_by(tables, runner)
        # A release looks for an open claim once. One that comes later is met at its own claim.
        if found.open_claim is not None and runner.kind != "by_hand_again":
            return "planned_again", self.planned_again(tables, found, found.open_claim)
        after = found.bronze_version
        pinned = Claim(finished(found.marks) + 1, who, after, tables.bronze, (), (), ())
        if runner.kind == "run":
            return "plan", decided(self.world, found, pinned) if tables.bronze > after else None
        return "plan_request", self._answered(tables, found, pinned._replace(to=after, is_release=True))

    def planned_again(self, tables: Tables, found: Found, claim: Claim) -> Claim | Refused | None:
        """Plan what a claim pinned, and compare the outcome with it."""
        pinned = claim._replace(to=tables.bronze) if self.protocol.replans_claims else claim
        pinned = pinned._replace(owner=NOBODY)
        again = self._answered(tables, found, pinned) if claim.is_release else decided(self.world, found, pinned)
        if again == claim._replace(owner=NOBODY) or self.protocol.replans_claims or not self.protocol.has_checks:
            return again
        return Refused("another outcome than the claimed one")

    def claim(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Append the claim."""
        planned = _planned(tables, who)
        appended = tables._replace(ledger=(*tables.ledger, planned))
        yield from self._append(tables, who, "claim", appended)

    def claim_read_back(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Read the claim back."""
        load = _planned(tables, who).load
        owners = {claim.owner for claim in tables.ledger if claim.load == load}
        if owners == {who} or not self.protocol.reads_back:
            yield self._goes_on(tables, who, "claim: read back")
        else:
            yield _ends(tables, who, "claim: another run's stands")

    def append_silver(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Append the kept records."""
        planned = _planned(tables, who)
        if not planned.kept:
            yield self._goes_on(tables, who, "append_silver: none")
            return
        rows = (*tables.silver, *(Kept(planned.load, record) for record in planned.kept))
        yield from self._append(tables, who, "append_silver", tables._replace(silver=tuple(sorted(rows))))

    def append_rejects(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Append the held records, or mark the released one."""
        planned = _planned(tables, who)
        if planned.is_release and self.world.swaps and tables.runners[who].seen is None:
            if self.protocol.mark_looks and any(claim.is_swap and claim.load > planned.load for claim in tables.ledger):
                yield _ends(tables, who, "append_rejects: the load is undone")
            else:
                begun = tables.runners[who]._replace(seen=tables.property)
                yield _to(tables, who, "append_rejects: begins", begun)
        elif planned.is_release and self.world.swaps and tables.runners[who].seen != tables.property:
            yield _ends(tables, who, "append_rejects conflicts with a changed property")
        elif planned.is_release:
            yield from self._mark(tables, who, planned)
        elif not planned.held:
            yield self._goes_on(tables, who, "append_rejects: none")
        else:
            rows = (*tables.rejects, *(Held(planned.load, version) for version in planned.held))
            yield from self._append(tables, who, "append_rejects", tables._replace(rejects=tuple(sorted(rows))))

    def advance(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """Move the watermarks by the ledger's rows of the load, in a MERGE."""
        load = _planned(tables, who).load
        marks = tables.marks
        if self.world.swaps and not self.protocol.advances_past_swaps and finished(marks) >= load:
            yield self._goes_on(tables, who, "advance: moves nothing")
            return
        if self.protocol.advances_in_order and finished(marks) < load - 1:
            yield _ends(tables, who, "advance refuses: the watermarks were put back")
            return
        # The ledger's rows may have been read before a restore took them away.
        for claim in (*tables.ledger, *((_planned(tables, who),) if self.world.swaps else ())):
            marks = merged(marks, claim) if claim.load == load else marks
        moved = tables._replace(marks=marks)
        if self.protocol.merge_has_transaction:
            yield from self._append(tables, who, "advance", moved)
        else:
            yield from self._merge(tables, who, "advance", moved)

    def _mark(self, tables: Tables, who: int, planned: Claim) -> Iterator[Step[Tables]]:
        """As `silver.requests.quarantine.mark_settled`: a MERGE on what is held still."""
        rows = tuple(
            row._replace(settled_by=planned.load) if row.version in planned.held and not row.settled_by else row
            for row in tables.rejects
        )
        yield from self._merge(tables, who, "append_rejects", tables._replace(rejects=rows))

    def _append(self, tables: Tables, who: int, name: str, appended: Tables) -> Iterator[Step[Tables]]:
        """Commit with the load's transaction id: taken once; later Delta skips it, or says that another commit came between."""
        load = _planned(tables, who).load
        application = 1 + who if self.protocol.is_id_of_checkpoint and name != "claim" else PIPELINE
        if not self.protocol.has_transactions:
            yield self._goes_on(appended, who, name)
        elif last_transaction(tables, name, application) < load:
            yield self._goes_on(appended._replace(transactions=noted(tables, name, application, load)), who, name)
        else:
            yield self._goes_on(tables, who, f"{name} is skipped")
            yield _ends(tables, who, f"{name} conflicts")

    def _merge(self, tables: Tables, who: int, name: str, merged_tables: Tables) -> Iterator[Step[Tables]]:
        """Commit a MERGE: where another runner's did the same, this one changes nothing, or conflicts with it."""
        yield self._goes_on(merged_tables, who, name)
        if merged_tables == tables:
            yield _ends(tables, who, f"{name} conflicts")

    def _goes_on(self, tables: Tables, who: int, name: str) -> Step[Tables]:
        return _to(tables, who, name, self._following(tables.runners[who]))

    def _following(self, runner: Runner) -> Runner:
        """The runner at its next step; a claim that was found is not claimed again."""
        runner = runner._replace(seen=None)
        if runner.at == "claim" and not runner.is_repeat:
            return runner._replace(at="claim: read back")
        if runner.planned is not None and runner.planned.is_swap:
            done = SWAP_ORDER.index(runner.at.replace("claim: read back", "claim"))
            if done + 1 < len(SWAP_ORDER):
                return runner._replace(at=SWAP_ORDER[done + 1])
            return Runner("recover", "by_hand_again") if runner.kind == "by_hand" else IDLE
        order = [name for name in ("plan", *self.protocol.order) if name != "claim" or not runner.is_repeat]
        done = order.index(runner.at.partition(":")[0])
        if done + 1 < len(order):
            return runner._replace(at=order[done + 1])
        return Runner("recover", "by_hand_again") if runner.kind == "by_hand" else IDLE

    def _answered(self, tables: Tables, found: Found, pinned: Claim) -> Claim | Refused | None:
        return answered(self.world, tables, found.marks, pinned, knows_its_own=self.protocol.repeat_knows_its_own)


PARTS: Mapping[str, Callable[[Load, Tables, int], Iterator[Step[Tables]]]] = {
    "recover": Load.recover,
    "recover: ledger": Load.recover_ledger,
    "recover: silver": Load.recover_silver,
    "plan": Load.plan,
    "claim": Load.claim,
    "claim: read back": Load.claim_read_back,
    "append_silver": Load.append_silver,
    "append_rejects": Load.append_rejects,
    "advance": Load.advance,
    **{at: Load.swap for at in SWAP_ORDER if at not in ("restore", "claim")},
}
"""Where a runner stands, and what it does there: a table is read, or committed to, in each."""


def found_by(tables: Tables, runner: Runner) -> Found:
    """What a runner has read in `recover`."""
    return Found(runner.marks, tables.ledger[: runner.ledger])


def _planned(tables: Tables, who: int) -> Claim:
    planned = tables.runners[who].planned
    assert planned is not None, "who commits has planned"
    return planned


def _to(tables: Tables, who: int, name: str, runner: Runner) -> Step[Tables]:
    """The step after which a runner stands there."""
    name = f"{'ABC'[who]} {name}"
    if runner == IDLE:
        return Step(name, ended(tables, who))
    runners = (*tables.runners[:who], runner, *tables.runners[who + 1 :])
    return Step(name, tables._replace(runners=runners))


def _ends(tables: Tables, who: int, name: str) -> Step[Tables]:
    return _to(tables, who, name, IDLE)
