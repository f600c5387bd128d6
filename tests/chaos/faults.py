"""The faults of a topic's leader while records are sent to it, and the repair."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.chaos.cluster import SESSION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.chaos.cluster import Broker, Cluster

TCP_SECONDS = 5.0
"""How long connections are killed again and again, at most. The article did so for ten seconds, over more records."""
TCP_EVERY_SECONDS = 0.5
_DOUBLE_SESSION = 2 * SESSION_SECONDS
_ALONE_SECONDS = 0.3

RATES = {"leader_cut_off": 12_000.0, "unclean_election": 20_000.0}
"""Records a second. Elsewhere a sender has no limit; here it would be done before the leader that goes on alone ends."""
TOPIC_CONFIGS = {"unclean_election": {"unclean.leader.election.enable": "true"}}


class Target(NamedTuple):
    """The cluster, a run's topic, and the broker that leads it."""

    cluster: Cluster
    topic: str
    leader: Broker


def prepare(cluster: Cluster, topic: str, *, delay_ms: int) -> Target:
    """Delay the brokers' answers, and find the leader."""
    _delay(cluster, delay_ms / 1000)
    return Target(cluster, topic, cluster.leader(topic))


def heal(cluster: Cluster, topic: str) -> None:
    """Undo every fault, and return once every replica of the topic is in sync.

    Raises:
        UnfitError: They are not within a minute.
    """
    _delay(cluster, 0.0)
    for broker in cluster.brokers.values():
        broker.ways.peers.let_pass()
        broker.ways.to_controller.let_pass()
        broker.start()
    cluster.await_in_sync(topic)


def strike(fault: str, target: Target, is_sending: Callable[[], bool]) -> None:
    """Cause the fault, and return once the cluster can go on; its replicas need not be in sync."""
    _STRIKES[fault](target, is_sending)


def _delay(cluster: Cluster, seconds: float) -> None:
    for broker in cluster.brokers.values():
        broker.ways.clients.delay_seconds = broker.ways.peers.delay_seconds = seconds


def _kill_leader(target: Target, _is_sending: Callable[[], bool]) -> None:
    target.leader.kill()


def _kill_tcp(target: Target, is_sending: Callable[[], bool]) -> None:
    """Kill the leader's connections to clients again and again while records are sent, up to the time limit.

    `ss -K` closes a connection from outside, as tcpkill does. Where it cannot be used, the proxy closes them.
    """
    until = time.monotonic() + TCP_SECONDS
    kill: Callable[[], object] = target.leader.ways.clients.cut
    if _kill_sockets("( sport = :0 )") == 0:
        kill = lambda: _kill_sockets(f"( sport = :{target.leader.port} )")  # noqa: E731 -- one line says it all
    while is_sending() and time.monotonic() < until:
        kill()
        time.sleep(TCP_EVERY_SECONDS)


def _kill_sockets(which: str) -> int:
    """Run `ss -K`, and return its exit code. Root may run it, where the kernel supports it."""
    if not shutil.which("ss"):
        return 1
    return subprocess.run(["ss", "-tKn", "state", "established", which], check=False, capture_output=True).returncode


def _stop_leader(target: Target, _is_sending: Callable[[], bool]) -> None:
    """Suspend the leader until another broker leads, then wake it."""
    target.leader.signal(signal.SIGSTOP)
    time.sleep(_DOUBLE_SESSION)
    target.leader.signal(signal.SIGCONT)


def _cut_off_leader(target: Target, _is_sending: Callable[[], bool]) -> None:
    """Separate the leader from its peers and the controller, not from clients: it goes on while a second broker leads."""
    ways = (target.leader.ways.peers, target.leader.ways.to_controller)
    for way in ways:
        way.hold_up()
    time.sleep(_DOUBLE_SESSION)
    for way in ways:
        way.let_pass()


def _elect_uncleanly(target: Target, _is_sending: Callable[[], bool]) -> None:
    """Kill the followers, let the leader go on alone, kill it, and start the followers: the new leader lacks records."""
    followers = [broker for broker in target.cluster.brokers.values() if broker is not target.leader]
    for follower in followers:
        follower.kill()
    target.cluster.await_in_sync(target.topic, 1)
    time.sleep(_ALONE_SECONDS)
    target.leader.kill()
    for follower in followers:
        follower.start()
    target.cluster.await_leader(target.topic, other_than=target.leader)


_STRIKES: Mapping[str, Callable[[Target, Callable[[], bool]], None]] = {
    "leader_killed": _kill_leader,
    "tcp_killed": _kill_tcp,
    "leader_stopped": _stop_leader,
    "leader_cut_off": _cut_off_leader,
    "unclean_election": _elect_uncleanly,
}
