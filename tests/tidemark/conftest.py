"""What a person does: run a command, or ask the tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.table import Lakehouse
from tidemark.commands import main
from tidemark.readers.database import run_query

RunCommand = Callable[..., tuple[str, str]]


@pytest.fixture
def run_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    def run(*words: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert main([*words, "--config", str(tmp_path / "tidemark.yml")]) == code, words
        return capsys.readouterr()

    return run


def rows(root: Path | str | None, query: str) -> list[tuple[Any, ...]]:
    with run_query(Lakehouse(root=str(root)), query) as found:
        return list(found.rows)
