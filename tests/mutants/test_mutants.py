"""The list of `make mutants` applies to the code as it is."""

from collections import Counter

import pytest

from tests.mutants.run import ROOT, Mutant, mutate, read_mutants

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: f"{each.file}: {each.fault}")
def test_each_fault_changes_its_file_and_names_tests_that_exist(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    compile(mutate(text, mutant), mutant.file, "exec")
    for argument in mutant.tests:
        name, _, test = argument.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / name).read_text(encoding="utf-8") if test else (ROOT / name).exists()


def test_the_core_has_enough_faults() -> None:
    folders = Counter("/".join(each.file.split("/")[:2]) for each in MUTANTS)
    assert sum(folders[name] for name in ("silver/decide", "silver/suspects", "silver/load")) >= 20
    assert folders["bronze/progress"] >= 10
    assert sum(count for name, count in folders.items() if name.startswith(("expectations/", "gold/"))) >= 10
    assert len(MUTANTS) >= 60
