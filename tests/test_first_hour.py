"""The tutorial: every command of it is run, in its order, and prints what the page shows."""

import contextlib
import io
import shlex
from pathlib import Path

import pytest

from tests import first_hour
from tidemark.commands import main


def in_this_process(command: str, folder: Path) -> tuple[int, str]:
    program, *arguments = shlex.split(command)
    if program != "tidemark":
        return first_hour.in_a_process(command, folder)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main(arguments)
    return code, printed.getvalue()


def test_what_a_command_must_print_is_what_the_page_shows() -> None:
    pairs = list(zip(first_hour.steps(), first_hour.SAYS, strict=True))
    assert [text for step, says in pairs for text in says if step["shown"] and text not in step["text"]] == []


@pytest.mark.kafka
@pytest.mark.usefixtures("spark")
def test_the_first_hour_goes_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with first_hour.own_broker(tmp_path) as port:
        played = [command for command, _ in first_hour.play(tmp_path, port, in_this_process)]
    assert len(played) == len(first_hour.SAYS)
