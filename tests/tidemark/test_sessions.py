"""Sessions that the caller started: as a notebook has them, and over Spark Connect. Each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.machine import jars
from tests.support.kafka import send, sequenced
from tests.support.small_config import write_config
from tests.support.spark_servers import connect_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from bronze.dev_broker.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

ROOT = Path(__file__).parents[2]

LACKING = """
import sys
from pyspark.sql import SparkSession

import tidemark

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
if sys.argv[2] == "jars":
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = builder.getOrCreate()
for given in (spark, None) if sys.argv[2] == "settings" else (spark,):
    try:
        tidemark.plan(sys.argv[1], spark=given)
    except tidemark.ToolError as error:
        print(error.what)
        print(error.next_step.splitlines()[2])
print(spark.version, spark._jsc is not None if sys.argv[2] == "jars" else spark.range(3).count())
"""
STOPPED = """
import sys
from pyspark.sql import SparkSession

import tidemark
from lakehouse.spark.session import open_session

spark = open_session("a caller's")
spark.stop()
try:
    tidemark.plan(sys.argv[1], spark=spark)
except tidemark.ToolError as error:
    print(error.what)
"""
OVER_CONNECT = """
import sys
from pyspark.sql import SparkSession

import tidemark

spark = SparkSession.builder.remote(sys.argv[2]).getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
result = tidemark.run(sys.argv[1], spark=spark)
print(type(spark).__module__, result.silver.accepted, result.gold.records, tidemark.verify(sys.argv[1], spark=spark).ok)
print(spark.conf.get("spark.sql.session.timeZone"), spark.range(3).count())
"""


def printed(program: str, *arguments: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(write_config(tmp_path, root="lakehouse"))


def test_a_session_without_the_settings_of_delta_is_told_the_lines_also_if_it_is_found_running(config: str) -> None:
    lacks = "The Spark session lacks settings of Delta Lake."
    line = '.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")'
    assert printed(LACKING, config, "settings") == [lacks, line, lacks, line, "4.2.0 3"]


def test_a_session_without_the_jars_of_delta_is_told_the_lines(config: str) -> None:
    what, line, last = printed(LACKING, config, "jars")
    assert what == "The Spark session lacks the jars of Delta Lake."
    assert line == '.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")'
    assert last == "4.2.0 True"
    assert jars.packages() in printed(LACKING.replace("splitlines()[2]", "splitlines()[1]"), config, "jars")[1]


def test_a_session_that_is_stopped_is_told_so(config: str) -> None:
    assert printed(STOPPED, config) == ["The Spark session is stopped."]


@pytest.mark.kafka
def test_a_session_of_spark_connect_is_used_and_keeps_its_settings(
    tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic()
    send(broker.bootstrap_servers, name, sequenced(1, 2, 2, 3))
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [name]}
    config = write_config(tmp_path, root=str(tmp_path / "lakehouse"), kafka=kafka)
    with connect_server(tmp_path) as url:
        assert printed(OVER_CONNECT, str(config), url) == [
            "pyspark.sql.connect.session 3 3 True",
            "Europe/Berlin 3",
        ]
