"""Reports of a run: a live view on a terminal, JSON lines, or Python's log. Secrets are masked."""

import contextlib
import json
import logging
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from lakehouse.escape import brief, json_text, shortened
from lakehouse.run.context import Report, bind
from lakehouse.settings.secrets import MASK

_LONGEST_IN_LOG = 10_000  # characters of an event's text; the message of an error fits, as its parts are cut one by one


def scrubber(secrets: Iterable[str]) -> Callable[[object], object]:
    """Return a function that makes any value serializable as JSON, and masks secrets at any depth, also escaped ones.

    >>> scrubber(["hunter2"])({"password": "hunter2", "tries": [1, "not hunter2"]})
    {'password': '********', 'tries': [1, 'not ********']}
    """
    given = [secret for secret in secrets if secret]
    forms = {form for secret in given for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1])}
    # Longest first: if a secret starts with another secret, its end must be masked too.
    pattern = re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)) or r"(?!)")

    def scrub(value: object) -> object:
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if hasattr(value, "items"):
            return {str(scrub(str(key))): scrub(part) for key, part in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [scrub(part) for part in value]
        text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
        return pattern.sub(MASK, text)

    return scrub


@contextlib.contextmanager
def open_report(*, secrets: Iterable[str] = (), terminal: bool | None = None, is_quiet: bool = False) -> Iterator[Report]:
    """Open the report of a process on stderr; stdout holds results only.

    `terminal` draws a live view instead of JSON lines; None draws it if stderr is a terminal with a cursor. `is_quiet` writes
    only failures, as JSON lines.
    """
    if terminal is None:
        terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if terminal and not is_quiet:
        from lakehouse.run.terminal_view import LiveReport

        with contextlib.closing(LiveReport(scrubber(secrets))) as view:
            yield view
    else:
        yield JsonReport(scrubber(secrets), is_quiet=is_quiet)


class JsonReport:
    """Writes a JSON object per event and line: the bound fields and the event's, `event`, `level` and `timestamp` (UTC)."""

    def __init__(self, scrub: Callable[[object], object], *, is_quiet: bool = False) -> None:
        self.bound: dict[str, object] = {}
        self._scrub, self._is_quiet, self._stream = scrub, is_quiet, sys.stderr

    def event(self, name: str, **fields: object) -> None:
        """Write one line: an error if the name ends in `.failed` (a run or stage), a warning if in `_failed` (others)."""
        bind(self.bound, name, fields)
        level = _level(name)
        if self._is_quiet and level == "info":
            return
        timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        event = {**self.bound, **fields, "event": name, "level": level, "timestamp": timestamp}
        line = json_text({key: _cut(self._scrub(value)) for key, value in event.items()}, is_ascii=True)
        # A log that cannot be written (a closed pipe, a full disk) must not stop a load.
        with contextlib.suppress(OSError):
            print(line, file=self._stream, flush=True)


class PythonLog:
    """Logs each event with Python's logger `tidemark`: its name and its fields as JSON, at the level of `JsonReport`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._scrub = scrubber(secrets)
        self._log = logging.getLogger("tidemark")

    def event(self, name: str, **fields: object) -> None:
        """Log one event, if the logger takes its level."""
        level = logging.getLevelNamesMapping()[_level(name).upper()]
        if self._log.isEnabledFor(level):
            self._log.log(level, "%s %s", name, json_text(brief(self._scrub(fields))))


def _level(name: str) -> str:
    return "error" if name.endswith(".failed") else "warning" if name.endswith("_failed") else "info"


def _cut(value: object) -> object:
    return shortened(value, _LONGEST_IN_LOG) if isinstance(value, str) else brief(value)
