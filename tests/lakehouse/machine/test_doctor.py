"""Which Java is taken, and what `doctor` finds good and bad."""

from pathlib import Path

import pytest

from lakehouse.errors import ToolError
from lakehouse.machine import doctor, jars
from lakehouse.machine.java import java_executable, java_version
from tests.lakehouse.machine.test_jars import java_of


def test_java_home_goes_before_the_path_and_has_to_hold_a_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = java_of(tmp_path / "home", "echo 'openjdk version \"21.0.4\"' >&2")
    java_of(tmp_path / "stub", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "stub" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert (java_executable(), java_version()) == (java, 21)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "stub"))  # as macOS has it: it only says where to get one
    with pytest.raises(ToolError, match="Unable to locate"):
        java_version()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ToolError, match="JAVA_HOME"):
        java_executable()
    found = doctor.check_java()
    assert (found.ok, found.observed, "JAVA_HOME" in found.next_step) == (False, "/nowhere", True)


def test_python_and_packages_must_be_there_in_the_expected_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [doctor.check_python(found).ok for found in [(3, 10), (3, 11), (3, 14), (4, 0)]] == [False, True, True, True]
    assert doctor.check_python((3, 11)).next_step == "", "a good finding asks for nothing"
    assert [doctor.check_package("pyspark", expected).ok for expected in ("4.2", "3.5")] == [True, False]
    assert doctor.check_package("no-such-package", "1").observed == "missing"
    monkeypatch.setattr(doctor, "version", lambda _: "4.20.0")
    assert not doctor.check_package("pyspark", "4.2").ok, "a version is compared part by part"


def test_what_is_missing_or_too_little_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path))
    found = doctor.check_jars("spark")
    assert (found.ok, found.observed.split()[0], found.next_step) == (False, "0", "tidemark jars fetch spark")
    assert found.expected == str(len(jars.pinned("spark")))
    with monkeypatch.context() as patched:
        patched.setattr(doctor, "memory_bytes", lambda: 1024**3)
        memory = doctor.check_memory()
    assert (memory.ok, memory.observed) == (False, "1.0 GiB")
    # A cache folder that is yet to be made is judged by the one above.
    assert doctor.check_writable(tmp_path / "new" / "cache").ok
    assert doctor.check_disk(tmp_path / "new" / "cache").observed.endswith("GiB free")

    names = [finding.name for finding in doctor.diagnose()]
    assert len(names) == len(set(names))
    assert {"Python", "Java", "pyspark", "spark jars", "broker jars", "memory", "disk", "cache folder"} <= set(names)
    assert {"s3 jars", "azure jars"}.isdisjoint(names)
    needed = {finding.name: finding for finding in doctor.diagnose(store="s3")}
    assert "azure jars" not in needed
    assert (needed["s3 jars"].ok, needed["s3 jars"].next_step) == (False, "tidemark jars fetch s3")
