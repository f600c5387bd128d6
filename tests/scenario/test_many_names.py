"""100,000 producers with hostile names: what lists them is bounded. The tables are written directly, without Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenario.conftest import Said
from tests.scenario.lakehouse import FOLDER, Scenario, written
from tests.support.report_tables import Shape, write_lake
from tests.support.small_config import small_config

MANY = 100_000
ALL_ROWS = ("sql", "SELECT producer FROM silver_watermarks", "--format")
READERS = [
    *(["status"], ["watermark", "show"], ["quarantine", "list"], ["topic", "list"], ["report", "--offline"]),
    [*ALL_ROWS, "table"],
]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A stream for each name, each with a record that waits."""
    folder = tmp_path_factory.mktemp("many")
    names = tuple(f"\x1b[{number}m name\n{{" for number in range(MANY))
    write_lake(folder / FOLDER, Shape(topics=("t",), partitions=1, producers=names, loads=1))
    return written(folder, small_config(str(folder / FOLDER), producer={"header": "producer"}))


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_list_of_many_names_is_bounded(words: list[str], many: Scenario, tell: Callable[..., Said], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    tell(many, *words, *(["-o", str(page)] if words[0] == "report" else []))
    if words[0] == "report":
        assert len(page.read_text(encoding="utf-8")) < 2_000_000
    if "table" not in words:
        assert tell(many, *words, "--json").json is not None


def test_a_query_that_asks_for_all_names_gets_them_escaped(many: Scenario, tell: Callable[..., Said]) -> None:
    said = tell(many, *ALL_ROWS, "csv", most=10_000_000)
    assert len(said.out.splitlines()) == MANY + 1
