"""What metrics and alerts keep from run to run: a small file that each run reads and replaces as it ends."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from lakehouse.machine import private_files

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings


class Told(BaseModel):
    """A firing alert.

    Attributes:
        cause: What caused it: another cause is alerted again.
        since: When it began.
        told_at: When it was last sent; None if no channel took it.
    """

    cause: str
    since: datetime
    told_at: datetime | None = None


class Stage(BaseModel):
    """The last completion of a stage.

    Attributes:
        ended_at: When it ended.
        seconds: How long it took.
    """

    ended_at: datetime
    seconds: float


class State(BaseModel):
    """The state of a pipeline's runs, up to the last one.

    Attributes:
        run_id: The last run.
        ended_at: When it ended; None before the first.
        seconds: How long it took.
        exit_code: Its exit code.
        stages: The last completion of each stage.
        classes: Records by class of the last completed run of Silver.
        load_seq: The last load that a run finished.
        published_load_seq: The last load that a run published.
        is_breaker_open: Whether the breaker stopped the last run that planned a load.
        gate_unmet: How many expectations the last audit found not met, by severity; None before the first.
        told: The firing alerts, by name.
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
    """The state's file: the one that the config names, else `_watch/state.json` next to the tables."""
    named, folder = settings.watch.state_file, settings.lakehouse.local_folder
    return Path(named) if named else Path(folder or "") / "_watch" / "state.json"


def read(file: Path) -> State:
    """Read the state from a file; an empty one if the file does not exist yet.

    Raises:
        OSError: The file cannot be read.
        ValueError: It holds something else.
    """
    try:
        return State.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return State()


def write(file: Path, state: State) -> None:
    """Write the state atomically; only the user of this process may read it.

    Raises:
        OSError: The file cannot be written.
    """
    private_files.folder(file.parent)
    private_files.replace_file(file, state.model_dump_json(indent=2) + "\n")
