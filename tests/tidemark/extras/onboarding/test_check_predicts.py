"""Broken set-ups as a table: for each, `tidemark check` names what the next run then refuses. It commits nothing."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from pyspark.sql import SparkSession

from lakehouse.config.mistakes import ConfigMistakesError
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import TidemarkError, headline
from pipelines import medallion
from pipelines.job import Job
from tests.conftest import Events
from tests.support.kafka import Sent, delete_records, delete_topic, send
from tests.support.small_config import small_config
from tidemark.extras.demo.broker import LocalBroker, create_topic
from tidemark.extras.demo.broker_process import HOST, free_port
from tidemark.extras.onboarding import check
from tidemark.process.context import load_settings

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC, OTHER = "predicted", "predicted-too"
LAKE = "lakehouse"
EXPECTED = {"expect_column_values_to_not_be_null": {"column": "payload.id"}}
MODEL = "SELECT payload.id, count(*) AS records FROM gold_records GROUP BY payload.id"
SCHEMA = "id STRING, n BIGINT"
FEATURES = ("appendOnly", "invariants", "changeDataFeed")


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

    def copy_to(self, folder: Path) -> "SetUp":
        shutil.copytree(self.folder, folder)
        config = json.loads(json.dumps(self.config)) | {"lakehouse": {"root": str(folder / LAKE)}}
        return SetUp(folder, self.servers, config, self.spark)

    def run(self, *stages: str) -> None:
        self.write()
        for stage in stages or (None,):
            medallion.run(Job.on(self.spark, load_settings(self.file, None), Events()), stage)

    def files(self) -> dict[str, int]:
        """The size of each file but those of locks."""
        return {str(each): each.stat().st_size for each in self.folder.rglob("*") if each.is_file() and each.suffix != ".lock"}


def new(spark: SparkSession, broker: LocalBroker, folder: Path, *topics: str, **more: Any) -> SetUp:
    folder.mkdir(parents=True, exist_ok=True)
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": list(topics)}
    return SetUp(folder, broker.bootstrap_servers, small_config(str(folder / LAKE), kafka=kafka, **more), spark)


@pytest.fixture(scope="module")
def at_rest(spark: SparkSession, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> SetUp:
    """A pipeline whose loads are published; Kafka has five records more."""
    made = new(
        spark,
        broker,
        tmp_path_factory.mktemp("predicted") / "at_rest",
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
    for numbers in (range(10), range(10, 20)):
        send(made.servers, TOPIC, records(*numbers))
        made.run("bronze")
    made.run()
    send(made.servers, TOPIC, records(*range(20, 25)))
    return made


@pytest.fixture(scope="module")
def at_work(at_rest: SetUp) -> SetUp:
    """The same: a load with duplicates waits for the gate, records without a sequence and of new producers in Bronze."""
    made = at_rest.copy_to(at_rest.folder.with_name("at_work"))
    topic = "predicted-at-work"
    made.set("kafka.topics", [TOPIC, OTHER, topic])
    create_topic(made.servers, topic, 1)
    send(made.servers, topic, records(*range(20), *range(10)))
    made.run("bronze", "silver")
    waiting = [*records(*range(40, 60)), *records(*range(10), has_sequence=False), *records(1, producer=b"q")]
    send(made.servers, topic, [*waiting, *records(1, producer=b"r")])
    made.run("bronze")
    return made


def read(of: SetUp, topic: str, **more: Any) -> None:
    """Have the set-up read a topic of its own into a Bronze of its own."""
    shutil.rmtree(of.root)
    create_topic(of.servers, topic, 1)
    send(of.servers, topic, [Sent(b"\0\0\0\0\7\2a", headers=[("seq", b"1")])])
    of.config = small_config(str(of.root), kafka={"bootstrap_servers": of.servers, "topics": [topic]}, **more)
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
    send(of.servers, "expired", records(*range(9)))
    delete_records(of.servers, "expired", before=6)


def from_a_new_root(**kafka: Any) -> Callable[[SetUp], None]:
    def break_(of: SetUp) -> None:
        shutil.rmtree(of.root)
        of.config["kafka"] |= kafka

    return break_


def setting(key: str, value: object) -> Callable[[SetUp], None]:
    return lambda of: of.set(key, value)


def without(*sections: str) -> Callable[[SetUp], None]:
    def break_(of: SetUp) -> None:
        for section in sections:
            del of.config[section]

    return break_


def model(text: str) -> Callable[[SetUp], object]:
    return lambda of: (of.folder / "by_id.sql").write_text(text, encoding="utf-8")


def removed(*names: str) -> Callable[[SetUp], None]:
    def break_(of: SetUp) -> None:
        for name in names:
            shutil.rmtree(of.root / name)

    return break_


def only_the_checkpoint(of: SetUp) -> None:
    for log in list(of.root.glob("*/_delta_log")):
        shutil.rmtree(log.parent)


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
        texts = [file.read_text(encoding="utf-8") for file in sorted(log(of, table).parent.glob("*.json"))]
        actions = [json.loads(line) for text in texts for line in text.splitlines()]
        meta = [each["metaData"] for each in actions if "metaData" in each][-1]
        schema = json.loads(meta["schemaString"])
        schema["fields"] = [each for each in schema["fields"] if each["name"] != column]
        appended(table, {"metaData": {**meta, "schemaString": json.dumps(schema)}})(of)

    return break_


def without_last_commits(table: str, count: int = 1) -> Callable[[SetUp], None]:
    """The table as an older copy of it would be."""

    def break_(of: SetUp) -> None:
        for _ in range(count):
            last = log(of, table)
            for file in last.parent.glob(f"*{last.stem}*"):
                file.unlink()

    return break_


def locked(of: SetUp) -> None:
    lock = FileLock(of.root / ".tidemark.lock")
    lock.acquire()
    of.held.append(lock)


def at_a_file(of: SetUp) -> None:
    shutil.rmtree(of.root)
    of.root.write_text("no folder", encoding="utf-8")


def more_fields_of_fewer_topics(of: SetUp) -> None:
    of.set("value.schema", f"{SCHEMA}, more DATE")
    of.set("kafka.topics", [TOPIC])


UNKNOWN = f"{HOST}:{free_port()}"
BROKEN: dict[str, Callable[[SetUp], object]] = {
    "an unknown key": setting("sequenze", {"header": "seq"}),
    "an extractor that is not installed": setting("sequence", {"custom": "not_there:sequence"}),
    "an expectation that nobody knows": setting("gate.expectations", [{"expect_nothing": {"column": "key"}}]),
    "brokers that do not listen": setting("kafka.bootstrap_servers", UNKNOWN),
    "brokers whose name is unknown": setting("kafka.bootstrap_servers", "no-such-host.invalid:9092"),
    "a topic that is not there": from_a_new_root(topics=["predicted-never"]),
    "a topic that was deleted": deleted,
    "a topic that was created again": recreated,
    "records that expired": expired,
    "a property that Kafka's client refuses": setting("kafka.properties", {"max.poll.records": "many"}),
    "a start that names not every partition": from_a_new_root(starting_offsets={TOPIC: {"0": 0, "1": 0}, OTHER: {"0": 0}}),
    "a start behind the end": from_a_new_root(starting_offsets={TOPIC: {"0": 900}, OTHER: {"0": 0}}),
    "another pipeline's tables": setting("pipeline", "others"),
    "another extractor of the sequence": setting("sequence", {"json": "$.n"}),
    "another type of a field": setting("value.schema", "id STRING, n STRING"),
    "values that are no longer decoded": without("value", "gate", "gold"),
    "no ledger": removed("silver_loads"),
    "no Silver": removed("silver_records"),
    "no Bronze": removed("bronze_records"),
    "nothing but the checkpoint": only_the_checkpoint,
    "Silver was put back alone": without_last_commits("silver_records"),
    "the ledger was put back alone": without_last_commits("silver_loads"),
    "Bronze was put back alone": without_last_commits("bronze_records", 2),
    "Bronze lacks a column": without_column("bronze_records", "timestamp_type"),
    "the rejects lack a column": without_column("silver_rejects", "reason"),
    "the topics lack a column": without_column("bronze_topics", "topic_id"),
    "the results lack a column": without_column("gate_results", "observed"),
    "Gold lacks a column": without_column("gold_records", "arrival"),
    "Gold's latest records lack a column": without_column("gold_latest", "key"),
    "Silver needs a reader's feature": needing(
        "silver_records", minReaderVersion=3, readerFeatures=["x"], writerFeatures=["x"]
    ),
    "Bronze lacks the feature of a property": needing("bronze_records", writerFeatures=["invariants"]),
    "Gold needs a writer's feature": needing("gold_records", writerFeatures=[*FEATURES, "x"]),
    "the ledger needs a version of the protocol": needing("silver_loads", minReaderVersion=99, minWriterVersion=99),
    "a model of a column that is not there": model("SELECT payload.name FROM gold_records"),
    "a model that reads a file": model("SELECT * FROM csv.`/etc/hosts`"),
    "another run": locked,
    "a root below a file": lambda of: of.set("lakehouse.root", str(of.file / LAKE)),
    "a root that is a file": at_a_file,
}
AT_WORK = {
    "no watermarks": removed("silver_watermarks"),
    "the loads that wait do not pass": setting("gate.budgets", {"duplicate_share": {"critical": 0.01}}),
    "the breaker opens": setting("policies.max_quarantined_share", 0.05),
    "too many new streams": setting("policies.max_new_streams", 1),
}
STAGES = {
    "gold": ("a model of", "a model that"),
    "gate": ("the loads that wait",),
    "silver": (
        *("the rejects", "the ledger was", "no Silver", "no ledger", "no watermarks", "another t"),
        *("too many", "the breaker"),
    ),
    "bronze": ("the topics", "Bronze lacks", "a start", "a property", "brokers", "records that"),
}
"""The stage that refuses, with how names begin; all stages run for the others."""
SOUND: dict[str, Callable[[SetUp], None]] = {
    "a field more, and a topic that left the config": more_fields_of_fewer_topics,
    "work that waits": lambda _: None,
    "a new root": from_a_new_root(),
    "neither checkpoint nor watermarks after the first load": removed("_checkpoints", "silver_watermarks"),
}


def refusal(of: SetUp, stage: str | None) -> Exception | None:
    try:
        medallion.run(Job.on(of.spark, load_settings(of.file, None), Events()), stage)
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


def require_agreement(of: SetUp, *, is_sound: bool = False, stage: str | None = None) -> None:
    """Check, then run: all stages, or the one that can refuse."""
    of.write()
    before = of.files()
    missing = [each for each in check.check(of.file, None, most=100) if not each.ok]
    assert of.files() == before, "check changes nothing"
    refused = refusal(of, stage)
    if is_sound:
        assert (missing, refused) == ([], None)
        return
    assert refused is not None, f"the run goes through; check: {missing}"
    named = "; ".join(f"{each.name}: {each.observed}" for each in missing)
    assert any(cause in named for cause in causes(refused)), f"{causes(refused)} is not in: {named}"


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Callable[[SetUp], SetUp]]:
    copies = []

    def make(of: SetUp) -> SetUp:
        copies.append(of.copy_to(tmp_path / "copy"))
        return copies[-1]

    yield make
    for lock in (lock for each in copies for lock in each.held):
        lock.release()


@pytest.mark.parametrize("name", [*BROKEN, *AT_WORK])
def test_check_names_what_a_run_refuses(at_rest: SetUp, at_work: SetUp, copy: Callable[[SetUp], SetUp], name: str) -> None:
    broken = copy(at_work if name in AT_WORK else at_rest)
    (BROKEN | AT_WORK)[name](broken)
    require_agreement(broken, stage=next((stage for stage, begins in STAGES.items() if name.startswith(begins)), None))


@pytest.mark.parametrize("name", SOUND)
def test_a_run_passes_if_check_finds_nothing(at_rest: SetUp, at_work: SetUp, copy: Callable[[SetUp], SetUp], name: str) -> None:
    sound = copy(at_work if name == "work that waits" else at_rest)
    SOUND[name](sound)
    require_agreement(sound, is_sound=True)
