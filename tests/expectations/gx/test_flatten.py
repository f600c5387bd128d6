"""Nested columns get flat ones of their own, where a check names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from expectations.checks import Subject, build
from expectations.gx.flatten import flatten
from lakehouse.settings.pipeline import Gate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_only_the_nested_columns_that_checks_name_become_flat(spark: SparkSession) -> None:
    records = spark.sql("SELECT 't' AS topic, named_struct('id', 7, 'n', named_struct('deep', 8), 'other', 9) AS payload")
    expectations: list[dict[str, Any]] = [
        {"expect_column_values_to_not_be_null": {"column": "payload.id"}},
        {"expect_column_values_to_not_be_null": {"column": "payload.gone"}},
        {"expect_compound_columns_to_be_unique": {"column_list": ["topic", "payload.n.deep"]}},
    ]
    checks = build(Gate.model_validate({"expectations": expectations}))

    flat, renamed = flatten(records, checks)

    assert [tuple(row) for row in flat.drop("payload").collect()] == [("t", 7, 8)]
    assert flat.columns == ["topic", "payload", "payload__id", "payload__n__deep"]
    own = [check for check in renamed if check.subject is Subject.RECORDS]
    assert [dict(check.arguments) for check in own] == [
        {"column": "payload__id"},
        {"column": "payload.gone"},
        {"column_list": ["topic", "payload__n__deep"]},
    ]
    assert [check.column for check in own] == ["payload.id", "payload.gone", None]
    assert renamed[:-3] == list(checks[:-3])
