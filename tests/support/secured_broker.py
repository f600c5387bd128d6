"""A real broker as companies run them: TLS, a login by SCRAM-SHA-512, and rights that are given one by one."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs do not export them
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from bronze.dev_broker.process import HOST, free_port, launch_node, log_file
from lakehouse.machine.java import java_executable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.support.kafka import Sent

ADMIN, READER = "admin", "reader"
PASSWORDS = {ADMIN: "of the administrator", READER: 'hunter2 "; x=1 \\'}
"""The reader's has what a `sasl.jaas.config` must escape."""
_STORE_PASSWORD = "of the store"
_PATIENCE_SECONDS = 60

_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=SASL_SSL://{host}:{port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="{admin}" password="{admin_password}";
ssl.keystore.type=PKCS12
ssl.keystore.location={folder}/broker.p12
ssl.keystore.password={store_password}
ssl.truststore.type=PEM
ssl.truststore.location={folder}/authority.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:ANONYMOUS
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@dataclass(frozen=True)
class SecuredBroker:
    """Where it is, and what a client needs.

    Attributes:
        bootstrap_servers: Its address.
        authority: The certificate that its own is signed with, as PEM.
    """

    bootstrap_servers: str
    authority: Path

    def create_topic(self, topic: str, records: Iterable[Sent]) -> None:
        """Create a topic of two partitions as the administrator, and fill it. Nobody else may see it."""
        admin = self._admin()  # named: collected too early, it would never answer
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(_PATIENCE_SECONDS)
        producer = Producer({**self._client(), "enable.idempotence": True})
        for each in records:
            producer.produce(topic, each.value, each.key, each.partition, headers=list(each.headers))
        assert producer.flush(_PATIENCE_SECONDS) == 0

    def let_read(self, topic: str) -> None:
        """Give the reader what docs/configuration.md says that a run needs."""
        topics = [(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)]
        groups = [(ResourceType.GROUP, "spark-kafka-source", ResourcePatternType.PREFIXED)]
        allowed = [
            AclBinding(kind, name, pattern, f"User:{READER}", "*", AclOperation.READ, AclPermissionType.ALLOW)
            for kind, name, pattern in topics + groups
        ]
        admin = self._admin()
        for answer in admin.create_acls(allowed).values():
            answer.result(_PATIENCE_SECONDS)

    def _add_reader(self) -> None:
        admin, method = self._admin(), ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, iterations=4096)
        wanted = UserScramCredentialUpsertion(READER, method, PASSWORDS[READER].encode())
        for answer in admin.alter_user_scram_credentials([wanted]).values():
            answer.result(_PATIENCE_SECONDS)

    def _admin(self) -> AdminClient:
        return AdminClient(self._client())

    def _client(self) -> dict[str, str | int | float | bool]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": ADMIN,
            "sasl.password": PASSWORDS[ADMIN],
            "ssl.ca.location": str(self.authority),
            "log_level": 0,
        }


@contextlib.contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Start one with its records in a folder, and stop it at the end."""
    make_certificate(folder / "broker.p12", folder / "authority.pem")
    port, controller = free_port(), free_port()
    values = {"host": HOST, "port": port, "controller": controller, "folder": folder, "store_password": _STORE_PASSWORD}
    server = _SERVER.format(**values, admin=ADMIN, admin_password=PASSWORDS[ADMIN])
    admin = ["--add-scram", f"SCRAM-SHA-512=[name={ADMIN},password={PASSWORDS[ADMIN]}]"]
    process = launch_node(folder, server, format_options=admin)
    try:
        broker = SecuredBroker(f"{HOST}:{port}", folder / "authority.pem")
        _await(broker, process)
        broker._add_reader()
        yield broker
    finally:
        process.kill()
        process.wait()


def make_certificate(store: Path, shown: Path) -> None:
    """Make a key and a certificate of the broker's address, signed by itself, with the keytool that Java comes with.

    Args:
        store: Where both go, as PKCS12.
        shown: Where the certificate goes, as PEM.
    """
    keytool = str(java_executable().resolve().with_name("keytool"))
    of = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD]
    make = ["-genkeypair", *of, "-keyalg", "EC", "-dname", f"CN={HOST}", "-ext", f"SAN=ip:{HOST}", "-validity", "2"]
    subprocess.run([keytool, *make], check=True, capture_output=True)
    show = [keytool, "-exportcert", *of, "-rfc", "-file", str(shown)]
    subprocess.run(show, check=True, capture_output=True)


def _await(broker: SecuredBroker, process: subprocess.Popen[bytes]) -> None:
    quiet = logging.getLogger("tidemark.tests.secured")
    quiet.disabled = True
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(KafkaException):
            if AdminClient(broker._client(), logger=quiet).list_topics(timeout=5).brokers:
                return
        time.sleep(0.2)
    raise AssertionError(f"No secured broker: {log_file(broker.authority.parent).read_text()[-2000:]}")
