"""Every command that only looks, in every form: it commits nothing, and prints what is escaped, bounded and Python's answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest
import typer
from pyspark.sql import SparkSession

from lakehouse.table import TABLE_NAMES, Lakehouse
from tests.docs import command_lines
from tests.docs.reference import leaves
from tests.scenario import cases
from tests.scenario.cases import BOTH, JSON, LOOKS, PARQUET, TEXT, WRITES, Look
from tests.scenario.conftest import Said
from tests.scenario.corpus import FORGED
from tests.scenario.lakehouse import Scenario
from tests.support.planted import PLANTED
from tidemark.commands import commands
from tidemark.commands.look import Format, OrderFormat

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

QUICK = [(look, form) for look in LOOKS for form in look.forms if form in BOTH and not look.is_long]
CLEANED = [(look, JSON if JSON in look.forms else TEXT) for look in LOOKS if not look.cleaned]
ONLY_CLEANED = [(look, form) for look, form in CLEANED if look.is_long and not look.answer]
"""What takes long, and is compared with no answer of Python, is shown as JSON over cleaned logs alone."""
REST = [(look, form) for look in LOOKS for form in look.forms if (look, form) not in (*QUICK, *ONLY_CLEANED)]
IN_STORE = [(look, JSON if JSON in look.forms else TEXT) for look in LOOKS if not look.s3]
FILTERS = {"--producer", "--topic"}
READERS = [look for look in LOOKS if look.is_reader and look.command != "sql" and (not look.cleaned or FILTERS & {*look.words})]


def test_every_command_and_format_of_the_application_has_a_case() -> None:
    known = dict(leaves(typer.main.get_command(commands.app)))
    looks = {look.command for look in LOOKS}
    writes = {*WRITES, *cases.WRITES_ELSEWHERE}
    assert looks | writes | cases.NOT_HERE.keys() == known.keys()
    dry = {name for name, command in known.items() if any("--dry-run" in option.opts for option in command.params)}
    assert {look.command for look in LOOKS if "--dry-run" in look.words} == dry
    formats = {"sql": get_args(Format), "order": get_args(OrderFormat)}
    assert {name for name, command in known.items() if any("--format" in option.opts for option in command.params)} == set(
        formats
    )
    for name in looks:
        forms = {form for look in LOOKS if look.command == name for form in look.forms} | ({JSON} if name in WRITES else set())
        assert {JSON, *formats.get(name, {TEXT})} <= forms, name


@pytest.fixture
def looked(tell: Callable[..., Said], tmp_path: Path) -> Callable[[Scenario, Look, str], Said]:
    """Runs a command that only looks, and fails if a table has another version than before."""

    def look_at(of: Scenario, look: Look, form: str) -> Said:
        before = of.commits()
        said = tell(of, *look.argv(form, tmp_path), codes=look.codes)
        assert of.commits() == before
        assert len(before) == len(TABLE_NAMES)
        if form == JSON and said.code == 0:
            assert said.json is not None
        return said

    return look_at


@pytest.fixture(scope="module")
def said_before() -> dict[Look, Any]:
    """What each reader said in JSON over the plain scenario."""
    return {}


@pytest.fixture
def compared(
    spark: SparkSession, scenario: Scenario, looked: Callable[..., Said], said_before: dict[Look, Any]
) -> Callable[[Look, str], None]:
    """Runs a command over the plain scenario, and compares its JSON with the answer of Python, in a session of the caller."""

    def compare(look: Look, form: str) -> None:
        said = looked(scenario, look, form)
        if form == JSON and look.is_reader:
            said_before[look] = cases.without_varying(said.json)
        if form == JSON and look.answer is not None:
            mine = spark.newSession()
            mine.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
            answer = cases.as_json(look.answer(scenario.config, mine), is_whole=look.is_whole)
            assert list(cases.differences(said.json, answer)) == []
            assert mine.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"

    return compare


@pytest.fixture
def plain(scenario: Scenario, looked: Callable[..., Said], said_before: dict[Look, Any]) -> Callable[[Look], Any]:
    """Runs a reader over the plain scenario, once; what it said in JSON."""

    def look_at(look: Look) -> Any:
        if look not in said_before:
            said_before[look] = cases.without_varying(looked(scenario, look, JSON).json)
        return said_before[look]

    return look_at


@pytest.fixture
def same_as_plain(looked: Callable[..., Said], plain: Callable[[Look], Any]) -> Callable[[Scenario, Look, str], None]:
    """Runs a command over another state; a reader has to say what it says over the plain scenario."""

    def compare(of: Scenario, look: Look, form: str) -> None:
        said = looked(of, look, form)
        if look.is_reader:
            assert cases.without_varying(said.json) == plain(look)

    return compare


@pytest.mark.parametrize(("look", "form"), QUICK, ids=str)
def test_a_command_only_looks(look: Look, form: str, compared: Callable[[Look, str], None]) -> None:
    compared(look, form)


@pytest.mark.parametrize(("look", "form"), REST, ids=str)
def test_a_command_only_looks_in_every_form(look: Look, form: str, compared: Callable[[Look, str], None]) -> None:
    compared(look, form)


@pytest.mark.parametrize(("look", "form"), CLEANED, ids=str)
def test_a_command_only_looks_over_cleaned_logs(
    look: Look, form: str, cleaned: Scenario, same_as_plain: Callable[..., None]
) -> None:
    same_as_plain(cleaned, look, form)


@pytest.mark.parametrize(("look", "form"), IN_STORE, ids=str)
def test_a_command_only_looks_in_s3(look: Look, form: str, in_store: Scenario, same_as_plain: Callable[..., None]) -> None:
    same_as_plain(in_store, look, form)


@pytest.mark.parametrize("look", READERS, ids=str)
def test_a_reader_says_the_same_through_a_spark_session(
    look: Look,
    spark: SparkSession,
    scenario: Scenario,
    looked: Callable[..., Said],
    plain: Callable[[Look], Any],
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = plain(look)
    monkeypatch.setattr(Lakehouse, "is_in_files", False)
    assert cases.without_varying(looked(scenario, look, JSON).json) == without
    assert spark.sql("SHOW TABLES").where("isTemporary").collect() == []


def test_reports_and_files_hold_no_text_as_it_was_sent(scenario: Scenario, looked: Callable[..., Said], tmp_path: Path) -> None:
    looked(scenario, Look("report", ("--offline",)), TEXT)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert FORGED not in page
    assert PLANTED not in page
    assert not [file for file in scenario.root.rglob("*") if file.is_file() and PLANTED.encode() in file.read_bytes()]
    assert "<script>alert(1)" not in page
    assert not any(0x7F <= ord(each) < 0xA0 or each in "\u202e\u200b\u2066" for each in page)
    logs = [file.read_text(encoding="utf-8") for file in (scenario.root / "_reports").glob("*.json")]
    assert logs
    assert all(each.isprintable() or each == "\n" for text in logs for each in text)
    looked(scenario, Look("sql", ("FROM silver_watermarks",)), PARQUET)
    assert FORGED in pq.read_table(tmp_path / "rows.parquet")["producer"].to_pylist()


def test_a_plan_says_that_the_breaker_would_stop_the_load(scenario: Scenario, tell: Callable[..., Said]) -> None:
    said = tell(scenario, "plan").out
    assert "The breaker would stop this load" in said
    assert "\\x1b]0;owned" in said


@pytest.mark.parametrize("line", [line for line in command_lines.in_blocks() if line.text.startswith("tidemark sql")], ids=str)
def test_a_documented_query_runs(
    line: command_lines.Line, scenario: Scenario, tell: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tell(scenario, *line.words()[1:])
