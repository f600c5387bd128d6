"""What is done to the leader of a topic while records are sent to it, and how it is undone."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.cluster import SESSION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.chaos.cluster import Broker, Cluster

TCP_SECONDS = 5.0
"""How long connections are killed again and again, at most. The article did so for ten seconds, over more records."""

TCP_EVERY_SECONDS = 0.5
_DOUBLE_SESSION = 2 * SESSION_SECONDS
_ALONE_SECONDS = 0.3


@dataclass(frozen=True)
class Target:
    """Whom a fault strikes.

    Attributes:
        cluster: The cluster.
        topic: The run's topic.
        leader: The broker that leads it.
        followers: The others.
    """

    cluster: Cluster
    topic: str
    leader: Broker
    followers: list[Broker]


def topic_config(fault: str) -> dict[str, str]:
    """The config of a topic for a fault."""
    return {"unclean.leader.election.enable": "true"} if fault == "unclean_election" else {}


def rate(fault: str) -> float:
    """Records a second that a sender is held to; 0 for none.

    Where the leader goes on alone for some seconds, a sender in full career is done before it ends.
    """
    return {"leader_cut_off": 12_000.0, "unclean_election": 20_000.0}.get(fault, 0.0)


def prepare(cluster: Cluster, topic: str, *, delay_ms: int) -> Target:
    """Slow the network down, and look who leads."""
    for broker in cluster.brokers.values():
        broker.clients.delay_seconds = broker.peers.delay_seconds = delay_ms / 1000
    return Target(cluster, topic, cluster.leader(topic), cluster.followers(topic))


def strike(fault: str, target: Target, is_sending: Callable[[], bool]) -> None:
    """Do it, and return once the cluster can go on; it need not be whole again."""
    _STRIKES[fault](target, is_sending)


def heal(cluster: Cluster, topic: str) -> None:
    """Make the cluster whole again, and return once every replica of the topic is in sync.

    Raises:
        UnfitError: They are not within a minute.
    """
    for broker in cluster.brokers.values():
        broker.clients.delay_seconds = broker.peers.delay_seconds = 0.0
        broker.peers.let_pass()
        broker.to_controller.let_pass()
        broker.start()
    cluster.await_in_sync(topic)


def _kill_leader(target: Target, _is_sending: Callable[[], bool]) -> None:
    target.leader.kill()


def _kill_tcp(target: Target, is_sending: Callable[[], bool]) -> None:
    """Kill the leader's connections to clients again and again, for as long as records are sent but no longer than that."""
    until = time.monotonic() + TCP_SECONDS
    kill_at_once = _killer(target.leader)
    while is_sending() and time.monotonic() < until:
        kill_at_once()
        time.sleep(TCP_EVERY_SECONDS)


def _killer(leader: Broker) -> Callable[[], object]:
    """`ss -K` closes a connection from outside, as tcpkill does; where that is not to be had, the proxy does."""
    if not can_kill_sockets():
        return leader.clients.cut
    command = ["ss", "-tKn", "state", "established", f"( sport = :{leader.port} )"]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def can_kill_sockets() -> bool:
    """Whether this user may kill connections by `ss -K`: root may, where the kernel does."""
    return (
        bool(shutil.which("ss"))
        and subprocess.run(
            ["ss", "-tKn", "state", "established", "( sport = :0 )"], check=False, capture_output=True
        ).returncode
        == 0
    )


def _stop_leader(target: Target, _is_sending: Callable[[], bool]) -> None:
    """Stop it for twice as long as it takes to be taken for dead: when it wakes, another one leads."""
    target.leader.signal(signal.SIGSTOP)
    time.sleep(_DOUBLE_SESSION)
    target.leader.signal(signal.SIGCONT)


def _cut_off_leader(target: Target, _is_sending: Callable[[], bool]) -> None:
    """Cut it off from its peers and from the controller, not from clients: it leads on, and another one does too."""
    ways = (target.leader.peers, target.leader.to_controller)
    for way in ways:
        way.hold_up()
    time.sleep(_DOUBLE_SESSION)
    for way in ways:
        way.let_pass()


def _elect_uncleanly(target: Target, _is_sending: Callable[[], bool]) -> None:
    """Kill the followers, let the leader go on alone, kill it, and start a follower: it leads, and lacks the rest."""
    for follower in target.followers:
        follower.kill()
    target.cluster.await_in_sync(target.topic, 1)
    time.sleep(_ALONE_SECONDS)
    target.leader.kill()
    for follower in target.followers:
        follower.start()
    target.cluster.await_leader(target.topic, other_than=target.leader)


_STRIKES: Mapping[str, Callable[[Target, Callable[[], bool]], None]] = {
    "leader_killed": _kill_leader,
    "tcp_killed": _kill_tcp,
    "leader_stopped": _stop_leader,
    "leader_cut_off": _cut_off_leader,
    "unclean_election": _elect_uncleanly,
}
