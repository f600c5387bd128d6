"""What Debezium sent of a PostgreSQL, through the pipeline: `make cdc` records it again."""

import gzip
import itertools
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bronze.ingest import ingest
from lakehouse.extract import on_driver
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from silver.load import steps
from tests.cdc.record import PARTITIONS, RECORDS, TABLES, TOPICS
from tests.support.bronze import Record, put
from tests.support.kafka import Sent, send
from tests.support.reference import Reference, Seen
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound, stopped_at
from tidemark.extras.demo.broker import LocalBroker, create_topic

SENT = [json.loads(line) for line in gzip.decompress(RECORDS.read_bytes()).splitlines()]
"""The records, as they came."""
SCHEMA = "op STRING, after STRUCT<id: BIGINT, owner: STRING, note: STRING, account: BIGINT, nr: BIGINT, cents: BIGINT>"
CONFIG: dict[str, Any] = {"sequence": {"debezium": "postgres"}, "value": {"format": "json", "schema": SCHEMA}}
[MODEL] = re.findall(
    r'^```sql title="[^"]+"\n(.*?)^```$', Path("docs/cdc.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
DEATHS = ("append_silver", "append_rejects", "advance")
Place = tuple[str, int, int]


def place_of(sent: dict[str, Any]) -> Place:
    return sent["topic"], sent["partition"], sent["offset"]


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def headers_of(sent: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(name, bytes_of(value)) for name, value in sent["headers"]]


def classes_of_sent() -> dict[Place, str]:
    """The class of each record: a change is named by its transaction, its WAL record, its key and what it did."""
    seen: set[object] = set()
    found = {}
    for sent in SENT:
        event = sent["value"] and json.loads(sent["value"])
        name = event and (sent["topic"], sent["key"], event["op"], event["source"]["txId"], event["source"]["lsn"])
        is_again = event is not None and event["op"] != "r" and name in seen
        seen.add(name)
        found[place_of(sent)] = "invalid" if event is None else "duplicate" if is_again else "accepted"
    return found


def seen(sent: dict[str, Any]) -> Seen:
    record, event = on_driver.Record(bytes_of(sent["value"]), offset=sent["offset"]), json.loads(sent["value"] or "{}")
    sequence, epoch = (on_driver.number(Source(form, "postgres"), record)[0] for form in ("debezium", "debezium_epoch"))
    return Seen(*place_of(sent), sequence, epoch=epoch or 0, payload=f"{sent['key']} {event.get('op')} {event.get('after')}")


def classes_in(spark: SparkSession, run: Run) -> dict[Place, str]:
    """The class of each record by the tables; that of a rejected one with its reason unless the rule names none."""
    rejects = spark.read.table(run.table("silver_rejects").sql).collect()
    silver = spark.read.table(run.table("silver_records").sql).select("topic", "partition", "offset").collect()
    kept_out = [
        ((row["topic"], row["partition"], offset), row["class"])
        for row in rejects
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    ]
    found = [*(((row[0], row[1], row[2]), "accepted") for row in silver), *kept_out]
    assert len(found) == len(dict(found)) == len(SENT)  # each record has one class
    assert [row for row in rejects if row["state"] == "held"] == []
    assert {(row["class"], row["reason"]) for row in rejects if row["class"] == "invalid"} == {("invalid", "value_tombstone")}
    return dict(found)


def require_exact(spark: SparkSession, run: Run) -> None:
    assert classes_in(spark, run) == classes_of_sent()
    tables = json.loads(TABLES.read_text(encoding="utf-8"))
    for name in TOPICS:
        current = spark.read.table(run.table(name).sql).select(*tables[name][0]).collect()
        assert sorted(map(tuple, current)) == sorted(tuple(row.values()) for row in tables[name])
    require_sound(spark, run, is_deep=True)


def settings(run: Run) -> Settings:
    """A config with the model of docs/cdc.md for each table."""
    models = []
    for name, topic in TOPICS.items():
        file = Path(str(run.lakehouse.root)).with_name(f"{name}.sql")
        file.write_text(MODEL.replace("shop.inventory.customers", topic), encoding="utf-8")
        models.append({"name": name, "sql": str(file)})
    return settings_of(run, topics=tuple(TOPICS.values()), gold={"models": models}, **CONFIG)


def load(spark: SparkSession, new_run: Callable[[], Run], loads: int, deaths: Iterator[str | None]) -> None:
    """Load the records in so many loads; each dies where it would call the next function, and another finishes it."""
    size = -(-len(SENT) // loads)
    for start in range(0, len(SENT), size):
        records = [
            Record(
                *(sent["offset"], bytes_of(sent["value"]), bytes_of(sent["key"])),
                topic=sent["topic"],
                partition=sent["partition"],
                timestamp=datetime.fromtimestamp(sent["timestamp"] / 1000, UTC),
            )
            for sent in SENT[start : start + size]
        ]
        put(spark, new_run(), records, Sources.of(settings(new_run())))
        death = next(deaths)
        if death is not None:
            with stopped_at(steps, death):
                ran(spark, new_run(), settings(new_run()))
        ran(spark, new_run(), settings(new_run()))


def test_the_recording_holds_what_a_restarted_connector_does() -> None:
    events = [json.loads(sent["value"]) for sent in SENT if sent["value"]]
    classes = list(classes_of_sent().values())
    assert {event["op"] for event in events} == {"r", "c", "u", "d"}
    assert {event["source"]["snapshot"] for event in events} > {"false", "incremental"}
    assert classes.count("duplicate") > 100
    assert classes.count("invalid") > 20
    orders = [event["transaction"]["total_order"] for event in events if event["op"] != "r"]
    assert max(orders) > 50


def test_the_positions_of_the_recording_give_each_record_its_class() -> None:
    assert Reference().take(map(seen, SENT)).classes == classes_of_sent()


def test_a_recorded_stream_from_kafka_gives_the_tables_of_postgresql(
    spark: SparkSession, new_run: Callable[[], Run], broker: LocalBroker
) -> None:
    for topic in TOPICS.values():
        create_topic(broker.bootstrap_servers, topic, PARTITIONS)
        records = [
            Sent(bytes_of(sent["value"]), bytes_of(sent["key"]), headers_of(sent), sent["partition"], sent["timestamp"])
            for sent in SENT
            if sent["topic"] == topic
        ]
        send(broker.bootstrap_servers, topic, records)
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": list(TOPICS.values())}
    given = settings(new_run()).model_copy(update={"kafka": settings(new_run()).kafka.model_copy(update=kafka)})
    ingest(spark, new_run(), given.kafka, Sources.of(given))
    ran(spark, new_run(), given)
    require_exact(spark, new_run())


def test_seven_loads_that_die_in_turn_give_the_tables_of_postgresql(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    load(spark, new_run, 7, itertools.cycle([None, *DEATHS]))
    require_exact(spark, new_run())


def test_forty_loads_that_each_die_give_the_tables_of_postgresql(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    load(spark, new_run, 40, itertools.cycle(DEATHS))
    require_exact(spark, new_run())
