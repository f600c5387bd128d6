"""No command shows a secret of its config, whether it succeeds or fails. `tests/scenario` has commands over tables."""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from bronze.kafka import metadata
from lakehouse.config.sources import variable_name
from tests.docs.reference import leaves
from tests.support.planted import FORMS, IN_A_FOLDER, PLANTED, SECTIONS, VARIABLE, places, plant_scopes, planted, secret_keys
from tests.support.small_config import small_config, write_text
from tidemark.commands.commands import app, main
from tidemark.extras.formats import registry_client
from tidemark.process import exit_codes

WHY = ("--reason", "x")
WORDS: dict[str, tuple[str, ...]] = {
    "init": ("--force", "--brokers", "127.0.0.1:1", "--topic", "t", "--property", f"ssl.key.password=${{env:{VARIABLE}}}"),
    "sql": ("SELECT 1",),
    "why": ("t", "0", "0"),
    "quarantine show": ("t", "0", "0"),
    "quarantine release": ("--all", *WHY),
    "quarantine discard": ("--all", *WHY),
    "gate release": WHY,
    "gate reject": WHY,
    "watermark reset": ("t", "0", "--to", "1", *WHY),
    "topic accept": ("t", *WHY),
    "restore": ("--to", "1", *WHY),
    "rebuild": WHY,
    "erase": ("--topic", "t", "--key", "k", *WHY),
}  # what follows the names of commands
ELSEWHERE = {"report": "tests/scenario: its charts take seconds"}
COMMANDS = {name: command for name, command in leaves(typer.main.get_command(app)) if name not in ELSEWHERE}
OF_A_CONFIG = [name for name, command in COMMANDS.items() if any("--config" in each.opts for each in command.params)]

Said = tuple[int, str]


@pytest.fixture(autouse=True)
def vault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable and a secret scope that have the secret; a machine without Java, and brokers that nobody waits for."""
    plant_scopes(monkeypatch, lambda *_: PLANTED)
    monkeypatch.setenv(VARIABLE, PLANTED)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(metadata, "_SECONDS", 0.1)
    monkeypatch.setattr(registry_client, "_RETRIES", 0)
    monkeypatch.setattr(exit_codes, "known_secrets", set())


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run_command(config: dict[str, Any], *words: str) -> Said:
        file = write_text(tmp_path, json.dumps(config))
        capsys.readouterr()
        exit_codes.known_secrets.clear()  # as in a process that has read no config yet
        code = main([*words, "--config", str(file)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run_command


def put(config: dict[str, Any], place: Sequence[str | int], value: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(config)
    section = changed
    for part in place[:-1]:
        section = section[part]
    section[place[-1]] = value
    return cast("dict[str, Any]", changed)


def wrong(config: dict[str, Any], place: Sequence[str | int]) -> Iterator[dict[str, Any]]:
    """Configs with the secret at a place, and with a mistake at it, above it or beside it."""
    texts = (PLANTED, f"a {PLANTED}\n", f"${{{PLANTED}", f"${{{PLANTED}}}")
    for end in range(1, len(place) + 1):
        yield from (put(config, place[:end], value) for value in (*texts, [PLANTED], {"a": PLANTED}))
    yield put(config, place, {PLANTED: None})
    for end in range(1, len(place)):
        section: Any = config
        for part in place[:end]:
            section = section[part]
        yield put(config, (*place[:end], "unknown" if isinstance(section, dict) else len(section) - 1), {"a": PLANTED})
        for name in section if isinstance(section, dict) else ():
            yield put(config, place[:end], {each: part for each, part in section.items() if each != name})


def test_the_secrets_of_the_model_are_those_that_are_planted() -> None:
    assert secret_keys() == SECTIONS.keys()
    assert len(SECTIONS) >= 9
    assert all([*places(section)] for section in SECTIONS.values())


@pytest.mark.parametrize("name", OF_A_CONFIG)
def test_no_command_shows_a_secret(name: str, tmp_path: Path, run: Callable[..., Said]) -> None:
    for form, flag in (("written out", ""), ("of a variable", "--json")):
        config = small_config(str(tmp_path / "lake"), **planted(IN_A_FOLDER, FORMS[form]))
        flags = [flag] if any(flag in each.opts for each in COMMANDS[name].params) else []
        code, printed = run(config, *name.split(), *WORDS.get(name, ()), *flags)
        assert (code in (0, 1), PLANTED in printed) == (True, False)
    kept = [file.read_text(encoding="utf-8") for file in (tmp_path / "lake").rglob("*") if file.is_file()]
    assert not [text for text in kept if PLANTED in text]


@pytest.mark.parametrize("key", SECTIONS)
def test_no_mistake_beside_a_secret_shows_it(key: str, tmp_path: Path, run: Callable[..., Said]) -> None:
    config = small_config(str(tmp_path / "lake"), **planted(SECTIONS[key]))
    ended = []
    for place in places(SECTIONS[key]):
        for each in wrong(config, place):
            code, printed = run(each, "config", "check")
            assert PLANTED not in printed, each
            ended.append(code)
    assert ended.count(2) > len(ended) / 2


@pytest.mark.parametrize("key", SECTIONS)
def test_no_wrong_flag_or_variable_shows_a_secret(
    key: str, tmp_path: Path, run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, parts = small_config(str(tmp_path / "lake")), key.split(".")
    for end in range(1, len(parts) + 1):
        at = parts[:end]
        for text in (PLANTED, f"[{PLANTED}]", f"{{{{{PLANTED}}}}}", f"!{PLANTED}", f"*{PLANTED}", f"'{PLANTED}"):
            for words in (("--set", f"{'.'.join(at)}={text}"), ("--set", text)):
                code, printed = run(config, "config", "check", *words)
                assert (code in (0, 2), PLANTED in printed) == (True, False), words
            with monkeypatch.context() as patched:
                patched.setenv(variable_name(tuple(at)), text)
                _, printed = run(config, "config", "check")
                assert PLANTED not in printed, (at, text)


@pytest.mark.parametrize("name", ["check", "config check", "config show", "status", "run"])
@pytest.mark.parametrize(
    "section",
    [
        *(
            {"lakehouse": {"root": root}}
            for root in ("s3://ada:%/w@b/l", "s3a://b/l?token=%", "abfss://c:%@a.dfs.core.windows.net")
        ),
        {"value": {"registry": {"url": "http://ada:%@r"}}},
    ],
)
def test_a_login_in_a_uri_is_refused_and_not_shown(name: str, section: dict[str, Any], run: Callable[..., Said]) -> None:
    code, printed = run(small_config("/nowhere") | planted(section), *name.split())
    assert (code, PLANTED in printed, "********" in printed) == (1 if name == "check" else 2, False, True)
