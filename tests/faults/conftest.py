"""Processes for the tests of this folder: real ones, that may be killed, stopped and woken."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.faults.pool import Runner
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def start_runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Runner]]:
    """Starts a process that waits for orders, see `Runner.go`; an order's settings name the root."""
    folder = tmp_path_factory.mktemp("runners")
    config = write_config(folder, root=str(folder / "nowhere"))
    numbers, started = count(), list[Runner]()

    def start(**how: tuple[str, ...] | dict[str, str]) -> Runner:
        started.append(Runner(config, folder / f"runner-{next(numbers)}.log", **how))  # type: ignore[arg-type] # as named
        return started[-1]

    yield start
    for runner in started:
        runner.kill()


@pytest.fixture
def mortals(start_runner: Callable[..., Runner]) -> Callable[[int], Iterator[Runner]]:
    """Gives so many processes, each ready, to be killed; the next one starts while one is at work."""

    def ready(how_many: int) -> Iterator[Runner]:
        following = start_runner()
        for nth in range(how_many):
            runner = following
            if nth + 1 < how_many:
                following = start_runner()
            runner.get_ready()
            yield runner

    return ready


@pytest.fixture(scope="session")
def team(start_runner: Callable[..., Runner]) -> list[Runner]:
    """Three such processes for tests that let them live."""
    runners = [start_runner() for _ in range(3)]
    for runner in runners:
        runner.get_ready()
    return runners


@pytest.fixture
def root(tmp_path: Path) -> list[str]:
    """The setting that names the root of `new_run`."""
    return [f"lakehouse.root={tmp_path / 'lakehouse'}"]
