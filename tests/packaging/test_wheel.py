"""What is published: the wheels of Tidemark and of the producer kit, built offline."""

import ast
import re
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

import lakehouse
from tests.support.wheels import ROOT, built, ended, installed
from tidemark.own_packages import PACKAGES as BESIDE_TIDEMARK

PACKAGES = {*BESIDE_TIDEMARK, "tidemark"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPTS = PROJECT["scripts"]
# py4j is pyspark's; urllib3 comes beneath requests, pydantic_core beneath pydantic, in the versions that those need.
BROUGHT_ALONG = {"markupsafe", "py4j", "urllib3", "pydantic-core"}
KIT = ROOT / "producer"
MODULES_OF_THE_KIT = sorted((KIT / "tidemark_producer").glob("*.py"))

# What the platform's own wrapper of a wheel task does, once for each job.
TASKS = """
import sys
from importlib import metadata
from lakehouse.errors import ConfigError, UsageError

folder, *names = sys.argv[1:]
for name in names:
    (entry,) = [each for each in metadata.distribution("tidemark-lakehouse").entry_points if each.name == name]
    assert sys.modules[entry.load().__module__].__file__.startswith(folder)
    if name == "tidemark":
        continue
    sys.argv = ["python", "--help"]
    assert entry.load()() is None
    for flag, expected in (("--config=none.yml", ConfigError), ("--colour", UsageError)):
        sys.argv = ["python", flag]
        try:
            entry.load()()
        except expected as error:
            print(name, "raised", error.exit_code)
assert all(module.__file__.startswith(folder) for name, module in sys.modules.items() if name.partition(".")[0] == "jobs")
"""
KIT_IS_ALONE = """
import sys, tidemark_producer
assert tidemark_producer.__file__.startswith(sys.argv[1]), tidemark_producer.__file__
assert all(hasattr(tidemark_producer, name) for name in tidemark_producer.__all__)
print(sorted({'pyspark', 'lakehouse', 'tidemark', 'duckdb', 'pyarrow'} & set(sys.modules)))
"""


def imported(module: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}


def test_the_wheel_holds_every_file_of_the_packages_the_licence_and_the_commands() -> None:
    wheel = zipfile.ZipFile(built())
    ours = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name} == ours
    (licence,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
    (entries,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert {f"{script} = {target}" for script, target in SCRIPTS.items()} <= {*wheel.read(entries).decode().splitlines()}


def test_what_is_imported_is_declared_and_no_other_distribution_has_our_names() -> None:
    shipped_by = packages_distributions()
    assert {name: set(shipped_by.get(name, [])) - {PROJECT["name"]} for name in PACKAGES} == {name: set() for name in PACKAGES}
    names = set().union(*(imported(module) for package in PACKAGES for module in (ROOT / package).rglob("*.py")))
    # The connector for SQL warehouses is asked for where it is installed. The name that it shares is a tool's of ours here.
    distributions = {name for each in names - PACKAGES - {"databricks"} for name in shipped_by.get(each, [])}
    declared = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    # Of what shares the name `google`, ours is protobuf.
    normal = {name.lower().replace("_", "-") for name in distributions} - {"googleapis-common-protos"}
    assert normal - {re.split(r"[\[<>=!~; ]", each)[0] for each in declared} == BROUGHT_ALONG


def test_a_job_in_a_wheel_task_returns_or_raises_and_never_exits(tmp_path: Path) -> None:
    done = ended(sys.executable, "-c", TASKS, str(installed()), *SCRIPTS, folder=tmp_path, path=installed())
    assert done.returncode == 0, done.stderr
    jobs = [name for name in SCRIPTS if name != "tidemark"]
    assert [line for line in done.stdout.splitlines() if " raised " in line] == [
        f"{name} raised 2" for name in jobs for _ in range(2)
    ]


@pytest.mark.parametrize("command", [["tidemark", "status"], ["tidemark-load-silver"]], ids=lambda command: command[0])
def test_a_script_among_foreign_packages_ends_with_the_code_of_its_error(tmp_path: Path, command: list[str]) -> None:
    for foreign in ("jobs", "bronze", "lakehouse"):
        (tmp_path / foreign).mkdir()
        (tmp_path / foreign / "__init__.py").write_text("raise SystemExit('a foreign package')", encoding="utf-8")
    script, *words = command
    done = ended(str(installed() / "bin" / script), *words, "--config", "none.yml", folder=tmp_path, path=installed())
    assert (done.returncode, done.stdout) == (2, "")
    assert "none.yml" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_kits_wheel_holds_its_package_and_needs_the_kafka_client_alone(tmp_path: Path) -> None:
    wheel = zipfile.ZipFile(built(KIT))
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {f"tidemark_producer/{path.name}" for path in MODULES_OF_THE_KIT} | {"tidemark_producer/py.typed"}
    (licence,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
    (metadata,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("METADATA"))
    declared = tomllib.loads((KIT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert re.findall(r"(?m)^Requires-Dist: (.+)$", metadata) == declared == ["confluent-kafka>=2.6"]
    assert {f"Version: {lakehouse.__version__}", "Requires-Python: >=3.11"} <= {*metadata.splitlines()}
    needed = {name for path in MODULES_OF_THE_KIT for name in imported(path)} - sys.stdlib_module_names
    assert needed == {"confluent_kafka", "tidemark_producer"}

    wheel.extractall(tmp_path / "site")
    done = ended(sys.executable, "-c", KIT_IS_ALONE, str(tmp_path / "site"), folder=tmp_path, path=tmp_path / "site")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
