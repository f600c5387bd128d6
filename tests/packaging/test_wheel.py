"""What is published: the wheel, built offline."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"bronze", "expectations", "gold", "jobs", "lakehouse", "pipelines", "silver", "tidemark"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPTS = PROJECT["scripts"]
# py4j is pyspark's; urllib3 comes beneath requests, pydantic_core beneath pydantic, in the versions that those need.
BROUGHT_ALONG = {"py4j", "urllib3", "pydantic-core"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def built(project: Path, folder: Path) -> zipfile.ZipFile:
    """The wheel of a project, made into a folder."""
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_the_wheel_holds_exactly_the_packages_and_its_metadata(wheel: zipfile.ZipFile) -> None:
    folders = {name.split("/")[0] for name in wheel.namelist()}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == PACKAGES


def test_every_module_of_the_packages_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    modules = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert modules <= set(wheel.namelist())


PARTS = (
    "lakehouse/machine/jvm.xml",
    "lakehouse/machine/jvm.sha256",
    "jobs/report/assets/report.html.j2",
    "jobs/report/assets/report.css",
    "jobs/report/assets/report.js",
    "tidemark/py.typed",
)


@pytest.mark.parametrize("name", PARTS)
def test_what_is_no_module_is_in_the_wheel_too(wheel: zipfile.ZipFile, name: str) -> None:
    assert wheel.read(name) == (ROOT / name).read_bytes()


def test_the_licence_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    assert [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]


def test_the_wheel_lists_every_command(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    listed = wheel.read(name).decode()
    assert [f"{script} = {target}" for script, target in SCRIPTS.items() if f"{script} = {target}" not in listed] == []


def test_every_command_can_be_imported_from_the_wheel_outside_the_repository(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    program = (
        "import importlib, sys\n"
        "for target in sys.argv[2:]:\n"
        "    module, function = target.split(':')\n"
        "    found = importlib.import_module(module)\n"
        "    assert found.__file__.startswith(sys.argv[1]), found.__file__\n"
        "    assert callable(getattr(found, function))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "site"), *SCRIPTS.values()]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_no_other_installed_distribution_ships_one_of_our_package_names() -> None:
    shipped_by = packages_distributions()
    assert {name: set(shipped_by.get(name, [])) - {PROJECT["name"]} for name in PACKAGES} == {name: set() for name in PACKAGES}


def imported(module: Path) -> set[str]:
    """The top-level names that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_every_distribution_that_is_imported_is_declared() -> None:
    names = set().union(*(imported(module) for package in PACKAGES for module in (ROOT / package).rglob("*.py")))
    shipped_by = packages_distributions()
    # The connector for SQL warehouses is asked for where it is installed. The name that it shares is a tool's of ours here.
    distributions = {name for each in names - PACKAGES - {"databricks"} for name in shipped_by.get(each, [])}
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["local"]]
    # Of what shares the name `google`, ours is protobuf.
    normal = {name.lower().replace("_", "-") for name in distributions} - {"googleapis-common-protos"}
    assert normal - {re.split(r"[\[<>=!~; ]", each)[0] for each in declared} == BROUGHT_ALONG


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel was installed into, its scripts too."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, str(wheel.filename)], check=True, capture_output=True)
    return folder


def ended(installed: Path, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, which is on the path before what is installed; by default in one where nothing is."""
    folder = folder or installed.parent
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{installed}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)


JOBS = [name for name in SCRIPTS if name != "tidemark"]

# What the platform's own wrapper of a wheel task does, once for each job.
TASKS = """
import sys
from importlib import metadata
from lakehouse.errors import ConfigError

for name in sys.argv[1:]:
    (entry,) = [each for each in metadata.distribution("tidemark-lakehouse").entry_points if each.name == name]
    sys.argv = ["python", "--help"]
    assert entry.load()() is None
    sys.argv = ["python", "--config=none.yml"]
    try:
        entry.load()()
    except ConfigError as error:
        print(name, "raised", error.exit_code)
"""


@pytest.mark.parametrize("name", JOBS)
def test_a_job_in_a_shell_ends_with_the_exit_code_of_its_error_and_no_traceback(installed: Path, name: str) -> None:
    done = ended(installed, str(installed / "bin" / name), "--config", "none.yml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "none.yml" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_in_a_wheel_task_returns_or_raises_and_never_exits(installed: Path) -> None:
    done = ended(installed, sys.executable, "-c", TASKS, *JOBS)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if " raised " in line] == [f"{name} raised 2" for name in JOBS]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_command_runs_where_folder_and_path_hold_packages_of_the_same_names(
    installed: Path, tmp_path: Path, name: str
) -> None:
    for foreign in ("jobs", "bronze", "lakehouse"):
        (tmp_path / foreign).mkdir()
        (tmp_path / foreign / "__init__.py").write_text("raise SystemExit('a foreign package')", encoding="utf-8")
    done = ended(installed, str(installed / "bin" / name), "--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:" in done.stdout
