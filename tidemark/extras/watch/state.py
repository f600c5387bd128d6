"""The state of metrics and alerts from run to run, in a small file that each run replaces."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from lakehouse.sidecar_files import Files
from lakehouse.table import Lakehouse

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

    Place = tuple[Files, str]


class Stage(BaseModel):
    """The last completion of a stage."""

    ended_at: datetime
    seconds: float


class State(BaseModel):
    """The state of a pipeline's runs, up to the last one.

    Attributes:
        stages: The last completion of each stage.
        classes: Records by class of the last completed run of Silver.
        load_seq: The last load that a run finished.
        published_load_seq: The last load that a run published.
        is_breaker_open: Whether the breaker stopped the last run that planned a load.
        gate_unmet: Expectations that the last audit found not met, by severity; None before the first.
        skipped_topics: Topics that the last completed run of Bronze could not read, and skipped.
        alerted: The causes of the conditions that were alerted and still hold, by name of the alert.
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
    skipped_topics: int = 0
    alerted: dict[str, str] = {}


def place(settings: Settings) -> Place:
    """Return the state's file: the config's, or `_watch/state.json` next to the tables; OSError if it is not reachable."""
    if settings.watch.state_file:
        file = Path(settings.watch.state_file)
        return Files(str(file.parent)), file.name
    lakehouse = Lakehouse.of(settings)
    folder = lakehouse.sidecar_files("_watch")
    if folder is None:
        raise FileNotFoundError(lakehouse.folder("_watch"))
    return folder, "state.json"


def read(place: Place) -> State:
    """Read the state; empty if there is no file. OSError if it cannot be read, ValueError if it holds something else."""
    try:
        return State.model_validate_json(place[0].read(place[1]))
    except FileNotFoundError:
        return State()


def write(place: Place, state: State) -> None:
    """Write the state atomically; OSError if that fails."""
    place[0].write(place[1], state.model_dump_json(indent=2) + "\n")
