"""A broker with TLS, logins by SCRAM-SHA-512 (Java clients also by OAUTHBEARER), and rights that are given one by one."""

import contextlib
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType  # type: ignore[attr-defined] # not in its stubs
from confluent_kafka.cimpl import NewTopic

from lakehouse.machine.java import java_executable
from tests.support.kafka import Sent, produce
from tidemark.extras.demo import broker_process as process
from tidemark.extras.demo.broker_process import HOST, free_port, launch_node

ADMIN, READER = "admin", "reader"
PASSWORDS = {ADMIN: "of the administrator", READER: 'hunter2 "; x=1 \\'}
"""The reader's has what a `sasl.jaas.config` must escape."""
_STORE_PASSWORD = "of the store"
_PATIENCE_SECONDS = 60
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"

# After those of a broker of its own machine: the last line of a key holds.
_SERVER = """
listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=SASL_SSL://{host}:{port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="{admin}" password="{admin_password}";
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config={oauth};
ssl.keystore.type=PKCS12
ssl.keystore.location={folder}/broker.p12
ssl.keystore.password={store_password}
ssl.truststore.type=PEM
ssl.truststore.location={folder}/authority.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:ANONYMOUS
"""


@dataclass(frozen=True)
class SecuredBroker:
    bootstrap_servers: str
    authority: Path  # the certificate that its own is signed with, as PEM

    def create_topic(self, topic: str, records: Iterable[Sent]) -> None:
        """Create a topic of two partitions as the administrator, and fill it. Nobody else may see it."""
        admin = AdminClient(self._client())  # named: collected too early, it would never answer
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(_PATIENCE_SECONDS)
        self.send(topic, records)

    def delete_records(self, topic: str, *, before: int) -> None:
        """Delete the first records of partition 0, as retention does."""
        until, admin = TopicPartition(topic, 0, before), AdminClient(self._client())
        admin.delete_records([until])[until].result(_PATIENCE_SECONDS)

    def send(self, topic: str, records: Iterable[Sent]) -> None:
        produce(Producer({**self._client(), "enable.idempotence": True}), topic, records)

    def let_read(self, topic: str) -> None:
        """Give the reader what docs/configuration.md says that a run needs."""
        named = (
            (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL),
            (ResourceType.GROUP, "spark-kafka-source", ResourcePatternType.PREFIXED),
        )
        allowed = [AclBinding(*of, f"User:{READER}", "*", AclOperation.READ, AclPermissionType.ALLOW) for of in named]
        admin = AdminClient(self._client())
        for answer in admin.create_acls(allowed).values():
            answer.result(_PATIENCE_SECONDS)

    def _client(self) -> dict[str, str | int | float | bool]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": ADMIN,
            "sasl.password": PASSWORDS[ADMIN],
            "ssl.ca.location": str(self.authority),
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }


@contextlib.contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    make_certificate(folder / "broker.p12", folder / "authority.pem")
    port, controller = free_port(), free_port()
    values = {"host": HOST, "port": port, "controller_port": controller, "folder": folder, "data": folder / "data"}
    names = {"admin": ADMIN, "admin_password": PASSWORDS[ADMIN], "store_password": _STORE_PASSWORD}
    server = (process._SERVER + _SERVER).format(**values, **names, oauth=OAUTH)
    users = [f"--add-scram=SCRAM-SHA-512=[name={user},password={password}]" for user, password in PASSWORDS.items()]
    node = launch_node(folder, server, format_options=users)
    try:
        yield SecuredBroker(f"{HOST}:{port}", folder / "authority.pem")
    finally:
        node.kill()
        node.wait()


def make_certificate(store: Path, shown: Path) -> None:
    keytool = str(java_executable().resolve().with_name("keytool"))
    of = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD]
    make = ["-genkeypair", *of, "-keyalg", "EC", "-dname", f"CN={HOST}", "-ext", f"SAN=ip:{HOST}", "-validity", "2"]
    subprocess.run([keytool, *make], check=True, capture_output=True)
    show = [keytool, "-exportcert", *of, "-rfc", "-file", str(shown)]
    subprocess.run(show, check=True, capture_output=True)


def make_truststore(shown: Path, store: Path) -> dict[str, str]:
    """Put a certificate into a store that Java reads and librdkafka does not; return the properties that name it."""
    keytool = str(java_executable().resolve().with_name("keytool"))
    named = ["-alias", "authority", "-file", str(shown), "-keystore", str(store), "-storetype", "JKS"]
    put = [keytool, "-importcert", "-noprompt", *named, "-storepass", _STORE_PASSWORD]
    subprocess.run(put, check=True, capture_output=True)
    password = {"ssl.truststore.password": _STORE_PASSWORD}
    return {"ssl.truststore.type": "JKS", "ssl.truststore.location": str(store), **password}
