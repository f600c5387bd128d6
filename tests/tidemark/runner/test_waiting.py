"""Whether few records wait for a run: looked at before a session starts, and never waited for."""

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from bronze.dev_broker.broker import LocalBroker
from lakehouse.settings.pipeline import Settings
from lakehouse.table import GOLD_STREAM_HEALTH, SILVER_WATERMARKS
from tests.support.small_config import small_config
from tidemark.runner import waiting

NO_BROKER = "127.0.0.1:1"


def settings(root: Path | str, servers: str = NO_BROKER, topic: str = "t") -> Settings:
    kafka = {"bootstrap_servers": servers, "topics": [topic]}
    return Settings.model_validate(small_config(str(root), kafka=kafka), context={"folder": Path()})


def put(root: Path, *, decided_up_to: int, topic: str, load_seq: int, published: int) -> None:
    marks = {"topic": [topic], "partition": pa.array([0], pa.int32()), "high_watermark": [decided_up_to]}
    write_deltalake(root / SILVER_WATERMARKS, pa.table({**marks, "last_offset": [decided_up_to], "load_seq": [load_seq]}))
    write_deltalake(root / GOLD_STREAM_HEALTH, pa.table({"load_seq": [published]}))


def send(servers: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for nth in range(records):
        producer.produce(topic, b"%d" % nth)
    producer.flush()


def test_of_tables_that_are_in_no_folder_it_is_not_known() -> None:
    assert not waiting.few_wait(settings("s3://bucket/lake"))


@pytest.mark.kafka
def test_few_wait_as_long_as_kafka_has_few_beyond_what_silver_decided(
    broker: LocalBroker, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    send(broker.bootstrap_servers, name, 30)
    asked = settings(tmp_path, broker.bootstrap_servers, name)
    monkeypatch.setattr(waiting, "_SECONDS", 30)
    monkeypatch.setattr(waiting, "_MOST_RECORDS", 20)

    assert not waiting.few_wait(asked)
    put(tmp_path, decided_up_to=9, topic=name, load_seq=3, published=3)
    assert waiting.few_wait(asked)
    send(broker.bootstrap_servers, name, 1)
    assert not waiting.few_wait(asked)
    put(tmp_path / "unpublished", decided_up_to=30, topic=name, load_seq=3, published=2)
    assert not waiting.few_wait(settings(tmp_path / "unpublished", broker.bootstrap_servers, name))


def test_brokers_that_do_not_answer_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(waiting, "_few_wait", lambda _: answered.wait())
    monkeypatch.setattr(waiting, "_SECONDS", 0.1)
    assert not waiting.few_wait(settings(tmp_path))
    answered.set()
