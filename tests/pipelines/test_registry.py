"""Values written with the schemas of a real registry, by Confluent's own serializers, from Kafka to Gold."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from pyspark.sql import SparkSession

from lakehouse.errors import RegistryError
from lakehouse.run.context import Run
from lakehouse.settings.pipeline import Settings
from pipelines import medallion
from pipelines.job import Job
from pipelines.recover import rebuild
from tests.support.apicurio import registry
from tests.support.avro import record, written
from tests.support.decodings import prefixed
from tests.support.protobuf import described, message_of
from tests.support.small_config import small_config, write_config
from tests.support.stages import require_sound
from tidemark.commands.commands import main
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.demo.broker_process import free_port
from tidemark.extras.formats import registry_client

Check = Callable[..., dict[str, tuple[bool, str, str]]]

FIELDS = "id STRING, amount DOUBLE"
OLD = record("Order", seq="long", id="string")
NEW = record("Order", amount=["null", "double"], seq="long", id="string", by="string")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("apicurio") / "data") as started:
        yield started


class Sent:
    def __init__(self, broker: LocalBroker, client: SchemaRegistryClient, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        self._client, self.topic = client, topic

    def avro(self, schema: dict[str, Any], *values: dict[str, Any]) -> None:
        self._send(AvroSerializer(self._client, json.dumps(schema)), values)

    def json(self, schema: dict[str, Any], *values: dict[str, Any]) -> None:
        self._send(JSONSerializer(json.dumps(schema), self._client), values)

    def protobuf(self, schema: str, name: str, *values: dict[str, Any]) -> None:
        """Send messages by the schema's descriptor set, which registers the file that it is for and those that this imports."""
        kind = message_of(schema, name)
        self._send(ProtobufSerializer(kind, self._client), tuple(json_format.ParseDict(value, kind()) for value in values))

    def number(self) -> int:
        number = self._client.get_latest_version(f"{self.topic}-value").schema_id
        assert number is not None
        return number

    def raw(self, *values: bytes) -> None:
        for value in values:
            self._producer.produce(self.topic, value, key=b"k")
        self._producer.flush(30)

    def _send(self, serialize: Any, values: tuple[Any, ...]) -> None:
        context = SerializationContext(self.topic, MessageField.VALUE)
        self.raw(*(serialize(value, context) for value in values))


@pytest.fixture
def new_topic(broker: LocalBroker, topic: Callable[..., str], url: str) -> Iterator[Callable[[], Sent]]:
    with SchemaRegistryClient({"url": url}) as client:
        yield lambda: Sent(broker, client, topic())


@pytest.fixture
def sent(new_topic: Callable[[], Sent]) -> Sent:
    return new_topic()


def gold(spark: SparkSession, run: Run, topic: str) -> dict[int, dict[str, Any] | None]:
    rows = spark.read.table(run.table("gold_records").sql).where(f"topic = '{topic}'").select("sequence", "payload")
    payloads = {row["sequence"]: row["payload"] for row in rows.toArrow().to_pylist()}
    return {
        each: payload and {key: value for key, value in payload.items() if value is not None}
        for each, payload in payloads.items()
    }


def rejected(spark: SparkSession, run: Run, topic: str) -> list[tuple[Any, ...]]:
    rows = spark.read.table(run.table("silver_rejects").sql).where(f"topic = '{topic}'").orderBy("first_offset").collect()
    return [(row["first_offset"], row["class"], row["reason"]) for row in rows]


SIZE = {"type": "enum", "name": "Size", "namespace": "shop", "symbols": ["S", "L"]}
BUYER = record("Buyer", "shop", name="string", wears="shop.Size")
WITH_OTHERS = record("Order", "shop.sold", seq="long", size=["null", "shop.Size"], buyer="shop.Buyer", payer="shop.Buyer")
OF_JSON = {"title": "Order", "type": "object", "properties": {"seq": {"type": "integer"}, "id": {"type": "string"}}}
WHO = 'syntax = "proto3"; package shop; message Who { string name = 1; }'
SOLD = """
syntax = "proto3"; package shop; import "%swho.proto"; import "google/protobuf/timestamp.proto";
message Order { uint64 seq = 1; string id = 2; optional double amount = 3; Who by = 4; google.protobuf.Timestamp at = 5; }
message Note { string id = 1; int32 seq = 2; message Reply { string id = 1; int32 seq = 2; } }
message Odd { int64 id = 1; int64 seq = 2; }
"""
BEFORE = 'syntax = "proto3"; package shop; message Order { uint64 seq = 1; string id = 2; }'
PERSON = "STRUCT<name: STRING, wears: STRING>"


def send_orders_of_old_and_new_schemas(orders: Sent) -> None:
    first = {"seq": 1, "id": "a"}
    orders.avro(OLD, first)
    orders.avro(NEW, {"seq": 2, "id": "b", "amount": 1.5, "by": "ann"})
    orders.avro(OLD, first, {"seq": 3, "id": "c"})
    orders.raw(b"\1\0\0\0\1", b"\0\0\0", prefixed(4711, b"x"))


