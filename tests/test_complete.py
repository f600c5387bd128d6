"""Lists that have to be complete: what is forgotten in one of them would be found by an operator."""

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from expectations import failing_rows
from expectations.evidence.facts import INVARIANTS
from lakehouse.contracts import silver, views
from lakehouse.contracts.bronze import FINGERPRINT
from lakehouse.contracts.gold import STREAM_HEALTH
from lakehouse.delta import maintenance as table_maintenance
from lakehouse.extract import columns, debezium, json_strictness
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from lakehouse.settings.extractor import SourceForm
from lakehouse.settings.gate import MEASURES
from lakehouse.settings.policies import LATE_OUTCOMES, Late, Policies, TopicPolicies
from lakehouse.table import TABLE_NAMES, Lakehouse
from pipelines import maintenance
from pipelines.operate import erasure
from silver.decide import kernel
from silver.extract import one_record
from silver.load import planner
from silver.model import SEGMENT
from silver.rules import Reading, Rules
from silver.state import ledger
from silver.state.watermarks import Watermarks
from silver.suspects import compare
from tests.conftest import Events
from tests.support import kept
from tidemark.commands import commands
from tidemark.readers import why

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "tidemark" / "extras" / "report"


def test_every_class_is_counted_and_explained() -> None:
    # A replay has the class that its first copy has.
    assert set(silver.CLASSES) - {silver.REPLAY} == set(why.RULES) - {why.UNDECIDED}
    assert set(silver.CLASSES) <= set(silver.LOADS.names)
    assert set(silver.CLASSES) <= set(STREAM_HEALTH.names)
    assert all(f"summed.{name}" in views.queries()[views.WATERMARK_STATUS] for name in silver.CLASSES)
    assert set(silver.QUARANTINED) < set(silver.CLASSES)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("tables.md", [f"\n| `{name}` |" for name in TABLE_NAMES]),
        ("configuration.md", [f"`{name}`" for name in MEASURES] + [f"`policies.{name}`" for name in Policies.model_fields]),
        ("rule.md", [f"\n| `{name}` |" for name in silver.CLASSES]),
        ("queries.md", [f"\n| `{name}` |" for name in views.READ_BY]),
        ("runbook.md", [f"`{name}`" for name in (*silver.VALUE_REASONS, *INVARIANTS)]),
        ("runbook.md", [f"`..._{problem}`" for problem in silver.PROBLEMS]),
    ],
)
def test_every_name_is_in_the_documents(name: str, texts: list[str]) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert [text for text in texts if text not in page] == []


def test_every_problem_of_an_extractor_is_explained() -> None:
    found = [item for module in (columns, json_strictness, debezium) for item in vars(module).items()]
    ours = [value for name, value in found if name.isupper() and name[0] != "_" and isinstance(value, str)]
    assert {each for each in ours if each.isidentifier() and each.islower()} - {FINGERPRINT} == {*silver.PROBLEMS}


def test_every_reason_that_skips_records_is_explained_and_has_its_rule() -> None:
    assert silver.SKIPPED.keys() <= silver.VALUE_REASONS.keys()
    assert {*silver.SKIPPED.values()} <= {each.name for each in fields(Reading)}


def test_every_invariant_can_be_shown() -> None:
    for name, invariant in INVARIANTS.items():
        assert name in failing_rows.RECORDS or invariant.shown, name


def test_a_topic_may_have_its_own_of_every_policy() -> None:
    assert set(TopicPolicies.model_fields) == set(Policies.model_fields) - {"topics"}


def test_every_table_is_described() -> None:
    contracts = {contract.name: contract for contract in kept.contracts()}
    assert set(contracts) == set(TABLE_NAMES)
    for name, contract in contracts.items():
        assert contract.grain, name
        assert all(column.comment for column in contract.columns), name


def test_every_view_reads_tables() -> None:
    assert {table for tables in views.READ_BY.values() for table in tables} <= set(TABLE_NAMES)


def test_every_class_is_decided_and_has_a_place_in_the_dashboard_and_the_report() -> None:
    told = [*vars(kernel).values(), *vars(compare).values()]  # suspects are left to the comparison
    dashboard = json.loads((ROOT / "resources" / "streams.lvdash.json").read_text(encoding="utf-8"))
    queries = ["".join(each["queryLines"]) for each in dashboard["datasets"]]
    style = (REPORT / "assets" / "report.css").read_text(encoding="utf-8")
    for name in silver.CLASSES:
        assert name in told, name
        assert f".{name} {{ background: var(--c-{name}); }}" in style, name
    assert any(f"FOR class IN ({', '.join(silver.CLASSES)})" in query for query in queries)


