"""A load as steps over the tables of the model, with the names of the code's functions. A step reads or commits to one table.
Anything may happen between two steps. Where Delta skips a write it may also report a conflict: both are allowed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.checker import Step
from tests.model.tables import IDLE, NO_MARK, NOBODY, PIPELINE, Claim, Held, Kept, Mark, Runner, Tables, World, finished, merged

STEPS = {
    "recover": "silver.load.recover",
    "replan_claim": "silver.load.steps",
    "plan": "silver.load.planner",
    "plan_request": "silver.requests.planner",
    "claim": "silver.load.steps",
    "append_silver": "silver.load.steps",
    "append_rejects": "silver.load.steps",
    "advance": "silver.load.steps",
    "write_accepted": "bronze.progress.topic_registry",
    "complete_rules": "silver.load.planner",
}  # each step of the model, and the module of the function that it models

SWAP_STEPS = {
    "restore": "pipelines.recover.restore",
    "close": "lakehouse.protocol.cutover_fence",
    "_cut": "silver.load.cutover",
    "apply_cutover": "silver.load.cutover",
}  # the same of a restore; it is claimed as any load is

SWAP_ORDER = (
    *("restore", "claim", "close: records", "close: rejects", "close: property"),
    *("_cut: records", "_cut: rejects", "_cut: settled", "apply_cutover: ledger", "apply_cutover: marks"),
)  # what a restore commits, in the order of `silver.load.cutover.apply_cutover`

AGAIN = {"by_hand": "by_hand_again", "accept": "accept_again"}  # a person's run, once it has finished another's load

ORDER = ("claim", "append_silver", "append_rejects", "advance")  # what commits, in the order of `silver.load.steps`


@dataclass(frozen=True)
class Protocol:
    order: tuple[str, ...] = ORDER  # of the steps that commit
    has_transactions: bool = True  # appends carry a transaction id
    is_id_of_checkpoint: bool = False  # the id belongs to the runner's own checkpoint, as a batch id does, not to the pipeline
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
    pins_before_numbering: bool = True  # a load reads which topics moved after it pinned Bronze's version, not at its begin
    last_takes_all: bool = True  # the last load to compare everything has all that Bronze has, and not only its own range
    mark_follows_last: bool = True  # the load after it sets the mark; not the load itself


class Refused(NamedTuple):
    why: str


class Found(NamedTuple):
    marks: tuple[Mark, ...]  # the watermarks
    ledger: tuple[Claim, ...]  # the claims

    @property
    def last(self) -> Claim | None:
        return self.claim_of(finished(self.marks))

    @property
    def open_claim(self) -> Claim | None:
        """The load that was claimed and is not finished, as far as was read."""
        return self.claim_of(finished(self.marks) + 1)

    @property
    def bronze_version(self) -> int:
        return self.last.to if self.last else 0

    def claim_of(self, load: int) -> Claim | None:
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
    """As `silver.load.planner.plan_range`. It does not compare a partition that the range does not touch."""
    bronze = dict(enumerate(world.bronze[: pinned.to], start=1))
    partition_of = {number: version.partition for number, version in bronze.items()}
    versions = [number for number, partition in partition_of.items() if number > found.marks[partition].last]
    touched = {partition_of[number] for number in range(pinned.after + 1, pinned.to + 1)}
    if any(partition_of[old] in touched for old in versions if old <= pinned.after):
        return Refused("the classes do not add up")
    moved = {partition: found.marks[partition].last for partition in touched}
    moved |= {partition_of[number]: number for number in versions}
    earlier = {record for claim in found.ledger if claim.load < pinned.load for record in claim.kept}
    known = set()  # duplicates, as `moved.settle`: the partitions follow one another
    for number in sorted(versions, key=lambda each: (partition_of[each], each)):
        record = bronze[number].copies or number
        if record in earlier and pinned.has_numbering and (pinned.mark == NO_MARK or record <= pinned.mark):
            known.add(number)
        elif bronze[number].has_kept:
            earlier.add(record)
    return pinned._replace(
        kept=tuple(bronze[each].copies or each for each in versions if bronze[each].has_kept and each not in known),
        held=tuple(number for number in versions if bronze[number].has_held or number in known),
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


def accepted(found: Found, pinned: Claim) -> Claim:
    """As `silver.requests.planner.plan_request` of an accept: the watermark of a partition, where it was."""
    return pinned._replace(moved=((0, found.marks[0].last),))


def wanted(world: World) -> int:
    return next(number for number, version in enumerate(world.bronze, start=1) if version.has_held)


def is_waiting(world: World, tables: Tables) -> bool:
    return any(row.version == wanted(world) and not row.settled_by for row in tables.rejects)


@dataclass(frozen=True)
class Load:
    protocol: Protocol  # the protocol
    world: World  # the world

    def steps(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        runner = tables.runners[who]
        yield from PARTS[runner.at](self, tables, who)
        if runner == IDLE and self.world.has_release and is_waiting(self.world, tables):
            yield from self.recover(tables, who, kind="by_hand")
        if runner == IDLE and tables.swaps:
            yield from self.restore(tables, who)
        if runner == IDLE and self.world.moves and not tables.is_accepted:
            yield from self.accept(tables, who)

    def accept(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """As `pipelines.operate.accept_topic.carry_out`: a load, and then the note; only that if the ledger has the load."""
        if any(claim.is_accept for claim in tables.ledger):
            yield _to(tables, who, "topic accept: the ledger has it", Runner("write_accepted", "accept"))
        else:
            yield from self.recover(tables, who, kind="accept")

    def write_accepted(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        yield _ends(tables._replace(is_accepted=True), who, "write_accepted")

    def restore(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        """A person takes all tables back to an earlier load that is whole, whatever was claimed since."""
        if tables.open_swap() is not None:
            return  # it is finished first, as any run does
        ahead = tables._replace(swaps=tables.swaps - 1)
        for to in tables.ledger:
            if to.load < tables.highest() and tables.is_whole_up_to(to.load):
                marks = tables.as_of(to.load)
                moved = tuple((partition, mark.last) for partition, mark in enumerate(marks) if mark.load)
                asked = Claim(tables.highest() + 1, who, to.to, to.to, (), (), moved, keep_to=to.load)
                yield _to(ahead, who, f"restore --to {to.load}", self._following(Runner("restore", planned=asked)))

    def swap(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        at, by, after = tables.runners[who].at, _planned(tables, who), tables
        if at == "apply_cutover: marks":
            yield from self._append(tables, who, at, _advanced(tables, by.load, tables.ledger))
            return
        if at in ("close: records", "close: rejects"):
            name = "append_silver" if at == "close: records" else "append_rejects"
            if self.protocol.swap_is_noted and tables.last_transaction(name, PIPELINE) < by.load:
                after = tables.noted(name, PIPELINE, by.load)
        elif at == "close: property":
            after = tables._replace(property=by.load) if self.protocol.swap_sets_property else tables
        elif at == "_cut: records":
            after = tables._replace(silver=tuple(row for row in tables.silver if not by.undoes(row.load)))
        elif at == "_cut: rejects":
            after = tables._replace(rejects=tuple(row for row in tables.rejects if not by.undoes(row.load)))
        elif at == "_cut: settled":
            again = (row._replace(settled_by=0) if by.undoes(row.settled_by) else row for row in tables.rejects)
            after = tables._replace(rejects=tuple(again))
        elif at == "apply_cutover: ledger":
            after = tables._replace(ledger=tuple(claim for claim in tables.ledger if not by.undoes(claim.load)))
        yield self._goes_on(after, who, at)

    def recover(self, tables: Tables, who: int, kind: str | None = None) -> Iterator[Step[Tables]]:
        """Read the watermarks. A run begins with it; one for a release does it again once it has finished another's load."""
        kind = kind or tables.runners[who].kind
        name = "recover: watermarks" + {"run": "", "accept": ", to accept"}.get(kind.removesuffix("_again"), ", for a release")
        has_numbering = tables.is_accepted and not self.protocol.pins_before_numbering
        yield _to(tables, who, name, Runner("recover: ledger", kind, marks=tables.marks, has_numbering=has_numbering))

    def recover_ledger(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
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
        runner = tables.runners[who]
        found = found_by(tables, runner)
        if self.protocol.has_checks and (silver_contradicts(found, tables.silver) or marks_contradict(found)):
            yield _ends(tables, who, "recover refuses: Silver or a watermark")
        else:
            yield _to(tables, who, "recover: silver", runner._replace(at="plan"))

    def plan(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        runner = tables.runners[who]
        if self.world.has_copies and runner.kind == "run" and runner.pinned_to is None:
            yield _to(tables, who, "plan: pins Bronze", runner._replace(pinned_to=tables.bronze))
            return
        name, planned = self.planned(tables, who)
        if isinstance(planned, Refused):
            yield _ends(tables, who, f"{name} refuses: {planned.why}")
        elif planned is None:
            yield _ends(tables, who, f"{name}: nothing to do")
        else:
            kind = AGAIN.get(runner.kind, runner.kind) if name == "plan_request" else runner.kind
            ready = Runner("plan", kind, is_repeat=name == "replan_claim", planned=planned)
            yield _to(tables, who, f"{name} load {planned.load}", self._following(ready))

    def planned(self, tables: Tables, who: int) -> tuple[str, Claim | Refused | None]:
        runner = tables.runners[who]
        found = found_by(tables, runner)
        # A release looks for an open claim once. One that comes later is met at its own claim.
        if found.open_claim is not None and runner.kind not in AGAIN.values():
            return "replan_claim", self.replan_claim(tables, found, found.open_claim)
        after, to = found.bronze_version, tables.bronze if runner.pinned_to is None else runner.pinned_to
        pinned = Claim(finished(found.marks) + 1, who, after, to, (), (), ())
        if runner.kind == "run":
            has_numbering = tables.is_accepted if self.protocol.pins_before_numbering else runner.has_numbering
            pinned = self.complete_rules(tables, found, pinned._replace(has_numbering=has_numbering))
            return "plan", decided(self.world, found, pinned) if to > after else None
        if runner.kind.startswith("accept"):
            return "plan_request", accepted(found, pinned._replace(to=after, is_accept=True))
        return "plan_request", self._answered(tables, found, pinned._replace(to=after, is_release=True))

    def complete_rules(self, tables: Tables, found: Found, pinned: Claim) -> Claim:
        """As `silver.load.planner.complete_rules`: which records are compared across the partitions of a topic that got one."""
        if not self.world.sent_before or not pinned.has_numbering:
            return pinned
        before = next((claim for claim in reversed(found.ledger) if claim.load < pinned.load and not claim.is_release), None)
        mark, is_read = before.mark if before else NO_MARK, tables.is_read
        is_after = is_read if not self.protocol.mark_follows_last else before is not None and before.is_last
        if mark == NO_MARK and is_after:
            mark = max((record for claim in found.ledger for record in claim.kept), default=0)
        takes_all = not self.protocol.last_takes_all or pinned.to == tables.bronze
        return pinned._replace(mark=mark, is_last=mark == NO_MARK and is_read and takes_all)

    def replan_claim(self, tables: Tables, found: Found, claim: Claim) -> Claim | Refused | None:
        pinned = claim._replace(to=tables.bronze) if self.protocol.replans_claims else claim
        pinned = pinned._replace(owner=NOBODY)
        if claim.is_accept:
            again: Claim | Refused | None = accepted(found, pinned)
        else:
            again = self._answered(tables, found, pinned) if claim.is_release else decided(self.world, found, pinned)
        if again == claim._replace(owner=NOBODY) or self.protocol.replans_claims or not self.protocol.has_checks:
            return again
        return Refused("another outcome than the claimed one")

    def claim(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        appended = tables._replace(ledger=(*tables.ledger, _planned(tables, who)))
        yield from self._append(tables, who, "claim", appended)

    def claim_read_back(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        load = _planned(tables, who).load
        owners = {claim.owner for claim in tables.ledger if claim.load == load}
        if owners == {who} or not self.protocol.reads_back:
            yield self._goes_on(tables, who, "claim: read back")
        else:
            yield _ends(tables, who, "claim: another run's stands")

    def append_silver(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
        planned = _planned(tables, who)
        if not planned.kept:
            yield self._goes_on(tables, who, "append_silver: none")
            return
        rows = (*tables.silver, *(Kept(planned.load, record) for record in planned.kept))
        yield from self._append(tables, who, "append_silver", tables._replace(silver=tuple(sorted(rows))))

    def append_rejects(self, tables: Tables, who: int) -> Iterator[Step[Tables]]:
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
        load = _planned(tables, who).load
        if self.world.swaps and not self.protocol.advances_past_swaps and finished(tables.marks) >= load:
            yield self._goes_on(tables, who, "advance: moves nothing")
            return
        if self.protocol.advances_in_order and finished(tables.marks) < load - 1:
            yield _ends(tables, who, "advance refuses: the watermarks were put back")
            return
        # The ledger's rows may have been read before a restore took them away.
        moved = _advanced(tables, load, (*tables.ledger, *((_planned(tables, who),) if self.world.swaps else ())))
        if self.protocol.merge_has_transaction:
            yield from self._append(tables, who, "advance", moved)
        else:
            yield from self._merge(tables, who, "advance", moved)

    def _mark(self, tables: Tables, who: int, planned: Claim) -> Iterator[Step[Tables]]:
        """As `silver.load.steps._mark_settled`: a MERGE on what is held still."""
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
        elif tables.last_transaction(name, application) < load:
            yield self._goes_on(appended.noted(name, application, load), who, name)
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
        runner = runner._replace(seen=None)
        if runner.at == "claim" and not runner.is_repeat:
            return runner._replace(at="claim: read back")
        order = ["plan", *(name for name in self.protocol.order if name != "claim" or not runner.is_repeat)]
        if runner.planned is not None and runner.planned.is_swap:
            order = list(SWAP_ORDER)
        done = order.index(runner.at.removesuffix(": read back"))
        if done + 1 < len(order):
            return runner._replace(at=order[done + 1])
        if runner.kind == "accept_again":
            return Runner("write_accepted", runner.kind)
        return Runner("recover", AGAIN[runner.kind]) if runner.kind in AGAIN else IDLE

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
    "write_accepted": Load.write_accepted,
    **{at: Load.swap for at in SWAP_ORDER if at not in ("restore", "claim")},
}  # a runner's steps, each with what it reads or commits to: one table


def found_by(tables: Tables, runner: Runner) -> Found:
    return Found(runner.marks, tables.ledger[: runner.ledger])


def _advanced(tables: Tables, load: int, ledger: Iterable[Claim]) -> Tables:
    marks = tables.marks
    for claim in ledger:
        marks = merged(marks, claim) if claim.load == load else marks
    return tables._replace(marks=marks)


def _planned(tables: Tables, who: int) -> Claim:
    planned = tables.runners[who].planned
    assert planned is not None, "who commits has planned"
    return planned


def _to(tables: Tables, who: int, name: str, runner: Runner) -> Step[Tables]:
    name = f"{'ABC'[who]} {name}"
    if runner == IDLE:
        return Step(name, tables.ended(who))
    runners = (*tables.runners[:who], runner, *tables.runners[who + 1 :])
    return Step(name, tables._replace(runners=runners))


def _ends(tables: Tables, who: int, name: str) -> Step[Tables]:
    return _to(tables, who, name, IDLE)
