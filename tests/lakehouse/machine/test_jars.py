"""The jar cache. The `java` of these tests is a script that fails, or delivers, in one chosen way."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from bronze.dev_broker.process import launch
from lakehouse.errors import ToolError, UsageError
from lakehouse.machine import jars
from lakehouse.spark.session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable

DELIVER = """\
while [ "$1" != -retrieve ]; do shift; done
folder=$(dirname "$2"); mkdir -p "$folder"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "jars"))
    monkeypatch.delenv("TIDEMARK_IVY_SETTINGS", raising=False)
    return jars.cache_dir()


@pytest.fixture
def java_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def install(script: str) -> None:
        java = tmp_path / "java_home" / "bin" / "java"
        java.parent.mkdir(parents=True, exist_ok=True)
        java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java_home"))

    return install


@pytest.fixture
def lock_of_one_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = tmp_path / "one.sha256"
    sums.write_text(f"{hashlib.sha256(b'good').hexdigest()}  spark/one-1.jar\n", encoding="utf-8")
    monkeypatch.setattr(jars, "CHECKSUM_FILE", sums)


def test_the_cache_of_a_lock_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TIDEMARK_JARS", raising=False)
    assert jars.cache_dir().parent == Path("/somewhere/.cache/tidemark")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert jars.cache_dir().parent == Path("/caches/tidemark")
    monkeypatch.setenv("TIDEMARK_JARS", "/jars")
    before = jars.cache_dir()
    (tmp_path / "other.xml").write_text("<ivy-module/>", encoding="utf-8")
    monkeypatch.setattr(jars, "LOCK_FILE", tmp_path / "other.xml")
    assert jars.cache_dir().parent == before.parent == Path("/jars")
    assert jars.cache_dir() != before


def dependencies() -> list[ET.Element]:
    """What the lock names."""
    return list(ET.parse(jars.LOCK_FILE).iter("dependency"))  # noqa: S314 -- our own file


def test_lock_and_checksums_name_the_same_jars_and_nothing_brings_modules_of_its_own() -> None:
    for conf in jars.CONFIGURATIONS:
        of_conf = [each for each in dependencies() if each.get("conf") == f"{conf}->master"]
        assert {f"{each.get('name')}-{each.get('rev')}.jar" for each in of_conf} == set(jars.pinned(conf))
    assert [each.attrib for each in dependencies() if not str(each.get("conf")).endswith("->master")] == []
    assert [(each.get("name"), part.tag) for each in dependencies() for part in each] == [("gcs-connector", "artifact")]


def test_no_jvm_is_started_from_a_jar_that_was_changed(
    cache: Path, java_that: Callable[[str], None], lock_of_one_jar: None
) -> None:
    java_that("exit 1")
    jar = put(cache, b"good")
    assert jars.fetch("spark") == cache, "jars that are there are used without Java or network"
    assert jars.spark_jars() == [jar]
    java_that(DELIVER + 'printf good > "$folder/one-1.jar"')
    before = jar.stat()
    jar.write_bytes(b"evil")
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))  # size and time tell nothing
    with pytest.raises(ToolError, match=f"one-1.jar has SHA-256 {hashlib.sha256(b'evil').hexdigest()}"):
        jars.spark_jars()
    assert jar.read_bytes() == b"evil"  # kept, for whoever wants to know what it is
    jars.fetch("spark")
    assert jars.spark_jars() == [jar]
    assert jar.read_bytes() == b"good"


def test_neither_a_session_nor_a_broker_starts_from_a_changed_jar(
    cache: Path, java_that: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = tmp_path / "both.sha256"
    pins = [f"{hashlib.sha256(b'good').hexdigest()}  {conf}/one-1.jar\n" for conf in ("spark", "broker")]
    sums.write_text("".join(pins), encoding="utf-8")
    monkeypatch.setattr(jars, "CHECKSUM_FILE", sums)
    java_that(f"touch {tmp_path / 'started'}")
    for conf, start in (("spark", lambda: open_session("x")), ("broker", lambda: launch(tmp_path / "broker", 9092))):
        put(jars.cache_dir(), b"evil", conf)
        with pytest.raises(ToolError, match="No JVM was started from it"):
            start()
    assert not (tmp_path / "started").exists()


def put(cache: Path, content: bytes, conf: str = "spark") -> Path:
    """The one jar of the lock, with some content."""
    jar = cache / conf / "one-1.jar"
    jar.parent.mkdir(parents=True, exist_ok=True)
    jar.write_bytes(content)
    return jar


@pytest.mark.usefixtures("lock_of_one_jar")
def test_a_cache_that_lost_a_jar_is_fetched_again_and_holds_nothing_else(cache: Path, java_that: Callable[[str], None]) -> None:
    (cache / "spark").mkdir(parents=True)
    (cache / "spark" / "left-over.jar").touch()
    java_that(DELIVER + 'printf good > "$folder/one-1.jar"')
    assert jars.spark_jars() == [cache / "spark" / "one-1.jar"]
    assert [path.name for path in cache.rglob("*") if path.name != ".lock"] == ["spark", "one-1.jar"]


@pytest.mark.usefixtures("lock_of_one_jar")
@pytest.mark.parametrize(
    ("delivery", "told"),
    [
        ('printf bad > "$folder/one-1.jar"', "one-1.jar has SHA-256"),
        ('printf good > "$folder/one-2.jar"', "one-1.jar is missing; one-2.jar is not in the lock"),
    ],
)
def test_jars_that_differ_from_the_lock_are_not_kept(
    cache: Path, java_that: Callable[[str], None], delivery: str, told: str
) -> None:
    java_that(DELIVER + delivery)
    with pytest.raises(ToolError, match=told):
        jars.fetch("spark")
    assert not (cache / "spark").exists()


def test_a_failed_fetch_tells_of_mirrors_and_keeps_their_password(cache: Path, java_that: Callable[[str], None]) -> None:
    java_that("echo 'module not found: https://someone:secret@mirror.example/a.jar'; exit 1")
    with pytest.raises(ToolError, match="TIDEMARK_IVY_SETTINGS") as caught:
        jars.fetch("spark")
    assert "mirror.example/a.jar" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert not (cache / "spark").exists()


def test_a_mirror_is_passed_on_and_must_exist(
    cache: Path, java_that: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = cache.parent.parent / "mirror.xml"
    settings.touch()
    monkeypatch.setenv("TIDEMARK_IVY_SETTINGS", str(settings))
    java_that('echo "error: $*"; exit 1')
    with pytest.raises(ToolError, match=f"-settings {settings}"):
        jars.fetch("spark")
    monkeypatch.setenv("TIDEMARK_IVY_SETTINGS", "/nowhere/mirror.xml")
    with pytest.raises(ToolError, match="TIDEMARK_IVY_SETTINGS"):
        jars.fetch("spark")


@pytest.mark.usefixtures("cache")
def test_what_a_fetch_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="spark, broker, s3"):
        jars.fetch("flink")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="apt install openjdk"):
        jars.fetch("spark")
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "file"))
    with pytest.raises(ToolError, match="TIDEMARK_JARS"):
        jars.fetch("spark")
