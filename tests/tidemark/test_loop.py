"""`tidemark run --every` on a real topic."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.job import Job
from tests.conftest import Events
from tests.support.kafka import send, sequenced
from tests.support.small_config import write_config
from tidemark.extras.demo.broker import LocalBroker
from tidemark.process.context import load_settings
from tidemark.runner.loop import run_every

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_new_records_start_a_run_and_the_minute_has_their_freshness_and_lag(
    spark: SparkSession, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    source, servers = topic(1), broker.bootstrap_servers
    kafka = {"bootstrap_servers": servers, "topics": [source]}
    config = write_config(tmp_path, root=str(tmp_path / "lakehouse"), kafka=kafka, sequence={"header": "seq"})
    results, sums, report = list[dict[str, Any]](), list[dict[str, Any]](), Events()

    def on_result(result: dict[str, Any]) -> None:
        results.append(result)
        if len(results) == 1:
            send(servers, source, sequenced(3, 4, 5))  # after the run, before the minute
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    send(servers, source, sequenced(1, 2))
    job = Job.on(spark, load_settings(config, None), report)
    assert run_every(job, seconds=3600, on_result=on_result, on_minute=sums.append) == 143

    assert [each["gold"]["records"] for each in results] == [2, 3]
    first = sums[0]  # a slow second run adds another
    fresh = first.pop("freshness_seconds")
    assert 0 < fresh["p50"] <= fresh["p99"] < 600
    assert first.pop("longest_run_seconds") > 0
    assert first == {"records": 2, "lag": 3, "loads": 1, "runs": 1}
    assert [name for name in report.names if name.endswith("_failed")] == []
