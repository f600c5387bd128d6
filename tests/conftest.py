"""Fixtures that every test may use. One Spark session per test process."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.storage import S3Storage
from lakehouse.table import Lakehouse
from tests.support.examples import beyond
from tests.support.object_store import BUCKET, new_root, object_store, reached_by, storage
from tests.support.places import PLACE, PLACES, STARTED, Place, copy_objects, copy_schema, in_folder, in_store
from tests.support.prepared import Histories, History, empty
from tests.support.quick import QUICK, start_quickly
from tidemark.extras.demo.broker import LocalBroker, create_topic

Runs = Callable[[], Run]
RunAt = Callable[[Path], Run]
Prepared = Callable[[History], Run]
Topics = Callable[..., str]
Ask = Callable[..., Any]

# A change is judged by the same examples each time; `pytest --hypothesis-profile explore` draws others. `make mutants`
# needs no smaller example of a failure.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.register_profile("unshrunk", derandomize=True, deadline=None, phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("TESTS_PROFILE", "repeatable"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that is marked so is a test of each place that this process has."""
    if "place" in metafunc.fixturenames and metafunc.definition.get_closest_marker("everywhere"):
        metafunc.parametrize("place", PLACES, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that need Spark or a broker, leave out `tests/beyond.toml` unless its file is named, and order the rest.
    A process starts a JVM for its first test that needs one; the longest tests do not run last."""
    for item in items:
        for fixture, mark in (("spark", "spark"), ("broker", "kafka")):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    others = [item for item in items if item.path not in named]
    # A rival before each of hundreds of commits takes half an hour: `make test-places` names these files.
    left_out = {item for item in others if "in_s3" in getattr(item, "fixturenames", ())}
    left_out |= {item for item in others if not beyond().isdisjoint(_names(item))}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    kept = [item for item in items if item not in left_out]
    items[:] = sorted(kept, key=_turn)


def _turn(item: pytest.Item) -> int:
    """The scenario, then pure tests, other whole paths, all others that need a JVM."""
    # The first process alone builds the scenario: each begins with a part of the list, and gives its end to an idle one.
    if "scenario" in getattr(item, "fixturenames", ()):
        return 0
    is_whole, needs_jvm = item.get_closest_marker("e2e"), any(item.get_closest_marker(mark) for mark in ("spark", "kafka"))
    return 2 if is_whole else 3 if needs_jvm else 1


def _names(item: pytest.Item) -> set[str]:
    """What `tests/beyond.toml` may call it by: its file or the test, each also in one place alone, as `file@s3`."""
    place = item.callspec.params.get("place") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    names = {str(item.path), f"{item.path}::{item.name.partition('[')[0]}"}
    return names | {f"{name}@{place}" for name in names}


def pytest_exception_interact(call: pytest.CallInfo[object]) -> None:
    """A test that reached its time limit while it waited for an answer of Spark's leaves that answer to none of the next."""
    if call.excinfo is not None and not isinstance(call.excinfo.value, Exception):
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        connection = None if gateway is None else gateway._gateway_client.get_thread_connection()
        if connection is not None:
            connection.close()


_numbers = count()


class Events:
    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.seen.append((name, fields))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.seen]

    def named(self, name: str) -> list[dict[str, object]]:
        return [fields for seen, fields in self.seen if seen == name]


@pytest.fixture(scope="session")
def own_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with STARTED[PLACE](tmp_path_factory.mktemp(PLACE)) if PLACE in STARTED else in_folder() as found:
        yield found


