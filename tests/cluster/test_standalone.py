"""The main job by spark-submit on a standalone cluster of a master and two workers, with the wheel, in client mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.demo.producer import incidents, produce
from jobs.readers import files as query
from lakehouse.table import Lakehouse
from tests.support.quick import JVM_OPTIONS, QUICK
from tests.support.small_config import write_config
from tests.support.spark_servers import beeline, standalone_cluster, submit, thrift_server
from tests.support.wheels import installed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bronze.dev_broker.broker import LocalBroker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.e2e]

_GOLD = "SELECT partition, offset, payload.id FROM gold_records ORDER BY partition, offset"
_MARKS = "SELECT partition, high_watermark FROM silver_watermarks ORDER BY partition"


def test_the_main_job_runs_on_a_standalone_cluster_and_the_tables_are_queried_over_jdbc(
    tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic(2)
    produce(broker.bootstrap_servers, name, incidents())
    root = tmp_path / "lakehouse"
    config = write_config(
        tmp_path,
        root=str(root),
        kafka={"bootstrap_servers": broker.bootstrap_servers, "topics": [name]},
        sequence={"json": "$.id"},
        value={"format": "json", "schema": "id BIGINT, data STRING"},
    )
    few = {
        **QUICK,
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
    }
    with standalone_cluster(tmp_path, workers=2) as master:
        application = installed() / "jobs" / "run_medallion.py"
        submit(application, "--config", str(config), master=master, packages=installed(), conf=few)
    with query.connect(Lakehouse(root=str(root))) as opened:
        gold = _GOLD.replace("offset", '"offset"').replace("payload.id", "payload['id']")
        published, marked = (opened.connection.execute(asked).fetchall() for asked in (gold, _MARKS))
    marks = [[str(value) for value in row] for row in marked]
    assert sorted(row[2] for row in published) == list(range(1, 12))

    made = [f"CREATE TABLE {name} USING delta LOCATION '{root}/{name}'" for name in ("gold_records", "silver_watermarks")]
    with thrift_server(tmp_path) as url:
        rows = [[str(value) for value in row] for row in published]
        assert beeline(url, *made, _GOLD, _MARKS) == [*rows, *marks]
