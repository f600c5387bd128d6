"""What `make test-all` runs beyond `make test`: more examples of a property, and the tests that `tests/beyond.toml` names."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

IS_WHOLE = os.environ.get("TESTS") == "all"
IS_IN_S3 = os.environ.get("TESTS") == "s3"
TESTS = Path(__file__).parents[1]


def examples(few: int, many: int) -> int:
    """`many` where the whole of the tests is asked for (TESTS=all, as `make test-all` sets it), else `few`.

    Two at least: the first example of hypothesis is always the simplest, which may be nothing but empty lists.
    """
    assert few >= 2
    return many if IS_WHOLE else few


@cache
def beyond() -> frozenset[Path]:
    """The files that `make test` leaves out."""
    named = tomllib.loads((TESTS / "beyond.toml").read_text(encoding="utf-8"))
    return frozenset(TESTS / file for files in named.values() for file in files)
