"""Kinds of topics: records that are read alike. Each has a number, and what is done with a record is one CASE over it.

So no branch is computed for a record that is not of its kind, and there are as many projections as for one kind.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.bronze import is_of_topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

KIND = "_kind"
"""Which of the kinds of topics a record is of; no such column where there is only one."""


def by_topic(values: Sequence[tuple[Sequence[str], Column]]) -> Column:
    """What applies to a record by its topic, in any incarnation.

    Args:
        values: Values with their topics; the first is for all topics that no other names.
    """
    (_, default), *others = values
    return _case([(F.expr(is_of_topics(topics)), value) for topics, value in others], default)


def numbered(records: DataFrame, topics: Sequence[Sequence[str]]) -> DataFrame:
    """Add the column KIND, if there are several kinds.

    Args:
        records: Rows with `topic`.
        topics: The topics of each kind; the first is for all topics that no other names.
    """
    if len(topics) == 1:
        return records
    return records.withColumn(KIND, by_topic([(names, F.lit(nth)) for nth, names in enumerate(topics)]))


def is_of(kinds: Sequence[int], count: int) -> Column:
    """Whether a record is of one of some kinds.

    Args:
        kinds: Their numbers.
        count: How many kinds there are.
    """
    if len(kinds) in (0, count):
        return F.lit(bool(kinds))
    return F.col(KIND).isin(*kinds)


def of_kind(values: Sequence[tuple[Sequence[int], Column]], count: int) -> Column:
    """The value that is for a record's kind; null if none is.

    Args:
        values: Values, each with the numbers of the kinds that it is for.
        count: How many kinds there are.
    """
    kinds, value = values[0]
    if len(kinds) == count:
        return value
    return _case([(is_of(kinds, count), value) for kinds, value in values], F.lit(None))


def _case(cases: Sequence[tuple[Column, Column]], otherwise: Column) -> Column:
    """The value of the first condition that holds."""
    if not cases:
        return otherwise
    (condition, value), *rest = cases
    return reduce(lambda found, case: found.when(*case), rest, F.when(condition, value)).otherwise(otherwise)
