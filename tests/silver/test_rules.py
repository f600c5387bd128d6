"""The rules: what a config and a claim make of the policies."""

from __future__ import annotations

import json

import pytest

from lakehouse.extract.sources import Source
from lakehouse.settings.pipeline import Settings
from silver.rules import Policy, Rules

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
