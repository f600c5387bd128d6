"""Many runs' topics through one pipeline: Bronze, Silver, the gate and Gold are compared with the topics."""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from bench.loads import Silent
from lakehouse.errors import GateFailedError
from lakehouse.settings.pipeline import Settings
from lakehouse.table import GATE_RESULTS, GOLD_RECORDS, SILVER_RECORDS, SILVER_REJECTS
from pipelines import arrival_order, medallion
from pipelines.job import Job
from silver.audit.arrival_order import Order, diagnose
from tests.chaos.results import NONE
from tests.support.published import Jumps

if TYPE_CHECKING:
    from tests.chaos.lab import Log

Numbers = Mapping[str, Mapping[str, str]]
BY_VALUE: Numbers = {"sequence": {"value": "utf8"}}
BY_KIT: Numbers = {"producer": {"header": "producer"}, "epoch": {"header": "epoch"}, "sequence": {"header": "seq"}}
"""The headers that the producer kit writes."""


def outcomes(
    spark: SparkSession, servers: str, logs: Mapping[str, "Log"], folder: Path, numbers: Numbers
) -> dict[str, dict[str, Any]]:
    """Take all topics through the pipeline, under each policy for late records: the columns of each topic's row."""

    def job(policy: str, *, is_strict: bool = False) -> Job:
        budgets = {name: {"critical": 0} for name in ("duplicate", "late", "missing", "collision")}
        config: dict[str, Any] = {
            "pipeline": "chaos",
            "kafka": {"bootstrap_servers": servers, "topics": list(logs), "max_offsets_per_trigger": 4_000_000},
            "lakehouse": {"root": str(folder / policy)},
            "policies": {"late": policy, "max_quarantined_share": 1, "contiguous": True},
            "gate": {"budgets": budgets if is_strict else {}},
            **numbers,
        }
        return Job.on(spark, Settings.model_validate(config, context={"folder": Path()}), Silent())

    holding, accepting = job("quarantine"), job("accept")
    medallion.run(holding, "bronze")
    shutil.copytree(folder / "quarantine", folder / "accept")
    found: dict[str, dict[str, Any]] = {topic: {"Wrong": []} for topic in logs}
    medallion.run(holding, "silver")
    _compare_order(holding, logs, found)
    _compare_tables(holding, logs, found, is_accepting=False)
    medallion.run(accepting, "silver")
    wrong = _strict_gate_faults(job("accept", is_strict=True), logs)
    gate: Any = medallion.run(accepting, "gate")["gate"]
    if not gate["passed"]:
        wrong.append(f"the gate failed over {gate['failed']}")
    medallion.run(accepting, "gold")
    _compare_tables(accepting, logs, found, is_accepting=True)
    return {topic: {**columns, "Wrong": "; ".join(columns["Wrong"] + wrong)} for topic, columns in found.items()}


def _strict_gate_faults(strict: Job, logs: Mapping[str, "Log"]) -> list[str]:
    with contextlib.suppress(GateFailedError):
        medallion.run(strict, "gate")
    rows = strict.spark.read.table(strict.new_run().table(GATE_RESULTS).sql).collect()
    observed = {row["expectation"]: row["outcome"] for row in rows}
    rising = [log.numbers[log.is_above()] for log in logs.values()]
    is_over = {
        "duplicate": any((~log.is_first()).any() for log in logs.values()),
        "late": any((log.is_first() & ~log.is_above()).any() for log in logs.values()),
        "missing": any((np.diff(numbers) > 1).any() for numbers in rising),
        "collision": False,
    }
    budgets = {f"budget_{name}": "failed" if each else "passed" for name, each in is_over.items()}
    expected = dict.fromkeys(observed, "passed") | budgets
    return [f"the gate says {name} {observed.get(name)}" for name, each in expected.items() if observed.get(name) != each]


def _compare_order(job: Job, logs: Mapping[str, "Log"], found: Mapping[str, dict[str, Any]]) -> None:
    read = arrival_order.orders(job.spark, job.new_run(), job.settings)
    orders = {layer: {order.stream[0]: order for order in own} for layer, own in read.items()}
    for topic, log in logs.items():
        bronze, silver = orders["bronze"][topic], orders["silver"][topic]
        findings = " ".join(finding.name for finding in diagnose(bronze)) or NONE
        kept = _jumps(silver)
        found[topic] |= {"Bronze": bronze.received, "SilverDups": kept.duplicates, "SilverJB": kept.jb, "Findings": findings}
        if (bronze.received, _jumps(bronze)) != (len(log.numbers), log.jumps()):
            found[topic]["Wrong"].append("order does not count what the topic has")
        if kept != Jumps(0, 0, 0, kept.jf, 0):
            found[topic]["Wrong"].append("Silver has duplicates or goes backwards")


def _jumps(order: Order) -> Jumps:
    return Jumps(order.duplicates, order.count("DJF"), order.count("DJB"), order.count("JF"), order.count("JB"))


def _compare_tables(job: Job, logs: Mapping[str, "Log"], found: Mapping[str, dict[str, Any]], *, is_accepting: bool) -> None:
    run, none = job.new_run(), np.empty((0, 3))
    silver = _by_topic(job.spark, run.table(SILVER_RECORDS).sql)
    gold = _by_topic(job.spark, run.table(GOLD_RECORDS).sql) if is_accepting else silver
    rejects: dict[str, set[tuple[str, int]]] = {topic: set() for topic in logs}
    for row in job.spark.read.table(run.table(SILVER_REJECTS).sql).collect():
        rejects[row["topic"]] |= {(row["class"], offset) for offset in range(row["first_offset"], row["last_offset"] + 1)}
    for topic, log in logs.items():
        is_above, is_first = log.is_above(), log.is_first()
        is_late, is_kept = is_first & ~is_above, is_first if is_accepting else is_above
        own, published = silver.get(topic, none), gold.get(topic, none)
        held, doubles = log.offsets[is_late & ~is_kept].tolist(), log.offsets[~is_first].tolist()
        checks = {
            "Silver does not have the records that it has to, or does not mark the late ones": np.array_equal(
                own, np.column_stack((log.offsets, log.numbers, is_late))[is_kept]
            ),
            "the rejects are not the late records to hold and every duplicate": rejects[topic]
            == {*(("late", offset) for offset in held), *(("duplicate", offset) for offset in doubles)},
            "Gold is not Silver": np.array_equal(published, own),
        }
        columns, policy = found[topic], "accept" if is_accepting else "quarantine"
        columns["Wrong"] += [f"{policy}: {each}" for each, holds in checks.items() if not holds]
        if is_accepting:
            columns |= {"SilverAccept": len(own), "Late": int(own[:, 2].sum()), "Gold": len(published)}
        else:
            columns |= {"Silver": len(own), "Held": sum(kind == "late" for kind, _ in rejects[topic])}


def _by_topic(spark: SparkSession, table: str) -> dict[str, NDArray[Any]]:
    columns = ("topic", "offset", "sequence", "int(arrival = 'late') AS is_late")
    rows = spark.read.table(table).selectExpr(*columns).toArrow().to_pandas().sort_values("offset")
    return {str(topic): own.drop(columns="topic").to_numpy() for topic, own in rows.groupby("topic")}
