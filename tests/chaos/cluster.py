"""A controller and three Kafka brokers on this machine, behind proxies, and faults of a topic's leader under load."""

import contextlib
import logging
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.proxy import Proxy
from tidemark.extras.demo.broker_process import HOST, free_port, launch_node

REPLICAS = 3
PATIENCE_SECONDS = 60
SESSION_SECONDS = 3  # after that long without a heartbeat the controller elects another leader

TCP_SECONDS = 5.0
"""How long connections are killed again and again, at most. The article did so for ten seconds, over more records."""
TCP_EVERY_SECONDS = 0.5
DOUBLE_SESSION = 2 * SESSION_SECONDS
_ALONE_SECONDS = 0.3

RATES = {"leader_cut_off": 12_000.0, "unclean_election": 20_000.0}
"""Records a second. Elsewhere a sender has no limit; here it would be done before the leader that goes on alone ends."""
TOPIC_CONFIGS = {"unclean_election": {"unclean.leader.election.enable": "true"}}

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
log.index.size.max.bytes=1048576
log.cleaner.dedupe.buffer.size=16777216
offsets.topic.num.partitions=1
offsets.topic.replication.factor=3
"""

T = TypeVar("T")


class UnfitError(Exception):
    """The cluster is not in the state that a run needs, so a run over it would not count."""


def wait_for(what: str, found: Callable[[], T | None], errors: tuple[type[Exception], ...] = (KafkaException, KeyError)) -> T:
    """Return what is found, or raise `UnfitError` after a minute. The named errors, and what is false, mean not yet."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(*errors):
            if value := found():
                return value
        time.sleep(0.2)
    raise UnfitError(f"No {what} within {PATIENCE_SECONDS} s.")


class Node:
    def __init__(self, launch: Callable[[], subprocess.Popen[bytes]], *proxies: Proxy) -> None:
        self._launch, self._proxies = launch, proxies
        self.process = launch()

    def start(self) -> None:
        if self.process.poll() is not None:
            self.process = self._launch()
        for proxy in self._proxies:
            proxy.accept()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for proxy in self._proxies:
            proxy.refuse()


class Broker(Node):
    def __init__(self, launch: Callable[[], subprocess.Popen[bytes]], port: int, proxies: Sequence[Proxy]) -> None:
        self.port, (self.clients, self.peers, self.to_controller) = port, proxies
        super().__init__(launch, self.clients, self.peers)


class Cluster:
    def __init__(self, brokers: Mapping[int, Broker], bootstrap_servers: str) -> None:
        self.brokers, self.bootstrap_servers = brokers, bootstrap_servers

    def create_topic(self, topic: str, config: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, num_partitions=1, replication_factor=REPLICAS, config=dict(config))
        admin = admin_of(self.bootstrap_servers)  # named: an admin client that is collected too early never answers
        admin.create_topics([wanted])[topic].result(PATIENCE_SECONDS)
        self.await_in_sync(topic)

    def delay(self, milliseconds: int) -> None:
        for broker in self.brokers.values():
            broker.clients.delay_seconds = broker.peers.delay_seconds = milliseconds / 1000

    def heal(self, topic: str) -> None:
        self.delay(0)
        for broker in self.brokers.values():
            broker.peers.let_pass()
            broker.to_controller.let_pass()
            broker.start()
        self.await_in_sync(topic)

    def leader(self, topic: str) -> Broker:
        return self.brokers[self._partition(topic)[0]]

    def await_in_sync(self, topic: str, replicas: int = REPLICAS) -> None:
        wait_for(f"{replicas} replicas of {topic} in sync", lambda: self._partition(topic)[1] == replicas)

    def await_leader(self, topic: str, *, other_than: Broker) -> None:
        known = {node for node, broker in self.brokers.items() if broker is not other_than}
        wait_for(f"another leader of {topic}", lambda: self._partition(topic)[0] in known)

    def _partition(self, topic: str) -> tuple[int, int]:
        partition = admin_of(self.bootstrap_servers).list_topics(topic, timeout=5).topics[topic].partitions[0]
        return partition.leader, len(partition.isrs)


