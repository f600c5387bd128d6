"""The jar of our own, compiled from its sources."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from lakehouse.errors import ToolError
from lakehouse.machine import jars, storage_jar

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, with Spark's jars: another process may start a session from the shared one."""
    spark = jars.spark_jars()[0].parent
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "jars"))
    jars.cache_dir().mkdir(parents=True)
    (jars.cache_dir() / "spark").symlink_to(spark)


def test_what_is_compiled_is_what_is_pinned_and_a_changed_jar_is_replaced() -> None:
    jar = storage_jar.storage_jar()
    made = jar.read_bytes()
    assert hashlib.sha256(made).hexdigest() == storage_jar.SHA256

    jar.write_bytes(b"forged")
    assert storage_jar.storage_jar().read_bytes() == made


def test_whoever_may_read_other_files_can_read_it_and_what_stands_in_its_way_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    jar = storage_jar.storage_jar()
    assert jar.stat().st_mode == other.stat().st_mode

    jar.unlink()
    jar.mkdir()
    with pytest.raises(ToolError, match="cannot be written"):
        storage_jar.storage_jar()


def test_a_changed_source_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = storage_jar.storage_jar()
    originals, source = storage_jar.SOURCES, tmp_path / "ConditionalPut.java"
    text = originals[0].read_text(encoding="utf-8").replace("builder.must(ONLY_IF_ABSENT, true);", "")
    source.write_text(text, encoding="utf-8")
    monkeypatch.setattr(storage_jar, "SOURCES", (source, *originals[1:]))
    assert storage_jar.storage_jar() == jar  # what is in the cache is what is pinned

    jar.unlink()
    with pytest.raises(ToolError, match="not the one that is pinned"):
        storage_jar.storage_jar()
    monkeypatch.setattr(storage_jar, "SOURCES", originals)
    assert storage_jar.storage_jar().is_file()


def test_a_source_that_does_not_compile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "ConditionalPut.java"
    source.write_text("class ConditionalPut { nothing }", encoding="utf-8")
    monkeypatch.setattr(storage_jar, "SOURCES", (source,))
    with pytest.raises(ToolError, match="does not compile"):
        storage_jar.compiled()