def test_every_form_of_an_extractor_is_read_by_why_too() -> None:
    given: dict[SourceForm, str] = {"header": "h", "value": "", "json": "$", "prefixed_json": "$", "bytes": "0:1", "offset": ""}
    # An operator's code, and Avro, which only Spark reads; `tests/lakehouse/extract/test_debezium.py` has change events.
    assert set(given) == set(get_args(SourceForm)) - {"custom", "field", "debezium", "debezium_epoch"}
    record = {"topic": "t", "value": b"7", "headers": [{"key": "h", "value": b"7"}], "offset": 7}
    prefixed = record | {"value": b"\0\0\0\0\x017"}
    read = {
        form: one_record.key(Rules(Source(form, argument)), prefixed if form == "prefixed_json" else record)[2]
        for form, argument in given.items()
    }
    assert read == dict.fromkeys(given, 7)


def outcome(policy: Late, *, contiguous: bool) -> tuple[int, list[str]]:
    rules = Rules(Source("header", "seq"), late=policy, contiguous=contiguous)
    late = {"topic": "t", "partition": 0, "epoch": 0, "class": silver.LATE, "records": 1}
    spans = [{"first_offset": n, "last_offset": n, "first_sequence": n, "last_sequence": n} for n in (1, 2)]
    found = pa.Table.from_pylist([{**late, **span} for span in spans], SEGMENT)
    records, out = planner.late_places(found, rules).num_rows, planner.rejects_of(found, 1, rules)
    [row] = ledger.rows(ledger.stream_loads(found, pa.table({}), {}, Watermarks({})), Watermarks({}), {}, rules)
    assert records + sum(out["records"].to_pylist()) == 2, policy
    assert row["late_accepted"] == records, policy
    return records, out["state"].to_pylist()


def test_every_policy_for_late_records_has_an_outcome_that_the_ledger_counts() -> None:
    outcomes = {"held": (0, ["held"] * 2), "kept": (2, []), "discarded": (0, ["discarded"] * 2)}
    for policy in get_args(Late):
        for is_contiguous in (False, True):
            assert outcome(policy, contiguous=is_contiguous) == outcomes[LATE_OUTCOMES[policy]], policy


def test_every_column_of_the_ledger_is_written() -> None:
    rules = Rules(Source("header", "seq"))
    loads: dict[silver.Stream, ledger.StreamLoad] = {("t", 0, None): ledger.StreamLoad(None)}
    claim = ledger.shared_columns(Run("tests", Lakehouse(root="/"), Events()), rules, (0, 1), load_seq=1)
    [row] = ledger.rows(loads, Watermarks({}), claim, rules)
    assert set(row) == set(silver.LOADS.names)
    claimed = row | dict.fromkeys(row.keys() - claim.keys(), 7)
    assert ledger.rows(loads, Watermarks({}), claimed, rules) == [row]


def test_every_module_of_commands_is_part_of_the_command_line() -> None:
    source = inspect.getsource(commands)
    for path in (ROOT / "tidemark" / "commands").glob("[a-z]*.py"):
        assert path.stem == "commands" or f"from tidemark.commands.{path.stem} import" in source, path.stem


def test_every_chart_has_data_and_a_place_on_the_page() -> None:
    drawn = re.findall(r'^ {8}"(\w+)": _\w+\(\),$', (REPORT / "charts.py").read_text(encoding="utf-8"), re.MULTILINE)
    script = (REPORT / "assets" / "report.js").read_text(encoding="utf-8")
    draws = script.partition("const draws = {")[2].partition("\n  };")[0]
    placed = re.findall(r'chart\("(\w+)"', (REPORT / "assets" / "report.html.j2").read_text(encoding="utf-8"))
    assert drawn
    assert sorted(drawn) == sorted(placed) == sorted(re.findall(r"^ {4}(\w+): \(", draws, re.MULTILINE))


def test_every_step_of_maintenance_is_taken() -> None:
    callers = inspect.getsource(maintenance) + inspect.getsource(erasure) + inspect.getsource(table_maintenance)
    for name, value in vars(table_maintenance).items():
        if inspect.isfunction(value) and value.__module__ == table_maintenance.__name__ and not name.startswith("_"):
            assert re.search(rf"(?<!def )\b{name}\(", callers), name
