"""The command lines of the documents: those in code blocks, and those in a line of text."""

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

from tidemark.commands.commands import app

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
    """A command line of a document, without its comment; one that goes on in the next line is one."""

    document: str  # its path in the repository
    text: str

    def __str__(self) -> str:
        return f"{self.document}: {self.text}"

    @property
    def program(self) -> str:
        return _BEFORE.sub("", self.text).split()[0]

    def words(self, **stands_for: str) -> list[str]:
        meant = {**_STANDS_FOR, **stands_for}
        text = re.sub(rf"\b(?:{'|'.join(map(re.escape, meant))})\b", lambda found: meant[found[0]], self.text)
        return shlex.split(_BEFORE.sub("", text))


@cache
def documents() -> dict[str, str]:
    files = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}


def blocks() -> list[tuple[str, str, str]]:
    return [(name, block["language"], block["body"]) for name, text in documents().items() for block in _FENCE.finditer(text)]


def in_blocks() -> list[Line]:
    of_shell = ((name, re.sub(r"\\\n\s*", "", body)) for name, language, body in blocks() if language in SHELL)
    lines = (Line(name, re.sub(r"(^|\s+)# .*", "", line).strip()) for name, body in of_shell for line in body.splitlines())
    return list(dict.fromkeys(line for line in lines if line.text))


def in_text() -> list[Line]:
    found = ((name, span) for name, text in documents().items() for span in _SPAN.findall(_FENCE.sub("", text)))
    return list(dict.fromkeys(Line(name, " ".join(span.replace("\\|", "|").split())) for name, span in found))


def parse(words: list[str]) -> None:
    """Parse the words after `tidemark` as the command line does, with typer's errors; a `LookupError` for no command."""
    command: Any = typer.main.get_command(app)
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
