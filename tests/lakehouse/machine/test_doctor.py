"""What `doctor` finds good and bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.machine import doctor, jars

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_python_that_is_too_old_is_found() -> None:
    assert [doctor.check_python(found).ok for found in [(3, 10), (3, 11), (3, 14), (4, 0)]] == [False, True, True, True]


def test_a_good_finding_asks_for_nothing() -> None:
    assert doctor.check_python((3, 11)).next_step == ""


def test_a_missing_java_is_a_finding_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    found = doctor.check_java()
    assert (found.ok, found.observed) == (False, "/nowhere")
    assert "JAVA_HOME" in found.next_step


def test_a_package_must_be_there_in_the_expected_version() -> None:
    assert doctor.check_package("pyspark", "4.2").ok
    assert not doctor.check_package("pyspark", "3.5").ok
    assert doctor.check_package("no-such-package", "1").observed == "missing"


def test_a_version_is_compared_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda _: "4.20.0")
    assert not doctor.check_package("pyspark", "4.2").ok


def test_missing_jars_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path))
    found = doctor.check_jars("spark")
    assert (found.ok, found.observed.split()[0], found.next_step) == (False, "0", "tidemark jars fetch spark")
    assert found.expected == str(len(jars.pinned("spark")))


def test_a_cache_folder_that_is_yet_to_be_made_is_judged_by_the_one_above(tmp_path: Path) -> None:
    assert doctor.check_writable(tmp_path / "new" / "cache").ok
    assert doctor.check_disk(tmp_path / "new" / "cache").observed.endswith("GiB free")


def test_too_little_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "memory_bytes", lambda: 1024**3)
    found = doctor.check_memory()
    assert (found.ok, found.observed) == (False, "1.0 GiB")


def test_a_diagnosis_names_everything_once() -> None:
    names = [finding.name for finding in doctor.diagnose()]
    assert len(names) == len(set(names))
    assert {"Python", "Java", "pyspark", "spark jars", "broker jars", "memory", "disk", "cache folder"} <= set(names)


def test_the_jars_for_a_store_are_missed_where_tables_are_in_it_and_otherwise_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path))
    without, needed = ({finding.name: finding for finding in doctor.diagnose(store=store)} for store in (None, "s3"))
    assert {"s3 jars", "azure jars"}.isdisjoint(without)
    assert "azure jars" not in needed
    assert (needed["s3 jars"].ok, needed["s3 jars"].next_step) == (False, "tidemark jars fetch s3")
