"""Translates errors of a machine that cannot write into an error that says what to do. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.errors import StorageError

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse

_NEXT = "The tables are unchanged, or the next run finishes them: "
_KINDS = {
    ("No space left on device", "Disk quota exceeded"): (
        "A disk is full.",
        "room for the tables, for the checkpoint, and for Spark's own files (SPARK_LOCAL_DIRS, or /tmp)",
        "make room, and run again.",
    ),
    ("Permission denied", "Read-only file system", "Operation not permitted"): (
        "A file cannot be read or written.",
        "the right to read and write everything under the lakehouse's root, and Spark's local folder",
        "give this user the right, or run as the user who has it.",
    ),
    ("[Errno 17] File exists", "[Errno 20] Not a directory"): (
        "There is a file where a folder is needed.",
        "a root that is a folder, or can be made as one",
        "move the file away, or name another place in lakehouse.root.",
    ),
    ("TIDEMARK_NO_PUT_IF_ABSENT",): (
        "The object store ignores `If-None-Match: *`. Writers could overwrite each other's commits.",
        "a store that supports `If-None-Match: *` (put-if-absent)",
        "use a store that does; or, if nobody else ever writes, set lakehouse: {storage: {single_writer: true}}.",
    ),
    ("Status Code: 403", "NoAuthWithAWSException", "UnknownStoreException", "NoSuchBucket"): (
        "The object store refuses access.",
        "a bucket that exists, and credentials that may list, read, write and delete in it",
        "look at lakehouse.storage, and at AWS_ENDPOINT_URL, AWS_REGION and the AWS credentials of this environment.",
    ),
}


def whole_text(error: Exception) -> str:
    """Return an error's text with Spark's stack trace, often the only place that names the cause."""
    # Classic Spark and Spark Connect use different names, neither public.
    traces = (getattr(error, name, None) for name in ("_stackTrace", "_stacktrace"))
    return "\n".join([str(error), *(trace for trace in traces if trace)])


def failure(error: Exception, lakehouse: Lakehouse) -> StorageError | None:
    """Return the error to raise if a disk is full or denies access; None if the error has another cause."""
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
