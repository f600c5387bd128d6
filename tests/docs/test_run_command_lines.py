"""Every command line of the documents is run: README's topic from producer to answers, then each line over its tables."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml

from bronze.dev_broker.broker import create_topic
from jobs.cli import main
from tests.docs import command_lines
from tests.docs.command_lines import ROOT, Line, parse
from tests.docs.test_command_lines import why_not_ours
from tests.support.kafka import Sent, delete_topic, send

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bronze.dev_broker.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

README = (ROOT / "README.md").read_text(encoding="utf-8")
TOPIC, KEY = "payments", b"ann"
ANEW = "payments_anew"
"""A name that no other test of the broker has."""
LATE, LATE_TOO = 8, 9
"""Offsets of records that wait, behind the two times three of README's producer."""

TUTORIAL = "docs/first-hour.md"
"""Its lines are run in their order by `tests/test_first_hour.py`."""

RUN_ELSEWHERE = {
    "tidemark init": "the first line of the quickstart, below",
    "tidemark --install-completion": "changes the shell of who runs it",
    "tidemark demo": "below, with fewer records",
    "tidemark jars fetch": "reaches a repository of jars: tests/lakehouse/machine",
    "tidemark sql --format csv": "an option that the text names without a query",
    "tidemark run --every": "goes on until it is asked to end: tests/jobs/cli/test_commands.py",
}
"""How lines begin that no test below runs as they are, and why."""

BY_STATE = {
    "gate ": "gate failed",
    "topic accept": "topic anew",
    "maintain --erase": "erased",
    "watermark reset": "plain",
}
"""What a command decides on, by how its line begins after `tidemark`; all others run over tables that are sound."""

ENDS_WITH = {"tidemark doctor": {0, 1}}
"""What a line may end with, unless with 0: what a machine lacks is for `doctor` to say."""


def block(language: str, holding: str) -> str:
    """The block of README that holds a text."""
    found: list[str] = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", README)
    return next(each for each in found if holding in each)


def lines() -> list[Line]:
    """The lines that are run: of blocks all, of the text those that say more than a command's name; each once."""
    told = [line for line in command_lines.in_text() if line.document.startswith(("README", "docs/")) and is_whole(line)]
    said = [line for line in told if "decisions" not in line.document]
    blocks = [line for line in command_lines.in_blocks() if line.document != TUTORIAL]
    by_words = {tuple(line.words()): line for line in [*said, *blocks] if is_run(line)}
    return list(by_words.values())


def is_run(line: Line) -> bool:
    listed = any(line.text.startswith(start) for start in RUN_ELSEWHERE)
    return line.program == "tidemark" and not listed and why_not_ours(line) is None


def is_whole(line: Line) -> bool:
    """Whether a line of the text has an argument or option, and all that its command needs."""
    if line.program != "tidemark" or not set(line.text) & set('-"') or "help" in line.text:
        return False
    try:
        parse(line.words()[1:])
    except Exception:  # noqa: BLE001 -- of whatever class: test_command_lines.py says which of them are wrong
        return False
    return True


@dataclass(frozen=True)
class States:
    """Lakehouses that the lines are run over, each on a copy."""

    folder: Path
    config: dict[str, object]

    def copied(self, state: str, into: Path, **more: object) -> Path:
        """Copy a state's tables into a folder, with the config that belongs to them, and return the config's file."""
        shutil.copytree(self.folder / state, into / "lakehouse")
        return written(into, {**(without_producer(self.config) if state == "plain" else self.config), **more})

    def keep(self, state: str, folder: Path) -> None:
        """Keep a folder's tables as a state."""
        shutil.copytree(folder / "lakehouse", self.folder / state)


def written(folder: Path, config: dict[str, object]) -> Path:
    file = folder / "tidemark.yml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


def without_producer(config: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in config.items() if name not in {"producer", "epoch"}}


def payment(number: bytes, value: bytes) -> Sent:
    return Sent(value, KEY, [("producer", b"shop"), ("epoch", b"1"), ("seq", number)])


