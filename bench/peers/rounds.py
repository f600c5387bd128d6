"""All peers in one sitting: what they take in is sent first, then every peer has its turn in every round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.peers import programs
from bench.peers.job import INGEST, Job
from bench.peers.measure import Bench, Ready, measure, open_peer
from bench.peers.process import PeerFailedError, Process
from bench.peers.registry import CHECKED, COPIER, FEW, PEERS, TIMED, TO_TOPIC
from bench.sitting import WrongResultError
from bench.topics import plan_topic, send_topic, swap_blocks
from lakehouse.errors import ToolError
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers.figures import Outcome
    from bench.peers.measure import Open
    from bench.peers.registry import Input, Peer
    from bench.sitting import Sitting
    from bench.topics import Topic
    from tidemark.extras.demo.broker import LocalBroker

_FIRST_RECORDS = 20_000
_WARM_UP_SHARE = 5  # the warm-up takes in one record of so many: a JVM compiles what runs for seconds
_CHECKED_SHARE = 10  # the small edition holds one record of so many
_FEWEST_CHECKED = 20_000
_TIMED_PREFIX = "timed-"


@dataclass(frozen=True)
class Asked:
    """What to run: so many records of each timed input, in so many rounds, by the named peers (all if none is named)."""

    records: int
    rounds: int
    names: Sequence[str] = ()

    @property
    def checked_records(self) -> int:
        """Records of the inputs whose results alone count."""
        return min(self.records, max(self.records // _CHECKED_SHARE, _FEWEST_CHECKED))

    @property
    def warm_up_records(self) -> int:
        """Records that every process takes in, after the first ones, before it is timed."""
        return max(self.records // _WARM_UP_SHARE, _FIRST_RECORDS)

    @property
    def peers(self) -> list[Peer]:
        """The wanted peers."""
        return [peer for peer in PEERS if not self.names or peer.name in self.names]


@dataclass(frozen=True)
class Found:
    """The runs that ended, and by a peer's name why it has no further runs."""

    outcomes: list[Outcome] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def run(asked: Asked, sitting: Sitting, broker: LocalBroker, folder: Path) -> Found:
    """Send the inputs and do the rounds; in the last one every peer takes in the small inputs too, whose results are counted.

    A peer that fails, or whose result holds what was never sent, has no further runs.
    """
    found = Found()
    first, warm_up = _plan("first", FEW, _FIRST_RECORDS), _plan("warm-up", FEW, asked.warm_up_records)
    timed = [_plan(f"{_TIMED_PREFIX}{nth}", each, asked.records) for nth, each in enumerate(TIMED)]
    checked = [_plan(f"small-{nth}", each, asked.checked_records) for nth, each in enumerate(CHECKED)]
    every = [(FEW, first), (FEW, warm_up), *zip(TIMED, timed, strict=True), *zip(CHECKED, checked, strict=True)]
    begun, warm, *ready = _prepare(sitting, broker, folder, every)
    bench = Bench(sitting, broker.bootstrap_servers, broker.data_dir / "data", folder, (begun, warm), found.outcomes)
    timed_alone = [each for each in ready if each.is_timed]
    for nth in range(asked.rounds):
        sitting.start_round()
        turn = nth * len(asked.peers) // asked.rounds  # another peer begins in every round
        is_last = nth == asked.rounds - 1
        _round(bench, asked.peers[turn:] + asked.peers[:turn], ready if is_last else timed_alone, found)
    return found


def _plan(name: str, wanted: Input, records: int) -> Topic:
    topic = plan_topic(name, records, resent_share=wanted.resent_share)
    return swap_blocks(topic) if wanted.is_swapped else topic


def _prepare(sitting: Sitting, broker: LocalBroker, folder: Path, topics: Iterable[tuple[Input, Topic]]) -> list[Ready]:
    """Send each topic, and fill a Bronze of its own from it."""
    ready = []
    peer = next(peer for peer in PEERS if peer.name == "ours")
    with Process(programs.command(peer, folder), folder / "bronze.log") as process:
        for wanted, topic in topics:
            sitting.tell(f"Sending {topic.records:,} records: {wanted.name}")
            send_topic(broker.bootstrap_servers, topic)
            root = folder / f"bronze-{topic.name}"
            process.ask(Job(INGEST, servers=broker.bootstrap_servers, topic=topic.name, root=str(root)))
            ready.append(Ready(wanted, topic, root / BRONZE_RECORDS, is_timed=topic.name.startswith(_TIMED_PREFIX)))
    return ready


def _round(bench: Bench, peers: Sequence[Peer], ready: Sequence[Ready], found: Found) -> None:
    """Every peer's turn: a process of its own takes in the peer's inputs, one after another."""
    with ExitStack() as copying:
        copier = None
        for peer in peers:
            if peer.name in found.failures:
                continue
            try:
                if peer.way == TO_TOPIC and copier is None:
                    copier = open_peer(bench, next(each for each in PEERS if each.name == COPIER), copying)
                _turn(bench, peer, ready, copier)
            except (PeerFailedError, ToolError, WrongResultError) as error:
                found.failures[peer.name] = str(error)
                bench.sitting.tell(f"  {peer.title} FAILED: {error}")


def _turn(bench: Bench, peer: Peer, inputs: Sequence[Ready], copier: Open | None) -> None:
    with ExitStack() as stack:
        opened = open_peer(bench, peer, stack)
        for ready in inputs:
            measure(bench, opened, ready, copier)
