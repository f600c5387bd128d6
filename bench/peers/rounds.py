"""All peers in one sitting: what they take in is sent first, then every peer has its turn in every round."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.peers import small
from bench.peers.job import INGEST, Job
from bench.peers.measure import COPIER, Bench, Ready, measure, open_peer
from bench.peers.process import PeerFailedError, Process
from bench.peers.registry import CHECKED, FEW, PEERS, TIMED, TO_TOPIC
from bench.sitting import Sitting
from bench.topics import plan_topic, send_topic, swap_blocks
from lakehouse.errors import ToolError
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bench.peers.measure import Open
    from bench.peers.outcome import Outcome, SmallLoad
    from bench.peers.registry import Input, Peer
    from bench.topics import Topic
    from bronze.local_broker import LocalBroker

_WARM_UP_RECORDS = 20_000
_CHECKED_SHARE = 10
"""The small edition holds one record of so many."""
_FEWEST_CHECKED = 20_000


@dataclass(frozen=True)
class Asked:
    """What is to be run.

    Attributes:
        records: Records of each timed input.
        rounds: How often every peer has its turn.
        names: The peers; all where it is empty.
        small_loads: How many loads of a thousand records.
    """

    records: int
    rounds: int
    names: Sequence[str] = ()
    small_loads: int = 20

    @property
    def checked_records(self) -> int:
        """Records of the inputs whose results alone count."""
        return min(self.records, max(self.records // _CHECKED_SHARE, _FEWEST_CHECKED))

    @property
    def peers(self) -> list[Peer]:
        """The peers that are asked for."""
        return [peer for peer in PEERS if not self.names or peer.name in self.names]


@dataclass(frozen=True)
class Found:
    """What came of it.

    Attributes:
        outcomes: Every run that ended.
        small_loads: Every small load.
        failures: Why a peer has no further runs, by its name.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    small_loads: list[SmallLoad] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def run(asked: Asked, sitting: Sitting, broker: LocalBroker, folder: Path) -> Found:
    """Send the inputs, let every peer take in small ones for its result to be counted, then do the rounds.

    Raises:
        WrongResultError: A result holds what was never sent, or a small load lost something.
    """
    found = Found()
    warm_up = _plan("warm-up", FEW, _WARM_UP_RECORDS)
    checked = [_plan(f"small-{nth}", each, asked.checked_records) for nth, each in enumerate(CHECKED)]
    timed = [_plan(f"timed-{nth}", each, asked.records) for nth, each in enumerate(TIMED)]
    every = [(FEW, warm_up), *zip(CHECKED, checked, strict=True), *zip(TIMED, timed, strict=True)]
    ready = _prepare(sitting, broker, folder, every)
    bench = Bench(sitting, broker.bootstrap_servers, broker.data_dir / "data", folder, ready[0], found.outcomes)
    first, rest = ready[1 : len(CHECKED) + 1], ready[len(CHECKED) + 1 :]
    sitting.tell("Every peer once on every small input")
    _round(replace(bench, sitting=Sitting()), asked.peers, first, found)
    for nth in range(asked.rounds):
        sitting.start_round()
        turn = nth * len(asked.peers) // asked.rounds  # another peer begins in every round
        _round(bench, asked.peers[turn:] + asked.peers[:turn], rest, found)
    if asked.small_loads:
        sitting.tell("Small loads")
        wanted = {peer.name for peer in asked.peers} - found.failures.keys()
        found.small_loads.extend(small.measure(bench, wanted, asked.small_loads, asked.checked_records))
    return found


def _plan(name: str, wanted: Input, records: int) -> Topic:
    topic = plan_topic(name, records, resent_share=wanted.resent_share, value_bytes=wanted.value_bytes)
    return swap_blocks(topic) if wanted.is_swapped else topic


def _prepare(sitting: Sitting, broker: LocalBroker, folder: Path, topics: Iterable[tuple[Input, Topic]]) -> list[Ready]:
    """Send each topic, and fill a Bronze of its own from it."""
    ready = []
    peer = next(peer for peer in PEERS if peer.name == "ours")
    (folder / "classes").mkdir(exist_ok=True)
    unused = Bench(sitting, broker.bootstrap_servers, folder, folder, Ready(FEW, plan_topic("none", 0), folder))
    with Process(unused.command(peer), folder / "bronze.log") as process:
        for wanted, topic in topics:
            sitting.tell(f"Sending {topic.records:,} records of {topic.value_bytes} bytes: {wanted.name}")
            send_topic(broker.bootstrap_servers, topic)
            root = folder / f"bronze-{topic.name}"
            process.ask(Job(INGEST, servers=broker.bootstrap_servers, topic=topic.name, root=str(root)))
            ready.append(Ready(wanted, topic, root / BRONZE_RECORDS))
    return ready


def _round(bench: Bench, peers: Sequence[Peer], ready: Sequence[Ready], found: Found) -> None:
    """Every peer's turn: a process of its own takes in the peer's inputs, one after another."""
    is_timed = bool(bench.sitting.starts)
    with ExitStack() as copying:
        copier = None
        for peer in peers:
            if peer.name in found.failures:
                continue
            try:
                if is_timed and peer.way == TO_TOPIC and copier is None:
                    copier = open_peer(bench, next(each for each in PEERS if each.name == COPIER), copying)
                inputs = [each for each in ready if not is_timed or each.input in peer.timed]
                _turn(bench, peer, inputs, copier)
            except (PeerFailedError, ToolError) as error:
                found.failures[peer.name] = str(error)
                bench.sitting.tell(f"  {peer.title} FAILED: {error}")


def _turn(bench: Bench, peer: Peer, inputs: Sequence[Ready], copier: Open | None) -> None:
    with ExitStack() as stack:
        opened = open_peer(bench, peer, stack)
        bench.sitting.tell(f"  {peer.title}: cold {opened.cold_seconds:.1f} s")
        for ready in inputs:
            measure(bench, opened, ready, copier)
