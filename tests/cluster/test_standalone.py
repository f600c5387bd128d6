"""The main job by spark-submit on a standalone cluster, with the wheel, in client mode; and tables over JDBC."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from lakehouse.table import Lakehouse
from tests.support.bronze import Record, put
from tests.support.kafka import send_outgoing
from tests.support.quick import JVM_OPTIONS, QUICK
from tests.support.small_config import settings_of, write_config
from tests.support.spark_servers import beeline, standalone_cluster, submit, thrift_server
from tests.support.stages import ran
from tests.support.wheels import installed
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.demo.producer import incidents
from tidemark.readers import files as query

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.e2e]


def test_the_main_job_runs_with_two_executors(tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]) -> None:
    name = topic(2)
    send_outgoing(broker.bootstrap_servers, name, incidents())
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
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
    }
    with standalone_cluster(tmp_path) as master:
        application = installed() / "jobs" / "run_medallion.py"
        submit(application, "--config", str(config), master=master, packages=installed(), conf=few)
    with query.connect(Lakehouse(root=str(root))) as opened:
        published = opened.rows("SELECT payload['id'] AS id FROM gold_records ORDER BY ALL")
    assert [row["id"] for row in published] == list(range(1, 12))


def test_the_tables_are_queried_over_jdbc(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    put(spark, run, [Record.of(0, 1), Record.of(1, 2, partition=1), Record.of(1, 7)])
    ran(spark, run, settings_of(run))
    names = ("gold_records", "silver_watermarks")
    made = [f"CREATE TABLE {name} USING delta LOCATION '{run.lakehouse.root}/{name}'" for name in names]
    gold = "SELECT partition, offset, sequence FROM gold_records ORDER BY partition, offset"
    marks = "SELECT partition, high_watermark FROM silver_watermarks ORDER BY partition"
    with thrift_server(tmp_path) as url:
        rows = beeline(url, *made, gold, marks)
    assert rows == [["0", "0", "1"], ["0", "1", "7"], ["1", "1", "2"], ["0", "7"], ["1", "2"]]
