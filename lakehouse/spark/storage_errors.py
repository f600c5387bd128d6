"""What a machine says when it cannot write, as an error that says what to do. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.errors import StorageError

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse

_NEXT = "The tables are as they were, or the next run finishes them: "
_KINDS = {
    ("No space left on device", "Disk quota exceeded"): (
        "A disk is full.",
        "room for the tables, for the checkpoint, and for Spark's own files (SPARK_LOCAL_DIRS, or /tmp)",
        "make room, and run again.",
    ),
    ("Permission denied", "Read-only file system", "Operation not permitted"): (
        "A file may not be written or read.",
        "the right to read and write everything under the lakehouse's root, and Spark's local folder",
        "give this user the right, or run as the user who has it.",
    ),
}


def whole_text(error: Exception) -> str:
    """What an error says, with Spark's stack trace: the cause is often only there.

    Classic Spark and Spark Connect keep it under two names, neither public.
    """
    traces = (getattr(error, name, None) for name in ("_stackTrace", "_stacktrace"))
    return "\n".join([str(error), *(trace for trace in traces if trace)])


def failure(error: Exception, lakehouse: Lakehouse) -> StorageError | None:
    """The error that says so where the disk is full or refuses; None where the error says something else.

    Args:
        error: What Python or Spark raised; of Spark's the cause stands in the text.
        lakehouse: Where the tables are.
    """
    text = whole_text(error)
    for signs, (what, expected, next_step) in _KINDS.items():
        lines = [line.strip() for line in text.splitlines() if any(sign in line for sign in signs)]
        if lines:
            where = getattr(error, "filename", None) or lakehouse.folder("")
            return StorageError(
                what,
                where=str(where),
                observed=lines[-1].removeprefix("Caused by: "),
                expected=expected,
                next_step=_NEXT + next_step,
            )
    return None
