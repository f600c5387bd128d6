"""Three Kafka brokers and a controller on this machine. Each is a process whose connections can be delayed, cut and held up."""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bronze.dev_broker.process import HOST, free_port, launch_node
from tests.chaos.started import PATIENCE_SECONDS, Started, wait_for
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    import signal
    import subprocess
    from collections.abc import Callable, Mapping, Sequence

BROKERS = (1, 2, 3)
REPLICAS = len(BROKERS)
SESSION_SECONDS = 3
"""After that long without a heartbeat a broker is taken for dead, and another one leads."""

_JVM = ("-Xms96m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError")

_CONTROLLER = """\
process.roles=controller
node.id=100
controller.quorum.voters=100@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://{host}:{controller}
log.dirs={data}
broker.session.timeout.ms={session}
unclean.leader.election.interval.ms=1000
"""
_BROKER = """\
process.roles=broker
node.id={number}
controller.quorum.voters=100@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=CLIENT://{host}:{client},PEER://{host}:{peer}
advertised.listeners=CLIENT://{host}:{outer_client},PEER://{host}:{outer_peer}
listener.security.protocol.map=CLIENT:PLAINTEXT,PEER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PEER
log.dirs={data}
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=3000
log.retention.ms=-1
log.index.size.max.bytes=1048576
log.cleaner.dedupe.buffer.size=16777216
offsets.topic.num.partitions=1
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass
class Node:
    """One JVM of the cluster.

    Attributes:
        folder: Its settings, records and log.
        settings: Its `server.properties`.
        process: Its process, once started.
    """

    folder: Path
    settings: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it if it does not run; it answers some seconds later."""
        if self.process is not None and self.process.poll() is None:
            return
        self.process = launch_node(self.folder, self.settings, jvm=_JVM)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class Broker(Node):
    """A broker, and the proxies that all its connections go through.

    Attributes:
        port: Where it itself listens for clients.
        clients: Before its port for clients.
        peers: Before its port for other brokers.
        to_controller: Between it and the controller.
    """

    port: int = 0
    clients: Proxy = field(default_factory=lambda: Proxy(0, 0))
    peers: Proxy = field(default_factory=lambda: Proxy(0, 0))
    to_controller: Proxy = field(default_factory=lambda: Proxy(0, 0))

    def start(self) -> None:
        """Start it if it does not run; it answers some seconds later."""
        super().start()
        for proxy in (self.clients, self.peers):
            proxy.accept()

    def kill(self) -> None:
        """SIGKILL, and wait for the end; its ports refuse connections from then on."""
        super().kill()
        for proxy in (self.clients, self.peers):
            proxy.refuse()


_Node = TypeVar("_Node", bound=Node)


class Cluster(Started):
    """The cluster, as long as its `with` block. Every process that it starts is killed at the end.

    Attributes:
        bootstrap_servers: Its addresses, through the proxies.
        brokers: Its brokers by their id.
    """

    def __init__(self) -> None:
        super().__init__()
        self.brokers: dict[int, Broker] = {}
        self.bootstrap_servers = ""

    def _start(self) -> None:
        root = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-chaos-", ignore_cleanup_errors=True))
        )
        controller_port = free_port()
        session = SESSION_SECONDS * 1000
        controller = _node(Node, root / "controller", _CONTROLLER, controller=controller_port, session=session)
        outer = []
        for node in BROKERS:
            client, peer, *proxies = (free_port() for _ in range(5))
            pairs = zip(proxies, (client, peer, controller_port), strict=True)
            clients, peers, to_controller = (self._stack.enter_context(Proxy(port, to)) for port, to in pairs)
            ports = {
                "client": client,
                "peer": peer,
                "outer_client": proxies[0],
                "outer_peer": proxies[1],
                "controller": proxies[2],
            }
            made = partial(Broker, port=client, clients=clients, peers=peers, to_controller=to_controller)
            self.brokers[node] = _node(made, root / f"broker-{node}", _BROKER, number=node, **ports)
            outer.append(f"{HOST}:{proxies[0]}")
        self.bootstrap_servers = ",".join(outer)
        for each in (controller, *self.brokers.values()):
            self._stack.callback(each.kill)
            each.start()
        _await("brokers", lambda: len(self._admin().list_topics(timeout=5).brokers) == REPLICAS)

    def create_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Create a topic of one partition on all brokers, and return once all are in sync."""
        wanted = NewTopic(topic, num_partitions=1, replication_factor=REPLICAS, config=dict(config))
        admin = self._admin()  # named: collected too early, it would never answer
        admin.create_topics([wanted])[topic].result(PATIENCE_SECONDS)
        self.await_in_sync(topic)

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Remove topics."""
        admin = self._admin()
        for answer in admin.delete_topics(list(topics)).values():
            answer.result(PATIENCE_SECONDS)

    def leader(self, topic: str) -> Broker:
        """The broker that leads the topic's partition."""
        return self.brokers[self._partition(topic)[0]]

    def followers(self, topic: str) -> list[Broker]:
        """The other brokers."""
        leader = self.leader(topic)
        return [broker for broker in self.brokers.values() if broker is not leader]

    def await_in_sync(self, topic: str, replicas: int = REPLICAS) -> None:
        """Return once the topic has a leader and so many of its replicas are in sync.

        Raises:
            UnfitError: They are not within a minute.
        """
        _await(f"{replicas} replicas of {topic} in sync", lambda: self._partition(topic)[1] == replicas)

    def await_leader(self, topic: str, *, other_than: Broker) -> None:
        """Return once another broker leads the topic.

        Raises:
            UnfitError: None does within a minute.
        """
        known = {node for node, broker in self.brokers.items() if broker is not other_than}
        _await(f"another leader of {topic}", lambda: self._partition(topic)[0] in known)

    def _partition(self, topic: str) -> tuple[int, int]:
        """The leader, -1 for none, and how many replicas are in sync."""
        partition = self._admin().list_topics(topic, timeout=5).topics[topic].partitions[0]
        return partition.leader, len(partition.isrs)

    def _admin(self) -> AdminClient:
        quiet = logging.getLogger("tidemark.chaos.admin")
        quiet.disabled = True
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "socket.timeout.ms": 5_000}, logger=quiet)


def _await(what: str, holds: Callable[[], bool]) -> None:
    wait_for(what, holds, (KafkaException, KeyError))


def _node(make: Callable[[Path, str], _Node], folder: Path, settings: str, **values: object) -> _Node:
    """A node whose settings are filled in."""
    return make(folder, settings.format(host=HOST, data=folder / "data", **values))
