"""Broken set-ups as a table: for each, `tidemark check` names what the next run then refuses. It commits nothing.

A lakehouse is made once: a load is published, one waits for the gate, records wait in Bronze, and others in Kafka. Each set-up
breaks a copy of its files, its config, or a topic.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

from bronze.dev_broker.broker import create_topic
from bronze.dev_broker.process import HOST, free_port
from jobs.first import check
from jobs.process.context import load_settings
from lakehouse.config.mistakes import ConfigMistakesError
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import TidemarkError, headline
from pipelines import medallion
from pipelines.job import Job
from tests.conftest import Events
from tests.support.kafka import Sent, delete_records, delete_topic, send
from tests.support.small_config import small_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bronze.dev_broker.broker import LocalBroker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC, OTHER = "predicted", "predicted-too"
LAKE = "lakehouse"
EXPECTED = {"expect_column_values_to_not_be_null": {"column": "payload.id"}}
MODEL = "SELECT payload.id, count(*) AS records FROM gold_records GROUP BY payload.id"
SCHEMA = "id STRING, n BIGINT"


def records(*numbers: int, producer: bytes = b"p", has_sequence: bool = True) -> list[Sent]:
    found = []
    for n in numbers:
        headers = [("producer", producer), *([("seq", b"%d" % n)] if has_sequence else [])]
        found.append(Sent(b'{"id": "%d", "n": %d}' % (n, n), key=b"k%d" % n, headers=headers))
    return found


@dataclass
class SetUp:
    """A config, its tables and its models, for a set-up to break."""

    folder: Path
    servers: str
    config: dict[str, Any]
    spark: SparkSession
    held: list[FileLock] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "tidemark.yml"

    @property
    def root(self) -> Path:
        return self.folder / LAKE

    def set(self, key: str, value: object) -> None:
        *sections, name = key.split(".")
        place = self.config
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value

    def write(self) -> None:
        self.file.write_text(json.dumps(self.config), encoding="utf-8")

    def copy_to(self, folder: Path) -> SetUp:
        shutil.copytree(self.folder, folder)
        config = json.loads(json.dumps(self.config)) | {"lakehouse": {"root": str(folder / LAKE)}}
        return SetUp(folder, self.servers, config, self.spark)

    def run(self, *stages: str) -> None:
        self.write()
        for stage in stages or (None,):
            medallion.run(Job.on(self.spark, load_settings(self.file, None), Events()), stage)

    def files(self) -> dict[str, int]:
        return {str(each): each.stat().st_size for each in self.root.rglob("*") if each.is_file()} if self.root.is_dir() else {}


def new(spark: SparkSession, broker: LocalBroker, folder: Path, *topics: str, **more: Any) -> SetUp:
    folder.mkdir(parents=True, exist_ok=True)
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": list(topics)}
    return SetUp(folder, broker.bootstrap_servers, small_config(str(folder / LAKE), kafka=kafka, **more), spark)


@pytest.fixture(scope="module")
def sound(spark: SparkSession, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> SetUp:
    """A pipeline at work: load 1 is published, load 2 waits for the gate, records wait in Bronze, and in Kafka."""
    made = new(
        spark,
        broker,
        tmp_path_factory.mktemp("predicted") / "sound",
        TOPIC,
        OTHER,
        producer={"header": "producer"},
        value={"format": "json", "schema": SCHEMA},
        gate={"expectations": [EXPECTED]},
        gold={"models": [{"name": "by_id", "sql": "by_id.sql"}]},
        policies={"max_new_streams": 10},
    )
    (made.folder / "by_id.sql").write_text(MODEL, encoding="utf-8")
    for topic in (TOPIC, OTHER):
        create_topic(made.servers, topic, 1)
    send(made.servers, OTHER, records(1, 2))
    send(made.servers, TOPIC, records(*range(20)))
    made.run()
    send(made.servers, TOPIC, records(*range(15, 40)))
    made.run("bronze", "silver")
    waiting = [*records(*range(40, 60)), *records(*range(10), has_sequence=False), *records(1, producer=b"q")]
    send(made.servers, TOPIC, [*waiting, *records(1, producer=b"r")])
    made.run("bronze")
    send(made.servers, TOPIC, records(*range(60, 65)))
    return made


def read(of: SetUp, topic: str, **more: Any) -> None:
    """Have the set-up read a topic of its own into a Bronze of its own."""
    shutil.rmtree(of.root)
    create_topic(of.servers, topic, 1)
    send(of.servers, topic, records(*range(3)))
    of.config = small_config(str(of.root), kafka={"bootstrap_servers": of.servers, "topics": [topic], **more})
    of.run("bronze")


def deleted(of: SetUp) -> None:
    read(of, "deleted")
    delete_topic(of.servers, "deleted")


def recreated(of: SetUp) -> None:
    read(of, "recreated")
    delete_topic(of.servers, "recreated")
    create_topic(of.servers, "recreated", 1)
    send(of.servers, "recreated", records(*range(9)))


def expired(of: SetUp) -> None:
    read(of, "expired")
    send(of.servers, "expired", records(*range(3, 9)))
    delete_records(of.servers, "expired", before=6)


def from_a_new_root(**kafka: Any) -> Callable[[SetUp], None]:
    def break_(of: SetUp) -> None:
        shutil.rmtree(of.root)
        of.config["kafka"] |= kafka

    return break_


def setting(key: str, value: object) -> Callable[[SetUp], None]:
    return lambda of: of.set(key, value)


def model(text: str) -> Callable[[SetUp], None]:
    def break_(of: SetUp) -> None:
        (of.folder / "by_id.sql").write_text(text, encoding="utf-8")

    return break_


def removed(name: str) -> Callable[[SetUp], None]:
    return lambda of: shutil.rmtree(of.root / name)


def log(of: SetUp, table: str) -> Path:
    return max((of.root / table / "_delta_log").glob("*.json"))


def appended(table: str, *actions: Mapping[str, Any]) -> Callable[[SetUp], None]:
    """A commit that another engine made, with these actions."""

    def break_(of: SetUp) -> None:
        last = log(of, table)
        info = {"commitInfo": {"timestamp": 1, "operation": "UPGRADE PROTOCOL", "operationParameters": {}}}
        lines = "\n".join(json.dumps(each) for each in (info, *actions))
        last.with_name(f"{int(last.stem) + 1:020}.json").write_text(lines + "\n", encoding="utf-8")

    return break_


def needing(table: str, **protocol: Any) -> Callable[[SetUp], None]:
    return appended(table, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, **protocol}})


def without_column(table: str, column: str) -> Callable[[SetUp], None]:
    """The table as another version would have made it."""

    def break_(of: SetUp) -> None:
        lines = (json.loads(line) for file in sorted(log(of, table).parent.glob("*.json")) for line in file.open())
        meta = [line["metaData"] for line in lines if "metaData" in line][-1]
        schema = json.loads(meta["schemaString"])
        schema["fields"] = [each for each in schema["fields"] if each["name"] != column]
        appended(table, {"metaData": {**meta, "schemaString": json.dumps(schema)}})(of)

    return break_


def without_last_commit(table: str) -> Callable[[SetUp], None]:
    def break_(of: SetUp) -> None:
        last = log(of, table)
        for file in last.parent.glob(f"*{last.stem}*"):
            file.unlink()

    return break_


def emptied(table: str) -> Callable[[SetUp], None]:
    def break_(of: SetUp) -> None:
        last = log(of, table)
        last.write_bytes(b"")
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    return break_


def rewritten(table: str, old: str, new: str) -> Callable[[SetUp], None]:
    """Change a text in all commits of a table."""

    def break_(of: SetUp) -> None:
        for file in (of.root / table / "_delta_log").glob("*.json"):
            file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    return break_


def framed(of: SetUp, number: int, url: str) -> None:
    """Records of a registry's schema, read as Avro from a new root."""
    topic = f"framed-{number}-{of.folder.name}"
    create_topic(of.servers, topic, 1)
    send(of.servers, topic, [Sent(b"\0" + number.to_bytes(4) + b"\2a", headers=[("seq", b"1")])])
    shutil.rmtree(of.root)
    value = {"format": "avro", "schema": "id STRING", "registry": {"url": url}}
    of.config = small_config(str(of.root), kafka={"bootstrap_servers": of.servers, "topics": [topic]}, value=value)


