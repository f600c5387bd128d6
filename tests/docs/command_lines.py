"""The command lines of the documents: those in code blocks, and those in a line of text."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jobs.cli.commands import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SHELL = frozenset({"sh", "bash", "shell", "console"})
_FENCE = re.compile(r"(?ms)^ *```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^ *```$")
_SPAN = re.compile(r"`((?:tidemark|make)\s[^`]+)`")
_BEFORE = re.compile(r"^(?:[A-Z_]+=\S+ )+")
_STANDS_FOR = {
    "TOPIC": "payments",
    "PARTITION": "0",
    "OFFSET": "3",
    "LOAD": "1",
    "N": "1",
    "TEXT": "why",
    "FILE": "key",
    "NAME": "shop",
}


@dataclass(frozen=True)
class Line:
    """A command line of a document.

    Attributes:
        document: Its path in the repository.
        text: The line as it stands there, without its comment; one that goes on in the next line is one.
    """

    document: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}: {self.text}"

    @property
    def program(self) -> str:
        """What the line runs."""
        return _BEFORE.sub("", self.text).split()[0]

    def words(self, **stands_for: str) -> list[str]:
        """Return the words of the command, each name in capitals replaced by what it stands for."""
        meant = {**_STANDS_FOR, **stands_for}
        text = re.sub(rf"\b(?:{'|'.join(map(re.escape, meant))})\b", lambda found: meant[found[0]], self.text)
        return shlex.split(_BEFORE.sub("", text))


def documents() -> list[Path]:
    """Return what has command lines for a reader, changelog and decisions included."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def languages() -> dict[str, set[str]]:
    """Return the languages of each document's code blocks, by its path."""
    return {_name(file): {block["language"] for block in _FENCE.finditer(_text(file))} for file in documents()}


def in_blocks() -> list[Line]:
    """Return the command lines in the shell blocks of all documents, each once for each document."""
    return list(dict.fromkeys(line for file in documents() for line in _blocks(file)))


def in_text() -> list[Line]:
    """Return the command lines that stand in the text of all documents as code."""
    found = ((file, span) for file in documents() for span in _SPAN.findall(_FENCE.sub("", _text(file))))
    return list(dict.fromkeys(Line(_name(file), " ".join(span.replace("\\|", "|").split())) for file, span in found))


def _blocks(file: Path) -> Iterator[Line]:
    for block in _FENCE.finditer(_text(file)):
        if block["language"] in SHELL:
            for line in re.sub(r"\\\n\s*", "", block["body"]).splitlines():
                text = re.sub(r"\s+# .*", "", line).strip()
                if text and not text.startswith("#"):
                    yield Line(_name(file), text)


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def _commands() -> Any:
    return typer.main.get_command(app)


def parse(words: list[str]) -> None:
    """Parse the words after `tidemark` as the command line does, and start nothing.

    Raises:
        Exception: There is no such command or option, an argument is missing or its value is none; as typer raises it.
        LookupError: The words are no command, or those of a group.
    """
    command = _commands()
    rest = list(words)
    while hasattr(command, "commands"):
        if not rest or rest[0] not in command.commands:
            if rest in (["-h"], ["--help"], ["--version"], ["--install-completion"]):
                return
            raise LookupError(f"no command of {command.name}: {' '.join(rest)}")
        command = command.commands[rest.pop(0)]
    try:
        command.make_context(command.name, rest)
    except typer.Exit:
        return  # as --help ends
