"""Many runs' topics through one pipeline: Bronze, Silver, the gate and Gold are compared with the topics."""

from __future__ import annotations

import contextlib
import shutil
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobs.cli import order as order_command
from lakehouse.errors import GateFailedError
from lakehouse.settings.pipeline import Settings
from lakehouse.table import GATE_RESULTS, GOLD_RECORDS, SILVER_RECORDS, SILVER_REJECTS
from pipelines import medallion
from pipelines.job import Job
from silver.audit.arrival_order import diagnose
from tests.chaos.results import NONE
from tests.support.published import Jumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from tests.chaos.log import Log

    Numbers = Mapping[str, Mapping[str, str]]

BY_VALUE: Numbers = {"sequence": {"value": "utf8"}}
BY_KIT: Numbers = {"producer": {"header": "producer"}, "epoch": {"header": "epoch"}, "sequence": {"header": "seq"}}
"""The headers that the producer kit writes."""
BY_COPIER: Numbers = {"producer": {"header": "producer"}, "sequence": {"header": "seq"}}
"""The headers of the copier from Pulsar, which has no epochs."""
_KEPT_COLUMN = {"quarantine": "Silver", "accept": "SilverAccept"}
"""The policies for late records, and the column that counts the records that Silver keeps."""


class Quiet:
    """A report that drops every event."""

    def event(self, name: str, **fields: object) -> None:
        """Drop an event."""


def outcomes(
    spark: SparkSession, servers: str, logs: Mapping[str, Log], folder: Path, numbers: Numbers
) -> dict[str, dict[str, Any]]:
    """Take all topics through the pipeline, under each policy for late records, and compare.

    Bronze is read once: *accept* continues from a copy of its table and checkpoint. Only *accept* goes on to the gate and Gold.

    Args:
        spark: The session.
        servers: The brokers.
        logs: The topics.
        folder: An empty folder.
        numbers: The extractors of a record's position.

    Returns:
        For each topic the columns of its row that describe the tables.
    """

    def job(policy: str, *, is_strict: bool = False) -> Job:
        """One policy's pipeline; the gate of a strict one fails over a single duplicate, late, missing or colliding record."""
        budgets = {name: {"critical": 0} for name in ("duplicate", "late", "missing", "collision")}
        config: dict[str, Any] = {
            "pipeline": "chaos",
            "kafka": {"bootstrap_servers": servers, "topics": list(logs), "max_offsets_per_trigger": 4_000_000},
            "lakehouse": {"root": str(folder / policy)},
            "policies": {"late": policy, "max_quarantined_share": 1, "contiguous": True},
            "gate": {"budgets": budgets if is_strict else {}},
            **numbers,
        }
        return Job.on(spark, Settings.model_validate(config, context={"folder": Path()}), Quiet())

    medallion.run(job("quarantine"), "bronze")
    shutil.copytree(folder / "quarantine", folder / "accept")
    found: dict[str, dict[str, Any]] = {topic: {"Held": 0, "Late": 0, "Gold": 0, "Wrong": []} for topic in logs}
    for policy in _KEPT_COLUMN:
        usual = job(policy)
        medallion.run(usual, "silver")
        if policy == "quarantine":
            _compare_order(usual, logs, found)
        else:
            wrong = _strict_gate_faults(spark, job(policy, is_strict=True), logs)
            gate: Any = medallion.run(usual, "gate")["gate"]
            if not gate["passed"]:
                wrong.append(f"the gate failed over {gate['failed']}")
            medallion.run(usual, "gold")
            for columns in found.values():
                columns["Wrong"] += wrong
        _compare_tables(spark, usual, logs, policy, found)
    return {topic: {**columns, "Wrong": "; ".join(columns["Wrong"])} for topic, columns in found.items()}


def _strict_gate_faults(spark: SparkSession, strict: Job, logs: Mapping[str, Log]) -> list[str]:
    """Compare the verdict of a gate without any tolerance with the topics."""
    with contextlib.suppress(GateFailedError):
        medallion.run(strict, "gate")
    rows = spark.read.table(strict.new_run().table(GATE_RESULTS).sql).collect()
    observed = {row["expectation"]: row["outcome"] for row in rows}
    is_over = {
        "duplicate": any((~log.is_first()).any() for log in logs.values()),
        "late": any((log.is_first() & ~log.is_above()).any() for log in logs.values()),
        "missing": any(_stepped_over(log) for log in logs.values()),
        "collision": False,
    }
    budgets = {f"budget_{name}": "failed" if each else "passed" for name, each in is_over.items()}
    expected = dict.fromkeys(observed, "passed") | budgets
    return [f"the gate says {name} {observed.get(name)}" for name, each in expected.items() if observed.get(name) != each]


