"""The rules: what a config and a claim make of the policies."""

import json
from dataclasses import replace

import pytest

from lakehouse.errors import RulesChangedError
from lakehouse.extract.sources import Source
from lakehouse.extract.written import Written
from lakehouse.settings.pipeline import Settings
from silver.rules import Grown, Payload, Policy, Reading, Rules
from silver.state.watermarks import Watermark, Watermarks
from tests.support.small_config import small_config

BY_HEADER = Rules(Source("header", "seq"), max_jump=100, late="drop")


def test_the_rules_hold_the_policies_in_force_of_each_topic_that_has_its_own() -> None:
    kafka = {"bootstrap_servers": "localhost:9092", "topics": ["orders.v1", "payments", "returns", "stock"]}
    topics = {"orders.v1": {"late": "accept"}, "payments": {"max_jump": None}, "returns": {"max_jump": 5}}
    policies = {"late": "drop", "max_jump": 100, "topics": topics}
    settings = Settings.model_validate(small_config("/lake", kafka=kafka, policies=policies))

    rules = Rules.of(settings)

    assert rules.policy("orders.v1") == Policy(max_jump=100, late="accept")
    assert rules.policy("payments") == Policy(max_jump=None, late="drop")
    assert rules.policy("returns") == Policy(max_jump=5, late="drop")
    assert rules.policy("stock") == Policy(max_jump=100, late="drop")
    assert hash(rules) == hash(Rules.of(settings))


ORDERS = Reading(Source("json", "$.id"), epoch=Source("header", "e"), payload=Payload("avro", "id STRING"))
READ_OTHERWISE = Rules(
    Source("header", "seq"),
    payload=Payload("json", "n INT"),
    own=(
        ("orders", replace(ORDERS, written=Written("avro", has_prefix=True, undecodable_ids=(7,)))),
        ("raw", Reading(Source("offset"))),
    ),
    decided_topics=("orders", "raw", "t"),
)


WRITTEN = [
    Written("avro", has_prefix=True, undecodable_ids=(4, 5), schemas=((1, "x"),)),
    Written("protobuf", has_prefix=True, undecodable_ids=(4, 5), schemas=((1, "x"),)),
    Written("protobuf", "y", message="shop.Order"),
]
CLAIMED = {
    "policies": replace(BY_HEADER, late="quarantine"),
    "policies of topics": replace(BY_HEADER, topics=(("orders.v1", Policy(5, "accept")), ("a", Policy()))),
    "rules of topics": READ_OTHERWISE,
    "undecodable values that are quarantined": replace(BY_HEADER, payload=Payload("text", undecodable="quarantine")),
    "incarnations with the same numbering": replace(BY_HEADER, continues=(("t@2", ("t",)), ("t@3", ("t", "t@2")))),
    "topics that got partitions": replace(
        BY_HEADER,
        grown=(("t", Grown(2, 4, "per_topic", (1, 7))), ("u", Grown(1, 3, is_last=True)), ("v", Grown(1, 2, "per_partition"))),
    ),
    **{
        f"written {nth}": replace(BY_HEADER, payload=Payload(each.format, "a INT"), written=each)
        for nth, each in enumerate(WRITTEN)
    },
}


@pytest.mark.parametrize("rules", CLAIMED.values(), ids=CLAIMED)
def test_a_claim_gives_the_rules_back_without_the_schemas_of_a_registry(rules: Rules) -> None:
    kept = replace(rules, written=rules.written and replace(rules.written, schemas=()))
    assert Rules.from_json(rules.to_json()) == kept
    assert rules.fingerprint == BY_HEADER.fingerprint


def test_a_claim_says_nothing_of_what_there_is_not_and_an_older_one_is_read() -> None:
    claimed = json.loads(BY_HEADER.to_json())
    assert not {"own", "written", "continues", "grown"} & set(claimed)
    assert "message" not in json.loads(replace(BY_HEADER, written=WRITTEN[0]).to_json())["written"]
    older = {name: value for name, value in claimed.items() if name != "compares_epochs"}
    assert Rules.from_json(json.dumps(older)) == replace(BY_HEADER, compares_epochs=False)
    del older["topics"]  # before topics had policies
    assert Rules.from_json(json.dumps(older)) == replace(BY_HEADER, compares_epochs=False)
    older["payload"] = {"format": "text", "schema": ""}  # before undecodable values could be quarantined
    assert Rules.from_json(json.dumps(older)).payload == Payload("text", undecodable="accept")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (BY_HEADER, '  expected: sequence: header "seq" (utf8)\n'),
        (replace(BY_HEADER, own=(("t", Reading(Source("offset"))),)), f"  expected: rules {BY_HEADER.fingerprint}\n"),
        (None, f"  expected: rules {BY_HEADER.fingerprint}\n"),
    ],
    ids=["known", "of another load", "no load"],
)
def test_extractors_that_have_changed_are_both_named_escaped_and_bounded(before: Rules | None, expected: str) -> None:
    marks = Watermarks({("t", 0, None): Watermark(0, 7, 9, 1, BY_HEADER.fingerprint)})
    marks.require_same_extractors(BY_HEADER, before, where="silver_loads")
    changed = Rules(Source("header", "\x1b[31m" + "s" * 5_000), producer=Source("bytes", "0:8", "int64"))

    with pytest.raises(RulesChangedError) as raised:
        marks.require_same_extractors(changed, before, where="silver_loads")

    message = str(raised.value)
    assert expected in message
    assert '  observed: sequence: header "\\x1b[31msss' in message
    assert "producer: bytes 0:8 (int64), as the config has it\n" in message
    assert len(message) < 1_200


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
    assert kept.of_topic("orders") == replace(READ_OTHERWISE.of_topic("orders"), decided_topics=("raw", "t"))
    assert now.keeping(None) == now
    assert replace(now, decided_topics=None).keeping(READ_OTHERWISE).own == now.own
