"""A single-node Kafka broker on this machine, for the demo and the tests: KRaft mode, a free loopback port, 512 MB of heap."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from filelock import FileLock

from lakehouse.errors import SourceError, ToolError
from lakehouse.machine import private_files
from tidemark.extras.demo import broker_process

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType

_TOPIC_SECONDS = 30


class LocalBroker:
    """A broker that runs as long as this program or its `with` block. Records and address survive `stop` and `start`.

    `data_dir` holds its records, settings and log: by default a temporary folder of this user, which is removed at the end.
    """

    def __init__(self, data_dir: Path | None = None) -> None:
        self._is_temporary = data_dir is None
        self.data_dir = Path(tempfile.mkdtemp(prefix="tidemark-broker-")) if data_dir is None else data_dir.absolute()
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients, valid from the first `start` on."""
        if self._port is None:
            raise ToolError("This broker was never started.", where=str(self.data_dir), next_step="Call start() first.")
        return f"{broker_process.HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs, else None."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process else None

    def start(self) -> Self:
        """Start the broker and return once it answers; raise a `ToolError` if it does not within a minute."""
        if self.pid is None:
            atexit.register(self.close)
            self._process, self._port = _start(self.data_dir, self._port)
        return self

    def stop(self) -> None:
        """Stop the broker's process, and no other. Its records stay, so it can be started again."""
        if self._process is not None:
            broker_process.end(self._process)
            self._process = None

    def close(self) -> None:
        """Stop the broker, and remove its folder if it is temporary."""
        self.stop()
        atexit.unregister(self.close)
        if self._is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class BrokerState:
    """A broker that outlives the command that started it. `started` tells its process from later ones of the same id."""

    pid: int
    started: str
    bootstrap_servers: str
    data_dir: str

    @property
    def is_running(self) -> bool:
        """Whether that same process is still running."""
        return broker_process.start_mark(self.pid) == self.started


def state_dir() -> Path:
    """Return the folder of `tidemark broker up`: below $XDG_STATE_HOME, or else ~/.local/state."""
    states = os.environ.get("XDG_STATE_HOME")
    return (Path(states) if states else Path.home() / ".local" / "state") / "tidemark" / "broker"


def up(folder: Path | None = None, port: int | None = None) -> BrokerState:
    """Start a broker that keeps running, or return the one that already runs in the folder, `state_dir()` by default.

    After a `down` it keeps its records, and its port if that is free. Raises a `ToolError`, for example for a taken port.
    """
    folder = (folder or state_dir()).absolute()
    with _locked(folder):
        former = _read(folder)
        former_port = int(former.bootstrap_servers.rpartition(":")[2]) if former else None
        if former and former.is_running:
            if port not in (None, former_port):
                raise ToolError(
                    "The broker runs already, on another port.",
                    where=former.data_dir,
                    observed=former.bootstrap_servers,
                    expected=f"{broker_process.HOST}:{port}",
                    next_step="End it first: tidemark broker down",
                )
            return former
        if port is not None and not broker_process.is_free(port):
            raise ToolError(
                "The port is taken.",
                where=f"{broker_process.HOST}:{port}",
                expected="a free port",
                next_step="Choose another one, or leave out --port.",
            )
        wanted = port or (former_port if former_port and broker_process.is_free(former_port) else None)
        process, port = _start(folder, wanted)
        _detached[process.pid] = process
        state = BrokerState(
            process.pid, broker_process.start_mark(process.pid) or "", f"{broker_process.HOST}:{port}", str(folder)
        )
        _write(folder, state)
        return state


def down(folder: Path | None = None) -> BrokerState | None:
    """Stop the broker that `up` started in that folder, and return its state; None if none runs. Its records stay."""
    folder = (folder or state_dir()).absolute()
    with _locked(folder):
        state = _read(folder)
        if state is None or not state.is_running:
            return None
        broker_process.end_by_id(state.pid, state.started)
        if state.pid in _detached:
            _detached.pop(state.pid).wait()
        return state


def running(folder: Path | None = None) -> BrokerState | None:
    """Return the broker that `up` started in that folder, or None if it is not running."""
    state = _read((folder or state_dir()).absolute())
    return state if state and state.is_running else None


def require_running(folder: Path | None = None) -> BrokerState:
    """Return the broker that `up` started in that folder; raise a `ToolError` if it is not running."""
    state = running(folder)
    if state is None:
        raise ToolError(
            "The local broker is not running.",
            where=str((folder or state_dir()).absolute()),
            next_step="Start it: tidemark broker up",
        )
    return state


def create_topic(bootstrap_servers: str, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
    """Create a topic with one replica and wait for its leaders, at most 30 s; raise a `SourceError` if the broker refuses."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    try:
        admin.create_topics([wanted], request_timeout=_TOPIC_SECONDS)[topic].result(_TOPIC_SECONDS)
        deadline = time.monotonic() + _TOPIC_SECONDS
        while not _has_leaders(admin, topic, partitions) and time.monotonic() < deadline:
            time.sleep(0.1)
    except (KafkaException, TimeoutError) as error:
        raise SourceError(
            "The topic could not be created.",
            where=f"topic {topic} at {bootstrap_servers}",
            observed=str(error),
            expected=f"a new topic of {partitions} partitions",
            next_step="Check that the broker runs, and choose a name that is not taken.",
        ) from error


_detached: dict[int, subprocess.Popen[bytes]] = {}
"""Brokers that `up` started from this process, kept so that `down` can reap them."""


def _has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, timeout=_TOPIC_SECONDS).topics[topic].partitions
    return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())


def _start(folder: Path, port: int | None, attempts: int = 3) -> tuple[subprocess.Popen[bytes], int]:
    chosen = port or broker_process.free_port()
    process = broker_process.launch(folder, chosen)
    try:
        broker_process.await_answer(process, folder, chosen)
    except ToolError as error:
        # Seconds pass between finding a free port and listening on it, and any connection may take it in between.
        if "already in use" in str(error) and attempts > 1:
            return _start(folder, port, attempts - 1)
        raise
    except BaseException:  # Ctrl-C while it starts
        broker_process.end(process)
        raise
    return process, chosen


def _locked(folder: Path) -> FileLock:
    private_files.folder(folder)
    return FileLock(folder / ".lock")


def _read(folder: Path) -> BrokerState | None:
    with contextlib.suppress(OSError, ValueError, TypeError):  # no file yet, or a truncated one
        return BrokerState(**json.loads((folder / "broker.json").read_text(encoding="utf-8")))
    return None


def _write(folder: Path, state: BrokerState) -> None:
    private_files.replace_file(folder / "broker.json", json.dumps(asdict(state), indent=2))
