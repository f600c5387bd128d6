"""A peer's process, from the benchmark's side: started, asked, measured and ended."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from bench.peers.job import Answer

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from bench.peers.job import Job

_ANSWER_SECONDS = 900
_END_SECONDS = 30
_TOLD_LINES = 3


class PeerFailedError(Exception):
    """A peer ended, answered that it failed, or did not answer."""


class Process:
    """A peer's process. Whatever it prints but its answers goes into a log."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8"
            )
        self.pid = self._process.pid
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, job: Job) -> Answer:
        """Hand a job over and wait for its end.

        Raises:
            PeerFailedError: The process ended, failed, or did not answer within 15 minutes.
        """
        if self._process.stdin is None:
            raise PeerFailedError("It has no standard input.")
        try:
            self._process.stdin.write(job.line() + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=_ANSWER_SECONDS)
        except (OSError, queue.Empty) as error:
            raise PeerFailedError(self._why(f"no answer: {error!r}")) from error
        if line is None:
            raise PeerFailedError(self._why(f"ended with {self._process.wait()}"))
        answer = Answer.parse(line)
        if answer.error:
            raise PeerFailedError(answer.error)
        return answer

    def end(self) -> None:
        """Ends the process: its standard input closes; by force where that is not enough."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def _read(self) -> None:
        if self._process.stdout is not None:
            with self._process.stdout as answers:
                for line in answers:
                    self._lines.put(line)
        self._lines.put(None)

    def _why(self, what: str) -> str:
        said = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return "; ".join([what, *said[-_TOLD_LINES:]])
