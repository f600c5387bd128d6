"""Topics that are read otherwise: what each has of its own, what it takes from the top, and what is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakehouse.config import load as configs
from lakehouse.config.mistakes import ConfigMistakesError
from lakehouse.extract.sources import Source, Sources
from lakehouse.settings.pipeline import Settings

BASE: dict[str, Any] = {
    "pipeline": "shop",
    "kafka": {"bootstrap_servers": "localhost:9092", "topics": ["orders", "payments", "stock.v1"]},
    "lakehouse": {"root": "/lake"},
    "sequence": {"header": "seq"},
    "producer": {"header": "who"},
    "value": {"format": "json", "schema": "id STRING, amount DOUBLE"},
}
LONG = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'


def of(topics: Any, **more: Any) -> Settings:
    return configs.parse(yaml.safe_dump({**BASE, **more, "topics": topics}), Path("tidemark.yml"), environ={})


def test_a_topic_has_what_it_names_and_the_rest_is_as_at_the_top() -> None:
    settings = of({"payments": {"sequence": {"json": "$.id"}, "value": {"schema": "id STRING, at TIMESTAMP"}}})
    payments, others = settings.of_topic("payments"), settings.of_topic("orders")
    assert (payments.sequence.json_path, payments.producer, others.sequence.header) == ("$.id", settings.producer, "seq")
    assert payments.value is not None
    assert (payments.value.format, payments.value.schema_) == ("json", "id STRING, at TIMESTAMP")
    assert others.value == settings.value
    assert settings.payload is not None
    assert settings.payload.sql() == "STRUCT<`id`: STRING, `amount`: DOUBLE, `at`: TIMESTAMP>"


def test_a_null_takes_away_what_the_others_have_and_is_shown() -> None:
    settings = of({"payments": {"producer": None, "value": None, "sequence": None}, "stock.v1": {"sequence": {"bytes": "0:8"}}})
    payments = settings.of_topic("payments")
    assert (payments.producer, payments.value, payments.sequence) == (None, None, settings.sequence)
    assert configs.parse(configs.show_yaml(settings), Path("tidemark.yml"), environ={}) == settings


def test_only_topics_that_differ_have_their_own_sources_and_fingerprint() -> None:
    alone = Sources.of(of({}))
    settings = of({"orders": {"sequence": {"header": "seq"}}, "payments": {"producer": None}})
    sources = Sources.of(settings)
    assert [topic for topic, _ in sources.own] == ["payments"]
    assert sources.fingerprint == alone.fingerprint == sources.of_topic("orders").fingerprint
    assert sources.of_topic("payments@2").fingerprint == Sources(Source("header", "seq")).fingerprint != alone.fingerprint
    assert sources == Sources.of(of(dict(reversed(settings.model_dump(exclude_unset=True)["topics"].items()))))


def test_a_position_of_debezium_gives_sequence_and_epoch() -> None:
    settings = of({"orders": {"sequence": {"debezium": "mysql"}, "epoch": None}}, epoch={"header": "e"})
    sources = Sources.of(settings)
    assert sources.of_topic("stock.v1").epoch == Source("header", "e")
    found = sources.of_topic("orders")
    assert (found.sequence, found.epoch) == (Source("debezium", "mysql"), Source("debezium_epoch", "mysql"))


def test_the_position_of_a_field_does_not_depend_on_the_order_or_set_of_topics() -> None:
    two = {"stock.v1": {"value": {"schema": "z INT, b INT"}}, "orders": {"value": {"schema": "b INT, m INT"}}}
    own = {name: {"value": {"format": "json", **each["value"]}} for name, each in two.items()}
    kinds = [of(each, value=None).payload for each in (own, dict(reversed(own.items())), {"stock.v1": own["stock.v1"]})]
    assert [kind and [field.name for field in kind.fields] for kind in kinds] == [["b", "m", "z"], ["b", "m", "z"], ["b", "z"]]


NOT_NAMED, NOT_ALL = "kafka.topics does not name this topic", "topics .*decoded into text, and others not at all"
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ({"payment": {"producer": None}}, {}, f"topics.payment .*{NOT_NAMED}.*Did you mean payments?"),
    *(({name: {"producer": None}}, {}, NOT_NAMED) for name in ("Orders", "orders*", "x' OR '1'='1")),
    *(
        ({"orders": own}, {}, message)
        for own, message in (
            ({"late": "drop"}, "unknown key.*policies.late"),
            ({"sequence": "key"}, "the record key cannot be the sequence"),
            ({"epoch": {"offset": True}}, "the Kafka offset is no producer"),
            ({"sequence": {"field": "id"}}, "topics.orders .*Avro or Protobuf value, and values are neither"),
            ({"sequence": {"debezium": "mysql"}, "epoch": {"header": "e"}}, "gives the epoch, and another one is given"),
            ({"value": {"format": "protobuf"}}, "neither descriptor and message nor registry"),
            ({"value": {"format": "avro"}}, "neither avro_schema nor registry"),
            ({"value": {"schema": "ID STRING"}}, "field ID is STRING in topics.orders.value, and id is STRING in value"),
            ({"value": {"format": "text", "schema": None}}, "topics.orders.value decodes into text, and value into fields"),
        )
    ),
    (
        {"orders": {"value": {"schema": "a INT"}}, "payments": {"value": {"schema": "a ARRAY<INT>"}}},
        {},
        r"field a is ARRAY<INT> in topics.payments.value, and a is INT in topics.orders.value",
    ),
    *(
        ({}, {"sequence": {"field": "id"}, "value": value}, "values are neither")
        for value in (None, {"format": "text"}, BASE["value"])
    ),
    *(
        ({topic: {"sequence": {"debezium": "mysql"}} for topic in topics}, {**more, "epoch": {"header": "e"}}, "another one is")
        for topics, more in (((), {"sequence": {"debezium": "mysql"}}), (("orders",), {}))
    ),
    (
        {},
        {
            "sequence": {"debezium": "mysql"},
            "value": {"format": "protobuf", "schema": "id BIGINT", "registry": {"url": "http://a:8081"}},
        },
        "in JSON or Avro",
    ),
    ({"orders": {"value": None}}, {"value": {"format": "text"}}, NOT_ALL),
    ({"orders": {"value": {"format": "text"}}}, {"value": None}, NOT_ALL),
    (
        {"stock.v1": {"value": {"registry": {"url": "http://b:8081"}}}},
        {"value": {**BASE["value"], "registry": {"url": "http://a:8081"}}},
        "topics.stock.v1.value.registry .*another registry than that of value",
    ),
]


@pytest.mark.parametrize(("topics", "more", "message"), REFUSED)
def test_what_cannot_be_is_refused_with_its_place(topics: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigMistakesError) as raised:
        of(topics, **more)
    [found] = raised.value.mistakes
    assert re.search(message, str(found).replace("\n", " ")), str(found)


def test_topics_may_share_fields_of_one_type_and_a_registry_that_lacks_ids_of_each() -> None:
    registry = {"url": "http://a:8081", "username": "u"}
    orders = {"schema": "id STRING NOT NULL COMMENT 'theirs'", "registry": {**registry, "undecodable_ids": [7]}}
    payments = {"format": "avro", "avro_schema": LONG, "schema": "amount DOUBLE, n BIGINT", "registry": None}
    own = {"orders": {"value": orders}, "payments": {"value": payments}}
    settings = of(own, value={**BASE["value"], "registry": registry})
    assert settings.payload is not None
    assert [field.name for field in settings.payload.fields] == ["id", "amount", "n"]
    assert settings.registry is not None
    assert settings.registry.url == "http://a:8081"
