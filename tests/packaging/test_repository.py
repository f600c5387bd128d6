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
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")
PRODUCTION = "resources/files/requirements.txt"
OF_THIS_CHECKOUT = {"tidemark-producer"}
"""What no lock has: our producer kit, which `make setup` installs from its folder."""
PACKAGES = ("bronze", "expectations", "gold", "jobs", "lakehouse", "pipelines", "silver", "tidemark")

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
    its_own = ROOT / "lakehouse" / "spark" / "session.py"
    elsewhere = [line for path in modules if path != its_own for line in session_builders(path)]
    assert elsewhere == []


def test_the_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_requirement_is_pinned_and_hashed(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert [entry for entry in entries if not re.match(r"[a-z0-9.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry)] == []


def test_the_locks_cover_every_declared_dependency() -> None:
    for_users = {*names(PROJECT["project"]["dependencies"]), *names(PROJECT["project"]["optional-dependencies"]["local"])}
    for_users -= OF_THIS_CHECKOUT
    groups = PROJECT["dependency-groups"]
    assert for_users - locked("requirements.lock").keys() == set()
    assert names(groups["build"]) - locked("requirements-build.lock").keys() == set()
    assert (for_users | names(groups["dev"])) - locked("requirements-dev.lock").keys() == set()


def test_our_producer_kit_is_installed_from_this_checkout_and_asked_of_no_index() -> None:
    assert names(PROJECT["project"]["optional-dependencies"]["local"]) & OF_THIS_CHECKOUT == OF_THIS_CHECKOUT
    assert [lock for lock in (*LOCKS, PRODUCTION) if locked(lock).keys() & OF_THIS_CHECKOUT] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--no-deps --no-build-isolation --editable ./producer --editable ." in makefile


def test_a_user_gets_no_tool_of_the_developers() -> None:
    declared = names(PROJECT["dependency-groups"]["dev"]) | names(PROJECT["dependency-groups"]["build"])
    assert declared & locked("requirements.lock").keys() == set()


def test_every_lock_pins_the_same_versions() -> None:
    users, developers = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {name: developers.get(name) for name in users} == users
    build = locked("requirements-build.lock")
    assert {name: developers.get(name) for name in build} == build
    production = locked(PRODUCTION)
    assert {name: users.get(name) for name in production} == production


def test_production_takes_what_the_wheel_needs_and_brings_no_spark() -> None:
    production = locked(PRODUCTION).keys()
    assert names(PROJECT["project"]["dependencies"]) - production == set()
    assert production & {"pyspark", "delta-spark", "py4j"} == set()


def test_no_build_brings_tools_that_no_lock_pins() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if "pip install" in line]
    assert [line for line in installs if "--no-build-isolation" not in line and "--only-binary :all:" not in line] == []
    assert [line for line in installs if "--require-hashes" not in line and "--no-deps" not in line] == []


def locked(lock: str) -> dict[str, set[str]]:
    """The versions that a lock pins, by name: more than one where they differ by platform."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"(?m)^([a-z0-9.-]+)==([^ ;\n\\]+)", (ROOT / lock).read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(version)
    return found


def names(requirements: list[Any]) -> set[str]:
    """The packages that are asked for by name."""
    return {re.split(r"[\[<>=!~; ]", each)[0].lower() for each in requirements if isinstance(each, str)}


def test_what_make_test_leaves_out_is_there_and_says_why() -> None:
    left_out = tomllib.loads((ROOT / "tests" / "beyond.toml").read_text(encoding="utf-8"))
    for files in left_out.values():
        for file, reason in files.items():
            path, _, test = file.partition("@")[0].partition("::")
            assert f"def {test}" in (ROOT / "tests" / path).read_text(encoding="utf-8"), file
            assert reason, file