def _stepped_over(log: Log) -> int:
    """The count of numbers that the records in order step over."""
    rising = log.numbers[log.is_above()]
    return int(rising[-1] - rising[0] + 1 - len(rising))


def _compare_order(job: Job, logs: Mapping[str, Log], found: Mapping[str, dict[str, Any]]) -> None:
    """Compare the counts of `tidemark order` with the topics, and keep its findings."""
    orders = medallion.orders(job)
    findings = {order.stream[0]: " ".join(finding.name for finding in diagnose(order)) for order in orders["bronze"]}
    rows = {layer: {row[1]: row[4:] for row in order_command.rows({layer: orders[layer]})} for layer in orders}
    for topic, log in logs.items():
        received, *bronze = rows["bronze"][topic]
        silver = Jumps(*rows["silver"][topic][1:])
        found[topic] |= {"Bronze": received, "SilverDups": silver.duplicates, "SilverJB": silver.jb}
        found[topic]["Findings"] = findings[topic] or NONE
        if (received, *bronze) != (len(log.numbers), *log.jumps()):
            found[topic]["Wrong"].append("order does not count what the topic has")
        if (silver.duplicates, silver.djf, silver.djb, silver.jb) != (0, 0, 0, 0):
            found[topic]["Wrong"].append("Silver has duplicates or goes backwards")


def _compare_tables(
    spark: SparkSession, job: Job, logs: Mapping[str, Log], policy: str, found: Mapping[str, dict[str, Any]]
) -> None:
    """Compare each record of Silver, of its rejects and of Gold with the topics."""
    run, is_accepting = job.new_run(), policy == "accept"
    silver = _by_topic(spark, run.table(SILVER_RECORDS).sql)
    gold = _by_topic(spark, run.table(GOLD_RECORDS).sql) if is_accepting else silver
    rejects: dict[str, list[Any]] = {topic: [] for topic in logs}
    for row in spark.read.table(run.table(SILVER_REJECTS).sql).collect():
        rejects[row["topic"]].append(row)
    for topic, log in logs.items():
        is_above, is_first = log.is_above(), log.is_first()
        is_late, is_kept = is_first & ~is_above, is_first if is_accepting else is_above
        held = [row for row in rejects[topic] if row["class"] == "late"]
        doubles = [row for row in rejects[topic] if row["class"] == "duplicate"]
        own, published, columns = silver[topic], gold.get(topic, {}), found[topic]
        marked = own["arrival"] == "late"
        checks = {
            "Silver does not have each number once": len(np.unique(own["sequence"])) == len(own["sequence"]),
            "Silver does not have the records that it has to": np.array_equal(own["offset"], log.offsets[is_kept])
            and np.array_equal(own["sequence"], log.numbers[is_kept]),
            "records in order go backwards": bool((np.diff(own["sequence"][~marked]) > 0).all()),
            "late records are not marked": np.array_equal(own["offset"][marked], log.offsets[is_late & is_kept]),
            "some late record is not held": _offsets(held) == set(log.offsets[is_late & ~is_kept].tolist()),
            "some duplicate is not counted": _offsets(doubles) == set(log.offsets[~is_first].tolist()),
            "there are rejects of other classes": len(held) + len(doubles) == len(rejects[topic]),
            "Gold is not Silver": all(np.array_equal(own[name], published.get(name, ())) for name in own),
        }
        columns["Wrong"] += [f"{policy}: {each}" for each, holds in checks.items() if not holds]
        columns[_KEPT_COLUMN[policy]] = len(own["sequence"])
        columns["Held"] += len(_offsets(held))
        columns["Late"] += int(marked.sum())
        columns["Gold"] += len(published.get("sequence", ())) if is_accepting else 0


def _offsets(rejects: Sequence[Any]) -> set[int]:
    return {offset for row in rejects for offset in range(row["first_offset"], row["last_offset"] + 1)}


def _by_topic(spark: SparkSession, table: str) -> dict[str, dict[str, Any]]:
    """Offset, sequence and arrival of each topic's rows, by offset."""
    columns = ("topic", "offset", "sequence", "arrival")
    rows = spark.read.table(table).select(*columns).toArrow().sort_by([("topic", "ascending"), ("offset", "ascending")])
    topics = rows["topic"].to_numpy()
    values = {name: rows[name].to_numpy() for name in columns[1:]}
    starts = [0, *(np.flatnonzero(topics[1:] != topics[:-1]) + 1).tolist(), len(topics)] if len(topics) else [0]
    return {str(topics[start]): {name: value[start:end] for name, value in values.items()} for start, end in pairwise(starts)}
