"""The records that expectations kept out of Gold: the rows of `gold_rejects`, and which of them are in effect.

A gate run writes its rows before its results. A row is in effect once its own gate run has published its load, as
gold_stream_health records. Until then it is a proposal. If another gate run published the load, it is history. So no row
has to be removed when a load is rejected or audited again.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.gate import GateRun
from lakehouse.contracts.gold import REJECTS, STREAM_HEALTH
from lakehouse.contracts.silver import PLACE, RELEASED
from lakehouse.delta import small_tables
from lakehouse.delta.small_tables import From, Row
from lakehouse.run.context import Run
from lakehouse.spark import frames
from lakehouse.table import GOLD_REJECTS, GOLD_STREAM_HEALTH

_load_and_gate_run = itemgetter("load_seq", "gate_run_id")


def found(spark: SparkSession, run: Run, gate_run: GateRun) -> list[Row]:
    """Return the rows of a gate run: records that its range leaves out of Gold."""
    rows = _read(spark, run, start=("load_seq", gate_run.first_load_seq))
    return [row for row in rows if row["gate_run_id"] == gate_run.gate_run_id]


def effective_rejects(spark: SparkSession, run: Run, *, up_to: int | None = None) -> list[Row]:
    """Return the rows in effect, of loads up to `up_to`: those whose own gate run published their load."""
    rows = [row for row in _read(spark, run) if up_to is None or row["load_seq"] <= up_to]
    published = _published(spark, run, rows)
    return [row for row in rows if _load_and_gate_run(row) in published]


def released_for_range(spark: SparkSession, run: Run, gate_run: GateRun) -> list[Row]:
    """Return the rows that operators released in loads of a gate run's range; Gold gets their records with it."""
    rows = _read(spark, run, start=("settled_load_seq", gate_run.first_load_seq))
    settled = [row for row in rows if row["state"] == RELEASED and row["settled_load_seq"] <= gate_run.last_load_seq]
    released = [row for row in settled if row["settled_load_seq"] not in gate_run.rejected]
    published = _published(spark, run, released)
    return [row for row in released if row["gate_run_id"] == gate_run.gate_run_id or _load_and_gate_run(row) in published]


def places(spark: SparkSession, rows: Iterable[Row], *more: str) -> DataFrame:
    """Return topic, partition and offset of some rows as a frame, with more of their numeric columns."""
    columns = ["topic string", "partition int", "offset bigint", *(f"{name} bigint" for name in more)]
    return frames.of_tuples(spark, [[row[name] for name in (*PLACE, *more)] for row in rows], ", ".join(columns))


def without(spark: SparkSession, records: DataFrame, rows: Sequence[Row]) -> DataFrame:
    """Return the records that the rows do not name."""
    if not rows:
        return records
    return records.join(F.broadcast(places(spark, rows)), on=list(PLACE), how="left_anti").select(*records.columns)


def _published(spark: SparkSession, run: Run, rows: Iterable[Row]) -> set[tuple[int, str]]:
    """Return each published load, from the first load of these rows, with the gate run that published it."""
    first = min((row["load_seq"] for row in rows), default=None)
    if first is None:
        return set()
    table, names = run.table(GOLD_STREAM_HEALTH), ("load_seq", "gate_run_id")
    health = small_tables.read(spark, table, names, start=("load_seq", first), contract=STREAM_HEALTH)
    return {_load_and_gate_run(row) for row in health}


def _read(spark: SparkSession, run: Run, *, start: From | None = None) -> list[Row]:
    return small_tables.read(spark, run.table(GOLD_REJECTS), REJECTS.names, start=start, contract=REJECTS)


ROW = frames.arrow_schema(REJECTS)
