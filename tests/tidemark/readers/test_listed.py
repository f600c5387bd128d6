"""What lists streams and records has an end, however many there are and however long their names: it counts the rest."""

import json
from pathlib import Path

import pytest

from lakehouse.errors import BreakerOpenError
from lakehouse.escape import shortened
from tests.support.report_tables import Shape, write_lake
from tests.support.small_config import write_config
from tests.tidemark.conftest import RunCommand
from tidemark.extras.watch import alerts
from tidemark.extras.watch.after_run import _LONGEST_DETAILS
from tidemark.runner import summary

PRODUCERS = 1_200
LONG = "x" * 1_024  # the longest name that a producer can have; what is longer is invalid
HUGE = "x" * 300_000
NAMES = (LONG, *(f"p{number}" for number in range(1, PRODUCERS)))
MANY = 100_000
LISTS = [*("status", "watermark show", "quarantine list", "topic list", "report --offline"), "sql --format table"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("listed")
    write_lake(folder, Shape(topics=("t",), partitions=1, producers=NAMES, loads=1))
    return folder


@pytest.fixture(autouse=True)
def _config(root: Path, tmp_path: Path) -> None:
    write_config(tmp_path, root=str(root))


def test_a_status_lists_a_thousand_streams_and_counts_them_all(run_command: RunCommand) -> None:
    out, _ = run_command("status", "--json")
    found = json.loads(out)
    assert (len(found["streams"]), found["stream_count"]) == (1_000, PRODUCERS)
    assert (len(found["missing"]), found["missing_count"]) == (1_000, PRODUCERS)
    assert [tuple(row.values()) for row in found["partitions"]] == [("t", 0, PRODUCERS, 99, 99, 1)]

    streams = json.loads(run_command("status", "--json", "--limit", "1200")[0])["streams"]
    assert len(streams) == PRODUCERS
    assert streams[-1]["producer"] == shortened(LONG), "the longest name sorts last"

    text, left_out = run_command("status")
    assert "1,000 of 1,200 streams; --limit 1200 shows all." in left_out
    assert f"sequences of {PRODUCERS - 20:,} streams more" in text


def test_other_lists_say_how_much_they_leave_out(run_command: RunCommand, capsys: pytest.CaptureFixture[str]) -> None:
    for command, what in (("watermark show", "streams"), ("quarantine list", "records")):
        out, err = run_command(*command.split(), "--limit", "7", "--json")
        assert (len(json.loads(out)), err) == (7, f"7 of 1,200 {what}; --limit 1200 shows all.\n")
        assert len(json.loads(run_command(*command.split(), "--limit", "5000", "--json")[0])) == PRODUCERS

    planned = {"load_seq": None, "streams": [{"topic": "t", "producer": name} for name in NAMES], "breaker": [], "kept_out": []}
    found = summary.with_first_streams(planned, 5)
    assert (len(found["streams"]), found["stream_count"]) == (5, PRODUCERS)
    summary.write_plan(found)
    text = capsys.readouterr().out
    assert "1,195 streams more; --limit 1200 shows all." in text
    assert len(text) < 25_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream for each of many hostile names, each with a record that waits."""
    names = tuple(f"\x1b[{number}m name\n{{" for number in range(MANY))
    folder = tmp_path_factory.mktemp("many")
    write_lake(folder, Shape(topics=("t",), partitions=1, producers=names, loads=1))
    return folder


@pytest.mark.parametrize("words", [*LISTS, "sql --format csv"])
def test_lists_of_hostile_names_are_escaped_and_cut(words: str, many: Path, run_command: RunCommand, tmp_path: Path) -> None:
    write_config(tmp_path, root=str(many), producer={"header": "producer"})
    command, *options = words.split()
    query = ["SELECT producer FROM silver_watermarks"] if command == "sql" else []
    page = ["-o", str(tmp_path / "report.html")] if command == "report" else []
    for more in [[]] if command == "sql" else [page, ["--json"]]:
        out, err = run_command(command, *query, *options, *more)
        assert all(each.isprintable() or each == "\n" for each in out + err)
        assert len(out + err) < (10_000_000 if "csv" in options else 2_000_000)
        if more == ["--json"]:
            assert json.loads(out) is not None
        if "csv" in options:
            assert len(out.splitlines()) == MANY + 1
    if page:
        assert len(Path(page[1]).read_text(encoding="utf-8")) < 2_000_000


def test_an_error_and_an_alert_are_cut_and_still_say_the_way_out() -> None:
    error = BreakerOpenError("Too many.", where=f"topic t, producer {HUGE}", observed=HUGE, expected="few", next_step="Go on.")
    assert len(str(error)) < 5_000
    assert str(error).endswith("Go on.")
    assert "(300,000 characters)" in str(error)
    assert error.observed == HUGE
    assert len(shortened(alerts.of_breaker(error, is_finished=False).details, _LONGEST_DETAILS)) <= 4_050
