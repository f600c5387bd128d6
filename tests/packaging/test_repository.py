"""What holds for every file of the repository."""

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
OF_THIS_CHECKOUT = {"tidemark-lakehouse", "tidemark-producer"}  # in no lock: `make setup` installs both from their folders
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


@cache
def committed() -> tuple[Path, ...]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def unreasoned(path: Path) -> list[str]:
    with tokenize.open(path) as source:
        comments = [token for token in tokenize.generate_tokens(source.readline) if token.type == tokenize.COMMENT]
    return [
        f"{path.name}:{token.start[0]}: {token.string}"
        for token in comments
        if (match := SUPPRESSION.search(token.string))
        and len(re.findall("[A-Za-z]", token.string[match.end() :])) < 6  # letters of a reason
    ]


@pytest.mark.parametrize("pattern", [REGISTRY_HOST, MACHINE_PATH], ids=["the host of a registry", "a path of one machine"])
def test_no_file_names(pattern: re.Pattern[str]) -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in committed()}
    found = ((path, match) for path, text in texts.items() for match in pattern.finditer(text))
    assert [f"{path.relative_to(ROOT)}: {match.group().strip()}" for path, match in found] == []


def test_every_suppression_of_a_check_gives_its_reason(tmp_path: Path) -> None:
    assert [line for path in committed() if path.suffix == ".py" for line in unreasoned(path)] == []
    bare, reasoned = "x = 1  # " + "noqa: E501, S101", "y = 2  # " + "type: ignore[misc]  # the library has no stubs for it"
    (tmp_path / "module.py").write_text(f"{bare}\n{reasoned}\n", encoding="utf-8")
    assert unreasoned(tmp_path / "module.py") == ["module.py:1: # " + "noqa: E501, S101"]


def test_only_the_session_module_opens_sessions_and_the_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    modules = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    opens = {path for path in modules if re.search(r"\.(?:getOrCreate|newSession)\b", path.read_text(encoding="utf-8"))}
    assert opens == {ROOT / "lakehouse" / "spark" / "session.py"}


def test_every_lock_pins_the_same_versions_by_their_hashes() -> None:
    for lock in LOCKS:
        text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
        entries = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
        assert [entry for entry in entries if not re.match(r"[a-z0-9.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry)] == []
    users, developers = locked("requirements.lock"), locked("requirements-dev.lock")
    for lock, others in (("requirements.lock", developers), ("requirements-build.lock", developers), (PRODUCTION, users)):
        pinned = locked(lock)
        assert {name: others.get(name) for name in pinned} == pinned


def test_the_locks_cover_what_is_declared_and_give_users_no_tools() -> None:
    users, production = locked("requirements.lock").keys(), locked(PRODUCTION).keys()
    of_wheel, groups = names(PROJECT["project"]["dependencies"]), PROJECT["dependency-groups"]
    for_users = (of_wheel | names(PROJECT["project"]["optional-dependencies"]["local"])) - OF_THIS_CHECKOUT
    assert for_users - users == set()
    assert names(groups["build"]) - locked("requirements-build.lock").keys() == set()
    assert (for_users | names(groups["dev"])) - locked("requirements-dev.lock").keys() == set()
    assert (names(groups["dev"]) | names(groups["build"])) & users == set()
    assert of_wheel - production == set()
    assert production & {"pyspark", "delta-spark", "py4j"} == set()


def test_what_is_installed_is_pinned_by_a_lock_or_of_this_checkout() -> None:
    assert names(PROJECT["project"]["optional-dependencies"]["local"]) >= OF_THIS_CHECKOUT
    assert [lock for lock in (*LOCKS, PRODUCTION) if locked(lock).keys() & OF_THIS_CHECKOUT] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--no-deps --no-build-isolation --editable ./producer --editable ." in makefile
    installs = [line for line in makefile.splitlines() if "pip install" in line]
    assert [line for line in installs if "--no-build-isolation" not in line and "--only-binary :all:" not in line] == []
    assert [line for line in installs if "--require-hashes" not in line and "--no-deps" not in line] == []


def locked(lock: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"(?m)^([a-z0-9.-]+)==([^ ;\n\\]+)", (ROOT / lock).read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(version)
    return found


def names(requirements: list[Any]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", each)[0].lower() for each in requirements if isinstance(each, str)}


def test_what_make_test_leaves_out_is_there_and_says_why() -> None:
    left_out = tomllib.loads((ROOT / "tests" / "beyond.toml").read_text(encoding="utf-8"))
    for files in left_out.values():
        for file, reason in files.items():
            path, _, test = file.partition("@")[0].partition("::")
            assert f"def {test}" in (ROOT / "tests" / path).read_text(encoding="utf-8"), file
            assert reason, file
