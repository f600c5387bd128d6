"""Whether few records wait for a run, so that its session may go without the JVM's second compiler: decision 0080.

Looks only at tables in a local folder and at Kafka. Anything unknown counts as many.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lakehouse.table import GOLD_STREAM_HEALTH, SILVER_WATERMARKS, Lakehouse

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

_MOST_RECORDS = 200_000
_SECONDS = 2.0
_STREAM = ("topic", "partition", "high_watermark", "last_offset", "load_seq")


def few_wait(settings: Settings) -> bool:
    """Whether few records wait in Kafka or Bronze, and no others for Gold."""
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(_few_wait(settings)), daemon=True)
    asking.start()
    asking.join(_SECONDS)  # brokers that are slow to answer are the run's own matter
    return found == [True]


def _few_wait(settings: Settings) -> bool:
    from bronze.kafka.metadata import LookError
    from lakehouse.delta import log_files, small_tables
    from tidemark.readers.lag import lags

    lakehouse = Lakehouse.of(settings)
    health = lakehouse.table(GOLD_STREAM_HEALTH).local_folder
    if health is None:
        return False
    found = small_tables.few(lakehouse.table(SILVER_WATERMARKS), _STREAM, [], is_outside=True)
    streams = [] if found is None else found.to_pylist()
    if max((row["load_seq"] for row in streams), default=0) > max(log_files.highest_of_files(health, "load_seq") or [0]):
        return False
    try:
        waiting: int = sum(row["lag"] for row in lags(settings.kafka, streams))
    except LookError:
        return False
    return waiting <= _MOST_RECORDS
