"""Debezium's streams through the pipeline: PostgreSQL as `make cdc` recorded it; MySQL and SQL Server as documented."""

import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.ingest import ingest
from lakehouse.extract import on_driver
from lakehouse.extract.sources import Source, Sources
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from silver.load import steps
from tests.cdc import documented
from tests.cdc.documented import Place, Stream
from tests.cdc.record import PARTITIONS, RECORDS, TABLES, TOPICS
from tests.support.bronze import Record, put
from tests.support.kafka import Sent, send
from tests.support.reference import Reference, Seen
from tests.support.small_config import settings_of
from tests.support.stages import ran, require_sound, stopped_at
from tidemark.extras.demo.broker import LocalBroker, create_topic

SCHEMA = "op STRING, after STRUCT<id: BIGINT, owner: STRING, note: STRING, account: BIGINT, nr: BIGINT, cents: BIGINT>"
[MODEL] = re.findall(
    r'^```sql title="[^"]+"\n(.*?)^```$', Path("docs/cdc.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
DEATHS = ("append_silver", "append_rejects", "advance")


def place_of(sent: dict[str, Any]) -> Place:
    return sent["topic"], sent["partition"], sent["offset"]


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def headers_of(sent: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(name, bytes_of(value)) for name, value in sent["headers"]]


def recorded() -> Stream:
    """The recording; a change is named by its transaction, its WAL record, its key and what it did."""
    records = [json.loads(line) for line in gzip.decompress(RECORDS.read_bytes()).splitlines()]
    seen: set[object] = set()
    classes = {}
    for sent in records:
        event = sent["value"] and json.loads(sent["value"])
        name = event and (sent["topic"], sent["key"], event["op"], event["source"]["txId"], event["source"]["lsn"])
        is_again = event is not None and event["op"] != "r" and name in seen
        seen.add(name)
        classes[place_of(sent)] = "invalid" if event is None else "duplicate" if is_again else "accepted"
    return Stream("postgres", TOPICS, records, classes, json.loads(TABLES.read_text(encoding="utf-8")))


STREAMS = {each.database: each for each in (recorded(), documented.stream("mysql"), documented.stream("sqlserver"))}
of_each_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)


def seen(database: str, sent: dict[str, Any]) -> Seen:
    record, event = on_driver.Record(bytes_of(sent["value"]), offset=sent["offset"]), json.loads(sent["value"] or "{}")
    sequence, epoch = (on_driver.number(Source(form, database), record)[0] for form in ("debezium", "debezium_epoch"))
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
    assert len(found) == len(dict(found))  # each record has one class
    assert [row for row in rejects if row["state"] == "held"] == []
    assert {(row["class"], row["reason"]) for row in rejects if row["class"] == "invalid"} == {("invalid", "value_tombstone")}
    return dict(found)


def require_exact(spark: SparkSession, run: Run, stream: Stream) -> None:
    assert classes_in(spark, run) == stream.classes
    for name, rows in stream.tables.items():
        current = spark.read.table(run.table(name).sql).select(*rows[0]).collect()
        assert sorted(map(tuple, current)) == sorted(tuple(row.values()) for row in rows)
    require_sound(spark, run, is_deep=True)


def settings(run: Run, stream: Stream) -> Settings:
    """A config with the model of docs/cdc.md for each table."""
    models = []
    for name, topic in stream.topics.items():
        file = Path(str(run.lakehouse.root)).with_name(f"{name}.sql")
        file.write_text(MODEL.replace("shop.inventory.customers", topic), encoding="utf-8")
        models.append({"name": name, "sql": str(file)})
    config = {"sequence": {"debezium": stream.database}, "value": {"format": "json", "schema": SCHEMA}}
    return settings_of(run, topics=tuple(stream.topics.values()), gold={"models": models}, **config)


def load(spark: SparkSession, new_run: Callable[[], Run], stream: Stream, loads: int, deaths: Iterator[str | None]) -> None:
    """Load the records in so many loads; each dies where it would call the next function, and another finishes it."""
    size = -(-len(stream.sent) // loads)
    given = settings(new_run(), stream)
    for start in range(0, len(stream.sent), size):
        put(spark, new_run(), map(as_record, stream.sent[start : start + size]), Sources.of(given))
        run_after_death(spark, new_run, given, next(deaths))
    require_exact(spark, new_run(), stream)


def as_record(sent: dict[str, Any]) -> Record:
    content, at = (bytes_of(sent["value"]), bytes_of(sent["key"])), datetime.fromtimestamp(sent["timestamp"] / 1000, UTC)
    return Record(sent["offset"], *content, topic=sent["topic"], partition=sent["partition"], timestamp=at)


def run_after_death(spark: SparkSession, new_run: Callable[[], Run], given: Settings, death: str | None) -> None:
    if death is not None:
        with stopped_at(steps, death):
            ran(spark, new_run(), given)
    ran(spark, new_run(), given)


@of_each_stream
def test_a_stream_holds_what_a_restarted_connector_does(stream: Stream) -> None:
    events = [json.loads(sent["value"]) for sent in stream.sent if sent["value"]]
    changes = [event for event in events if event["op"] != "r"]
    sources = [event["source"] for event in changes]
    classes = Counter(stream.classes.values())
    assert {event["op"] for event in events} == {"r", "c", "u", "d"}
    assert classes["accepted"] > 200
    assert min(classes["duplicate"], classes["invalid"]) > 50
    if stream.database == "postgres":
        assert {event["source"]["snapshot"] for event in events} > {"false", "incremental"}
        assert max(event["transaction"]["total_order"] for event in changes) > 50
    elif stream.database == "mysql":
        assert {source["row"] for source in sources} == {0, 1, 2}
        assert len({source["file"] for source in sources}) > 2
    else:
        ends = [(source["commit_lsn"], source["change_lsn"]) for source in sources]
        assert any(one[0] < two[0] and one[1] > two[1] for one, two in itertools.pairwise(ends))  # transactions overlap


@of_each_stream
def test_the_positions_of_a_stream_give_each_record_its_class(stream: Stream) -> None:
    assert Reference().take(seen(stream.database, sent) for sent in stream.sent).classes == stream.classes


@of_each_stream
def test_a_stream_from_kafka_gives_the_tables_of_the_database(
    spark: SparkSession, new_run: Callable[[], Run], broker: LocalBroker, stream: Stream
) -> None:
    for topic in stream.topics.values():
        create_topic(broker.bootstrap_servers, topic, PARTITIONS)
        records = [
            Sent(bytes_of(sent["value"]), bytes_of(sent["key"]), headers_of(sent), sent["partition"], sent["timestamp"])
            for sent in stream.sent
            if sent["topic"] == topic
        ]
        send(broker.bootstrap_servers, topic, records)
    given = settings(new_run(), stream)
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": list(stream.topics.values())}
    given = given.model_copy(update={"kafka": given.kafka.model_copy(update=kafka)})
    ingest(spark, new_run(), given.kafka, Sources.of(given))
    run_after_death(spark, new_run, given, "advance")
    require_exact(spark, new_run(), stream)


def test_seven_loads_that_die_in_turn_give_the_tables_of_the_database(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    load(spark, new_run, STREAMS["postgres"], 7, itertools.cycle([None, *DEATHS]))


@of_each_stream
def test_forty_loads_that_each_die_give_the_tables_of_the_database(
    spark: SparkSession, new_run: Callable[[], Run], stream: Stream
) -> None:
    load(spark, new_run, stream, 40, itertools.cycle(DEATHS))


def test_verify_decodes_the_events_of_three_databases_in_one_pipeline(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    """With a filter on the extracted columns, Spark's optimizer did not end."""
    own = {topic: {"sequence": {"debezium": each.database}} for each in STREAMS.values() for topic in each.topics.values()}
    value = {"format": "json", "schema": SCHEMA}
    given = settings_of(new_run(), topics=tuple(own), own=own, sequence={"debezium": "postgres"}, value=value)
    put(spark, new_run(), (as_record(sent) for stream in STREAMS.values() for sent in stream.sent[-20:]), Sources.of(given))
    ran(spark, new_run(), given)
    require_sound(spark, new_run(), is_deep=True)
