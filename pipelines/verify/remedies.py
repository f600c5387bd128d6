"""The next step for a failed check of `tidemark verify`, by the damaged table or check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakehouse.run.findings import Check, Violation, finding

if TYPE_CHECKING:
    from lakehouse.run.context import Run

LOG_OUT = (
    "Put the file back from a backup. Without one, remove the folder of that table: `tidemark rebuild --apply` makes Silver's "
    "again from Bronze; the next run makes Gold's once all gold_ tables are removed, and Bronze from what Kafka still has."
)
_AGAIN = (
    "`tidemark rebuild` shows what Bronze gives, and puts it in place. A custom extractor whose code has changed gives another "
    "outcome too."
)
_OUT = {
    "bronze": "All else comes from Bronze. Put the file or table back, from a backup or by RESTORE to the version before.",
    "silver": "Finish what is claimed: `tidemark run`. If the check still fails: `tidemark restore --to LOAD` takes all tables "
    "to one load, `tidemark rebuild` shows what Bronze makes of them and puts it in place.",
    "gold": "Run once more: Gold then follows what was undone in Silver. If the check still fails: remove the gold_ tables and "
    "run again, which audits and publishes what Silver holds.",
    "payloads": _AGAIN,
    "decided_again": _AGAIN,
}
"""By the table's layer, or by the check."""


def check_table(run: Run, check: str, table: str, violations: Iterable[Violation], holds: str) -> Check:
    """Return the finding of a check of one table: its first violation and the next step, or that it `holds`."""
    next_step = _OUT.get(check) or _OUT[table.partition("_")[0]]
    return finding(check, violations, where=str(run.table(table)), holds=holds, next_step=next_step)
