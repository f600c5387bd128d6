"""Lists that have to be complete: what is forgotten in one of them would be found by an operator."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from expectations import failing_rows
from expectations.checks import INVARIANTS, MEASURES
from jobs.readers import why
from lakehouse.contracts import views
from lakehouse.contracts.bronze import FINGERPRINT
from lakehouse.contracts.gold import STREAM_HEALTH
from lakehouse.contracts.silver import CLASSES, LOADS, PROBLEMS, QUARANTINED, REPLAY, UNDECODABLE
from lakehouse.extract import columns, json_strictness
from lakehouse.settings.policies import Policies, TopicPolicies
from lakehouse.table import TABLE_NAMES
from tests.support import kept

DOCS = Path(__file__).parents[1] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_class_is_counted_explained_and_in_the_glossary() -> None:
    assert set(CLASSES) - {REPLAY} == set(why.RULES) - {why.UNDECIDED}  # a replay has the class that its first copy has
    assert set(CLASSES) <= set(LOADS.names)
    assert set(CLASSES) <= set(STREAM_HEALTH.names)
    assert all(f"summed.{name}" in views.queries("duckdb")[views.WATERMARK_STATUS] for name in CLASSES)
    for name in CLASSES:
        assert f"\n| {name} |" in page("glossary.md"), name
    assert set(QUARANTINED) < set(CLASSES)


@pytest.mark.parametrize("problem", [*PROBLEMS])
def test_every_reason_of_an_invalid_record_is_in_the_runbook(problem: str) -> None:
    assert f"`..._{problem}`" in page("runbook.md")


def test_every_problem_of_an_extractor_is_explained() -> None:
    ours = [
        value
        for module in (columns, json_strictness)
        for name, value in vars(module).items()
        if name.isupper() and name[0] != "_"
    ]
    assert {each for each in ours if isinstance(each, str) and each.islower()} - {FINGERPRINT} == {*PROBLEMS}
    assert f"`{UNDECODABLE}`" in page("runbook.md")


def test_every_invariant_can_be_shown_and_is_in_the_runbook() -> None:
    for each in INVARIANTS:
        assert each.name in failing_rows.RECORDS or each.fact in failing_rows.SHOWN, each.name
        assert f"`{each.name}`" in page("runbook.md"), each.name


def test_every_measure_is_in_the_configuration() -> None:
    for each in MEASURES:
        assert f"`{each.name}`" in page("configuration.md"), each.name


def test_every_policy_is_in_the_configuration_and_a_topic_may_have_its_own() -> None:
    for name in Policies.model_fields:
        assert f"`policies.{name}`" in page("configuration.md"), name
    assert set(TopicPolicies.model_fields) == set(Policies.model_fields) - {"topics"}


def test_every_table_is_described() -> None:
    contracts = {contract.name: contract for contract in kept.contracts()}
    assert set(contracts) == set(TABLE_NAMES)
    for name in TABLE_NAMES:
        assert f"`{name}`" in page("architecture.md"), name
        assert all(column.comment for column in contracts[name].columns), name
        assert contracts[name].grain, name


def test_every_view_has_its_tables_and_a_place_in_the_queries() -> None:
    for dialect in get_args(views.Dialect):
        assert set(views.queries(dialect)) == set(views.READ_BY)
    for name, tables in views.READ_BY.items():
        assert f"\n| `{name}` |" in page("queries.md"), name
        assert set(tables) <= set(TABLE_NAMES), name
