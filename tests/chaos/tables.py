"""What the pipeline makes of many runs' topics at once: Bronze, Silver, the gate and Gold against what the topics hold."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobs.cli import order as told
from lakehouse.errors import GateFailedError
from lakehouse.settings.pipeline import Settings
from lakehouse.table import GATE_RESULTS, GOLD_RECORDS, SILVER_RECORDS, SILVER_REJECTS
from pipelines import medallion
from pipelines.job import Job
from silver.audit.arrival_order import diagnose
from tests.support.published import Jumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from tests.chaos.log import Log

    Numbers = Mapping[str, Mapping[str, str]]

POLICIES = ("quarantine", "accept")
BY_VALUE: Numbers = {"sequence": {"value": "utf8"}}
BY_KIT: Numbers = {"producer": {"header": "producer"}, "epoch": {"header": "epoch"}, "sequence": {"header": "seq"}}
"""The headers that the producer kit writes."""
BY_COPIER: Numbers = {"producer": {"header": "producer"}, "sequence": {"header": "seq"}}
"""Those of the copier from Pulsar, which has no epochs."""
_LATE = "late"
_RECEIVED = 4
"""The place in a row of `tidemark order`."""
_COUNTED = ("duplicate", "late", "missing", "collision")


class Quiet:
    """A report that nobody reads."""

    def event(self, name: str, **fields: object) -> None:
        """Nothing."""


@dataclass
class Outcome:
    """What the tables hold of one run.

    Attributes:
        received: Records in Bronze.
        bronze: What `tidemark order` counts there.
        silver: What it counts in Silver where late records are held.
        findings: What it finds.
        kept: Records in Silver by policy.
        held: Late records in quarantine.
        late: Late records that Silver accepted.
        gold: Records in Gold where late ones are accepted.
        wrong: What is not as it must be; empty if all is.
    """

    received: int
    bronze: Jumps
    silver: Jumps
    findings: tuple[str, ...]
    kept: dict[str, int] = field(default_factory=dict)
    held: int = 0
    late: int = 0
    gold: int = 0
    wrong: list[str] = field(default_factory=list)


def settings(
    servers: str, topics: Sequence[str], root: Path, policy: str, numbers: Numbers, *, is_strict: bool = False
) -> Settings:
    """The pipeline's settings.

    Args:
        servers: The brokers.
        topics: The runs' topics.
        root: Where the tables are.
        policy: What late records get.
        numbers: What the records are numbered by.
        is_strict: Whether the gate fails over a single duplicate, late, missing or collision.
    """
    config: dict[str, Any] = {
        "pipeline": "chaos",
        "kafka": {"bootstrap_servers": servers, "topics": list(topics), "max_offsets_per_trigger": 4_000_000},
        "lakehouse": {"root": str(root)},
        "policies": {"late": policy, "max_quarantined_share": 1, "contiguous": True},
        "gate": {"budgets": {name: {"critical": 0} for name in _COUNTED}} if is_strict else {},
        **numbers,
    }
    return Settings.model_validate(config, context={"folder": Path()})


def outcomes(spark: SparkSession, servers: str, logs: Mapping[str, Log], folder: Path, numbers: Numbers) -> dict[str, Outcome]:
    """Take all topics through the pipeline, under each policy for late records, and compare.

    Bronze is read once: the second policy goes on from a copy of its table and checkpoint.

    Args:
        spark: The session.
        servers: The brokers.
        logs: What each topic holds.
        folder: An empty folder.
        numbers: What the records are numbered by.
    """
    found: dict[str, Outcome] = {}
    for policy in POLICIES:
        root = folder / policy
        if policy == POLICIES[0]:
            medallion.run(Job.on(spark, settings(servers, list(logs), root, policy, numbers), Quiet()), "bronze")
            shutil.copytree(root, folder / POLICIES[1])
        job = Job.on(spark, settings(servers, list(logs), root, policy, numbers), Quiet())
        strict = Job.on(spark, settings(servers, list(logs), root, policy, numbers, is_strict=True), Quiet())
        medallion.run(job, "silver")
        wrong = _verdict_faults(spark, strict, logs)
        gate: Any = medallion.run(job, "gate")["gate"]
        if not gate["passed"]:
            wrong.append(f"the gate failed over {gate['failed']}")
        if policy == "accept":
            medallion.run(job, "gold")
        if policy == POLICIES[0]:
            found = _orders(job, logs)
        _compare(spark, job, logs, policy, found)
        for each in found.values():
            each.wrong += [f"{policy}: {what}" for what in wrong]
    return found


def _verdict_faults(spark: SparkSession, strict: Job, logs: Mapping[str, Log]) -> list[str]:
    """What a gate without any tolerance says of the load, against what the topics hold; Gold gets nothing by it."""
    with contextlib.suppress(GateFailedError):
        medallion.run(strict, "gate")
    rows = spark.read.table(strict.new_run().table(GATE_RESULTS).sql).collect()
    observed = {row["expectation"]: row["outcome"] for row in rows}
    duplicates = any((~log.is_first()).any() for log in logs.values())
    late = any((log.is_first() & ~log.is_above()).any() for log in logs.values())
    missing = any(_stepped_over(log) for log in logs.values())
    expected = dict(zip((f"budget_{name}" for name in _COUNTED), (duplicates, late, missing, False), strict=True))
    faults = [
        f"the gate says {name} {observed.get(name)}"
        for name, is_over in expected.items()
        if observed.get(name) != ("failed" if is_over else "passed")
    ]
    return faults + [
        f"the gate says {name} {outcome}"
        for name, outcome in observed.items()
        if not name.startswith("budget_") and outcome != "passed"
    ]


def _stepped_over(log: Log) -> int:
    """Numbers that the records in order step over."""
    rising = log.numbers[log.is_above()]
    return int(rising[-1] - rising[0] + 1 - len(rising))


def _orders(job: Job, logs: Mapping[str, Log]) -> dict[str, Outcome]:
    """What `tidemark order` says of each topic, against the topic; Silver is that of quarantine."""
    orders = medallion.orders(job)
    rows = {layer: {row[1]: row for row in told.rows({layer: orders[layer]})} for layer in orders}
    findings = {order.stream[0]: tuple(finding.name for finding in diagnose(order)) for order in orders["bronze"]}
    found = {}
    for topic, log in logs.items():
        bronze, silver = (_jumps(rows[layer][topic]) for layer in ("bronze", "silver"))
        outcome = Outcome(rows["bronze"][topic][_RECEIVED], bronze, silver, findings[topic])
        if (outcome.received, bronze) != (len(log.numbers), log.jumps()):
            outcome.wrong.append("order counts otherwise than the log")
        if (silver.duplicates, silver.djf, silver.djb, silver.jb) != (0, 0, 0, 0):
            outcome.wrong.append("Silver holds duplicates or goes backwards")
        found[topic] = outcome
    return found


def _compare(spark: SparkSession, job: Job, logs: Mapping[str, Log], policy: str, found: Mapping[str, Outcome]) -> None:
    """Compare each record of Silver, of its rejects and of Gold with what the topics make of it."""
    run, is_accepting = job.new_run(), policy == "accept"
    silver = _by_topic(spark, run.table(SILVER_RECORDS).sql)
    gold = _by_topic(spark, run.table(GOLD_RECORDS).sql) if is_accepting else {}
    rejects: dict[str, list[Any]] = {}
    for row in spark.read.table(run.table(SILVER_REJECTS).sql).collect():
        rejects.setdefault(row["topic"], []).append(row)
    for topic, log in logs.items():
        is_above, is_first = log.is_above(), log.is_first()
        is_late, is_kept = is_first & ~is_above, is_first if is_accepting else is_above
        held = [row for row in rejects.get(topic, []) if row["class"] == _LATE]
        doubles = [row for row in rejects.get(topic, []) if row["class"] == "duplicate"]
        own, published, outcome = silver[topic], gold.get(topic), found[topic]
        marked = own["arrival"] == _LATE
        checks = {
            "Silver holds not each number once": len(np.unique(own["sequence"])) == len(own["sequence"]),
            "Silver holds not what it has to": _same(own, log, is_kept),
            "records in order go backwards": bool((np.diff(own["sequence"][~marked]) > 0).all()),
            "late records are not marked": np.array_equal(own["offset"][marked], log.offsets[is_late & is_kept]),
            "not every late record is held": _offsets(held) == set(log.offsets[is_late & ~is_kept].tolist()),
            "not every duplicate is counted": _offsets(doubles) == set(log.offsets[~is_first].tolist()),
            "there are rejects of other classes": len(held) + len(doubles) == len(rejects.get(topic, [])),
            "Gold is not Silver": not is_accepting or _equal(own, published),
        }
        outcome.wrong += [f"{policy}: {what}" for what, holds in checks.items() if not holds]
        outcome.kept[policy] = len(own["sequence"])
        outcome.held += len(_offsets(held))
        outcome.late += int(marked.sum())
        outcome.gold += 0 if published is None else len(published["sequence"])


def _jumps(row: Sequence[Any]) -> Jumps:
    return Jumps(*row[5:])


def _equal(own: Mapping[str, Any], published: Mapping[str, Any] | None) -> bool:
    return published is not None and all(np.array_equal(own[name], published[name]) for name in own)


def _same(own: Mapping[str, Any], log: Log, is_kept: Any) -> bool:
    offsets, numbers = log.offsets[is_kept], log.numbers[is_kept]
    return np.array_equal(own["offset"], offsets) and np.array_equal(own["sequence"], numbers)


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
