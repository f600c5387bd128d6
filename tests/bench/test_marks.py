"""The rows of the parts in the table of costs, and the page."""

import shutil
from pathlib import Path

import pytest

from bench import page, parts, run
from bench.growth import GROWN_LOAD, Sizes
from bench.sitting import Fact, Measurement, RoundStart, Sitting
from bench.whole import TO_GOLD


def taken(name: str, pattern: str, *seconds: float, records: int = 100, peak_bytes: int | None = None) -> list[Measurement]:
    return [Measurement(name, pattern, nth, records, each, 1.0, 0.1, peak_bytes) for nth, each in enumerate(seconds, start=1)]


@pytest.mark.parametrize("most", [16_000, 123_457, 32_000_000])
def test_measured_loads_lie_around_the_named_history_and_divide_among_partitions(most: int) -> None:
    sizes = Sizes.up_to(most, 3)
    assert all(size % 8 == 0 for size in (*sizes.histories, sizes.load))
    assert sizes.before(sizes.histories[0]) > 0
    if most == 32_000_000:  # of five loads, the first two warm up
        starts = [sizes.before(500_000) + nth * sizes.load for nth in range(5)]
        assert starts == [200_000, 300_000, 400_000, 500_000, 600_000]


def test_raw_numbers_are_read_as_they_were_saved(tmp_path: Path) -> None:
    sitting = Sitting(taken(TO_GOLD, "clean", 1.5), [RoundStart(1, 0.2, None)], [Fact("bytes", "p", 3, "bytes")])
    parts.save(tmp_path / "part.json", sitting, {"cores": 2})
    found, conditions = parts.load(tmp_path / "part.json")
    assert (found.measurements, found.starts, found.facts) == (sitting.measurements, sitting.starts, sitting.facts)
    assert conditions == {"cores": 2}


def test_the_page_shows_what_is_saved_and_names_what_was_never_run(tmp_path: Path) -> None:
    small = taken(GROWN_LOAD, "on 8", 4.0, peak_bytes=10**9)
    sitting = Sitting(small + taken(GROWN_LOAD, "on 32", 8.0, peak_bytes=10**9), [RoundStart(1, 0.2, 0.75)])
    parts.save(parts.file_of(tmp_path, parts.GROWTH), sitting, {"cores": 2, "in all": "9 minutes", "driver": "5g"})
    parts.save(parts.file_of(tmp_path, parts.COLD), Sitting(), {"cores": 2, "in all": "3 minutes"})
    page.write(tmp_path)
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "| Silver load of 100,000 on 32 records, against on 8 | 8.00 s, 2.00 times | at most 1.3 times | **no** |" in text
    assert "| shapes: no saved numbers; `make bench` measures them |  |  |  |" in text
    assert "> - before round 1: 0.75 cores" in text
    assert "- [growth](benchmarks/growth.json), `make bench-scale`, driver 5g\n" in text
    assert "Conditions: cores 2." in text
    assert "peers: no saved numbers; `make bench` measures them" in text


def test_the_committed_page_is_the_one_that_the_saved_numbers_give(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    shutil.copy(docs / page.RAW, tmp_path)
    shutil.copytree(docs / parts.FOLDER, tmp_path / parts.FOLDER)
    assert run.main(["--page", "--save", str(tmp_path)]) == 0
    assert (tmp_path / page.PAGE).read_text(encoding="utf-8") == (docs / page.PAGE).read_text(encoding="utf-8")
