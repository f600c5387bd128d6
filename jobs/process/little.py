"""Whether a command is for little, so that its session may go without the JVM's second compiler: docs/decisions/0076.

Looks at what costs nothing to look at: tables in a local folder, by their logs, and what Kafka says at once. What is not
known is not little.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lakehouse.table import BRONZE_RECORDS, GOLD_STREAM_HEALTH, SILVER_WATERMARKS, Lakehouse

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.settings.pipeline import Settings

_MOST_BYTES = 32 * 2**20
_MOST_RECORDS = 200_000
_SECONDS = 2.0
_STREAM = ("topic", "partition", "high_watermark", "last_offset", "load_seq")


def is_small(settings: Settings) -> bool:
    """Whether Bronze, which has the most bytes of all tables, has few."""
    from lakehouse.delta import local_files

    folder = _folder(settings, BRONZE_RECORDS)
    return folder is not None and sum(local_files.sizes(folder) or ()) <= _MOST_BYTES


def few_wait(settings: Settings) -> bool:
    """Whether few records wait for a run: in Kafka or Bronze, and none for Gold but those."""
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(_few_wait(settings)), daemon=True)
    asking.start()
    asking.join(_SECONDS)  # brokers that are slow to answer are the run's own matter
    return found == [True]


def _few_wait(settings: Settings) -> bool:
    from bronze.kafka.metadata import LookError
    from jobs.readers.lag import lags
    from lakehouse.delta import local_files

    marks, health = (_folder(settings, name) for name in (SILVER_WATERMARKS, GOLD_STREAM_HEALTH))
    if marks is None or health is None:
        return False
    found = local_files.rows(marks, _STREAM)
    streams = [] if found is None else found.to_pylist()
    if max((row["load_seq"] for row in streams), default=0) > (local_files.highest(health, "load_seq") or 0):
        return False
    try:
        waiting: int = sum(row["lag"] for row in lags(settings.kafka, streams))
    except LookError:
        return False
    return waiting <= _MOST_RECORDS


def _folder(settings: Settings, name: str) -> Path | None:
    return Lakehouse.of(settings).table(name).local_folder
