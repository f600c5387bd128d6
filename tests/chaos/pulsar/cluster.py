"""Pulsar on this machine: a JVM that stores, and two brokers, each of them behind a proxy for clients."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from bronze.dev_broker.process import HOST, free_port
from tests.chaos.pulsar.program import java, start
from tests.chaos.started import PATIENCE_SECONDS, Started, UnfitError, wait_for
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

BROKERS = 2
SESSION_SECONDS = 3
"""After that long without a word a broker is taken for dead, and another one owns its topics."""
NAMESPACES = {False: "public/plain", True: "public/deduplicated"}
"""Of topics without and with deduplication."""

_NAME = "tidemark"
_BROKER = """\
clusterName={name}
metadataStoreUrl=zk:{host}:{zookeeper}
configurationMetadataStoreUrl=zk:{host}:{zookeeper}
metadataStoreSessionTimeoutMillis={session}
bindAddress={host}
advertisedAddress={host}
brokerServicePort={port}
webServicePort={web}
advertisedListeners=internal:pulsar://{host}:{outer}
internalListenerName=internal
managedLedgerDefaultEnsembleSize=2
managedLedgerDefaultWriteQuorum=2
managedLedgerDefaultAckQuorum=2
managedLedgerCacheSizeMB=32
defaultNumberOfNamespaceBundles=4
# Otherwise what no subscription asks for is deleted, and a topic begins where its new owner began.
defaultRetentionTimeInMinutes=-1
defaultRetentionSizeInMB=-1
systemTopicEnabled=false
topicLevelPoliciesEnabled=false
webSocketServiceEnabled=false
loadBalancerEnabled=false
numIOThreads=2
numHttpServerThreads=8
"""


@dataclass
class Broker:
    """One broker.

    Attributes:
        command: What starts it.
        folder: Its settings and its log.
        web: Its port for HTTP.
        port: The port that clients know, which is the proxy's.
        clients: The proxy.
        process: Its process, once started.
    """

    command: list[str]
    folder: Path
    web: int
    port: int
    clients: Proxy
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it if it does not run; it answers some seconds later."""
        if self.process is None or self.process.poll() is not None:
            self.process = start(self.command, self.folder)
        self.clients.accept()

    def kill(self) -> None:
        """SIGKILL, and wait for the end; what it had under way to clients is lost with it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.clients.refuse()
        self.clients.cut()

    def knows_all(self) -> bool:
        """Whether it knows of every broker.

        Raises:
            OSError: It does not answer yet.
        """
        return len(self.ask(f"/admin/v2/brokers/{_NAME}")) == BROKERS

    def ask(self, path: str, *, method: str = "GET", body: object = None) -> Any:
        """Ask its HTTP interface, and return the answer; None if it has none.

        Raises:
            OSError: It does not answer, or refuses.
        """
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://{HOST}:{self.web}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=10) as answer:  # noqa: S310 -- the URL above
            return json.loads(answer.read() or b"null")


class Cluster(Started):
    """Pulsar, as long as its `with` block. Every process that it starts is killed at the end.

    Args:
        libraries: The class path: Pulsar's jars, and the compiled programs of this folder.

    Attributes:
        brokers: Its brokers.
    """

    def __init__(self, libraries: list[str]) -> None:
        super().__init__()
        self._libraries = libraries
        self.brokers: list[Broker] = []

    @property
    def service_url(self) -> str:
        """Its addresses, through the proxies."""
        return "pulsar://" + ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    def _start(self) -> None:
        made = tempfile.TemporaryDirectory(prefix="tidemark-pulsar-", ignore_cleanup_errors=True)
        root = Path(self._stack.enter_context(made))
        zookeeper = free_port()
        storage = root / "storage"
        storage.mkdir()
        store = java(storage, self._libraries, memory=384)
        process = start([*store, "Storage", str(zookeeper), str(storage)], storage)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        _await("bookies", lambda: "bookies are there" in (storage / "log").read_text(errors="replace"))
        self._make_metadata(root, zookeeper)
        for nth in range(BROKERS):
            self.brokers.append(self._broker(root / f"broker-{nth}", zookeeper))
        for broker in self.brokers:
            self._stack.callback(broker.kill)
        self.await_whole()
        self._make_namespaces()

    def _make_metadata(self, root: Path, zookeeper: int) -> None:
        folder = root / "metadata"
        folder.mkdir()
        store = f"zk:{HOST}:{zookeeper}"
        options = [
            *("--cluster", _NAME, "--web-service-url", f"http://{HOST}:1"),
            *("--metadata-store", store, "--configuration-metadata-store", store),
        ]
        made = start(
            [*java(folder, self._libraries, memory=128), "org.apache.pulsar.PulsarClusterMetadataSetup", *options], folder
        )
        if made.wait(PATIENCE_SECONDS) != 0:
            raise UnfitError(f"No metadata: {(folder / 'log').read_text(errors='replace')[-2_000:]}")

    def _broker(self, folder: Path, zookeeper: int) -> Broker:
        folder.mkdir()
        port, outer, web = (free_port() for _ in range(3))
        settings = folder / "broker.conf"
        values = {"zookeeper": zookeeper, "session": SESSION_SECONDS * 1000, "port": port, "outer": outer, "web": web}
        settings.write_text(_BROKER.format(name=_NAME, host=HOST, **values), encoding="utf-8")
        starter = ["org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", str(settings)]
        clients = self._stack.enter_context(Proxy(outer, port))
        return Broker([*java(folder, self._libraries, memory=384), *starter], folder, web, outer, clients)

    def _make_namespaces(self) -> None:
        broker = self.brokers[0]
        for is_deduplicated, name in NAMESPACES.items():
            broker.ask(f"/admin/v2/namespaces/{name}", method="PUT", body={})
            broker.ask(f"/admin/v2/namespaces/{name}/deduplication", method="POST", body=is_deduplicated)

    def owner(self, topic: str) -> Broker:
        """The broker that owns a topic, which gets one if it had none.

        Raises:
            UnfitError: No broker says so within a minute.
        """
        found: list[Broker] = []

        def look() -> bool:
            url = self.brokers[0].ask(f"/lookup/v2/topic/persistent/{topic}")["brokerUrl"]
            found.extend(broker for broker in self.brokers if url.endswith(f":{broker.port}"))
            return bool(found)

        _await(f"owner of {topic}", look)
        return found[0]

    def await_whole(self) -> None:
        """Start what does not run, and return once every broker knows of all.

        Raises:
            UnfitError: They do not within a minute.
        """
        for broker in self.brokers:
            broker.clients.delay_seconds = 0.0
            broker.start()
        for broker in self.brokers:
            _await("brokers", broker.knows_all)


def _await(what: str, holds: Callable[[], bool]) -> None:
    wait_for(what, holds, (OSError, KeyError))
