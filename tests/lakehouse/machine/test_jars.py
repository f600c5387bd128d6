"""The jar cache, with a `java` that is a script which fails, or delivers, in one chosen way; our own jar; and the doctor."""

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lakehouse.errors import ToolError, UsageError
from lakehouse.machine import doctor, jars, storage_jar
from lakehouse.machine.java import java_executable, java_version
from lakehouse.spark.session import open_session
from tidemark.extras.demo.broker_process import launch

Java = Callable[[str], Path]

DELIVER = """\
while [ "$1" != -retrieve ]; do shift; done
folder=$(dirname "$2"); mkdir -p "$folder"
"""
GOOD = DELIVER + 'printf good > "$folder/one-1.jar"'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sums = tmp_path / "one.sha256"
    pins = [f"{hashlib.sha256(b'good').hexdigest()}  {conf}/one-1.jar\n" for conf in ("spark", "broker")]
    sums.write_text("".join(pins), encoding="utf-8")
    monkeypatch.setattr(jars, "CHECKSUM_FILE", sums)
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "jars"))
    monkeypatch.delenv("TIDEMARK_IVY_SETTINGS", raising=False)
    return jars.cache_dir()


def java_of(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.fixture
def java_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java_home"))
    return partial(java_of, tmp_path / "java_home")


def put(cache: Path, content: bytes, conf: str) -> Path:
    jar = cache / conf / "one-1.jar"
    jar.parent.mkdir(parents=True, exist_ok=True)
    jar.write_bytes(content)
    return jar


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


def test_lock_and_checksums_name_the_same_jars_and_nothing_brings_modules_of_its_own() -> None:
    named = list(ET.parse(jars.LOCK_FILE).iter("dependency"))  # noqa: S314 -- our own file
    for conf in jars.CONFIGURATIONS:
        of_conf = [each for each in named if each.get("conf") == f"{conf}->master"]
        assert {f"{each.get('name')}-{each.get('rev')}.jar" for each in of_conf} == set(jars.pinned(conf))
    assert [each.attrib for each in named if not str(each.get("conf")).endswith("->master")] == []
    assert [(each.get("name"), part.tag) for each in named for part in each] == [("gcs-connector", "artifact")]


def test_neither_a_session_nor_a_broker_starts_from_a_bad_jar(cache: Path, java_that: Java, tmp_path: Path) -> None:
    java_that("exit 1")
    jar, of_broker = put(cache, b"good", "spark"), put(cache, b"good", "broker")
    assert jars.fetch("spark") == cache, "jars that are there are used without Java or network"
    assert jars.spark_jars() == [jar]
    java_that(f"touch {tmp_path / 'started'}\n{GOOD}")
    for each, start in ((jar, lambda: open_session("x")), (of_broker, lambda: launch(tmp_path / "broker", 9092))):
        before = each.stat()
        each.write_bytes(b"evil")
        os.utime(each, ns=(before.st_atime_ns, before.st_mtime_ns))  # size and time tell nothing
        with pytest.raises(ToolError, match=f"(?s)No JVM was .*one-1.jar has SHA-256 {hashlib.sha256(b'evil').hexdigest()}"):
            start()
    assert not (tmp_path / "started").exists()
    assert jar.read_bytes() == b"evil"  # kept, for whoever wants to know what it is
    jars.fetch("spark")
    assert jars.spark_jars() == [jar]
    assert jar.read_bytes() == b"good"


def test_a_cache_that_lost_a_jar_is_fetched_again_and_holds_nothing_else(cache: Path, java_that: Java) -> None:
    (cache / "spark").mkdir(parents=True)
    (cache / "spark" / "left-over.jar").touch()
    java_that(GOOD)
    assert jars.spark_jars() == [cache / "spark" / "one-1.jar"]
    assert [path.name for path in cache.rglob("*") if path.name != ".lock"] == ["spark", "one-1.jar"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (DELIVER + 'printf bad > "$folder/one-1.jar"', "one-1.jar has SHA-256"),
        (DELIVER + 'printf good > "$folder/one-2.jar"', "one-1.jar is missing; one-2.jar is not in the lock"),
        ("echo 'module not found: https://someone:secret@mirror.example/a.jar'; exit 1", "mirror.example/a.jar"),
    ],
)
def test_a_fetch_that_fails_keeps_no_jar_and_names_mirrors(cache: Path, java_that: Java, script: str, said: str) -> None:
    java_that(script)
    with pytest.raises(ToolError, match="TIDEMARK_IVY_SETTINGS") as caught:
        jars.fetch("spark")
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert not (cache / "spark").exists()


def test_a_mirror_is_passed_on_and_what_a_fetch_lacks_is_named(
    cache: Path, java_that: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "mirror.xml"
    settings.touch()
    monkeypatch.setenv("TIDEMARK_IVY_SETTINGS", str(settings))
    java_that('echo "error: $*"; exit 1')
    with pytest.raises(ToolError, match=f"-settings {settings}"):
        jars.fetch("spark")
    with pytest.raises(UsageError, match="spark, broker, s3"):
        jars.fetch("flink")
    for name, value, said in (
        ("TIDEMARK_IVY_SETTINGS", "/nowhere/mirror.xml", "TIDEMARK_IVY_SETTINGS"),
        ("TIDEMARK_JARS", str(settings / "below a file"), "TIDEMARK_JARS"),
        ("JAVA_HOME", "", "apt install openjdk"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv("PATH", "/nowhere")
            patched.setenv(name, value)
            with pytest.raises(ToolError, match=said):
                jars.fetch("spark")


def test_only_the_pinned_jar_is_used_and_made_again_from_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A cache of the test's own, with Spark's jars: another process may start a session from the shared one.
    spark = jars.spark_jars()[0].parent
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "jars"))
    jars.cache_dir().mkdir(parents=True)
    (jars.cache_dir() / "spark").symlink_to(spark)

    jar = storage_jar.storage_jar()
    made = jar.read_bytes()
    assert hashlib.sha256(made).hexdigest() == storage_jar.SHA256
    (tmp_path / "other").touch()
    assert jar.stat().st_mode == (tmp_path / "other").stat().st_mode, "a user who can read other files can read it"

    originals, source = storage_jar.SOURCES, tmp_path / "LogStores.java"
    text = originals[0].read_text(encoding="utf-8").replace("builder.must(ONLY_IF_ABSENT, true);", "")
    monkeypatch.setattr(storage_jar, "SOURCES", (source, *originals[1:]))
    assert storage_jar.storage_jar() == jar, "the one in the cache is the pinned one"
    jar.write_bytes(b"forged")
    for content, said in ((text, "not the one that is pinned"), ("class ConditionalPut { nothing }", "does not compile")):
        source.write_text(content, encoding="utf-8")
        with pytest.raises(ToolError, match=said):
            storage_jar.storage_jar()

    monkeypatch.setattr(storage_jar, "SOURCES", originals)
    assert storage_jar.storage_jar().read_bytes() == made
    jar.unlink()
    jar.mkdir()
    with pytest.raises(ToolError, match="cannot be written"):
        storage_jar.storage_jar()


def test_java_home_goes_before_the_path_and_has_to_hold_a_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = java_of(tmp_path / "home", "echo 'openjdk version \"21.0.4\"' >&2")
    java_of(tmp_path / "stub", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "stub" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert (java_executable(), java_version()) == (java, 21)
    assert (java_of(tmp_path / "home", "echo 'java version \"1.8.0_392\"' >&2"), java_version()) == (java, 8)
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
