"""Release and discard of records that expectations kept out of Gold: Silver has them, so a load only records the decision.

Gold gets released records with the next range that is published, under the number of the load that released them: see
`gold.publish`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import DISCARDED, HELD, RELEASE, RELEASED
from lakehouse.delta import tables
from lakehouse.protocol import gold_rejects, swap_fence
from lakehouse.protocol.gold_rejects import ROW
from lakehouse.spark import frames
from lakehouse.table import GOLD_REJECTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from silver.state.plan import Plan
    from silver.state.request import Request
_SETTLED = "tidemark_aside_settled"


def select_rejects(spark: SparkSession, run: Run, request: Request, load_seq: int) -> pa.Table:
    """Choose which records kept out of Gold a release or discard settles. A repeat of the same load chooses the same.

    Args:
        spark: The session.
        run: The run.
        request: The request.
        load_seq: The load that settles it.

    Returns:
        Rows of `gold_rejects`, one per record.
    """
    wanted, up_to = request.wanted, request.published_to
    is_meant = up_to is not None and (wanted is None or wanted.kind in (None, UNMET))
    if not is_meant or run.lakehouse.shadow is not None:  # a shadow has no Gold: the gate audits its records again
        return ROW.empty_table()
    asked = {}
    if wanted is not None:
        names = ("topic", "partition", "offset", "producer")
        asked = {name: value for name in names if (value := getattr(wanted, name)) is not None}
    rows = [
        row
        for row in gold_rejects.standing(spark, run, up_to=up_to)
        if (row["state"] == HELD or row["settled_load_seq"] == load_seq)
        and all(row[name] == value for name, value in asked.items())
        and (request.up_to_load_seq is None or row["load_seq"] <= request.up_to_load_seq)
    ]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"])), ROW)


def mark_settled(spark: SparkSession, run: Run, plan: Plan) -> None:
    """Mark what a load settles as released or discarded: one MERGE on rows still held, so a repeat changes nothing.

    Commits to gold_rejects.

    Raises:
        AnotherWriterError: Another run marked the same rows at the same time.
    """
    table, rows = run.table(GOLD_REJECTS), plan.settled_aside
    first, last = (bound.as_py() for bound in pc.min_max(rows["load_seq"]).values())
    state = RELEASED if plan.request is not None and plan.request.kind == RELEASE else DISCARDED
    places = frames.of_arrow(spark, rows.select([*gold_rejects.PLACE, "gate_run_id"]))
    swap_fence.guarded(places, run, plan.load_seq).createOrReplaceTempView(_SETTLED)
    try:
        tables.merge(
            spark,
            f"""
            MERGE INTO {table.sql} AS reject USING {_SETTLED} AS settled
            ON reject.topic = settled.topic AND reject.partition = settled.partition AND reject.offset = settled.offset
              AND reject.gate_run_id = settled.gate_run_id
              AND reject.state = '{HELD}' AND reject.load_seq BETWEEN {first} AND {last}
            WHEN MATCHED THEN UPDATE SET state = '{state}', settled_load_seq = {plan.load_seq}
            """,
            table,
        )
    finally:
        spark.catalog.dropTempView(_SETTLED)
