"""Fixtures that every test may use. One Spark session per test process."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from bronze.dev_broker.broker import LocalBroker, create_topic
from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from tests.support.examples import IS_WHOLE, beyond
from tests.support.object_store import BUCKET, new_root, port_of, reached_by, storage
from tests.support.places import PLACE, Place, opened
from tests.support.quick import QUICK, start_quickly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession


# A change is judged by the same examples each time; `pytest --hypothesis-profile explore` draws others.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs Spark or a broker; leave out what only `make test-all` runs, but for files that are asked for by name."""
    for item in items:
        for fixture, mark in (("spark", "spark"), ("broker", "kafka")):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
    in_s3 = [item for item in items if "in_s3" in getattr(item, "fixturenames", ())]
    if PLACE != "s3" and in_s3:
        config.hook.pytest_deselected(items=in_s3)
        items[:] = [item for item in items if item not in in_s3]
    if IS_WHOLE:
        return
    asked = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    left_out = [
        item
        for item in items
        if item.path not in asked and not beyond().isdisjoint({str(item.path), f"{item.path}::{item.name.partition('[')[0]}"})
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


_numbers = count()


class Events:
    """A report that keeps what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        """Keep one event."""
        self.seen.append((name, fields))

    def named(self, name: str) -> list[dict[str, object]]:
        """The fields of every event of that name."""
        return [fields for seen, fields in self.seen if seen == name]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Where the tables of this test process are, with the server that it needs."""
    with opened(tmp_path_factory.mktemp("place")) as found:
        yield found


@pytest.fixture(scope="session")
def spark(place: Place) -> Iterator[SparkSession]:
    """The one Spark session of the test process. Tests that start a command have the session that its users have."""
    from lakehouse.spark.session import open_session

    start_quickly(is_short=False)
    session = open_session("tidemark-tests", place.session)
    start_quickly(is_short=True)
    for name, value in QUICK.items():
        session.conf.set(name, value)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lakehouse_at(place: Place, request: pytest.FixtureRequest) -> Callable[[Path], Lakehouse]:
    """Makes the lakehouse that belongs to a folder; in a catalog also its schema."""

    def make(folder: Path) -> Lakehouse:
        found = place.lakehouse(folder)
        if found.schema is not None:
            spark: SparkSession = request.getfixturevalue("spark")
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {found.schema} LOCATION '{folder}'")
        return found

    return make


@pytest.fixture(scope="session")
def run_at(lakehouse_at: Callable[[Path], Lakehouse]) -> Callable[[Path], Run]:
    """Makes a run over the lakehouse that belongs to a folder, with a number of its own."""
    return lambda folder: Run("tests", lakehouse_at(folder), Events())


@pytest.fixture(scope="session")
def s3(place: Place) -> int:
    """The port of the one S3 store of the test process."""
    return port_of(place.session.storage)


@pytest.fixture
def in_s3(spark: SparkSession, s3: int) -> Iterator[Callable[..., Lakehouse]]:
    """Makes empty lakehouses in S3, each in a folder of its own, which this process's session reaches."""
    before: dict[str, str | None] = {}

    def make(port: int = s3, bucket: str = BUCKET) -> Lakehouse:
        for name, value in reached_by(bucket, storage(port)).items():
            before.setdefault(name, spark.conf.get(name, None))
            spark.conf.set(name, value)
        return Lakehouse(root=new_root(bucket), storage=storage(port))

    yield make
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture
def new_run(tmp_path: Path, run_at: Callable[[Path], Run]) -> Callable[[], Run]:
    """Makes runs over the same empty lakehouse, each with a number of its own."""
    return lambda: run_at(tmp_path / "lakehouse")


@pytest.fixture
def run(new_run: Callable[[], Run]) -> Run:
    """One run over an empty lakehouse."""
    return new_run()


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command with --json in this process, and answers what it says."""
    from jobs import cli

    def ask(config: Path, *command: str) -> Any:
        capsys.readouterr()
        assert cli.main([*command, "--config", str(config), "--json"]) == 0, command
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """The one broker of the test process."""
    with LocalBroker() as started:
        yield started


@pytest.fixture
def topic(broker: LocalBroker) -> Callable[..., str]:
    """Makes topics that no other test has, and answers their names."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        create_topic(broker.bootstrap_servers, name, partitions, config)
        return name

    return make
