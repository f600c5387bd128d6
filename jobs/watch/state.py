"""What one run leaves for the next to tell whoever watches: a small file that a run reads before it ends, and writes anew."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from lakehouse.machine import private_files

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings


class Told(BaseModel):
    """An alert that goes on.

    Attributes:
        cause: What it is about: another one is told anew.
        since: When it began.
        told_at: When somebody was told last; None where nobody could be.
    """

    cause: str
    since: datetime
    told_at: datetime | None = None


class Stage(BaseModel):
    """The last time that a stage came to its end.

    Attributes:
        ended_at: When.
        seconds: How long it took.
    """

    ended_at: datetime
    seconds: float


class State(BaseModel):
    """What is known of a pipeline's runs, the last one included.

    Attributes:
        run_id: The last run.
        ended_at: When it ended; None before the first.
        seconds: How long it took.
        exit_code: What it ended with.
        stages: By stage, when it came to its end last.
        classes: Records by class of the last run of Silver that ended.
        load_seq: The last load that a run finished.
        published_load_seq: The last load that a run published.
        is_breaker_open: Whether the breaker stopped the last run that came to plan a load.
        gate_unmet: Expectations that the last audit found not met, by severity; None before the first.
        told: The alerts that go on, by name.
    """

    run_id: str = ""
    ended_at: datetime | None = None
    seconds: float = 0
    exit_code: int = 0
    stages: dict[str, Stage] = {}
    classes: dict[str, int] = {}
    load_seq: int | None = None
    published_load_seq: int | None = None
    is_breaker_open: bool = False
    gate_unmet: dict[str, int] | None = None
    told: dict[str, Told] = {}


def place(settings: Settings) -> Path:
    """The file that keeps it: the one of the config, else `_watch/state.json` beside the tables."""
    named, folder = settings.watch.state_file, settings.lakehouse.local_folder
    return Path(named) if named else Path(folder or "") / "_watch" / "state.json"


def read(file: Path) -> State:
    """The state that a file holds; an empty one where there is none yet.

    Raises:
        OSError: It cannot be read.
        ValueError: It holds something else.
    """
    try:
        return State.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return State()


def write(file: Path, state: State) -> None:
    """Keep the state, whole or not at all; for the user of this process alone.

    Raises:
        OSError: It cannot be written.
    """
    private_files.folder(file.parent)
    private_files.replace_file(file, state.model_dump_json(indent=2) + "\n")
