"""The whole: runners over the tables, what may go wrong around them, and what must hold nevertheless."""

from collections.abc import Callable, Collection, Iterator, Mapping

from tests.model.checker import Model, Step
from tests.model.protocol import Load, Protocol, Refused, found_by, ledger_contradicts, marks_contradict, silver_contradicts
from tests.model.tables import IDLE, Claim, Kept, Runner, Tables, World, finished, start

PROMISES = ("duplicate", "loss", "released nowhere", "torn")


def system(protocol: Protocol, world: World, *, promises: Collection[str] = PROMISES) -> Model[Tables]:
    load = Load(protocol, world)
    broken: Mapping[str, Callable[[Tables], bool]] = {
        "duplicate": is_doubled,
        "loss": lambda tables: is_lost(load, tables),
        "released nowhere": is_released_nowhere,
        "torn": is_torn,
    }

    def steps(tables: Tables) -> Iterator[Step[Tables]]:
        for who in range(world.runners):
            yield from load.steps(tables, who)
        yield from _happens(tables, world)
        if world.has_person and _is_at_rest(tables) and tables.ledger and isinstance(alone(load, tables), Refused):
            before_the_last = tables.as_of(tables.ledger[-1].load - 1)
            yield Step("a person puts the watermarks back to before the last claim", tables._replace(marks=before_the_last))

    kept = {name: breach for name, breach in broken.items() if name in promises}
    return Model(start(world), steps, kept, lambda tables: is_finished(tables, world))


def _happens(tables: Tables, world: World) -> Iterator[Step[Tables]]:
    if tables.bronze < len(world.bronze) and (tables.is_accepted or not world.bronze[tables.bronze].copies):
        yield Step(f"Bronze grows to version {tables.bronze + 1}", tables._replace(bronze=tables.bronze + 1))
    if world.sent_before and not tables.is_accepted:
        yield Step("write_begun: the topic got a partition", tables._replace(is_accepted=True))
    elif not tables.is_read and world.sent_before and tables.bronze >= world.sent_before:
        yield Step("write_grown: all from before is read", tables._replace(is_read=True))
    if tables.crashes:
        for who, runner in enumerate(tables.runners):
            if runner != IDLE:
                dead = tables.ended(who)._replace(crashes=tables.crashes - 1)
                yield Step(f"{'ABC'[who]} dies", dead, is_help=False)
    if tables.restores:
        for load in range(finished(tables.marks)):
            restored = tables._replace(marks=tables.as_of(load), restores=tables.restores - 1)
            yield Step(f"the watermark table is {f'put back to load {load}' if load else 'emptied'}", restored, is_help=False)


def alone(load: Load, tables: Tables) -> Claim | Refused | None:
    """What a run would carry out, or be refused for, that starts now and during whose reading nothing else happens."""
    swapping = tables.open_swap()
    if swapping is not None:
        return swapping
    runner = Runner("plan", marks=tables.marks, ledger=len(tables.ledger), has_numbering=tables.is_accepted)
    found = found_by(tables, runner)
    if load.protocol.has_checks:
        if ledger_contradicts(found):
            return Refused("ledger and watermarks")
        if silver_contradicts(found, tables.silver) or marks_contradict(found):
            return Refused("Silver or a watermark")
    return load.planned(tables._replace(runners=(runner,)), 0)[1]


def is_doubled(tables: Tables) -> bool:
    records = [row.record for row in tables.silver]
    versions = [row.version for row in tables.rejects]
    return len(set(records)) < len(records) or len(set(versions)) < len(versions)


def is_lost(load: Load, tables: Tables) -> bool:
    """Nobody is at work, a run would find nothing to do, and a record of Bronze is neither in Silver nor in the rejects."""
    return _is_at_rest(tables) and not _is_whole(tables, load.world) and alone(load, tables) is None


def is_torn(tables: Tables) -> bool:
    """A load that the watermarks call finished is not whole, and no restore is at work: readers would miss some of it."""
    if tables.open_swap() is not None:
        return False
    last = finished(tables.marks)
    for claim in tables.ledger:
        if claim.load <= last:
            in_silver = {row.record for row in tables.silver if row.load == claim.load}
            settled_by = {row.version: row.settled_by for row in tables.rejects}
            is_marked = all(settled_by.get(version) == claim.load for version in claim.held)
            is_there = is_marked if claim.is_release else settled_by.keys() >= set(claim.held)
            if in_silver != set(claim.kept) or not is_there:
                return True
    return False


def is_released_nowhere(tables: Tables) -> bool:
    """A reject says that its record was released, and Silver does not have it: for good, no restore is at work."""
    if tables.open_swap() is not None:
        return False
    return any(row.settled_by and Kept(row.settled_by, -row.version) not in tables.silver for row in tables.rejects)


def is_finished(tables: Tables, world: World) -> bool:
    """Bronze gains no more, all of it is in its table, the last claim and a wanted release are done, and nobody is at work."""
    if tables.bronze < len(world.bronze) or not _is_at_rest(tables) or not _is_whole(tables, world):
        return False
    is_answered = not world.has_release or any(row.settled_by for row in tables.rejects)
    return is_answered and finished(tables.marks) == tables.ledger[-1].load


def _is_at_rest(tables: Tables) -> bool:
    return all(runner == IDLE for runner in tables.runners)


def _is_whole(tables: Tables, world: World) -> bool:
    arrived = list(enumerate(world.bronze[: tables.bronze], start=1))
    in_silver, in_rejects = {row.record for row in tables.silver}, {row.version for row in tables.rejects}
    is_kept = all((version.copies or number) in in_silver for number, version in arrived if version.has_kept)
    # The copy may be read before its original, from another partition: then the original is the duplicate.
    either = [{number, version.copies} if world.sent_before else {number} for number, version in arrived if version.copies]
    is_held = all(number in in_rejects for number, version in arrived if version.has_held)
    return is_kept and is_held and all(in_rejects & each for each in either if max(each) <= tables.bronze)