@dataclass(frozen=True)
class Faults:
    """Faults of a topic's leader, by name. Each returns once the cluster can go on; its replicas need not be in sync."""

    cluster: Cluster
    topic: str
    leader: Broker
    is_sending: Callable[[], bool]

    def leader_killed(self) -> None:
        self.leader.kill()

    def tcp_killed(self) -> None:
        """Kill the leader's connections to clients again and again, by `ss -K` as tcpkill does, or else by the proxy."""
        until = time.monotonic() + TCP_SECONDS
        has_ss = _kill_sockets("( sport = :0 )") == 0
        while self.is_sending() and time.monotonic() < until:
            if has_ss:
                _kill_sockets(f"( sport = :{self.leader.port} )")
            else:
                self.leader.clients.cut()
            time.sleep(TCP_EVERY_SECONDS)

    def leader_stopped(self) -> None:
        self.leader.process.send_signal(signal.SIGSTOP)
        time.sleep(DOUBLE_SESSION)
        self.leader.process.send_signal(signal.SIGCONT)

    def leader_cut_off(self) -> None:
        """Separate the leader from its peers and the controller, not from clients: it goes on while a second broker leads."""
        ways = (self.leader.peers, self.leader.to_controller)
        for way in ways:
            way.hold_up()
        time.sleep(DOUBLE_SESSION)
        for way in ways:
            way.let_pass()

    def unclean_election(self) -> None:
        """Kill the followers, let the leader go on alone, kill it, and start the followers: the new leader lacks records."""
        followers = [broker for broker in self.cluster.brokers.values() if broker is not self.leader]
        for follower in followers:
            follower.kill()
        self.cluster.await_in_sync(self.topic, 1)
        time.sleep(_ALONE_SECONDS)
        self.leader.kill()
        for follower in followers:
            follower.start()
        self.cluster.await_leader(self.topic, other_than=self.leader)


def _kill_sockets(which: str) -> int:
    if not shutil.which("ss"):
        return 1
    return subprocess.run(["ss", "-tKn", "state", "established", which], check=False, capture_output=True).returncode


def admin_of(servers: str) -> AdminClient:
    quiet = logging.getLogger("tidemark.chaos.admin")
    quiet.disabled = True
    return AdminClient({"bootstrap.servers": servers, "socket.timeout.ms": 5_000}, logger=quiet)


@contextlib.contextmanager
def start_cluster() -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="tidemark-chaos-", ignore_cleanup_errors=True)
        root, controller = Path(stack.enter_context(made)), free_port()

        def launching(name: str, settings: str, **values: object) -> Callable[[], subprocess.Popen[bytes]]:
            filled = settings.format(host=HOST, data=root / name / "data", session=SESSION_SECONDS * 1000, **values)
            return lambda: launch_node(root / name, filled, jvm=_JVM)

        stack.callback(Node(launching("controller", _CONTROLLER, controller=controller)).kill)
        brokers, servers = {}, []
        for number in range(1, REPLICAS + 1):
            client, peer, *outer = (free_port() for _ in range(5))
            ports = dict(zip(("outer_client", "outer_peer", "controller"), outer, strict=True), client=client, peer=peer)
            pairs = zip(outer, (client, peer, controller), strict=True)
            proxies = [stack.enter_context(Proxy(port, to)) for port, to in pairs]
            brokers[number] = Broker(launching(f"broker-{number}", _BROKER, number=number, **ports), client, proxies)
            stack.callback(brokers[number].kill)
            servers.append(f"{HOST}:{outer[0]}")
        cluster = Cluster(brokers, ",".join(servers))
        wait_for("brokers", lambda: len(admin_of(cluster.bootstrap_servers).list_topics(timeout=5).brokers) == REPLICAS)
        yield cluster
