"""What holds for every file of the repository."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tokenize
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("bronze", "expectations", "gold", "jobs", "lakehouse", "pipelines", "silver")

REGISTRY_HOST = re.compile(
    r"pypi\.(?:org|io)|pythonhosted\.org|maven\.(?:org|google)|maven\.apache\.org|npmjs\.(?:org|com)|anaconda\.org"
    r"|golang\.org/|crates\.io|docker\.io|ghcr\.io|jitpack\.io",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?:^|[\s\"'`=(\[:,])/(?:root|home|Users|work|private)/", re.MULTILINE)
SUPPRESSION = re.compile(
    r"#\s*(?:(?:ruff:\s*)?noqa|type:\s*ignore|mypy:|pragma:\s*no cover|fmt:\s*(?:off|skip)|pyright:|pylint:)"
    r"(?:\s*:?\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*|\[[\w, -]+\])?"
)
A_REASON_HAS_LETTERS = 6


@cache
def committed() -> tuple[Path, ...]:
    """What git has, or would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in committed()}
    return [
        f"{path.relative_to(ROOT)}: {match.group().strip()}" for path, text in texts.items() for match in pattern.finditer(text)
    ]


def unreasoned(path: Path) -> list[str]:
    """The suppressions of a Python file that nothing but the code follows."""
    with tokenize.open(path) as source:
        comments = [token for token in tokenize.generate_tokens(source.readline) if token.type == tokenize.COMMENT]
    return [
        f"{path.name}:{token.start[0]}: {token.string}"
        for token in comments
        if (match := SUPPRESSION.search(token.string))
        and len(re.findall("[A-Za-z]", token.string[match.end() :])) < A_REASON_HAS_LETTERS
    ]


def session_builders(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"getOrCreate", "newSession"}
    ]


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert lines_with(REGISTRY_HOST) == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_every_suppression_of_a_check_gives_its_reason() -> None:
    assert [line for path in committed() if path.suffix == ".py" for line in unreasoned(path)] == []


def test_a_suppression_without_a_reason_is_found(tmp_path: Path) -> None:
    bare, reasoned = "x = 1  # " + "noqa: E501, S101", "y = 2  # " + "type: ignore[misc]  # the library has no stubs for it"
    (tmp_path / "module.py").write_text(f"{bare}\n{reasoned}\n", encoding="utf-8")
    assert unreasoned(tmp_path / "module.py") == ["module.py:1: # " + "noqa: E501, S101"]


def test_only_the_session_module_opens_sessions() -> None:
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    elsewhere = [line for path in modules if path != ROOT / "lakehouse" / "session.py" for line in session_builders(path)]
    assert elsewhere == []


def test_the_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_every_locked_requirement_is_pinned_and_hashed() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line for line in lock.splitlines() if line and not line.lstrip().startswith("#")]
    assert [entry for entry in entries if not re.match(r"[a-z0-9.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry)] == []


def test_the_lock_covers_every_declared_dependency() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [
        declared["project"]["dependencies"],
        declared["project"]["optional-dependencies"]["local"],
        declared["dependency-groups"]["dev"],
    ]
    names = {re.split(r"[\[<>=!~; ]", requirement)[0].lower() for group in groups for requirement in group}
    locked = set(re.findall(r"(?m)^([a-z0-9.-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8")))
    assert names - locked == set()
