"""The records that an operator's request means, its reason, and who decides."""

from __future__ import annotations

import getpass

from lakehouse.errors import UsageError
from silver.state.request import RecordFilter


def to_filter(record: RecordFilter, filters: RecordFilter, *, everything: bool) -> RecordFilter:
    """Return the filter of a release or discard: one `record`, or `filters`; UsageError if not exactly one way names them."""
    named = [record != RecordFilter(), filters != RecordFilter(), everything]
    if sum(named) != 1 or (named[0] and None in (record.topic, record.partition, record.offset)):
        raise UsageError(
            "It is not clear which records are meant." if any(named) else "No records are named.",
            where="quarantine",
            expected="either TOPIC PARTITION OFFSET, or filters such as --class late, or --all",
            next_step="See what waits: `tidemark quarantine list`, with the same filters.",
        )
    return record if named[0] else filters


def named_reason(reason: str, by: str | None) -> tuple[str, str]:
    """Return the reason and the person; UsageError if the reason is empty."""
    if not reason.strip():
        raise UsageError(
            "The reason is empty.", where="--reason", expected="why this is right, in words for those who ask later"
        )
    return reason, person(by)


def person(by: str | None) -> str:
    """Return who decides: the user of this machine by default."""
    return by or getpass.getuser()
