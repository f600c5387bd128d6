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


def test_a_budget_that_is_passed_keeps_gold_where_it_is_until_it_is_loosened(
    spark: SparkSession, run: Run, tmp_path: Path, broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic()
    config = config_for(tmp_path, broker, name, gate={"budgets": {"duplicate": {"critical": 0}}})
    numbered = [Sent(b"v", headers=[("seq", b"%d" % number)]) for number in (1, 2, 2, 3)]

    send(broker.bootstrap_servers, name, numbered[:2])
    assert cli.main(["run", "--config", str(config)]) == 0
    send(broker.bootstrap_servers, name, numbered[2:])
    assert cli.main(["run", "--config", str(config)]) == 3

    gold = spark.read.table(run.table("gold_records").sql)
    assert [row["sequence"] for row in gold.orderBy("offset").collect()] == [1, 2]
    failed = spark.read.table(run.table("gate_results").sql).where("outcome = 'failed'").collect()
    assert [(row["expectation"], row["severity"], row["first_load_seq"]) for row in failed] == [
        ("budget_duplicate", "critical", 2)
    ]

    loosened = ["--set", "gate.budgets={duplicate: {warn: 0}}"]
    assert cli.main(["run", "--config", str(config), *loosened]) == 0
    gold = spark.read.table(run.table("gold_records").sql)
    assert [row["sequence"] for row in gold.orderBy("offset").collect()] == [1, 2, 3]


def test_a_producer_that_starts_anew_opens_the_breaker_until_a_person_declares_an_epoch_and_nothing_is_lost(
    spark: SparkSession,
    run: Run,
    tmp_path: Path,
    broker: LocalBroker,
    topic: Callable[..., str],
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic()
    config = config_for(tmp_path, broker, name)
    first, anew = ([Sent(b"%s %d" % (word, n), headers=[("seq", b"%d" % n)]) for n in range(1, 21)] for word in (b"a", b"b"))
    send(broker.bootstrap_servers, name, first)
    assert cli.main(["run", "--config", str(config)]) == 0
    send(broker.bootstrap_servers, name, anew)

    assert cli.main(["run", "--config", str(config)]) == 5
    assert spark.read.table(run.table("silver_loads").sql).count() == 1
    capsys.readouterr()
    assert cli.main(["plan", "--config", str(config)]) == 0
    assert "The breaker would stop this load." in capsys.readouterr().out

    reset = [
        "watermark",
        "reset",
        name,
        "0",
        "--new-epoch",
        "--reason",
        "installed anew",
        "--by",
        "ann",
        "--config",
        str(config),
    ]
    assert cli.main([*reset, "--dry-run"]) == 0
    assert spark.read.table(run.table("silver_loads").sql).count() == 1
    assert cli.main(reset) == 0
    assert cli.main(["run", "--config", str(config)]) == 0
    assert spark.read.table(run.table("gold_records").sql).count() == 40


def test_a_late_record_waits_until_a_person_releases_it_and_then_reaches_gold(
    spark: SparkSession,
    run: Run,
    tmp_path: Path,
    broker: LocalBroker,
    topic: Callable[..., str],
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic()
    config = config_for(tmp_path, broker, name)
    send(broker.bootstrap_servers, name, [Sent(b"%d" % n, headers=[("seq", b"%d" % n)]) for n in (1, 2, 4, 3, 5)])
    assert cli.main(["run", "--config", str(config)]) == 0
    decide = ["quarantine", "release", name, "0", "3", "--reason", "asked the sender", "--by", "ann", "--config", str(config)]

    assert cli.main(decide) == 0
    assert cli.main(decide) == 0
    said = capsys.readouterr().out
    assert cli.main(["run", "--config", str(config)]) == 0
    capsys.readouterr()
    assert cli.main(["why", name, "0", "3", "--config", str(config)]) == 0

    assert "Released 1 record (late 1), as load 2." in said
    assert "There is nothing to do." in said
    gold = spark.read.table(run.table("gold_records").sql).orderBy("sequence").select("sequence", "arrival").collect()
    assert [tuple(row) for row in gold] == [(1, "in_order"), (2, "in_order"), (3, "late"), (4, "in_order"), (5, "in_order")]
    explained = capsys.readouterr().out
    assert "It was released by ann in load 2" in explained
    assert "Published by gate run" in explained


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
