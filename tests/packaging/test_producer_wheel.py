"""The producer kit as it is published: a wheel of its own, which needs the Kafka client and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.packaging.test_wheel import built, imported

if TYPE_CHECKING:
    import zipfile

ROOT = Path(__file__).parents[2]
KIT = ROOT / "producer"
PROJECT = tomllib.loads((KIT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = sorted((KIT / "tidemark_producer").glob("*.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return built(KIT, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_package_its_marker_of_types_and_the_licence(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {f"tidemark_producer/{path.name}" for path in MODULES} | {"tidemark_producer/py.typed"}
    (licence,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_it_needs_the_kafka_client_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    metadata = wheel.read(name).decode()
    assert re.findall(r"(?m)^Requires-Dist: (.+)$", metadata) == PROJECT["dependencies"] == ["confluent-kafka>=2.6"]
    assert "Requires-Python: >=3.11" in metadata
    standard = sys.stdlib_module_names
    assert {name for path in MODULES for name in imported(path) if name not in standard} == {
        "confluent_kafka",
        "tidemark_producer",
    }


def test_it_is_imported_outside_the_repository_without_anything_of_ours(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    program = (
        "import sys, tidemark_producer\n"
        "assert tidemark_producer.__file__.startswith(sys.argv[1]), tidemark_producer.__file__\n"
        "assert all(hasattr(tidemark_producer, name) for name in tidemark_producer.__all__)\n"
        "print(sorted({'pyspark', 'lakehouse', 'tidemark', 'duckdb', 'pyarrow'} & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "site")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr


def test_it_has_the_version_of_the_lakehouse() -> None:
    versions = [
        re.findall(r'(?m)^__version__ = "(.+)"$', (ROOT / path).read_text(encoding="utf-8"))
        for path in ("lakehouse/__init__.py", "producer/tidemark_producer/__init__.py")
    ]
    assert versions[0] == versions[1]
