"""Rules that only say how values are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.extract.sources import Source
from silver.rules import Rules

if TYPE_CHECKING:
    from lakehouse.extract.written import Written
    from silver.rules import Payload


def decoding(payload: Payload, written: Written | None = None) -> Rules:
    """Rules that decode all values into a payload."""
    return Rules(Source("offset"), payload=payload, written=written)
