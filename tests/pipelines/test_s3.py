"""A whole pipeline in S3 whose commits are met by another writer's, and whose answers are lost."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

from lakehouse.sidecar_files import Files
from lakehouse.storage import S3Storage
from lakehouse.table import Lakehouse
from tests.conftest import Ask, Topics
from tests.support.kafka import send, sequenced
from tests.support.object_store import Request, before_store, make_bucket, section, storage
from tests.support.small_config import write_config
from tidemark.commands import main
from tidemark.extras.demo.broker import LocalBroker

TIMES = int(os.environ.get("TESTS_TIMES", "12"))  # commits that a rival's comes before, and commits whose answer is lost

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(1800 + 30 * TIMES)]


def test_no_commit_of_a_pipeline_overwrites_another_writers(
    tmp_path: Path, broker: LocalBroker, topic: Topics, s3: int, in_s3: Callable[..., Lakehouse], *, asked: Ask
) -> None:
    name = topic()
    with before_store(s3) as (port, interference):
        make_bucket(s3, f"behind-{port}")
        lakehouse = in_s3(port, f"behind-{port}")
        bucket = Files(f"s3://behind-{port}", storage(s3))  # the rival's way, past the proxy
        assert isinstance(lakehouse.storage, S3Storage)
        place = section("root", lakehouse.root or "", lakehouse.storage)  # its credentials are references, as a user has them
        kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [name]}
        config = write_config(tmp_path, root="", kafka=kafka, lakehouse=place)
        rivals: dict[str, bytes] = {}
        lost: list[str] = []

        def before(request: Request) -> None:
            """Commit first, once at every other version of a table: a commit that changes nothing."""
            path = request.path.partition(f"/behind-{port}/")[2]
            version = int(path.rpartition("/")[2].removesuffix(".json")) if request.is_commit else 0
            if version % 2 and path not in rivals:
                rivals[path] = json.dumps({"commitInfo": {"operation": "RIVAL", "timestamp": version}}).encode()
                obstore.put(bucket.store, path, rivals[path])

        def is_lost(request: Request) -> bool:
            is_first = request.is_commit and request.status == 200 and request.path not in lost
            if is_first:
                lost.append(request.path)
            return is_first

        def ran(*sequences: int) -> None:
            send(broker.bootstrap_servers, name, sequenced(*sequences))
            assert main(["run", "--config", str(config)]) == 0

        more = 0
        interference.before = before
        for sequences in ((1, 2, 3), (2, 3, 5), (4, 6)):
            ran(*sequences)
        while len(rivals) < TIMES:
            more += 1
            ran(6 + more, 6 + more)
        interference.before = lambda _: None
        interference.is_lost = is_lost
        while len(lost) < TIMES:
            more += 1
            ran(6 + more, 6 + more)
        interference.is_lost = lambda _: False

        tables = {path.split("/")[-3] for path in rivals}
        assert tables >= {
            "bronze_records",
            "silver_records",
            "silver_loads",
            "silver_watermarks",
            "gate_results",
            "gold_records",
        }
        assert {path: bucket.read(path) for path in rivals} == rivals
        totals = asked(config, "status")["totals"]
        assert totals | {"records": 8 + 2 * more, "accepted": 5 + more, "duplicate": 2 + more, "late": 1} == totals
        assert asked(config, "sql", "SELECT count(*) AS n, count(DISTINCT sequence) AS d FROM gold_records") == [
            {"n": 5 + more, "d": 5 + more}
        ]
        assert asked(config, "verify", "--deep")["ok"]
