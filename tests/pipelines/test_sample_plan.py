"""`plan` before the first run: a sample from Kafka is decided as the first load decides it, and nothing is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.dev_broker.broker import LocalBroker
from lakehouse.contracts.silver import CLASSES
from lakehouse.errors import SourceError
from lakehouse.settings.pipeline import Settings
from pipelines import medallion
from pipelines.job import Job
from tests.conftest import Events
from tests.support.kafka import Sent, send
from tests.support.small_config import small_config
from tidemark.runner.summary import write_plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

JSON = {"format": "json", "schema": "n BIGINT"}


@pytest.fixture
def job(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> Callable[..., Job]:
    def make(topic: str, **more: Any) -> Job:
        kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [topic], **more.pop("kafka", {})}
        config = small_config(str(tmp_path / "lake"), kafka=kafka, **more)
        return Job.on(spark, Settings.model_validate(config, context={"folder": tmp_path}), Events())

    return make


def test_a_sample_is_decided_as_the_first_load_decides_it_and_nothing_is_made(
    job: Callable[..., Job], topic: Callable[..., str], broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic(2)
    again = [Sent(b'{"n": 1}', key=b"k", headers=[("seq", b"3")]), Sent(b"no json", headers=[("seq", b"90")])]
    records = [Sent(b'{"n": 1}', key=b"k", headers=[("seq", b"%d" % each)]) for each in (1, 2, 3, 9, 5, 2, 10)]
    other = [Sent(b'{"n": 2}', headers=[("seq", b"%d" % each)], partition=1) for each in (4, 5)]
    send(broker.bootstrap_servers, name, [*records, *again, Sent(None), *other])
    first = job(name, value=JSON)

    planned: dict[str, Any] = medallion.plan(first)

    assert not (tmp_path / "lake").exists()
    assert (planned["load_seq"], planned["sample"]["records"], planned["sample"]["available"]) == (None, 12, 12)
    counted = {name: sum(stream[name] for stream in planned["streams"]) for name in CLASSES}
    assert {name: found for name, found in counted.items() if found} == {"accepted": 7, "duplicate": 2, "late": 1, "invalid": 2}
    write_plan(planned, as_json=False)
    said = capsys.readouterr().out
    assert said.startswith("There are no tables yet: the first run makes them.\nOf a sample of 12 records")
    assert "accepted 7, duplicate 2, late 1, invalid 2" in said

    done: dict[str, Any] = medallion.run(first, "bronze")
    assert done["bronze"]["records"] == 12
    from_tables: dict[str, Any] = medallion.plan(first)
    assert from_tables.get("sample") is None
    assert from_tables["load_seq"] == 1
    assert [from_tables[each] for each in ("records", "streams", "kept_out", "breaker")] == [
        planned[each] for each in ("records", "streams", "kept_out", "breaker")
    ]


def test_what_stops_the_first_load_or_leaves_it_nothing_is_said(
    job: Callable[..., Job], topic: Callable[..., str], broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic()
    write_plan(medallion.plan(job(name)), as_json=False)
    assert capsys.readouterr().out == (
        "There are no tables yet, and no records in Kafka to decide: the first run makes the tables.\n"
    )
    with pytest.raises(SourceError, match="A topic does not exist"):
        medallion.plan(job(f"{name}-x"))

    send(broker.bootstrap_servers, name, [Sent(b"v", headers=[("no", b"%d" % each)]) for each in range(20)])
    planned: dict[str, Any] = medallion.plan(job(name))
    assert [trip["observed"] for trip in planned["breaker"]] == ["20 of 20 records: 20 invalid"]
    many = [Sent(b"v", headers=[("seq", b"1"), ("who", b"%d" % each)]) for each in range(20)]
    send(broker.bootstrap_servers, name, many)
    limited: dict[str, Any] = medallion.plan(job(name, producer={"header": "who"}, policies={"max_new_streams": 3}))
    assert (limited["streams"], len(limited["breaker"])) == ([], 1)
    from_offset: dict[str, Any] = medallion.plan(job(name, kafka={"starting_offsets": {name: {"0": 37}}}))
    assert from_offset["sample"]["records"] == 3
    write_plan(medallion.plan(job(name, kafka={"starting_offsets": "latest"})), as_json=False)
    assert "the run itself reads only what comes later" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
