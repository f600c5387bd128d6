"""What lists streams and records has an end, however many there are and however long their names: it counts the rest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jobs import cli
from jobs.run import summary
from jobs.watch import alerts
from jobs.watch.after_run import _LONGEST_DETAILS
from lakehouse.errors import BreakerOpenError
from lakehouse.escape import shortened
from pipelines import bronze_to_silver
from tests.support.bronze import Record, put
from tests.support.small_config import settings_of, write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

PRODUCERS = 1_200
LONG = "x" * 1_024
"""The longest name that a producer can have; what is longer is invalid."""
HUGE = "x" * 300_000
CONFIG: dict[str, Any] = {"producer": {"header": "producer"}, "policies": {"max_quarantined_share": 1, "contiguous": True}}


@pytest.fixture(scope="module")
def loaded(
    spark: SparkSession, run_at: Callable[[Path], Run], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, dict[str, Any]]:
    """Producers, one with a long name, of which each lacks a sequence and has a record held; and what the plan had said."""
    run = run_at(tmp_path_factory.mktemp("listed"))
    names = [LONG, *(f"p{number}" for number in range(1, PRODUCERS))]
    sent = [(name, sequence) for name in names for sequence in (1, 3, "x")]
    put(spark, run, [Record.of(offset, sequence, producer=name) for offset, (name, sequence) in enumerate(sent)])
    planned: Any = bronze_to_silver.preview(spark, run, settings_of(run, **CONFIG))
    bronze_to_silver.run(spark, run, settings_of(run, **CONFIG))
    return run, planned


@pytest.fixture
def said(
    loaded: tuple[Run, dict[str, Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    """Runs a command, and answers what it prints on stdout and stderr."""
    config = write_config(tmp_path, root=str(loaded[0].lakehouse.root), **CONFIG)

    def run(*command: str) -> tuple[str, str]:
        capfd.readouterr()
        assert cli.main([*command, "--config", str(config)]) == 0
        captured = capfd.readouterr()
        return captured.out, captured.err

    return run


def test_a_status_lists_a_thousand_streams_and_counts_them_all(said: Callable[..., tuple[str, str]]) -> None:
    out, _ = said("status", "--json")
    found = json.loads(out)

    assert (len(found["streams"]), found["stream_count"]) == (1_000, PRODUCERS)
    assert (len(found["missing"]), found["missing_count"]) == (1_000, PRODUCERS)
    assert [tuple(row.values()) for row in found["partitions"]] == [("t", 0, PRODUCERS, 3, 3 * PRODUCERS - 1, 1)]
    assert len(out) < 1_000_000

    streams = json.loads(said("status", "--json", "--limit", "1200")[0])["streams"]
    assert len(streams) == PRODUCERS
    assert streams[-1]["producer"] == shortened(LONG), "the longest name sorts last"

    text, left_out = said("status")
    assert "1,000 of 1,200 streams; --limit 1200 shows all." in left_out
    assert f"sequences of {PRODUCERS - 20:,} streams more" in text
    assert len(text) < 200_000


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        (("watermark", "show"), "7 of 1,200 streams; --limit 1200 shows all.\n"),
        (("quarantine", "list"), "7 of 1,200 records; --limit 1200 lists all.\n"),
    ],
)
def test_a_plain_list_says_how_much_it_leaves_out(
    said: Callable[..., tuple[str, str]], command: tuple[str, ...], left_out: str
) -> None:
    out, err = said(*command, "--limit", "7", "--json")
    whole, _ = said(*command, "--limit", "5000", "--json")

    assert (len(json.loads(out)), err) == (7, left_out)
    assert len(json.loads(whole)) == PRODUCERS
    assert len(whole) < 1_000_000


def test_a_plan_lists_streams_up_to_a_limit(loaded: tuple[Run, dict[str, Any]], capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    summary.write_plan(loaded[1], as_json=True, most=5)
    found = json.loads(capfd.readouterr().out)
    summary.write_plan(loaded[1], as_json=False, most=5)
    text = capfd.readouterr().out

    assert (len(found["streams"]), found["stream_count"]) == (5, PRODUCERS)
    assert "1,195 streams more; --limit 1200 shows all." in text
    assert len(json.dumps(found)) + len(text) < 50_000


def test_a_report_and_a_query_as_a_table_show_the_beginning_of_a_name(
    said: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    longest = "SELECT producer FROM silver_watermarks ORDER BY length(producer) DESC LIMIT 1"
    out, _ = said("sql", "--format", "table", longest)
    whole, _ = said("sql", "--format", "csv", "SELECT max(length(producer)) AS n FROM silver_watermarks")
    said("report", "--offline", "-o", str(tmp_path / "report.html"))

    assert "… (1,024 characters)" in out
    assert len(out) < 5_000
    assert whole.split() == ["n", "1024"]
    assert "x" * 1_000 not in (tmp_path / "report.html").read_text()


def test_an_error_and_an_alert_are_cut_and_still_say_the_way_out() -> None:
    error = BreakerOpenError("Too many.", where=f"topic t, producer {HUGE}", observed=HUGE, expected="few", next_step="Go on.")

    assert len(str(error)) < 5_000
    assert str(error).endswith("Go on.")
    assert "(300,000 characters)" in str(error)
    assert error.observed == HUGE
    assert len(shortened(alerts.of_breaker(error, is_finished=False).details, _LONGEST_DETAILS)) <= 4_050