@pytest.fixture(scope="module")
def states(spark: SparkSession, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> States:
    """README's quickstart, held against what it says; then what people have to decide on."""
    create_topic(broker.bootstrap_servers, TOPIC, 1)
    work = tmp_path_factory.mktemp("quickstart")
    at = {"localhost:9092": broker.bootstrap_servers}
    producer = block("python", "Producer(").replace("localhost:9092", broker.bootstrap_servers)
    config = yaml.safe_load(block("yaml", "pipeline:").replace("localhost:9092", broker.bootstrap_servers))
    states = States(tmp_path_factory.mktemp("states"), config)
    exec(producer, {})  # noqa: S102 -- the README's own text
    with contextlib.chdir(work):
        for line in block("sh", "tidemark init").splitlines():
            words = Line("README.md", line).words(**at)
            assert main(words[1:]) == 0, line
    file = work / "tidemark.yml"
    assert yaml.safe_load(file.read_text(encoding="utf-8")) == config

    exec(producer, {})  # noqa: S102 -- as above
    assert main(["run", "--config", str(file)]) == 0
    states.keep("quickstart", work)

    more = [payment(b"7", b"70.00"), payment(b"x", b"1.00"), payment(b"4", b"40.00"), payment(b"5", b"50.00")]
    send(broker.bootstrap_servers, TOPIC, more)
    gate = {"budgets": {"late": {"critical": 0}}}
    failed = tmp_path_factory.mktemp("failed")
    assert main(["run", "--config", str(states.copied("quickstart", failed, gate=gate))]) == 3
    states.keep("gate failed", failed)
    assert main(["run", "--config", str(file)]) == 0
    states.keep("sound", work)

    plain = tmp_path_factory.mktemp("plain")
    assert main(["run", "--config", str(written(plain, without_producer(config)))]) == 0
    states.keep("plain", plain)

    key = work / "key"
    key.write_bytes(KEY)
    erase = ["erase", "--topic", TOPIC, "--key-file", str(key), "--reason", "asked"]
    assert main([*erase, "--config", str(file)]) == 0
    assert main(["run", "--config", str(file)]) == 0
    states.keep("erased", work)
    return states


@pytest.fixture(scope="module")
def anew(states: States, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The config of a pipeline whose topic was created anew after it was read."""
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [ANEW]}
    config = {**states.config, "kafka": kafka}
    work = tmp_path_factory.mktemp("anew")
    create_topic(broker.bootstrap_servers, ANEW, 1)
    send(broker.bootstrap_servers, ANEW, [payment(b"1", b"1")])
    assert main(["run", "--config", str(written(work, config)), "--stage", "bronze"]) == 0
    delete_topic(broker.bootstrap_servers, ANEW)
    create_topic(broker.bootstrap_servers, ANEW, 1)
    states.keep("topic anew", work)
    return config


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test as the working one, with what lines name in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_bytes(KEY)
    return tmp_path


@pytest.mark.timeout(600, func_only=True)  # a line that goes on for ever
@pytest.mark.parametrize("line", lines(), ids=str)
def test_a_line_runs(line: Line, states: States, in_folder: Path, request: pytest.FixtureRequest) -> None:
    rest = line.text.removeprefix("tidemark ")
    state = next((state for start, state in BY_STATE.items() if rest.startswith(start)), "sound")
    if state == "topic anew":
        more = request.getfixturevalue("anew")
        words = line.words(TOPIC=ANEW, incidents=ANEW)
    else:
        more = {"gate": {"budgets": {"late": {"critical": 0}}}} if state == "gate failed" else {}
        words = line.words(incidents=TOPIC, OFFSET=str(LATE), **{"4711": str(LATE_TOO)})
    states.copied(state, in_folder, **more)

    ended = main(words[1:])

    allowed = next((codes for start, codes in ENDS_WITH.items() if line.text.startswith(start)), {0})
    assert ended in allowed, line


def test_the_quickstart_answers_what_the_readme_shows(
    states: States, in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states.copied("quickstart", in_folder)
    capsys.readouterr()
    assert main(["why", TOPIC, "0", "3"]) == 0
    assert capsys.readouterr().out.startswith(block("text", "Topic payments"))
    query = next(line for line in command_lines.in_blocks() if line.document == "README.md" and "SELECT" in line.text)
    assert main([*query.words()[1:], "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["payments,0,1,10.00", "payments,0,2,25.00", "payments,0,3,5.00"]


def test_the_demo_ends_well(in_folder: Path) -> None:
    command = [sys.executable, "-m", "jobs.cli", "demo", "--records", "800", "--into", "demo"]
    done = subprocess.run(command, cwd=in_folder, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "The article's example: 15 records arrived, 11 were kept." in done.stdout


def test_what_is_run_elsewhere_is_in_the_documents() -> None:
    found = [line.text for line in [*command_lines.in_blocks(), *command_lines.in_text()]]
    assert [start for start in RUN_ELSEWHERE if not any(text.startswith(start) for text in found)] == []
