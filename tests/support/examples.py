"""What `make test-all` runs beyond `make test`: more examples of a property, and the tests that take minutes."""

from __future__ import annotations

import os

import pytest

_IS_WHOLE = os.environ.get("TESTS") == "all"

takes_minutes = pytest.mark.skipif(not _IS_WHOLE, reason="takes minutes: `make test-all` runs it")


def examples(few: int, many: int) -> int:
    """`many` where the whole of the tests is asked for (TESTS=all, as `make test-all` sets it), else `few`."""
    return many if _IS_WHOLE else few