def locked(of: SetUp) -> None:
    lock = FileLock(of.root / ".tidemark.lock")
    lock.acquire()
    of.held.append(lock)


def rooted_in_a_file(of: SetUp) -> None:
    of.set("lakehouse.root", str(of.file / LAKE))


def at_a_file(of: SetUp) -> None:
    shutil.rmtree(of.root)
    of.root.write_text("no folder", encoding="utf-8")


UNKNOWN = f"{HOST}:{free_port()}"
BROKEN: dict[str, Callable[[SetUp], None]] = {
    "an unknown key": setting("sequenze", {"header": "seq"}),
    "a value that is none": setting("policies.late", "later"),
    "a secret that is not there": setting("kafka.properties", {"sasl.jaas.config": "${env:NOT_THERE}"}),
    "a schema that is none": setting("value.schema", "id STRING, n"),
    "an extractor that is not installed": setting("sequence", {"custom": "not_there:sequence"}),
    "an expectation that nobody knows": setting("gate.expectations", [{"expect_nothing": {"column": "key"}}]),
    "an expectation on a column that is not there": setting(
        "gate.expectations", [{"expect_column_values_to_not_be_null": {"column": "payload.name"}}]
    ),
    "an expectation that no load can meet": setting(
        "gate.expectations", [{"expect_column_values_to_be_between": {"column": "payload.n", "min_value": "a"}}]
    ),
    "a model whose file is not there": setting("gold.models", [{"name": "by_id", "sql": "not_there.sql"}]),
    "brokers that do not listen": setting("kafka.bootstrap_servers", UNKNOWN),
    "brokers whose name is unknown": setting("kafka.bootstrap_servers", "no-such-host.invalid:9092"),
    "a topic that is not there": from_a_new_root(topics=["predicted-never"]),
    "a topic that was deleted": deleted,
    "a topic that was created again": recreated,
    "records that expired": expired,
    "a topic that left the config": setting("kafka.topics", [TOPIC]),
    "a property that Kafka's client refuses": setting("kafka.properties", {"max.poll.records": "many"}),
    "a start that names not every partition": from_a_new_root(starting_offsets={TOPIC: {"0": 0, "1": 0}, OTHER: {"0": 0}}),
    "a start behind the end": from_a_new_root(starting_offsets={TOPIC: {"0": 900}, OTHER: {"0": 0}}),
    "another pipeline's tables": setting("pipeline", "others"),
    "another extractor of the sequence": setting("sequence", {"json": "$.n"}),
    "another extractor of the producer": setting("producer", None),
    "another type of a field": setting("value.schema", "id STRING, n STRING"),
    "values that are no longer decoded": setting("value", None),
    "no watermarks": removed("silver_watermarks"),
    "no ledger": removed("silver_loads"),
    "no Silver": removed("silver_records"),
    "no Bronze": removed("bronze_records"),
    "Silver was put back alone": without_last_commit("silver_records"),
    "the ledger was put back alone": without_last_commit("silver_loads"),
    "watermarks whose last commit is empty": emptied("silver_watermarks"),
    "Bronze was put back alone": without_last_commit("bronze_records"),
    "Bronze lacks a column": without_column("bronze_records", "timestamp_type"),
    "the rejects lack a column": without_column("silver_rejects", "reason"),
    "the topics lack a column": without_column("bronze_topics", "topic_id"),
    "the results lack a column": without_column("gate_results", "observed"),
    "Gold lacks a column": without_column("gold_records", "arrival"),
    "Gold's latest records lack a column": without_column("gold_latest", "key"),
    "Silver needs a reader's feature": needing(
        "silver_records", minReaderVersion=3, readerFeatures=["x"], writerFeatures=["x"]
    ),
    "Bronze needs a writer's feature": needing("bronze_records", writerFeatures=["x"]),
    "Gold needs a writer's feature": needing("gold_records", writerFeatures=["x"]),
    "the ledger needs a version of the protocol": needing("silver_loads", minReaderVersion=99, minWriterVersion=99),
    "the loads that wait do not pass": setting("gate.budgets", {"duplicate_share": {"critical": 0.01}}),
    "a model of a column that is not there": model("SELECT payload.name FROM gold_records"),
    "a model of a table that is not there": model("SELECT * FROM gold_of_others"),
    "a model that reads a file": model("SELECT * FROM csv.`/etc/hosts`"),
    "the breaker opens": setting("policies.max_quarantined_share", 0.05),
    "too many new streams": setting("policies.max_new_streams", 1),
    "another run": locked,
    "a root below a file": rooted_in_a_file,
    "a root that is a file": at_a_file,
    "a registry that does not listen": lambda of: framed(of, 7, f"http://{UNKNOWN}"),
}


