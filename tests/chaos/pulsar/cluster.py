"""Pulsar on this machine, its jars cached: a JVM that stores, and two brokers, each behind a proxy for clients."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from lakehouse.machine import jars
from lakehouse.machine.java import java_executable
from tests.chaos.cluster import SESSION_SECONDS, Node, wait_for
from tests.support.proxy import Proxy
from tests.support.served import kept_program
from tidemark.extras.demo.broker_process import HOST, LOGGING, free_port

VERSION = "4.0.7"
BROKERS = 2
NAMESPACES = {"off": "public/plain", "on": "public/deduplicated"}
"""The namespaces of topics without and with deduplication."""

# Ivy passes over these three: they are published as archives for several systems, with jars as well.
_ARCHIVED = "".join(
    f"""<dependency org="org.apache.bookkeeper" name="{name}" rev="4.17.2" conf="pulsar->master">
      <artifact name="{name}" type="jar"/>
    </dependency>"""
    for name in ("native-io", "circe-checksum", "cpu-affinity")
)
# The excluded module keeps metadata in etcd.
_LOCK = f"""<ivy-module version="2.0">
  <info organisation="tidemark" module="pulsar"/>
  <configurations><conf name="pulsar"/></configurations>
  <dependencies>
    <dependency org="org.apache.pulsar" name="pulsar-broker" rev="{VERSION}" conf="pulsar->runtime,master"/>
    {_ARCHIVED}
    <exclude module="jetcd-core-shaded"/>
  </dependencies>
</ivy-module>
"""
_OPEN = (
    *("java.management/sun.management", "java.base/sun.net", "java.base/java.lang", "java.base/java.nio"),
    "java.base/jdk.internal.platform",
)
_NAME = "tidemark"
_ERRORS = (OSError, KeyError)
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


class Broker(Node):
    def __init__(self, command: list[str], folder: Path, web: int, port: int, clients: Proxy) -> None:
        self.port, self.clients, self._web = port, clients, web
        super().__init__(lambda: _start(command, folder), clients)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end. Answers that the proxy delays are lost too."""
        super().kill()
        self.clients.cut()

    def knows_all(self) -> bool:
        return len(self.request(f"/admin/v2/brokers/{_NAME}")) == BROKERS

    def request(self, path: str, *, method: str = "GET", body: Any = None) -> Any:
        """The answer of its HTTP interface, None for an empty one; an `OSError` if there is none, or it refuses."""
        answer = requests.request(method, f"http://{HOST}:{self._web}{path}", json=body, timeout=10)
        answer.raise_for_status()
        return answer.json() if answer.content else None


class Cluster:
    def __init__(self, brokers: list[Broker]) -> None:
        self.brokers = brokers
        self.service_url = "pulsar://" + ",".join(f"{HOST}:{broker.port}" for broker in brokers)

    def owner(self, topic: str) -> Broker:
        """The broker that owns a topic; the lookup assigns one if there is none. Raises `UnfitError` after a minute."""

        def look() -> Broker | None:
            url = self.brokers[0].request(f"/lookup/v2/topic/persistent/{topic}")["brokerUrl"]
            return next((broker for broker in self.brokers if url.endswith(f":{broker.port}")), None)

        return wait_for(f"owner of {topic}", look, _ERRORS)

    def heal(self) -> None:
        for broker in self.brokers:
            broker.clients.delay_seconds = 0.0
            broker.start()
        for broker in self.brokers:
            wait_for("brokers", broker.knows_all, _ERRORS)


@contextlib.contextmanager
def start_cluster(libraries: str) -> Iterator[Cluster]:
    """Start Pulsar, and kill every process of it at the end. Its class path has the compiled programs of this folder too."""
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="tidemark-pulsar-", ignore_cleanup_errors=True)
        root, zookeeper = Path(stack.enter_context(made)), free_port()
        storage = root / "storage"
        command = [*java(storage, libraries), "Storage", str(zookeeper), str(storage), _NAME]
        stack.callback(Node(lambda: _start(command, storage)).kill)
        wait_for("bookies", lambda: "bookies are there" in (storage / "log").read_text(errors="replace"), _ERRORS)
        brokers = []
        for nth in range(BROKERS):
            folder = root / f"broker-{nth}"
            command = [*java(folder, libraries), "org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", str(folder / "conf")]
            port, outer, web = (free_port() for _ in range(3))
            values = {"zookeeper": zookeeper, "session": SESSION_SECONDS * 1000, "port": port, "outer": outer, "web": web}
            (folder / "conf").write_text(_BROKER.format(name=_NAME, host=HOST, **values), encoding="utf-8")
            clients = stack.enter_context(Proxy(outer, port))
            brokers.append(Broker(command, folder, web, outer, clients))
            stack.callback(brokers[-1].kill)
        cluster = Cluster(brokers)
        cluster.heal()
        for deduplication, name in NAMESPACES.items():
            brokers[0].request(f"/admin/v2/namespaces/{name}", method="PUT", body={})
            brokers[0].request(f"/admin/v2/namespaces/{name}/deduplication", method="POST", body=deduplication == "on")
        yield cluster


def classpath() -> str:
    def fetch(work: Path) -> Path:
        (work / "ivy.xml").write_text(_LOCK, encoding="utf-8")
        return jars.retrieve(work / "ivy.xml", "pulsar", work / "fetched", "[artifact]-[revision](-[classifier]).[ext]")

    return str(kept_program(f"pulsar-{VERSION}", fetch) / "*")


def java(folder: Path, libraries: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING, encoding="utf-8")
    return [
        *(str(java_executable()), "-Xmx384m", "-XX:MaxDirectMemorySize=384m", "-XX:+UseSerialGC"),
        *("-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError", "-Dio.netty.tryReflectionSetAccessible=true"),
        *(option for name in _OPEN for option in ("--add-opens", f"{name}=ALL-UNNAMED")),
        *(f"-Dlog4j2.configurationFile={logging}", "-cp", libraries),
    ]


def _start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
