"""The largest numbers that are allowed, in every stream and epoch: what counts, sums up and shows them does not overflow."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from lakehouse.contracts import views
from lakehouse.run.context import Run
from tests.support.bronze import Record
from tests.support.small_config import settings_of
from tests.support.stages import loaded, published, require_sound
from tidemark.extras.report.facts import facts
from tidemark.readers.database import run_query
from tidemark.readers.status import status

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("created_tables")]

LARGEST = 2**63 - 1


def test_streams_that_step_over_nearly_all_numbers_are_counted_published_and_shown(
    spark: SparkSession, new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    policies = {"contiguous": True, "max_quarantined_share": 1}
    settings = settings_of(run, epoch={"header": "epoch"}, policies=policies)
    sent = [(0, 0), (0, LARGEST), (0, LARGEST), (LARGEST, 0), (LARGEST, LARGEST), (LARGEST, 5)]
    records = [
        Record.of(LARGEST - 10 + nth, sequence, epoch=epoch, partition=partition)
        for nth, (epoch, sequence) in enumerate(sent)
        for partition in (0, 1)
    ]
    loaded(spark, new_run(), settings, records[:6])
    last = loaded(spark, new_run(), settings, records[6:])
    published(spark, new_run(), settings)

    assert [last.counts[name] for name in ("accepted", "late")] == [4, 2]
    require_sound(spark, new_run(), is_deep=True)
    found = status(run.pipeline, run.lakehouse)
    assert [(row["epoch"], row["high_watermark"]) for row in found["streams"]] == [(LARGEST, LARGEST)] * 2
    assert [(row["sequences"], row["ranges"]) for row in found["missing"]] == [(LARGEST, 2)] * 2
    monkeypatch.setattr("tidemark.extras.report.facts.MAX_SLICES", 1)
    told = facts(settings, run.lakehouse, asks_kafka=False)
    assert [row["missing"] for row in told["history"]] == [LARGEST] * 2
    with run_query(run.lakehouse, f"SELECT missing FROM {views.WATERMARK_STATUS}") as rows:
        assert list(rows.rows) == [(LARGEST,)] * 2
    query = views.queries("spark", lambda name: run.table(name).sql)[views.WATERMARK_STATUS]
    assert [row["missing"] for row in spark.sql(query).collect()] == [LARGEST] * 2
