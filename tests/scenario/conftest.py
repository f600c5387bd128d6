"""The scenario, once for each test process: plain, with cleaned logs, and in S3."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from tests.conftest import Events, reaching
from tests.scenario.lakehouse import Scenario, build, written
from tests.support.cleaned import clean
from tests.support.object_store import BUCKET, new_root, section, storage
from tests.support.places import upload
from tests.support.planted import PLANTED
from tidemark.commands.commands import main
from tidemark.extras.demo.broker import LocalBroker

MOST_CHARACTERS = 2_000_000
"""What a command may print over the scenario, whose longest name has 300,000 bytes."""


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Tell = Callable[..., Said]


@pytest.fixture(scope="session")
def scenario(spark: SparkSession, broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """The scenario, which only looks may read: what writes takes a copy."""
    return build(broker.bootstrap_servers, tmp_path_factory.mktemp("scenario"))


def clean_logs(spark: SparkSession, of: Scenario) -> None:
    clean(spark, Run("tests", of.lakehouse, Events()))


@pytest.fixture(scope="session")
def cleaned(spark: SparkSession, scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A copy of it whose logs were cleaned."""
    copy = scenario.copy_to(tmp_path_factory.mktemp("cleaned"))
    clean_logs(spark, copy)
    return copy


@pytest.fixture(scope="session")
def copy_to_store(
    spark: SparkSession, s3: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Scenario], Scenario]]:
    given = storage(s3)

    def copy(of: Scenario) -> Scenario:
        root = new_root()
        upload(of.root, root, given)
        return written(tmp_path_factory.mktemp("s3"), {**of.config, "lakehouse": section("root", root, given)})

    with reaching(spark) as reach:
        reach(BUCKET, given)
        yield copy


@pytest.fixture(scope="session")
def in_store(copy_to_store: Callable[[Scenario], Scenario], scenario: Scenario) -> Scenario:
    return copy_to_store(scenario)


@pytest.fixture
def tell(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs a command over a scenario, and holds what it prints against what holds of every command."""

    def run(of: Scenario, *words: str, codes: tuple[int, ...] = (0,), most: int = MOST_CHARACTERS) -> Said:
        options = [] if words[0] in ("doctor", "jars") else ["--config", str(of.file)]
        capfd.readouterr()
        code = main([*words, *options])
        printed = capfd.readouterr()
        said = Said(code, printed.out, printed.err)
        at = f"{' '.join(words)[:200]!r} ended with {code}"
        assert code in codes, f"{at}: {said.out[-2_000:]} {said.err[-2_000:]}"
        for text in (said.out, said.err):
            assert sorted({each for each in text if not (each.isprintable() or each == "\n")}) == [], at
            assert len(text) < most, f"{at}: {len(text):,} characters"
            assert "Traceback" not in text, f"{at}: {text[-3_000:]}"
            assert PLANTED not in text, at
            assert not any(line.startswith('{"event": "run.finished", "exit_code"') for line in text.splitlines()), at
        assert of.shown(PLANTED) == [], at
        return said

    return run
