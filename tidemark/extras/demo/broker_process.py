"""The JVM process of a local Kafka broker: how it is configured, started, awaited and stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakehouse.errors import ToolError
from lakehouse.machine import private_files
from lakehouse.machine.jars import broker_classpath
from lakehouse.machine.java import FIRST_COMPILER, SECOND_COMPILER_LATE, java_executable

if TYPE_CHECKING:
    from typing import BinaryIO

HOST = "127.0.0.1"
_PORTS = range(10_000, 32_768)
START_SECONDS = 60
STOP_SECONDS = 20
# Sixteen bytes in URL-safe base64, as Kafka requires. Fixed, so that a broker can start again on a kept data folder.
_CLUSTER_ID = "dGlkZW1hcmstbG9jYWwtMQ"
_JVM = ("-Xms64m", "-Xmx512m", "-XX:+ExitOnOutOfMemoryError", *SECOND_COMPILER_LATE)

_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
log.dirs={data}
# A misspelt topic must be an error here too, as it is in production.
auto.create.topics.enable=false
num.partitions=1
# Records carry the times of their producers; by default those of last month would be deleted at once.
log.retention.ms=-1
message.max.bytes=16777216
# One node holds every internal topic, and small ones start fast.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# No empty record in the metadata log twice a second: an idle broker then uses a third less of a core.
metadata.max.idle.interval.ms=0
# The default takes a quarter of the heap.
log.cleaner.dedupe.buffer.size=16777216
"""

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = stdout
appender.console.type = Console
appender.console.name = stdout
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1} %m%n%ex{short}
"""


def free_port() -> int:
    """Return a loopback port that is free at this moment, below the ports that systems assign to clients."""
    while not is_free(port := secrets.choice(_PORTS)):
        pass
    return port


def is_free(port: int) -> bool:
    """Whether a broker could listen on that loopback port at this moment."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: a closed broker's port is free at once
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def log_file(folder: Path) -> Path:
    """Return the log file of the broker in that folder."""
    return folder / "broker.log"


def launch(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Format the folder if it is new, and start a broker on it without waiting for its answer. Raises as `launch_node`."""
    return launch_node(folder, _SERVER.format(host=HOST, port=port, controller_port=free_port(), data=folder / "data"))


def launch_node(
    folder: Path, server: str, *, jvm: Sequence[str] = _JVM, format_options: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Format the folder if it is new, and start a Kafka node with `log.dirs` in its `data`; raise a `ToolError` on failure."""
    private_files.folder(folder)
    settings = private_files.replace_file(folder / "server.properties", server)
    logging_settings = private_files.replace_file(folder / "log4j2.properties", LOGGING)
    java = [str(java_executable()), f"-Dlog4j2.configurationFile={logging_settings}", "-cp", broker_classpath()]
    with log_file(folder).open("ab") as log:
        if not (folder / "data" / "meta.properties").exists():
            format_tool = [*java, *FIRST_COMPILER, "kafka.tools.StorageTool", "format", "--config", str(settings)]
            _format([*format_tool, *format_options], folder, log)
        # A separate process session: Ctrl-C in the terminal reaches only this program, which then stops the broker cleanly.
        return subprocess.Popen(
            [*java, *jvm, "kafka.Kafka", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _format(format_tool: list[str], folder: Path, log: BinaryIO) -> None:
    # --ignore-formatted: an earlier attempt may have been cut off halfway.
    command = [*format_tool, "--ignore-formatted", "--cluster-id", _CLUSTER_ID]
    if subprocess.run(command, stdout=log, stderr=log, check=False).returncode != 0:
        raise failed(folder, "The Kafka broker's folder could not be formatted.")


def await_answer(process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    """Return once the broker lists itself in its metadata; raise a `ToolError` with the end of its log if it does not."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise failed(folder, f"The Kafka broker ended while starting, with exit code {process.returncode}.")
        if answers(port):
            return
        time.sleep(0.2)
    end(process)
    raise failed(folder, f"The Kafka broker did not answer within {START_SECONDS} s.")


def answers(port: int) -> bool:
    """Whether a broker on that loopback port lists at least one broker in its metadata."""
    # First a plain connection: librdkafka logs each refused one, and waits longer after each.
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        quiet = logging.getLogger("tidemark.broker.probe")
        quiet.disabled = True
        with contextlib.suppress(KafkaException):
            return bool(AdminClient({"bootstrap.servers": f"{HOST}:{port}"}, logger=quiet).list_topics(timeout=5).brokers)
    return False


def failed(folder: Path, what: str) -> ToolError:
    """Build the error for a broker that does not run, with the end of its log."""
    with contextlib.suppress(OSError):
        tail = log_file(folder).read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        observed = "\n".join(tail) or "an empty log"
        next_step = "Read its log there. `tidemark doctor` checks Java, memory and disk."
        return ToolError(what, where=str(log_file(folder)), observed=observed, expected="a running broker", next_step=next_step)
    return ToolError(what, where=str(folder), observed="no log", next_step="Check that the folder can be written.")


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop this one process and wait for its end; kill it after 20 s."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_by_id(pid: int, mark: str) -> None:
    """Stop a process that an earlier command started; do nothing if the id is now another process's."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + STOP_SECONDS
        if start_mark(pid) == mark:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        while start_mark(pid) == mark and time.monotonic() < deadline:
            time.sleep(0.1)


def start_mark(pid: int) -> str | None:
    """Return a mark that distinguishes this process from all others with the same id, or None if none runs."""
    stat = Path(f"/proc/{pid}/stat")
    if not Path("/proc/self/stat").exists():  # macOS
        ps = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return ps.stdout.strip() or None
    try:
        # The second field is the command in parentheses and may hold spaces: count from its end.
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    state, started_ticks = fields[0], fields[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return None if state in {"Z", "X"} else f"{boot}/{started_ticks}"
