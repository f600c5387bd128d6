"""The rules: what a config and a claim make of the policies."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lakehouse.extract.sources import Source
from lakehouse.extract.written import Written
from lakehouse.settings.pipeline import Settings
from silver.rules import OfTopic, Payload, Policy, Rules

BY_HEADER = Rules(Source("header", "seq"), max_jump=100, late="drop")


def test_the_rules_hold_the_policies_in_force_of_each_topic_that_has_its_own() -> None:
    settings = Settings.model_validate(
        {
            "pipeline": "shop",
            "kafka": {"bootstrap_servers": "localhost:9092", "topics": ["orders.v1", "payments", "returns", "stock"]},
            "lakehouse": {"root": "/lake"},
            "sequence": {"header": "seq"},
            "policies": {
                "late": "drop",
                "max_jump": 100,
                "topics": {"orders.v1": {"late": "accept"}, "payments": {"max_jump": None}, "returns": {"max_jump": 5}},
            },
        }
    )

    rules = Rules.of(settings)

    assert rules.policy("orders.v1") == Policy(max_jump=100, late="accept")
    assert rules.policy("payments") == Policy(max_jump=None, late="drop")
    assert rules.policy("returns") == Policy(max_jump=5, late="drop")
    assert rules.policy("stock") == Policy(max_jump=100, late="drop")
    assert hash(rules) == hash(Rules.of(settings))


@pytest.mark.parametrize("topics", [(), (("orders.v1", Policy(5, "accept")), ("a", Policy()))], ids=["none", "two"])
def test_a_claim_gives_the_rules_back_with_the_policies_of_topics(topics: tuple[tuple[str, Policy], ...]) -> None:
    rules = Rules(Source("header", "seq"), max_jump=100, topics=topics)

    assert Rules.from_json(rules.to_json()) == rules
    assert rules.fingerprint == Rules(Source("header", "seq")).fingerprint


def test_a_claim_of_before_topics_had_policies_is_read() -> None:
    older = {name: value for name, value in json.loads(BY_HEADER.to_json()).items() if name != "topics"}

    assert Rules.from_json(json.dumps(older)) == BY_HEADER


ORDERS = OfTopic(Source("json", "$.id"), epoch=Source("header", "e"), payload=Payload("avro", "id STRING"))
READ_OTHERWISE = Rules(
    Source("header", "seq"),
    payload=Payload("json", "n INT"),
    own=(
        ("orders", replace(ORDERS, written=Written("avro", has_prefix=True, undecodable_ids=(7,)))),
        ("raw", OfTopic(Source("offset"))),
    ),
    decided_topics=("orders", "raw", "t"),
)


def test_a_claim_gives_the_rules_of_single_topics_back_and_says_nothing_of_them_where_there_are_none() -> None:
    assert Rules.from_json(READ_OTHERWISE.to_json()) == READ_OTHERWISE
    assert "own" not in json.loads(BY_HEADER.to_json())


def test_a_topics_rules_have_the_fingerprint_that_they_would_have_alone() -> None:
    assert READ_OTHERWISE.of_topic("raw@2").fingerprint == Rules(Source("offset")).fingerprint
    assert READ_OTHERWISE.of_topic("t").fingerprint == READ_OTHERWISE.fingerprint == BY_HEADER.fingerprint
    kind = READ_OTHERWISE.payload_type
    assert kind is not None
    assert kind.sql() == "STRUCT<`n`: INT, `id`: STRING>"


def test_topics_that_are_not_decided_any_more_keep_their_rules_and_no_others_do() -> None:
    now = Rules(Source("header", "seq"), own=(("t", ORDERS),), decided_topics=("raw", "t"))
    kept = now.keeping(READ_OTHERWISE)
    assert [topic for topic, _ in kept.own] == ["orders", "t"]
    assert (kept.of_topic("orders"), now.keeping(None)) == (
        replace(READ_OTHERWISE.of_topic("orders"), decided_topics=("raw", "t")),
        now,
    )
    assert replace(now, decided_topics=None).keeping(READ_OTHERWISE).own == now.own
