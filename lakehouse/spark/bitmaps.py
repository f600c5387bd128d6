"""Sets of whole numbers as bitmaps of 64-bit words: few rows, and exact counts even if a number occurs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

WORD_BITS = 6
_IN_WORD = 2**WORD_BITS - 1


def word(number: str) -> Column:
    """The bitmap word that a number is in."""
    return F.shiftright(number, WORD_BITS)


def bit(number: str) -> Column:
    """A number's bit in its bitmap word, as bigint."""
    nth = F.col(number).bitwiseAND(_IN_WORD).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), nth)
