"""From a real topic to audited Gold, through the command line, as a scheduled job runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jobs import cli
from jobs.demo.producer import incidents, names, produce
from tests.support.kafka import Sent, send
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.run.context import Run

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]


def config_for(tmp_path: Path, broker: LocalBroker, topic: str, **more: Any) -> Path:
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [topic]}
    return write_config(tmp_path, root=str(tmp_path / "lakehouse"), kafka=kafka, **more)


def test_the_articles_example_ends_in_gold_once_each_and_in_order(
    spark: SparkSession, run: Run, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic(2)
    config = config_for(
        tmp_path, broker, name, sequence={"json": "$.id"}, value={"format": "json", "schema": "id BIGINT, data STRING"}
    )
    produce(broker.bootstrap_servers, name, incidents())

    assert cli.main(["run", "--config", str(config)]) == 0
    assert cli.main(["run", "--config", str(config)]) == 0

    gold = spark.read.table(run.table("gold_records").sql).orderBy("partition", "offset").collect()
    by_incident: dict[str, list[tuple[int, str]]] = {}
    for row in gold:
        by_incident.setdefault(row["key"].decode(), []).append((row["payload"]["id"], row["payload"]["data"]))
    assert by_incident == {
        "A": [(1, "ab583cc8f8"), (6, "8f8bc8f890"), (7, "07583ab583"), (8, "930fce58f3")],
        "B": [(2, "83ccc8f8f8"), (5, "a583ccc8f8"), (9, "7583ab93ab"), (11, "b583075830")],
        "C": [(3, "115tab5b58"), (4, "83caac564b"), (10, "7583aab583")],
    }
    latest = spark.read.table(run.table("gold_latest").sql).collect()
    assert {row["key"].decode(): row["payload"]["id"] for row in latest} == {"A": 8, "B": 11, "C": 10}
    health = spark.read.table(run.table("gold_stream_health").sql).select("load_seq").distinct().collect()
    assert [row["load_seq"] for row in health] == [1]  # the second run had nothing to do


def test_the_simplified_example_a_name_and_a_number_keeps_each_number_once(
    spark: SparkSession, run: Run, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic(2)
    config = config_for(tmp_path, broker, name, sequence={"value": "utf8"})
    produce(broker.bootstrap_servers, name, names())

    assert cli.main(["run", "--config", str(config)]) == 0

    gold = spark.read.table(run.table("gold_records").sql).orderBy("partition", "offset").collect()
    by_name: dict[bytes, list[int]] = {}
    for row in gold:
        by_name.setdefault(row["key"], []).append(int(row["value"]))
    assert by_name == {b"ada": [3, 6, 9, 12], b"grace": [1, 4, 7, 10], b"linus": [2, 5, 8, 11]}


def test_late_records_duplicates_and_a_restart_wait_for_a_person_and_then_reach_gold(
    spark: SparkSession,
    run: Run,
    tmp_path: Path,
    broker: LocalBroker,
    topic: Callable[..., str],
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic()
    config = config_for(tmp_path, broker, name, gate={"budgets": {"duplicate": {"critical": 0}}})

    def ends(*command: str) -> tuple[int, str]:
        """The exit code of a command, and what it prints."""
        capsys.readouterr()
        return cli.main([*command, "--config", str(config)]), capsys.readouterr().out

    def in_gold() -> list[tuple[int, int, str]]:
        rows = spark.read.table(run.table("gold_records").sql).orderBy("epoch", "sequence").collect()
        return [(row["epoch"], row["sequence"], row["arrival"]) for row in rows]

    def put(*numbers: int, value: bytes = b"first") -> None:
        send(broker.bootstrap_servers, name, [Sent(value, headers=[("seq", b"%d" % n)]) for n in numbers])

    by_ann = ("--reason", "asked the sender", "--by", "ann")
    put(1, 2, 4, 3, *range(5, 21))
    assert ends("run")[0] == 0
    release = ("quarantine", "release", name, "0", "3", *by_ann)
    assert "Released 1 record (late 1), as load 2." in ends(*release)[1]
    assert "There is nothing to do." in ends(*release)[1]
    assert ends("run")[0] == 0
    late = [(0, n, "late" if n == 3 else "in_order") for n in range(1, 21)]
    assert in_gold() == late
    explained = ends("why", name, "0", "3")[1]
    assert "It was released by ann in load 2" in explained
    assert "Published by gate run" in explained

    put(20, 21)
    assert ends("run")[0] == 3
    assert in_gold() == late
    failed = spark.read.table(run.table("gate_results").sql).where("outcome = 'failed' AND severity = 'critical'").collect()
    assert [(row["expectation"], row["first_load_seq"]) for row in failed] == [("budget_duplicate", 3)]
    assert ends("run", "--set", "gate.budgets={duplicate: {warn: 0}}")[0] == 0
    assert in_gold() == [*late, (0, 21, "in_order")]

    put(*range(1, 21), value=b"installed again")
    assert ends("run")[0] == 5
    loads = spark.read.table(run.table("silver_loads").sql)
    assert loads.count() == 3
    assert "The breaker would stop this load." in ends("plan")[1]
    reset = ("watermark", "reset", name, "0", "--new-epoch", *by_ann)
    assert (ends(*reset, "--dry-run")[0], loads.count()) == (0, 3)
    assert (ends(*reset)[0], ends("run")[0]) == (0, 0)
    assert in_gold() == [*late, (0, 21, "in_order"), *((1, n, "in_order") for n in range(1, 21))]


def test_bad_records_keep_their_bytes_in_bronze_end_in_their_class_and_stop_nothing(
    spark: SparkSession, run: Run, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic()
    config = config_for(tmp_path, broker, name)
    sent = [
        (Sent(b"1", headers=[("seq", b"1")]), "accepted"),  # null key
        (Sent(None, b"k", [("seq", b"2")]), "accepted"),
        (Sent(b"", b"k", [("seq", b"3")]), "accepted"),
        (Sent(b"no header", b"k"), "sequence_missing"),
        (Sent(b"twice", b"k", [("seq", b"4"), ("seq", b"4")]), "accepted"),
        (Sent(b"twice", b"k", [("seq", b"4"), ("seq", b"5")]), "sequence_disagrees"),
        (Sent(b"x" * 1_000_000, b"k", [("seq", b"5")]), "accepted"),
        (Sent(b"\xff\xfe\x00", b"\xc3\x28", [("seq", b"6")]), "accepted"),
        (Sent(b"v", b"k", [("seq", b"\xff\xfe")]), "sequence_not_a_whole_number"),
        (Sent(b"v", b"k", [("seq", b"1" * 40)]), "sequence_out_of_range"),
        (Sent(b"v", b"k", [("seq", b"-7")]), "sequence_not_a_whole_number"),
        (Sent(b"v", b"k", [("seq", b"7.5")]), "sequence_not_a_whole_number"),
        (Sent(b"v", b"k", [("seq", b"7")]), "accepted"),
    ]
    send(broker.bootstrap_servers, name, [record for record, _ in sent])

    assert cli.main(["run", "--config", str(config)]) == 0

    bronze = spark.read.table(run.table("bronze_records").sql).orderBy("offset").collect()
    assert [(row["key"], row["value"]) for row in bronze] == [(record.key, record.value) for record, _ in sent]
    accepted = spark.read.table(run.table("gold_records").sql).select("offset").collect()
    rejects = spark.read.table(run.table("silver_rejects").sql).collect()
    ended = {row["offset"]: "accepted" for row in accepted} | {row["first_offset"]: row["reason"] for row in rejects}
    assert [ended[offset] for offset in range(len(sent))] == [expected for _, expected in sent]