def send_by_a_schema_that_refers_to_others(sales: Sent, client: SchemaRegistryClient) -> None:
    client.register_schema(f"{sales.topic} size/\u00e9", Schema(json.dumps(SIZE), "AVRO"))
    size = SchemaReference("shop.Size", f"{sales.topic} size/\u00e9", 1)
    client.register_schema(f"{sales.topic}-buyer", Schema(json.dumps(BUYER), "AVRO", [size]))
    buyer = SchemaReference("shop.Buyer", f"{sales.topic}-buyer", 1)
    number = client.register_schema(f"{sales.topic}-value", Schema(json.dumps(WITH_OTHERS), "AVRO", [buyer, size]))
    whole = record("Order", "shop.sold", seq="long", size=["null", SIZE], buyer=BUYER, payer="shop.Buyer")
    one, other = {"name": "ann", "wears": "S"}, {"name": "bob", "wears": "L"}
    for seq, of_size in ((1, None), (2, "L")):
        sales.raw(prefixed(number, written(whole, {"seq": seq, "size": of_size, "buyer": one, "payer": other})))


def send_messages_of_protobuf(messages: Sent, client: SchemaRegistryClient) -> tuple[int, int]:
    """Send messages; the ids of a schema whose message does not fit, and of one that is Avro."""
    sold = described(SOLD % f"{messages.topic}/", **{f"{messages.topic}/who": WHO})
    messages.protobuf(described(BEFORE), "shop.Order", {"seq": 1, "id": "a"})
    second = {"seq": 2, "id": "b", "amount": 0.0, "by": {"name": "ann"}, "at": "2026-11-21T09:00:00Z"}
    messages.protobuf(sold, "shop.Order", second)
    messages.protobuf(sold, "shop.Note.Reply", {"seq": 3, "id": "c"}, {"seq": 3, "id": "c"})
    messages.protobuf(sold, "shop.Odd", {"seq": 4, "id": 4})
    number = messages.number()
    # Java's serializers register the text: protoc makes of it what the others register themselves.
    who = client.register_schema(f"{messages.topic}-who", Schema(WHO, "PROTOBUF"))
    text = Schema(SOLD % "", "PROTOBUF", [SchemaReference("who.proto", f"{messages.topic}-who", 1)])
    of_text = client.register_schema(f"{messages.topic}-text", text)
    wrong = client.register_schema(f"{messages.topic}-avro", Schema('"int"', "AVRO"))
    note = message_of(sold, "shop.Note")(seq=5, id="e").SerializeToString()
    messages.raw(prefixed(of_text, b"\2\2" + note), prefixed(wrong, b"\0" + note))
    messages.raw(prefixed(who, b""))
    return number, wrong


def test_avro_json_and_protobuf_reach_gold_and_resends_and_unknown_ids_do_not(
    spark: SparkSession, run: Run, new_topic: Callable[[], Sent], url: str, broker: LocalBroker
) -> None:
    topics = orders, sales, messages, json_orders, plain = [new_topic() for _ in range(5)]
    send_orders_of_old_and_new_schemas(orders)
    json_orders.json(OF_JSON, {"seq": 1, "id": "a"}, {"seq": 2, "id": "b"}, {"seq": 1, "id": "a"})
    json_orders.raw(b'{"seq": 3, "id": "c"}')
    plain.raw(b'{"n": 7, "id": "j", "city": "x"}', b'{"n": 7, "id": "j", "city": "x"}')
    with SchemaRegistryClient({"url": url}) as client:
        send_by_a_schema_that_refers_to_others(sales, client)
        odd, wrong = send_messages_of_protobuf(messages, client)
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [each.topic for each in topics]}
    of_json = {"format": "json", "schema": "id STRING, city STRING"}
    own = {
        sales.topic: {"value": {"schema": f"size STRING, buyer {PERSON}, payer {PERSON}"}},
        messages.topic: {"value": {"format": "protobuf", "schema": f"{FIELDS}, by STRUCT<name: STRING>, at TIMESTAMP"}},
        json_orders.topic: {"sequence": {"json": "$.seq"}, "value": of_json},
        plain.topic: {"sequence": {"json": "$.n"}, "value": {**of_json, "registry": None}},
    }

    def job_with(**of_registry: Any) -> Job:
        value = {"format": "avro", "schema": FIELDS, "registry": {"url": url, **of_registry}}
        config = small_config(str(run.lakehouse.root), kafka=kafka, sequence={"field": "seq"}, value=value, topics=own)
        return Job.on(spark, Settings.model_validate(config), run.report)

    with pytest.raises(RegistryError) as raised:
        medallion.run(job_with())
    assert (raised.value.exit_code, raised.value.where) == (1, f"{url}/schemas/ids/4711")
    assert f"topic {orders.topic}, partition 0, offset 6" in str(raised.value.observed)
    assert spark.read.table(run.table("bronze_records").sql).where(f"topic = '{orders.topic}'").count() == 7
    assert spark.read.table(run.table("silver_loads").sql).count() == 0
    job = job_with(undecodable_ids=[4711])
    silver: Any = medallion.run(job)["silver"]

    ann, bob = {"name": "ann", "wears": "S"}, {"name": "bob", "wears": "L"}
    second = {"id": "b", "amount": 0.0, "by": {"name": "ann"}, "at": datetime(2026, 11, 21, 9, tzinfo=UTC)}
    assert {each.topic: gold(spark, run, each.topic) for each in topics} == {
        orders.topic: {1: {"id": "a"}, 2: {"id": "b", "amount": 1.5}, 3: {"id": "c"}},
        sales.topic: {1: {"buyer": ann, "payer": bob}, 2: {"size": "L", "buyer": ann, "payer": bob}},
        messages.topic: {1: {"id": "a"}, 2: second, 3: {"id": "c"}, 5: {"id": "e"}},
        json_orders.topic: {1: {"id": "a"}, 2: {"id": "b"}},
        plain.topic: {7: {"id": "j", "city": "x"}},
    }
    not_decoded = ("invalid", "sequence_not_decoded")
    assert {each.topic: rejected(spark, run, each.topic) for each in topics} == {
        orders.topic: [(2, "duplicate", None), *((offset, *not_decoded) for offset in (4, 5, 6))],
        sales.topic: [],
        messages.topic: [
            *((3, "duplicate", None), (4, "invalid", "value_undecodable")),
            *((offset, *not_decoded) for offset in (6, 7)),
        ],
        json_orders.topic: [(2, "duplicate", None), (3, "invalid", "sequence_missing")],
        plain.topic: [(1, "duplicate", None)],
    }
    misfits = run.report.named("silver.schema_misfit")  # type: ignore[attr-defined] # the fixture's report
    whys = {(each["schema_id"], each["why"]) for each in misfits}
    assert whys == {(odd, "shop.Odd: id is int64, and STRING is wanted"), (wrong, "it is no Protobuf schema")}
    assert silver["schema_misfits"] == sorted(f"schema {number}: {why}" for number, why in whys)
    bronze = spark.read.table(run.table("bronze_records").sql).where("rules_fingerprint IS NOT NULL")
    read_at_ingest = {row["topic"]: row["count"] for row in bronze.groupBy("topic").count().collect()}
    assert read_at_ingest == {json_orders.topic: 4, plain.topic: 2}
    require_sound(spark, job.new_run(), is_deep=True)
    done = rebuild.rebuild(spark, job.new_run(), job.settings, apply=True, reason="again", by="ann")
    assert done["changes"] == []


