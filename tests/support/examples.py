"""What `make test-all` runs beyond `make test`: more examples of a property, and the tests that `tests/beyond.toml` names."""

import os
import tomllib
from functools import cache
from pathlib import Path

_ASKED = os.environ.get("TESTS", "")
_IS_WHOLE = _ASKED in {"all", "places"}
TESTS = Path(__file__).parents[1]
_ELSEWHERE = "elsewhere"  # the section of what `make test-all` leaves to `make test-places`


def examples(few: int, many: int) -> int:
    """`many` if TESTS=all (`make test-all`), else `few`, at least two: the first example of hypothesis is the simplest."""
    assert few >= 2
    return many if _IS_WHOLE else few


@cache
def beyond() -> frozenset[str]:
    """What these tests leave out: files, and single tests as `file::test`."""
    named = tomllib.loads((TESTS / "beyond.toml").read_text(encoding="utf-8"))
    left_out = [] if _ASKED == "places" else [_ELSEWHERE] if _IS_WHOLE else named
    return frozenset(f"{TESTS}/{each}" for section in left_out for each in named[section])
