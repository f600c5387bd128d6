"""`tidemark topic`: the topics that were read, and the breaks that were accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.contracts.bronze import RECREATED, SAME
from lakehouse.escape import printable
from lakehouse.table import BRONZE_TOPICS
from tidemark.process import output
from tidemark.readers import database as query

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse

_KNOWN = f"""
    SELECT topic, stored_as, cause, topic_id, lost, known_since, load_seq, reason, accepted_by
    FROM {BRONZE_TOPICS} ORDER BY topic, incarnation, checkpoint, known_since
"""  # noqa: S608 -- the table's name is ours


def known(lakehouse: Lakehouse) -> list[dict[str, Any]]:
    """The rows of `bronze_topics`, ordered by topic and time."""
    with query.connect(lakehouse, [BRONZE_TOPICS]) as tables:
        return tables.rows(_KNOWN) if BRONZE_TOPICS in tables.names else []


def write_known(found: list[dict[str, Any]]) -> None:
    """Print the topics as a table, on stdout."""
    if not found:
        output.write("No topic was read yet: `tidemark run` reads the first.")
        return
    output.write_table(list(found[0]), [list({**row, "lost": ranges(row["lost"])}.values()) for row in found])


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
    return (
        "; ".join(f"partition {each['partition']}: {each['first_offset']} to {each['last_offset']}" for each in lost or ())
        or None
    )


def _what(done: dict[str, Any]) -> str:
    if done["cause"] == RECREATED:
        stored_as = printable(done["stored_as"])
        ids = f"topic id {done['new_topic_id']} instead of {done['old_topic_id']}"
        cut = "is the same one, and its log lost its end" if done["is_cut"] else f"is another one ({ids})"
        how = "with the same numbering" if done["numbering"] == SAME else "with a new numbering"
        return f"topic {printable(done['topic'])} {cut}; its records are stored as {stored_as}, {how}."
    count = sum(each["last_offset"] - each["first_offset"] + 1 for each in done["lost"])
    return f"{count:,} offsets of topic {printable(done['topic'])} are lost ({ranges(done['lost'])})."
