"""`tidemark topic`: the topics that Bronze has read, and the breaks that were accepted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.bronze import NEW, RECREATED, SAME
from lakehouse.escape import printable
from tidemark.process import output
from tidemark.readers import database as query

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse

    Row = dict[str, Any]

KNOWN = "SELECT * FROM bronze_topics ORDER BY topic, incarnation, checkpoint, known_since"
"""The rows of `bronze_topics`. A table of 0.2 has no column `numbering`."""

_SHOWN = ("topic", "stored_as", "cause", "numbering", "topic_id", "lost", "known_since", "load_seq", "reason", "accepted_by")


def known(lakehouse: Lakehouse) -> list[Row]:
    """The rows of `bronze_topics`, ordered by topic and time."""
    with query.connect(lakehouse) as tables:
        rows = tables.rows_if_any(KNOWN)
    return [{name: _numbering(row) if name == "numbering" else row[name] for name in _SHOWN} for row in rows]


def incarnations(rows: Iterable[Row]) -> list[Row]:
    """The incarnations of each topic that has several: its names, which one it is, and `numbering`, None for the first.

    >>> begun, again = ({"topic": "t", "stored_as": "t", "incarnation": nth, "cause": "begun"} for nth in (1, 2))
    >>> rows = [begun, {**again, "stored_as": "t@2", "cause": "recreated"}, {**begun, "topic": "u"}]
    >>> [tuple(each.values()) for each in incarnations(rows)]
    [('t', 't', 1, None), ('t', 't@2', 2, 'new')]
    """
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        named = {name: row[name] for name in ("topic", "stored_as", "incarnation")}
        known_as = found.setdefault((row["topic"], row["incarnation"]), {**named, "numbering": None})
        known_as["numbering"] = known_as["numbering"] or _numbering(row)
    several = {topic for topic, incarnation in found if incarnation > 1}
    return [each for each in found.values() if each["topic"] in several]


def _numbering(row: Row) -> str | None:
    return (row.get("numbering") or NEW) if row["cause"] == RECREATED else None


def in_words(incarnation: Row) -> str:
    """Name an incarnation, and its numbering if it is not the first.

    >>> in_words({"incarnation": 2, "stored_as": "t@2", "numbering": "same"})
    'incarnation 2, t@2, with the same numbering as the one before'
    """
    how = {SAME: ", with the same numbering as the one before", NEW: ", with a new numbering"}.get(incarnation["numbering"], "")
    return f"incarnation {incarnation['incarnation']}, {printable(incarnation['stored_as'])}{how}"


def write_known(found: list[Row]) -> None:
    """Print the topics as a table, on stdout."""
    if not found:
        output.write("No topic was read yet: `tidemark run` reads the first.")
        return
    output.write_rows([{**row, "lost": ranges(row["lost"])} for row in found])


def write_accepted(done: dict[str, Any]) -> None:
    """Print on stdout what an accept did, or would do."""
    if done["cause"] is None:
        output.write("There is nothing to do: the topic can be read on.")
        return
    verb = "Would accept" if done["is_dry_run"] else "Accepted"
    output.write(f"{verb}, as load {done['load_seq']}: {_what(done)}")
    if not done["is_dry_run"]:
        output.write("The next `tidemark run` goes on with the earliest record there is.")


def ranges(lost: list[dict[str, int]] | None) -> str | None:
    """Return lost offsets in words.

    >>> ranges([{"partition": 0, "first_offset": 2, "last_offset": 3}])
    'partition 0: 2 to 3'
    """
    named = [f"partition {each['partition']}: {each['first_offset']} to {each['last_offset']}" for each in lost or ()]
    return "; ".join(named) or None


def _what(done: dict[str, Any]) -> str:
    if done["cause"] == RECREATED:
        stored_as = printable(done["stored_as"])
        ids = f"topic id {done['new_topic_id']} instead of {done['old_topic_id']}"
        cut = "is the same one, and its log lost its end" if done["is_cut"] else f"is another one ({ids})"
        how = "with the same numbering" if done["numbering"] == SAME else "with a new numbering"
        return f"topic {printable(done['topic'])} {cut}; its records are stored as {stored_as}, {how}."
    count = sum(each["last_offset"] - each["first_offset"] + 1 for each in done["lost"])
    return f"{count:,} offsets of topic {printable(done['topic'])} are lost ({ranges(done['lost'])})."
