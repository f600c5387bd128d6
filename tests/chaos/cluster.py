"""A controller and three Kafka brokers on this machine. Proxies delay, cut and hold up all connections of the brokers."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bronze.dev_broker.process import HOST, free_port, launch_node
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    import signal
    import subprocess
    from collections.abc import Callable, Iterator, Mapping, Sequence

REPLICAS = 3
PATIENCE_SECONDS = 60
SESSION_SECONDS = 3
"""After that long without a heartbeat the controller elects another leader."""

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


class UnfitError(Exception):
    """The cluster is not in the state that a run needs, so a run over it would not count."""


def wait_for(what: str, holds: Callable[[], bool], errors: tuple[type[Exception], ...] = (KafkaException, KeyError)) -> None:
    """Return once a condition holds. The named errors mean that it does not hold yet.

    Raises:
        UnfitError: It does not hold within a minute.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(*errors):
            if holds():
                return
        time.sleep(0.2)
    raise UnfitError(f"No {what} within {PATIENCE_SECONDS} s.")


class Ways(NamedTuple):
    """The proxies of a broker: before its port for clients, before its port for other brokers, and to the controller."""

    clients: Proxy
    peers: Proxy
    to_controller: Proxy


class Broker:
    """A broker process and its proxies. `port` is the one that it listens on for clients, behind the proxy."""

    def __init__(self, folder: Path, settings: str, port: int, ways: Ways) -> None:
        self.port, self.ways = port, ways
        self._folder, self._settings = folder, settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it unless it runs; it answers some seconds later."""
        if self._process is None or self._process.poll() is not None:
            self._process = launch_node(self._folder, self._settings, jvm=_JVM)
        self.ways.clients.accept()
        self.ways.peers.accept()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end; its ports refuse connections from then on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.ways.clients.refuse()
        self.ways.peers.refuse()


class Cluster:
    """The brokers by their id, and their addresses, through the proxies."""

    def __init__(self, brokers: Mapping[int, Broker], bootstrap_servers: str) -> None:
        self.brokers, self.bootstrap_servers = brokers, bootstrap_servers

    def create_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Create a topic of one partition on all brokers, and return once all are in sync."""
        wanted = NewTopic(topic, num_partitions=1, replication_factor=REPLICAS, config=dict(config))
        admin = admin_of(self.bootstrap_servers)  # named: an admin client that is collected too early never answers
        admin.create_topics([wanted])[topic].result(PATIENCE_SECONDS)
        self.await_in_sync(topic)

    def leader(self, topic: str) -> Broker:
        """The broker that leads the topic's partition."""
        return self.brokers[self._partition(topic)[0]]

    def await_in_sync(self, topic: str, replicas: int = REPLICAS) -> None:
        """Return once the topic has a leader and the given number of replicas in sync, or raise `UnfitError`."""
        wait_for(f"{replicas} replicas of {topic} in sync", lambda: self._partition(topic)[1] == replicas)

    def await_leader(self, topic: str, *, other_than: Broker) -> None:
        """Return once another broker leads the topic, or raise `UnfitError`."""
        known = {node for node, broker in self.brokers.items() if broker is not other_than}
        wait_for(f"another leader of {topic}", lambda: self._partition(topic)[0] in known)

    def _partition(self, topic: str) -> tuple[int, int]:
        """The leader, -1 for none, and the number of replicas in sync."""
        partition = admin_of(self.bootstrap_servers).list_topics(topic, timeout=5).topics[topic].partitions[0]
        return partition.leader, len(partition.isrs)


def admin_of(servers: str) -> AdminClient:
    """An admin client that logs nothing."""
    quiet = logging.getLogger("tidemark.chaos.admin")
    quiet.disabled = True
    return AdminClient({"bootstrap.servers": servers, "socket.timeout.ms": 5_000}, logger=quiet)


def delete_topics(servers: str, topics: Sequence[str]) -> None:
    """Remove topics."""
    admin = admin_of(servers)
    for answer in admin.delete_topics(list(topics)).values():
        answer.result(PATIENCE_SECONDS)


@contextlib.contextmanager
def start_cluster() -> Iterator[Cluster]:
    """Start the cluster, and kill every process of it at the end."""
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="tidemark-chaos-", ignore_cleanup_errors=True)
        root, controller = Path(stack.enter_context(made)), free_port()
        data, session = root / "controller" / "data", SESSION_SECONDS * 1000
        settings = _CONTROLLER.format(host=HOST, data=data, controller=controller, session=session)
        process = launch_node(root / "controller", settings, jvm=_JVM)
        stack.callback(process.wait)
        stack.callback(process.kill)
        brokers, servers = {}, []
        for number in range(1, REPLICAS + 1):
            folder = root / f"broker-{number}"
            client, peer, *outer = (free_port() for _ in range(5))
            pairs = zip(outer, (client, peer, controller), strict=True)
            ways = Ways(*(stack.enter_context(Proxy(port, to)) for port, to in pairs))
            ports = dict(zip(("outer_client", "outer_peer", "controller"), outer, strict=True))
            filled = _BROKER.format(host=HOST, data=folder / "data", number=number, client=client, peer=peer, **ports)
            brokers[number] = Broker(folder, filled, client, ways)
            stack.callback(brokers[number].kill)
            brokers[number].start()
            servers.append(f"{HOST}:{outer[0]}")
        cluster = Cluster(brokers, ",".join(servers))
        wait_for("brokers", lambda: len(admin_of(cluster.bootstrap_servers).list_topics(timeout=5).brokers) == REPLICAS)
        yield cluster
