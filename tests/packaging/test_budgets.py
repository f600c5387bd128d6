"""The size of each folder, of the documents, and of what a load imports. A budget is only ever lowered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.test_repository import PACKAGES, PROJECT, ROOT, committed

BUDGETS = {
    "lakehouse": 9_830,
    "bronze": 2_403,
    "silver": 5_679,
    "expectations": 1_978,
    "gold": 744,
    "pipelines": 3_003,
    "tidemark": 4_642,
    "tidemark/extras": 6_116,
    "jobs": 123,
    "producer": 1_421,
    "tests": 31_667,
    "bench": 4_465,
}
"""Lines of Python and Java; a folder's own row counts its lines, not that of the folder around it."""
WORDS, WORDS_OF_BENCHMARKS = 60_000, 1_500
DECISIONS, WORDS_OF_A_DECISION = 35, 250
DEPENDENCIES = 15
LOAD_MODULES, LOAD_LINES = 84, 10_851


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_folder_keeps_its_budget_of_lines(folder: str) -> None:
    files = [each for each in committed() if _row(each) == folder and each.suffix in (".py", ".java")]
    assert sum(each.read_bytes().count(b"\n") for each in files) <= BUDGETS[folder]


def _row(file: Path) -> str | None:
    name = file.relative_to(ROOT).as_posix()
    return max((each for each in BUDGETS if name.startswith(f"{each}/")), key=len, default=None)


def test_documents_decisions_and_required_dependencies_keep_their_budgets() -> None:
    words = {each: len(each.read_text(encoding="utf-8").split()) for each in (ROOT / "docs").rglob("*.md")}
    decisions = {each: count for each, count in words.items() if each.parent.name == "decisions" and each.name != "README.md"}
    assert sum(words.values()) <= WORDS
    assert words[ROOT / "docs/benchmarks.md"] <= WORDS_OF_BENCHMARKS
    assert len(decisions) <= DECISIONS
    assert {each.name: count for each, count in decisions.items() if count > WORDS_OF_A_DECISION} == {}
    assert len(PROJECT["project"]["dependencies"]) <= DEPENDENCIES


def test_a_load_imports_at_most_its_budget_of_our_modules() -> None:
    code = f"""
import sys
import silver.load.steps
own = [each for name, each in sys.modules.items() if name.partition(".")[0] in {PACKAGES!r}]
files = {{each.__file__ for each in own if getattr(each, "__file__", None)}}
print(len(files), sum(open(each, "rb").read().count(b"\\n") for each in files))
"""
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(found <= most for found, most in zip(map(int, printed.split()), (LOAD_MODULES, LOAD_LINES), strict=True))
