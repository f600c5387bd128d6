"""The local broker, really started."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lakehouse.errors import SourceError, ToolError
from tests.support.kafka import Sent, send
from tests.support.topics import records_of
from tidemark.commands.commands import main
from tidemark.extras.demo import broker_process as process
from tidemark.extras.demo.broker import BrokerState, LocalBroker, create_topic, down, require_running, running, state_dir, up

pytestmark = pytest.mark.kafka


def test_records_of_up_to_two_megabytes_come_back_as_they_were_sent(broker: LocalBroker, topic: Callable[..., str]) -> None:
    name, values = topic(2), [b"first", b"\xff\x00", b"x" * 2_000_000]
    send(broker.bootstrap_servers, name, map(Sent, values))
    assert [record.value for record in records_of(broker.bootstrap_servers, name)] == values


def test_a_misspelt_topic_a_known_one_and_a_wrong_config_are_refused(broker: LocalBroker, topic: Callable[..., str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 3000})
    refusals: list[object] = []
    producer.produce("misspelt", b"x", on_delivery=lambda error, _: refusals.append(error))
    producer.flush(30)
    assert [error is not None for error in refusals] == [True]
    with pytest.raises(SourceError, match="already exists"):
        create_topic(broker.bootstrap_servers, topic(), 1)
    with pytest.raises(SourceError, match=r"cleanup\.policy"):
        create_topic(broker.bootstrap_servers, "odd", 1, {"cleanup.policy": "nonsense"})


def test_a_broker_stopped_and_started_keeps_records_and_address() -> None:
    with LocalBroker() as broker:
        create_topic(broker.bootstrap_servers, "kept", 1)
        send(broker.bootstrap_servers, "kept", [Sent(b"before")])
        address, first_pid = broker.bootstrap_servers, broker.pid
        broker.stop()
        assert broker.pid is None
        broker.start()
        assert broker.bootstrap_servers == address
        assert [record.value for record in records_of(address, "kept")] == [b"before"]
        assert broker.pid != first_pid
        folder, port = broker.data_dir, int(address.rpartition(":")[2])
    assert not folder.exists()
    assert process.is_free(port)


def test_up_and_down_can_be_said_twice(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert (running(folder), down(folder)) == (None, None)
    assert folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "victim").touch()
    for name in ("broker.json.new", "server.properties", "log4j2.properties"):
        (folder / name).symlink_to(tmp_path / "victim")
    first = up(folder)
    try:
        assert (tmp_path / "victim").read_bytes() == b""
        assert up(folder) == first == running(folder)
        create_topic(first.bootstrap_servers, "kept", 1)
    finally:
        assert down(folder) == first
    assert (running(folder), down(folder)) == (None, None)
    topic = ["broker", "topic", "orders", "--partitions", "3", "--folder", str(folder)]
    with pytest.raises(ToolError, match="is not running"):
        require_running(folder)
    port, other = process.free_port(), process.free_port()
    with LocalBroker() as taken, pytest.raises(ToolError, match="The port is taken"):
        up(folder, int(taken.bootstrap_servers.rpartition(":")[2]))
    again = up(folder, port)
    try:
        assert (again.pid != first.pid, again.bootstrap_servers) == (True, f"{process.HOST}:{port}")
        assert up(folder, port) == again
        with pytest.raises(ToolError, match="runs already, on another port"):
            up(folder, other)
        with pytest.raises(SourceError, match="already exists"):
            create_topic(again.bootstrap_servers, "kept", 1)
        assert main(topic) == 0
        known = Producer({"bootstrap.servers": again.bootstrap_servers}).list_topics("orders", timeout=30)
        assert known.topics["orders"].partitions.keys() == {0, 1, 2}
    finally:
        down(folder)


def test_a_process_that_took_over_the_id_is_left_alone(tmp_path: Path) -> None:
    state = BrokerState(os.getpid(), "some other start", "127.0.0.1:1", str(tmp_path))
    (tmp_path / "broker.json").write_text(json.dumps(vars(state)), encoding="utf-8")
    assert down(tmp_path) is None
    process.end_by_id(os.getpid(), "some other start")  # ends nothing: this test goes on


def test_a_broker_that_dies_shows_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\ncase "$*" in *StorageTool*) exit 0;; esac\necho no room on the disk; exit 7\n', encoding="utf-8"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    with pytest.raises(ToolError, match="no room on the disk") as caught, LocalBroker(tmp_path / "broker"):
        pass
    assert "exit code 7" in caught.value.what
    assert (tmp_path / "broker").stat().st_mode & 0o777 == 0o700


def test_the_state_lies_where_the_desktop_keeps_states(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir() == tmp_path / "tidemark" / "broker"
