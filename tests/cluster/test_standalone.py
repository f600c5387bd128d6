"""Jobs by spark-submit on a standalone cluster of a master and two workers, with the wheel, in client mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bronze.dev_broker.broker import LocalBroker, create_topic
from jobs.demo.producer import incidents, produce
from jobs.readers import files as query
from lakehouse.table import Lakehouse
from tests.support.quick import QUICK
from tests.support.small_config import write_config
from tests.support.spark_servers import beeline, standalone_cluster, submit, thrift_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.e2e]

_REPOSITORY = Path(__file__).parents[2]
_JOBS = ("ingest_bronze", "run_medallion", "maintain_tables")
"""A stage alone, all of them, and what changes files; the other stages' jobs differ by nothing but the stage's name."""
_GOLD = "SELECT partition, offset, payload.id FROM gold_records ORDER BY partition, offset"
_MARKS = "SELECT partition, high_watermark FROM silver_watermarks ORDER BY partition"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed alone into a folder."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=_REPOSITORY, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    install = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--target",
        str(folder / "site"),
    ]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    return folder / "site"


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as started:
        yield started


def test_jobs_run_on_a_standalone_cluster_and_the_tables_are_queried_over_jdbc(
    tmp_path: Path, packages: Path, broker: LocalBroker
) -> None:
    create_topic(broker.bootstrap_servers, "t", 2)
    produce(broker.bootstrap_servers, "t", incidents())
    root = tmp_path / "lakehouse"
    config = write_config(
        tmp_path,
        root=str(root),
        kafka={"bootstrap_servers": broker.bootstrap_servers, "topics": ["t"]},
        sequence={"json": "$.id"},
        value={"format": "json", "schema": "id BIGINT, data STRING"},
    )
    few = {**QUICK, "spark.ui.enabled": "false", "spark.executor.memory": "512m"}
    with standalone_cluster(tmp_path, workers=2) as master:
        for job in _JOBS:
            submit(packages / "jobs" / f"{job}.py", "--config", str(config), master=master, packages=packages, conf=few)
    with query.connect(Lakehouse(root=str(root))) as opened:
        gold = _GOLD.replace("offset", '"offset"').replace("payload.id", "payload['id']")
        published, marked = (opened.connection.execute(asked).fetchall() for asked in (gold, _MARKS))
    marks = [[str(value) for value in row] for row in marked]
    assert sorted(row[2] for row in published) == list(range(1, 12))

    with thrift_server(tmp_path) as url:
        for name in ("gold_records", "silver_watermarks"):
            beeline(url, f"CREATE TABLE {name} USING delta LOCATION '{root}/{name}'")
        assert beeline(url, _GOLD) == [[str(value) for value in row] for row in published]
        assert beeline(url, _MARKS) == marks
