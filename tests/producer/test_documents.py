"""The programs of the documents run unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tidemark_producer

if TYPE_CHECKING:
    from tests.support.producing import Kit

ROOT = Path(__file__).parents[2]
OUTBOX = [(1, "ann", "10.00"), (2, "bob", "25.00"), (3, "ann", "5.00")]


def programs(page: str) -> list[str]:
    """The Python of a page that makes senders."""
    found = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"))
    return [program for program in found if "with Sender(" in program]


@pytest.mark.parametrize(
    ("page", "positions"),
    [
        ("docs/producers.md", [[(1, 1), (1, 2), (1, 3)], [(1, 1), (1, 2), (1, 3), (1, 4)], [(1, 0)]]),
        ("producer/README.md", [[(1, 0), (1, 1)]]),
    ],
)
def test_the_programs_of_a_page_send_the_numbers_that_it_names(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, *, page: str, positions: list[list[tuple[int, int]]]
) -> None:
    monkeypatch.chdir(kit.folder)
    shared = kit.topic(1)
    for program, expected in zip(programs(page), positions, strict=True):
        name = kit.topic(1) if "transaction" in program else shared
        known: dict[str, Any] = {key: getattr(tidemark_producer, key) for key in tidemark_producer.__all__}
        known["rows_after"] = lambda begin: [row for row in [*OUTBOX, (4, "bob", "1.00")] if begin is None or row[0] > begin]
        here = program.replace("localhost:9092", kit.servers).replace('"payments"', repr(name))
        exec(compile(here, page, "exec"), known)  # noqa: S102 -- our own page
        assert sorted(kit.positions(name)) == expected