def refusal(of: SetUp) -> Exception | None:
    try:
        medallion.run(Job.on(of.spark, load_settings(of.file, None), Events()))
    except (TidemarkError, OSError, *SPARK_ERRORS) as error:
        return error
    return None


def causes(error: Exception) -> list[str]:
    """What an error says that is wrong, and where."""
    if isinstance(error, ConfigMistakesError):
        return [each.what for each in error.mistakes]
    if isinstance(error, TidemarkError):
        return [str(part) for part in (error.what, error.where) if part]
    return [headline(str(error))]


@pytest.fixture
def copy(sound: SetUp, tmp_path: Path) -> Iterator[SetUp]:
    made = sound.copy_to(tmp_path / "copy")
    yield made
    for lock in made.held:
        lock.release()


@pytest.mark.parametrize("name", BROKEN)
def test_what_a_run_refuses_is_what_check_names(copy: SetUp, name: str) -> None:
    BROKEN[name](copy)
    copy.write()
    before = copy.files()
    missing = [each for each in check.check(copy.file, None, most=100) if not each.ok]
    assert copy.files() == before, "check changes nothing"
    refused = refusal(copy)
    assert refused is not None, f"the run goes through; check: {missing}"
    named = "; ".join(f"{each.name}: {each.observed}" for each in missing)
    assert any(cause in named for cause in causes(refused)), f"{causes(refused)} is not in: {named}"
