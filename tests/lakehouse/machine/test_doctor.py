"""What `doctor` finds good and bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.machine import doctor, jars

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_python_and_packages_must_be_there_in_the_expected_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [doctor.check_python(found).ok for found in [(3, 10), (3, 11), (3, 14), (4, 0)]] == [False, True, True, True]
    assert doctor.check_python((3, 11)).next_step == "", "a good finding asks for nothing"
    assert [doctor.check_package("pyspark", expected).ok for expected in ("4.2", "3.5")] == [True, False]
    assert doctor.check_package("no-such-package", "1").observed == "missing"
    monkeypatch.setattr(doctor, "version", lambda _: "4.20.0")
    assert not doctor.check_package("pyspark", "4.2").ok, "a version is compared part by part"


def test_a_missing_java_missing_jars_and_too_little_memory_are_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    java = doctor.check_java()
    assert (java.ok, java.observed, "JAVA_HOME" in java.next_step) == (False, "/nowhere", True)
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path))
    found = doctor.check_jars("spark")
    assert (found.ok, found.observed.split()[0], found.next_step) == (False, "0", "tidemark jars fetch spark")
    assert found.expected == str(len(jars.pinned("spark")))
    monkeypatch.setattr(doctor, "memory_bytes", lambda: 1024**3)
    memory = doctor.check_memory()
    assert (memory.ok, memory.observed) == (False, "1.0 GiB")


def test_a_cache_folder_that_is_yet_to_be_made_is_judged_by_the_one_above(tmp_path: Path) -> None:
    assert doctor.check_writable(tmp_path / "new" / "cache").ok
    assert doctor.check_disk(tmp_path / "new" / "cache").observed.endswith("GiB free")


def test_a_diagnosis_names_everything_once_and_a_stores_jars_if_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path))
    names = [finding.name for finding in doctor.diagnose()]
    assert len(names) == len(set(names))
    assert {"Python", "Java", "pyspark", "spark jars", "broker jars", "memory", "disk", "cache folder"} <= set(names)
    assert {"s3 jars", "azure jars"}.isdisjoint(names)
    needed = {finding.name: finding for finding in doctor.diagnose(store="s3")}
    assert "azure jars" not in needed
    assert (needed["s3 jars"].ok, needed["s3 jars"].next_step) == (False, "tidemark jars fetch s3")
