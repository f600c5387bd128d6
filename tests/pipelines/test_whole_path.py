"""From a real topic to audited Gold, through the command line, as a scheduled job runs it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.context import Run
from tests.support.kafka import send_outgoing
from tests.support.small_config import write_config
from tidemark.commands import main
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.demo.producer import Outgoing, incidents

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]


def test_the_articles_examples_end_in_gold_once_each_and_in_order(
    spark: SparkSession, run: Run, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    article, simplified = topic(2), topic(2)
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [article, simplified]}
    own = {
        article: {"sequence": {"json": "$.id"}, "value": {"format": "json", "schema": "id BIGINT, data STRING"}},
        simplified: {"sequence": {"value": "utf8"}},
    }
    config = write_config(tmp_path, root=str(tmp_path / "lakehouse"), kafka=kafka, topics=own)
    send_outgoing(broker.bootstrap_servers, article, incidents())
    places = (("ada", 0), ("grace", 1), ("linus", 0))
    named = [(number, *places[number % 3]) for number in (*range(1, 10), *range(5, 13))]
    names = [Outgoing(partition, name.encode(), b"%d" % number, []) for number, name, partition in named]
    send_outgoing(broker.bootstrap_servers, simplified, names)

    assert main(["run", "--config", str(config)]) == 0
    assert main(["run", "--config", str(config)]) == 0

    by_incident: dict[str, list[tuple[int, str]]] = {}
    by_name: dict[str, list[int]] = {}
    for row in spark.read.table(run.table("gold_records").sql).orderBy("partition", "offset").collect():
        if row["topic"] == article:
            by_incident.setdefault(row["key"].decode(), []).append((row["payload"]["id"], row["payload"]["data"]))
        else:
            by_name.setdefault(row["key"].decode(), []).append(int(row["value"]))
    assert by_incident == {
        "A": [(1, "ab583cc8f8"), (6, "8f8bc8f890"), (7, "07583ab583"), (8, "930fce58f3")],
        "B": [(2, "83ccc8f8f8"), (5, "a583ccc8f8"), (9, "7583ab93ab"), (11, "b583075830")],
        "C": [(3, "115tab5b58"), (4, "83caac564b"), (10, "7583aab583")],
    }
    assert by_name == {"ada": [3, 6, 9, 12], "grace": [1, 4, 7, 10], "linus": [2, 5, 8, 11]}
    latest = spark.read.table(run.table("gold_latest").sql).where("payload.id IS NOT NULL").collect()
    assert {row["key"].decode(): row["payload"]["id"] for row in latest} == {"A": 8, "B": 11, "C": 10}
    health = spark.read.table(run.table("gold_stream_health").sql).select("load_seq").distinct().collect()
    assert [row["load_seq"] for row in health] == [1]  # the second run had nothing to do
