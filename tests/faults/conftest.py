"""What the tests of this folder break: processes that may be killed, stopped and woken, and small disks."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.faults.pool import Runner
from tests.support.places import Place
from tests.support.small_config import write_config


class Disk:
    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"
        folder.mkdir(parents=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], check=False, capture_output=True)
        if done.returncode:
            pytest.skip(f"no disk may be mounted here: {done.stderr.decode().strip()}")

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._filler.open("wb", buffering=0) as filler:
            while filler.write(b"\0" * 65536):
                pass

    def clear(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk() -> Iterator[Callable[[Path], Disk]]:
    folders: list[Path] = []

    def mounted(folder: Path) -> Disk:
        folders.append(folder)
        return Disk(folder)

    yield mounted
    for folder in folders:
        subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)


@pytest.fixture(scope="session")
def start_runner(tmp_path_factory: pytest.TempPathFactory, place: Place) -> Iterator[Callable[..., Runner]]:
    """Starts a process that waits for orders, see `Runner.go`; an order's settings name the tables."""
    folder = tmp_path_factory.mktemp("runners")
    config = write_config(folder, root="", lakehouse=place.config(folder / "nowhere"))
    numbers, started = count(), list[Runner]()

    def start(**how: tuple[str, ...] | dict[str, str]) -> Runner:
        started.append(Runner(config, folder / f"runner-{next(numbers)}.log", **how))  # type: ignore[arg-type] # as named
        return started[-1]

    yield start
    for runner in started:
        runner.kill()


@pytest.fixture(scope="session")
def team(start_runner: Callable[..., Runner]) -> list[Runner]:
    """Two such processes for tests that let them live."""
    runners = [start_runner() for _ in range(2)]
    for runner in runners:
        runner.get_ready()
    return runners


@pytest.fixture
def root(tmp_path: Path, place: Place) -> list[str]:
    return [f"lakehouse={json.dumps(place.config(tmp_path / 'lakehouse'))}"]
