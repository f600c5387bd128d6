"""Our packages are found beside `tidemark`, in processes that hold others of the same names."""

import sys
from pathlib import Path

import pytest

from tests.support.small_config import write_config
from tests.support.wheels import ROOT, ended

ASKED = """
import tidemark

print(tidemark.status("tidemark.yml").pipeline)
import bronze, jobs, silver
print(*(module.__file__ for module in (bronze, jobs, silver)))
"""
AFTER_A_FOREIGN_ONE = """
import jobs

try:
    import tidemark
except ImportError as error:
    print(type(error).__module__, type(error).__name__, error.name, error.path)
    raise SystemExit(str(error))
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    for name in ("jobs", "bronze"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("print('a foreign package')\n", encoding="utf-8")
    (tmp_path / "silver.py").write_text("print('a foreign module')\n", encoding="utf-8")
    (tmp_path / "tidemark").mkdir()  # tables, for example: a folder without a module in it is no package of this name
    write_config(tmp_path, root="tidemark")
    return tmp_path


def test_a_program_and_the_command_get_ours_in_a_folder_with_foreign_packages(foreign: Path) -> None:
    done = ended(sys.executable, "-c", ASKED, folder=foreign, path=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    pipeline, places = done.stdout.splitlines()
    assert pipeline == "tests"
    assert places.split() == [str(ROOT / name / "__init__.py") for name in ("bronze", "jobs", "silver")]
    done = ended(sys.executable, "-m", "tidemark", "status", folder=foreign, path=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Pipeline tests in ")


def test_a_name_that_is_taken_already_is_a_clear_error_unless_it_is_ours(foreign: Path, tmp_path: Path) -> None:
    done = ended(sys.executable, "-c", AFTER_A_FOREIGN_ONE, folder=foreign, path=ROOT)
    named = f"tidemark.own_packages ForeignPackageError jobs {foreign / 'jobs'}"
    assert done.stdout.splitlines() == ["a foreign package", named]
    assert f"where: '{foreign / 'jobs'}'" in done.stderr
    assert "Run Tidemark in a process of its own" in done.stderr
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    ours = "import jobs, silver.rules, tidemark; print(jobs.__file__)"
    done = ended(sys.executable, "-c", ours, folder=quiet, path=ROOT)
    assert (done.stdout.strip(), done.stderr) == (str(ROOT / "jobs" / "__init__.py"), "")
