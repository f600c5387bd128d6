"""What a sitting starts and ends: a cluster or a lab, as long as its `with` block, and the wait until it can be used."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

PATIENCE_SECONDS = 60


class UnfitError(Exception):
    """The cluster is not as a run needs it: nothing that the run showed would count."""


class Started(ABC):
    """What is started at the beginning of a `with` block, and ended at its end, or where it cannot be started whole."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @abstractmethod
    def _start(self) -> None:
        """Start it, and leave on the stack how each part is ended."""


def wait_for(what: str, holds: Callable[[], bool], errors: tuple[type[Exception], ...]) -> None:
    """Return once something holds; the named errors mean that it does not yet.

    Raises:
        UnfitError: It does not within a minute.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(*errors):
            if holds():
                return
        time.sleep(0.2)
    raise UnfitError(f"No {what} within {PATIENCE_SECONDS} s.")