@pytest.fixture(scope="session")
def spark(own_place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the test process. A test whose commands open one asks for it too: the first one opened is it."""
    from pyspark.sql import SparkSession

    from lakehouse.spark import session as sessions

    assert SparkSession.getActiveSession() is None, "a test before this one opened a session without asking for this fixture"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sessions, "SECOND_COMPILER_LATE", ())  # this JVM lives long enough for the second compiler
        session = sessions.open_session("tidemark-tests", own_place.session)
    start_quickly(tmp_path_factory.mktemp("conf"))
    for name, value in {**QUICK, **own_place.settings}.items():
        session.conf.set(name, value)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with object_store(tmp_path_factory.mktemp("store")) as port:
        yield port


@contextlib.contextmanager
def reaching(spark: SparkSession) -> Iterator[Callable[[str, S3Storage], None]]:
    """Lends the session settings by which it reaches a bucket."""
    before: dict[str, str | None] = {}

    def reach(bucket: str, given: S3Storage) -> None:
        for name, value in reached_by(bucket, given).items():
            before.setdefault(name, spark.conf.get(name, None))
            spark.conf.set(name, value)

    yield reach
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="session")
def place(own_place: Place, request: pytest.FixtureRequest) -> Iterator[Place]:
    asked = getattr(request, "param", PLACE)
    if asked == PLACE:
        yield own_place
        return
    port = request.getfixturevalue("s3")
    with reaching(request.getfixturevalue("spark")) as reach:
        reach(BUCKET, storage(port))
        yield in_store(port)


@pytest.fixture(scope="session")
def lakehouse_at(place: Place, request: pytest.FixtureRequest) -> Callable[[Path], Lakehouse]:
    def make(folder: Path) -> Lakehouse:
        found = place.lakehouse(folder)
        if found.schema is not None:
            spark: SparkSession = request.getfixturevalue("spark")
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {found.schema} LOCATION '{place.of_schema(folder)}'")
            if found.storage is None:
                Path(str(found.volume)).mkdir(exist_ok=True)
        return found

    return make


@pytest.fixture(scope="session")
def run_at(lakehouse_at: Callable[[Path], Lakehouse]) -> Callable[[Path], Run]:
    return lambda folder: Run("tests", lakehouse_at(folder), Events())


@pytest.fixture(scope="session")
def copied(place: Place, run_at: Callable[[Path], Run], request: pytest.FixtureRequest) -> Callable[[Run, Path], Run]:
    def make(original: Run, folder: Path) -> Run:
        run = run_at(folder)
        if run.lakehouse.schema is not None:
            copy_schema(request.getfixturevalue("spark"), original.lakehouse, run.lakehouse, folder)
        elif run.lakehouse.storage is not None:
            copy_objects(original.lakehouse, run.lakehouse)
        else:
            shutil.copytree(str(original.lakehouse.root), folder)
        return run

    return make


@pytest.fixture(scope="session")
def built() -> dict[str, dict[History, Run]]:
    """The histories that this process has built, by place. They outlive the fixture of a place."""
    return {}


@pytest.fixture(scope="session")
def histories(spark: SparkSession, place: Place, request: pytest.FixtureRequest) -> Histories:
    """The prepared lakehouses of a place, each built when a test first needs it."""
    run_at, copied, built, folders = map(request.getfixturevalue, ("run_at", "copied", "built", "tmp_path_factory"))
    of_place = built.setdefault(repr(place.lakehouse(Path("any"))), {})
    return Histories(spark, run_at, copied, lambda: folders.mktemp("history"), of_place)


@pytest.fixture
def prepared(histories: Histories, tmp_path: Path) -> Callable[[History], Run]:
    return lambda history: histories.copy(history, tmp_path / "lakehouse")


@pytest.fixture
def created_tables(prepared: Callable[[History], Run]) -> None:
    """The lakehouse of `run` and `new_run` has the tables of Bronze and Silver, without a row."""
    prepared(empty)


@pytest.fixture
def in_s3(spark: SparkSession, s3: int) -> Iterator[Callable[..., Lakehouse]]:
    """Makes empty lakehouses in S3, each in a folder of its own, which this process's session reaches."""
    with reaching(spark) as reach:

        def make(port: int = s3, bucket: str = BUCKET) -> Lakehouse:
            reach(bucket, storage(port))
            return Lakehouse(root=new_root(bucket), storage=storage(port))

        yield make


@pytest.fixture
def new_run(tmp_path: Path, run_at: Callable[[Path], Run]) -> Callable[[], Run]:
    return lambda: run_at(tmp_path / "lakehouse")


@pytest.fixture
def run(new_run: Callable[[], Run]) -> Run:
    return new_run()


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    from tidemark.commands import main

    def ask(config: Path, *command: str) -> Any:
        capsys.readouterr()
        assert main([*command, "--config", str(config), "--json"]) == 0, command
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
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
