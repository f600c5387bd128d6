"""Whether tables are small, so that a command's session may go without the JVM's second compiler: docs/decisions/0080."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.table import BRONZE_RECORDS, Lakehouse

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

_MOST_BYTES = 32 * 2**20


def is_small(settings: Settings) -> bool:
    """Whether Bronze, which has the most bytes of all tables, has few. What no log in a local folder says is not known."""
    from lakehouse.delta import log_files

    folder = Lakehouse.of(settings).table(BRONZE_RECORDS).local_folder
    state = None if folder is None else log_files.local_state(folder)
    return folder is not None and (state is None or sum(state.sizes) <= _MOST_BYTES)
