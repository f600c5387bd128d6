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


def test_only_the_pinned_jar_is_used_and_it_is_made_again_from_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = storage_jar.storage_jar()
    made = jar.read_bytes()
    assert hashlib.sha256(made).hexdigest() == storage_jar.SHA256
    (tmp_path / "other").touch()
    assert jar.stat().st_mode == (tmp_path / "other").stat().st_mode, "a user who can read other files can read it"

    originals, source = storage_jar.SOURCES, tmp_path / "ConditionalPut.java"
    text = originals[0].read_text(encoding="utf-8").replace("builder.must(ONLY_IF_ABSENT, true);", "")
    source.write_text(text, encoding="utf-8")
    monkeypatch.setattr(storage_jar, "SOURCES", (source, *originals[1:]))
    assert storage_jar.storage_jar() == jar, "the one in the cache is the pinned one"
    jar.write_bytes(b"forged")
    with pytest.raises(ToolError, match="not the one that is pinned"):
        storage_jar.storage_jar()

    monkeypatch.setattr(storage_jar, "SOURCES", originals)
    assert storage_jar.storage_jar().read_bytes() == made
    jar.unlink()
    jar.mkdir()
    with pytest.raises(ToolError, match="cannot be written"):
        storage_jar.storage_jar()


def test_a_source_that_does_not_compile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "ConditionalPut.java"
    source.write_text("class ConditionalPut { nothing }", encoding="utf-8")
    monkeypatch.setattr(storage_jar, "SOURCES", (source,))
    with pytest.raises(ToolError, match="does not compile"):
        storage_jar.compiled()