@pytest.fixture
def checked(broker: LocalBroker, sent: Sent, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    def check(**value: Any) -> dict[str, tuple[bool, str, str]]:
        kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [sent.topic]}
        given = {"format": "avro", "schema": FIELDS, "registry": {"url": url}} | value
        sequence = {"header": "seq"} if given["format"] == "json" else {"field": "seq"}
        config = write_config(tmp_path, root=str(tmp_path / "lake"), kafka=kafka, value=given, sequence=sequence)
        capsys.readouterr()
        main(["check", "--config", str(config), "--json"])
        found = json.loads(capsys.readouterr().out)
        return {each["name"]: (each["ok"], each["observed"], each["next_step"]) for each in found}

    return check


def test_check_asks_the_registry(sent: Sent, url: str, checked: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    sent.avro(OLD, {"seq": 1, "id": "a"})
    number = sent.number()
    assert checked()["registry"] == (True, f"{url}: answers; knows what the sample was written with: {number}", "")
    is_ok, observed, next_step = checked(schema="id INT")["registry"]
    assert (is_ok, f"do not fit value.schema: {number}" in observed, "value.schema" in next_step) == (False, True, True)
    sent.raw(prefixed(4711, b"x"))
    is_ok, observed, next_step = checked()["registry"]
    assert (is_ok, "/schemas/ids/4711: 404" in observed, "undecodable_ids" in next_step) == (False, True, True)
    assert checked(registry={"url": url, "undecodable_ids": [4711]})["registry"][0]
    monkeypatch.setattr(registry_client, "_RETRIES", 0)
    unreachable = {"url": f"http://127.0.0.1:{free_port()}"}
    is_ok, observed, _ = checked(registry=unreachable)["registry"]
    assert (is_ok, "The schema registry cannot be reached" in observed) == (False, True)
    is_ok, observed, _ = checked(registry=unreachable, format="json")["registry"]
    assert (is_ok, "JSON is read without it" in observed) == (True, True)


def test_check_reads_a_message_of_protobuf_by_the_schema_that_it_names(sent: Sent, url: str, checked: Check) -> None:
    sent.protobuf(described(f"{BEFORE} message Odd {{ int64 id = 1; }}"), "shop.Order", {"seq": 1, "id": "a"})
    number = sent.number()
    known = f"{url}: answers; knows what the sample was written with: {number}"
    assert checked(format="protobuf")["registry"] == (True, known, "")
    sent.raw(prefixed(number, b"\2\2"), prefixed(number, b""))
    found, misfit = checked(format="protobuf"), "offset 1 has: shop.Odd: id is int64, and STRING is wanted"
    assert (found["registry"][0], misfit in found["registry"][1]) == (False, True)
    assert "1 without the indexes of a message" in found["values"][1]
