"""The archive of classes: made by a JVM that ends, used by the next, kept for one Java and one set of jars."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lakehouse.errors import ToolError
from lakehouse.machine import class_archive
from lakehouse.machine.java import java_executable
from lakehouse.spark import session

if TYPE_CHECKING:
    from pathlib import Path

# A JVM of Spark's scripts takes its options from there too.
JVM = ["/bin/sh", "-c", 'exec "$0" $SPARK_SUBMIT_OPTS -version', str(java_executable())]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Python environment that has no archive."""
    monkeypatch.setattr(class_archive, "_FOLDER", tmp_path)
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    return tmp_path


@pytest.mark.usefixtures("environment")
def test_the_next_jvm_loads_its_classes_from_the_archive() -> None:
    assert class_archive.jvm_options() == ()
    made = class_archive.make(JVM)

    options = class_archive.jvm_options()
    said = subprocess.run([java_executable(), *options, "-Xshare:on", "-version"], capture_output=True, text=True, check=True)

    assert options[0] == f"-XX:SharedArchiveFile={made}"
    assert "sharing" in said.stderr  # how a JVM names that it runs from archives


@pytest.mark.usefixtures("environment")
def test_a_session_starts_from_it_once_it_is_there() -> None:
    def options() -> str:
        return session._local("error")["spark.driver.extraJavaOptions"]

    assert "SharedArchiveFile" not in options()
    assert f"-XX:SharedArchiveFile={class_archive.make(JVM)}" in options()


def test_that_of_a_former_java_is_removed_and_nothing_else_is_left(environment: Path) -> None:
    (environment / "classes-0123456789ab.jsa").write_bytes(b"of a former one")
    assert list(environment.iterdir()) != [class_archive.make(JVM)]
    assert [file.name for file in environment.iterdir()] == [class_archive.archive_file().name]


def test_one_that_is_broken_costs_a_session_nothing_but_time(environment: Path) -> None:
    class_archive.make(JVM)
    class_archive.archive_file().chmod(0o600)
    class_archive.archive_file().write_bytes(b"no archive")
    said = subprocess.run(
        [java_executable(), *class_archive.jvm_options(), "-version"], capture_output=True, text=True, check=True
    )
    assert "no archive" not in said.stdout + said.stderr
    assert environment.exists()


@pytest.mark.parametrize(
    ("command", "observed"),
    [
        ([sys.executable, "-c", "raise SystemExit('no room')"], "no room"),
        ([sys.executable, "-c", ""], "exit code 0"),  # it started no JVM
        (["/no/such/program"], "No such file"),
    ],
)
def test_a_command_that_makes_none_is_an_error_and_leaves_nothing(environment: Path, command: list[str], observed: str) -> None:
    with pytest.raises(ToolError, match="was not made") as raised:
        class_archive.make(command)
    assert observed in str(raised.value)
    assert list(environment.iterdir()) == []
