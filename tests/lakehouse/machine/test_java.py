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


def test_java_home_goes_before_the_path_and_has_to_hold_a_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = install(tmp_path / "home", "echo 'openjdk version \"21.0.4\"' >&2")
    install(tmp_path / "stub", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "stub" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert (java_executable(), java_version()) == (java, 21)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "stub"))  # as macOS has it: it only says where to get one
    with pytest.raises(ToolError, match="Unable to locate"):
        java_version()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ToolError, match="JAVA_HOME") as caught:
        java_executable()
    assert caught.value.observed == "/nowhere"
