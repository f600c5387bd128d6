"""Records of killed processes through `tidemark run`: each of them is in Silver and in Gold once."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tidemark_producer import Counter, FileStore, Position, Sender

from lakehouse.run.context import Run
from tests.support.producing import RESUMING, Kit, in_row, run_and_kill, start
from tests.support.small_config import write_config
from tidemark.commands import main

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.fault]


def test_given_and_counted_numbers_are_in_gold_once(spark: SparkSession, run: Run, kit: Kit, asked: Callable[..., Any]) -> None:
    name, numbers, rows_of = kit.topic(3), kit.folder / "numbers", kit.folder / "kit.db"
    config = write_config(
        kit.folder,
        root=str(kit.folder / "lakehouse"),
        kafka={"bootstrap_servers": kit.servers, "topics": [name]},
        producer={"header": "producer"},
        epoch={"header": "epoch"},
    )
    for seed in range(3):
        run_and_kill(seed, RESUMING, kit.servers, name, str(10**9), "by key")
        if seed == 0:
            assert main(["run", "--config", str(config)]) == 0
    reached = max(record.position[1] for record in kit.records(name)) + 1
    process = start(RESUMING, kit.servers, name, str(reached), "by key")
    assert process.communicate(timeout=60)[0].endswith("done\n")
    for _ in range(2):
        with Sender(kit.config, "counting", Counter(FileStore(numbers), new=True)) as sender:
            for number in range(500):
                sender.send(name, b"v", b"%d" % (number % 3))
    overtaken = Sender(kit.config, "twice", Counter(in_row(rows_of), new=True))
    overtaken.send(name, b"first", b"k").result(30)
    with Sender(kit.config, "twice", Counter(in_row(rows_of))) as second:
        second.send(name, b"second", b"k").result(30)
        overtaken.send(name, b"from a zombie", b"k").result(30)
    overtaken.close()
    assert main(["run", "--config", str(config)]) == 0

    for table in ("silver_records", "gold_records"):
        rows = spark.read.table(run.table(table).sql).select("producer", "epoch", "sequence", "value").collect()
        given = sorted((row["sequence"], bytes(row["value"])) for row in rows if row["producer"] == "shop")
        assert given == [(number, b"%d" % number) for number in range(reached)]
        counted = sorted((row["epoch"], row["sequence"]) for row in rows if row["producer"] == "counting")
        assert counted == [(epoch, number) for epoch in (1, 2) for number in range(500)]
        assert {bytes(row["value"]) for row in rows if row["producer"] == "twice"} == {b"first", b"second"}
    rejected = asked(
        config, "sql", "SELECT producer, class, sum(records) AS records FROM silver_rejects GROUP BY ALL ORDER BY 1, 2"
    )
    assert [(row["producer"], row["class"]) for row in rejected] == [("shop", "duplicate"), ("twice", "fenced")]

    # docs/producers.md: after a store was lost, Silver knows the last number.
    query = (
        f"SELECT epoch, sequence FROM silver_last_accepted WHERE topic = '{name}' AND producer = 'counting' "
        "ORDER BY epoch DESC, sequence DESC LIMIT 1"
    )
    (last,) = asked(config, "sql", query)
    after = Position(last["epoch"], last["sequence"])
    assert after == (2, 499)
    with Sender(kit.config, "counting", Counter(FileStore(kit.folder / "new"), after=after)) as sender:
        assert sender.send(name, b"v", b"k").result(30)[3:] == (3, 0)
