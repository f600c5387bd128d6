"""The AI/BI dashboard, as far as its file tells. What its queries answer: tests/packaging/test_dashboard_queries.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from lakehouse.contracts import views
from lakehouse.table import TABLE_NAMES
from tests.support.bundle import DASHBOARD, columns_used, dataset_queries, of_kind, widgets

QUERIES = {name: sqlglot.parse_one(query, read="databricks", into=exp.Select) for name, query in dataset_queries().items()}
PLOTTED = [widget for widget in widgets() if "spec" in widget]
GRID = 12


def encoded(part: Any) -> set[str]:
    """Every field that a widget's encodings name."""
    if isinstance(part, list):
        return set().union(*map(encoded, part))
    if not isinstance(part, dict):
        return set()
    return {part["fieldName"]} if "fieldName" in part else encoded(list(part.values()))


@pytest.mark.parametrize("name", QUERIES)
def test_widgets_show_the_columns_of_a_dataset_and_no_others(name: str) -> None:
    assert columns_used()[name] == set(QUERIES[name].named_selects)


@pytest.mark.parametrize("name", QUERIES)
def test_a_dataset_reads_tables_of_ours_by_their_bare_names(name: str) -> None:
    inner = {each.alias for each in QUERIES[name].find_all(exp.CTE)}
    read = [table for table in QUERIES[name].find_all(exp.Table) if table.name not in inner]
    assert {table.name for table in read} <= {*TABLE_NAMES, views.MISSING}
    assert [table.sql() for table in read if table.db or table.catalog] == []


@pytest.mark.parametrize("widget", PLOTTED, ids=[widget["name"] for widget in PLOTTED])
def test_a_widget_shows_what_it_asks_for(widget: dict[str, Any]) -> None:
    asked = {field["name"] for each in widget["queries"] for field in each["query"]["fields"]}
    assert encoded(widget["spec"]["encodings"]) == asked
    assert {each["query"]["datasetName"] for each in widget["queries"]} <= QUERIES.keys()
    assert widget["spec"]["frame"]["title"]


def test_what_a_producer_sent_is_shown_as_text() -> None:
    columns = [column for widget in PLOTTED for column in widget["spec"]["encodings"].get("columns", [])]
    assert {key for column in columns for key in column} == {"fieldName", "displayName"}  # no html, link or image


def test_the_verdict_comes_first() -> None:
    first = DASHBOARD["pages"][0]["layout"]
    shown = [
        placed["widget"]["name"] for placed in sorted(first, key=lambda each: (each["position"]["y"], each["position"]["x"]))
    ]
    assert shown[:2] == ["gate-title", "verdict"]


def test_widgets_have_names_of_their_own_and_fill_the_grid_without_overlap() -> None:
    names = [widget["name"] for widget in widgets()]
    assert [name for name in names if names.count(name) > 1 or not re.fullmatch("[a-z-]{1,60}", name)] == []
    for page in (page for page in DASHBOARD["pages"] if page["pageType"] == "PAGE_TYPE_CANVAS"):
        cells = [
            (x, y)
            for at in (placed["position"] for placed in page["layout"])
            for x in range(at["x"], at["x"] + at["width"])
            for y in range(at["y"], at["y"] + at["height"])
        ]
        assert sorted(cells) == [(x, y) for x in range(GRID) for y in range(len(cells) // GRID)]


def test_the_bundle_says_which_catalog_and_schema_the_names_are_of() -> None:
    (dashboard,) = of_kind("dashboards").values()
    assert (dashboard["dataset_catalog"], dashboard["dataset_schema"]) == (
        "${var.catalog}",
        "${resources.schemas.lakehouse.name}",
    )
