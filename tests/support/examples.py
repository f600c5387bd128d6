"""How many examples a property draws: few for `make test`, many for `make test-all`."""

from __future__ import annotations

import os


def examples(few: int, many: int) -> int:
    """`many` where the whole of the tests is asked for (TIDEMARK_TESTS=all, as `make test-all` sets it), else `few`."""
    return many if os.environ.get("TIDEMARK_TESTS") == "all" else few
