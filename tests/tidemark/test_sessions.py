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

# One JVM: a session without Delta's settings, then one with them and without Delta's jars.
LACKING = """
import sys
from pyspark.sql import SparkSession

import tidemark

def refused(given):
    try:
        tidemark.plan(sys.argv[1], spark=given)
    except tidemark.ToolError as error:
        print(error.what, *error.next_step.splitlines()[1:3])

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
refused(spark)
refused(None)  # the one that is found running
print(spark.range(3).count())
spark.stop()
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
spark = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").getOrCreate()
refused(spark)
print(spark._jsc is not None)
"""
STOPPED = """
import sys

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


def test_a_session_that_lacks_delta_is_refused_with_the_lines_and_a_stopped_one(tmp_path: Path) -> None:
    lines = f'.config("spark.jars.packages", "{jars.packages()}")'
    lines += ' .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")'
    settings = f"The Spark session lacks settings of Delta Lake. {lines}"
    of_jars = f"The Spark session lacks the jars of Delta Lake. {lines}"
    config = str(write_config(tmp_path, root="lakehouse"))
    assert printed(LACKING, config) == [settings, settings, "3", of_jars, "True"]
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
        assert printed(OVER_CONNECT, str(config), url) == ["pyspark.sql.connect.session 3 3 True", "Europe/Berlin 3"]
