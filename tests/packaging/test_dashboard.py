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
def test_a_dataset_reads_our_tables_by_bare_names_and_its_columns_are_shown(name: str) -> None:
    assert columns_used()[name] == set(QUERIES[name].named_selects)
    inner = {each.alias for each in QUERIES[name].find_all(exp.CTE)}
    read = [table for table in QUERIES[name].find_all(exp.Table) if table.name not in inner]
    assert {table.name for table in read} <= {*TABLE_NAMES, views.MISSING}
    assert [table.sql() for table in read if table.db or table.catalog] == []


@pytest.mark.parametrize("widget", PLOTTED, ids=[widget["name"] for widget in PLOTTED])
def test_a_widget_shows_what_it_asks_for_as_text(widget: dict[str, Any]) -> None:
    asked = {field["name"] for each in widget["queries"] for field in each["query"]["fields"]}
    assert encoded(widget["spec"]["encodings"]) == asked
    assert {each["query"]["datasetName"] for each in widget["queries"]} <= QUERIES.keys()
    assert widget["spec"]["frame"]["title"]
    for column in widget["spec"]["encodings"].get("columns", []):
        assert column.keys() == {"fieldName", "displayName"}  # no html, link or image of what a producer sent


def test_the_verdict_comes_first_and_widgets_fill_the_grid_without_overlap() -> None:
    first = sorted(DASHBOARD["pages"][0]["layout"], key=lambda each: (each["position"]["y"], each["position"]["x"]))
    assert [placed["widget"]["name"] for placed in first][:2] == ["gate-title", "verdict"]
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
