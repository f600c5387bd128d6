"""Kinds of topics: the topics of a kind share their sources. A CASE over the kind's number computes only its branch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import is_of_topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KIND = "_kind"
"""The column with a record's kind of topic. It does not exist if there is only one kind."""


def by_topic(values: Sequence[tuple[Sequence[str], Column]]) -> Column:
    """Return the value for a record's topic, in any incarnation. The first value is for all topics not named."""
    (_, default), *others = values
    return _case([(F.expr(is_of_topics(topics)), value) for topics, value in others], default)


def numbered(records: DataFrame, topics: Sequence[Sequence[str]]) -> DataFrame:
    """Add the column KIND, if there are several kinds. The first kind is for all topics that no other kind names."""
    if len(topics) == 1:
        return records
    return records.withColumn(KIND, by_topic([(names, F.lit(nth)) for nth, names in enumerate(topics)]))


def is_of(kinds: Sequence[int], count: int) -> Column:
    """Whether a record is of one of these kinds, out of `count`."""
    if len(kinds) in (0, count):
        return F.lit(bool(kinds))
    return F.col(KIND).isin(*kinds)


def of_kind(values: Sequence[tuple[Sequence[int], Column]], count: int) -> Column:
    """Return the value for a record's kind, out of `count` kinds; null without a value."""
    kinds, value = values[0]
    if len(kinds) == count:
        return value
    return _case([(is_of(kinds, count), value) for kinds, value in values], F.lit(None))


def _case(cases: Sequence[tuple[Column, Column]], otherwise: Column) -> Column:
    if not cases:
        return otherwise
    (condition, value), *rest = cases
    return reduce(lambda found, case: found.when(*case), rest, F.when(condition, value)).otherwise(otherwise)
