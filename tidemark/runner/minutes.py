"""The sums of each minute of `tidemark run --every`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidemark.process.exit_codes import best_effort

if TYPE_CHECKING:
    from pipelines.job import Job

_MINUTE = 60
_PERCENTILES = (50, 99)


class Minutes:
    """Forwards the events of runs, and sums them up after the first run and then once a minute.

    `on_minute` gets records (rows that Gold gained), freshness_seconds (p50 and p99, from Kafka's timestamp to Gold), lag
    (offsets of Kafka that Silver has not decided; None if unknown), loads, runs and longest_run_seconds.
    """

    def __init__(self, job: Job, on_minute: Callable[[dict[str, Any]], None] | None) -> None:
        self._job, self._on_minute = job, on_minute
        self._start(due=time.monotonic())

    def event(self, name: str, **fields: Any) -> None:
        """Forward an event; count its loads and records."""
        if name == "silver.finished":
            self._loads += len(fields["loads"])
        elif name == "gold.finished" and fields["records"]:
            self._records += fields["records"]
            self._published.append((fields["first_load_seq"], fields["last_load_seq"], time.time()))
        self._job.report.event(name, **fields)

    def end_run(self, seconds: float) -> None:
        """Count a run and its duration; sum up once a minute. A failure is reported, and does not end the loop."""
        self._seconds.append(seconds)
        if time.monotonic() < self._due:
            return
        if self._on_minute is not None:
            with best_effort(self._job.report, "run.minute"):
                self._on_minute(
                    {
                        "records": self._records,
                        "freshness_seconds": self._freshness() if self._published else {},
                        "lag": self._lag(),
                        "loads": self._loads,
                        "runs": len(self._seconds),
                        "longest_run_seconds": round(max(self._seconds), 1),
                    }
                )
        self._start(due=time.monotonic() + _MINUTE)

    def _start(self, *, due: float) -> None:
        self._due, self._records, self._loads = due, 0, 0
        self._published = list[tuple[int, int, float]]()
        """First and last load, and the end of Gold in seconds since 1970."""
        self._seconds = list[float]()

    def _freshness(self) -> dict[str, float]:
        """Read the timestamps of the published records."""
        from pyspark.sql import functions as F

        from lakehouse.table import GOLD_RECORDS

        table, load_seq = self._job.new_run().table(GOLD_RECORDS), F.col("load_seq")
        published_at = F.coalesce(*(F.when(load_seq.between(first, last), at) for first, last, at in self._published))
        seconds = published_at - F.col("timestamp").cast("double")
        rows = self._job.spark.read.table(table.sql).where(load_seq.between(self._published[0][0], self._published[-1][1]))
        [[found]] = rows.agg(F.percentile_approx(seconds, [each / 100 for each in _PERCENTILES])).collect()
        return {f"p{each}": round(at, 1) for each, at in zip(_PERCENTILES, found or (), strict=False)}

    def _lag(self) -> int | None:
        from pipelines import medallion
        from tidemark.readers.lag import lags_of

        lags: list[int] = []
        with best_effort(self._job.report, "run.lag"):
            lags = [row["lag"] for row in lags_of(self._job, medallion.partitions(self._job))]
        return sum(lags) if lags else None
