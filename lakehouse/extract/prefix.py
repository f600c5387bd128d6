"""The prefix of a schema registry before a value, as Columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.extract.written import PREFIX_BYTES

if TYPE_CHECKING:
    from pyspark.sql import Column


def has_prefix(value: Column) -> Column:
    """Whether a value has the wire format's prefix; false for null."""
    return F.coalesce((F.octet_length(value) >= PREFIX_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\x00")), F.lit(False))


def schema_id(value: Column) -> Column:
    """Return the id in the prefix, 0 to 2^32-1."""
    return F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")


def without_prefix(value: Column) -> Column:
    """Return the bytes after the prefix; null if there is no prefix."""
    return F.when(has_prefix(value), F.substring(value, PREFIX_BYTES + 1, 2**31 - 1))
