"""Which Java is taken, and what is said of a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.errors import ToolError
from lakehouse.machine.java import java_executable, java_version

if TYPE_CHECKING:
    from pathlib import Path


def install(folder: Path, script: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = install(tmp_path / "home", "echo 'openjdk version \"21.0.4\"' >&2")
    install(tmp_path / "other", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "other" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java_executable() == java
    assert java_version() == 21


def test_a_java_home_that_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ToolError, match="JAVA_HOME") as caught:
        java_executable()
    assert caught.value.observed == "/nowhere"


def test_a_stub_that_only_advertises_java_is_not_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ToolError, match="Unable to locate"):
        java_version()
