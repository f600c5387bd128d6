"""Pulsar on this machine: a JVM that stores, and two brokers, each behind a proxy for clients."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from bronze.dev_broker.process import HOST, free_port
from tests.chaos.cluster import PATIENCE_SECONDS, SESSION_SECONDS, UnfitError, wait_for
from tests.chaos.pulsar.program import java, last_lines, start
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

BROKERS = 2
NAMESPACES = {False: "public/plain", True: "public/deduplicated"}
"""The namespaces of topics without and with deduplication."""

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
# Without these two, records that no subscription holds are deleted, and a topic begins where its new owner began.
defaultRetentionTimeInMinutes=-1
defaultRetentionSizeInMB=-1
systemTopicEnabled=false
topicLevelPoliciesEnabled=false
webSocketServiceEnabled=false
loadBalancerEnabled=false
numIOThreads=2
numHttpServerThreads=8
"""


class Broker:
    """One broker: the proxy before its port for clients, and its port for HTTP."""

    def __init__(self, command: list[str], folder: Path, web: int, port: int, clients: Proxy) -> None:
        self.port, self.clients = port, clients
        self._command, self._folder, self._web = command, folder, web
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it unless it runs; it answers some seconds later."""
        if self._process is None or self._process.poll() is not None:
            self._process = start(self._command, self._folder)
        self.clients.accept()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end. Answers that the proxy delays are lost too."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.clients.refuse()
        self.clients.cut()

    def request(self, path: str, *, method: str = "GET", body: object = None) -> Any:
        """Send a request to its HTTP interface, and return the answer; None for an empty one.

        Raises:
            OSError: It does not answer, or refuses.
        """
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://{HOST}:{self._web}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=10) as answer:  # noqa: S310 -- the URL above
            return json.loads(answer.read() or b"null")


class Cluster:
    """The brokers, and their addresses through the proxies."""

    def __init__(self, brokers: list[Broker]) -> None:
        self.brokers = brokers
        self.service_url = "pulsar://" + ",".join(f"{HOST}:{broker.port}" for broker in brokers)

    def owner(self, topic: str) -> Broker:
        """The broker that owns a topic; the lookup assigns one if there is none. Raises `UnfitError` after a minute."""
        found: list[Broker] = []

        def look() -> bool:
            url = self.brokers[0].request(f"/lookup/v2/topic/persistent/{topic}")["brokerUrl"]
            found.extend(broker for broker in self.brokers if url.endswith(f":{broker.port}"))
            return bool(found)

        _await(f"owner of {topic}", look)
        return found[0]

    def heal(self) -> None:
        """Start every broker that does not run, and return once each knows all. Raises `UnfitError` after a minute."""
        for broker in self.brokers:
            broker.clients.delay_seconds = 0.0
            broker.start()
        for broker in self.brokers:
            _await("brokers", lambda broker=broker: len(broker.request(f"/admin/v2/brokers/{_NAME}")) == BROKERS)  # type: ignore[misc] # mypy does not infer a lambda's default


@contextlib.contextmanager
def start_cluster(libraries: str) -> Iterator[Cluster]:
    """Start Pulsar, and kill every process of it at the end.

    Args:
        libraries: The class path: Pulsar's jars, and the compiled programs of this folder.
    """
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="tidemark-pulsar-", ignore_cleanup_errors=True)
        root, zookeeper = Path(stack.enter_context(made)), free_port()
        storage, metadata = root / "storage", root / "metadata"
        for folder in (storage, metadata):
            folder.mkdir()
        process = start([*java(storage, libraries, memory=384), "Storage", str(zookeeper), str(storage)], storage)
        stack.callback(process.wait)
        stack.callback(process.kill)
        _await("bookies", lambda: "bookies are there" in (storage / "log").read_text(errors="replace"))
        store = f"zk:{HOST}:{zookeeper}"
        options = ["--cluster", _NAME, "--web-service-url", f"http://{HOST}:1"]
        options += ["--metadata-store", store, "--configuration-metadata-store", store]
        setup = [*java(metadata, libraries, memory=128), "org.apache.pulsar.PulsarClusterMetadataSetup", *options]
        if start(setup, metadata).wait(PATIENCE_SECONDS) != 0:
            raise UnfitError(f"No metadata: {last_lines(metadata / 'log')}")
        brokers = []
        for nth in range(BROKERS):
            folder = root / f"broker-{nth}"
            folder.mkdir()
            port, outer, web = (free_port() for _ in range(3))
            values = {"zookeeper": zookeeper, "session": SESSION_SECONDS * 1000, "port": port, "outer": outer, "web": web}
            settings = folder / "broker.conf"
            settings.write_text(_BROKER.format(name=_NAME, host=HOST, **values), encoding="utf-8")
            starter = ["org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", str(settings)]
            clients = stack.enter_context(Proxy(outer, port))
            brokers.append(Broker([*java(folder, libraries, memory=384), *starter], folder, web, outer, clients))
            stack.callback(brokers[-1].kill)
        cluster = Cluster(brokers)
        cluster.heal()
        for is_deduplicated, name in NAMESPACES.items():
            brokers[0].request(f"/admin/v2/namespaces/{name}", method="PUT", body={})
            brokers[0].request(f"/admin/v2/namespaces/{name}/deduplication", method="POST", body=is_deduplicated)
        yield cluster


def _await(what: str, holds: Callable[[], bool]) -> None:
    wait_for(what, holds, (OSError, KeyError))
