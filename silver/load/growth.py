"""Determines whether a load compares the records of a grown topic across partitions, and up to which sequence: docs/rule.md."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import Ordinal, silver_records
from lakehouse.delta import tables
from lakehouse.table import BRONZE_RECORDS, SILVER_LOADS
from silver.state.tables import before_load

if TYPE_CHECKING:
    from lakehouse.run.context import Run
    from lakehouse.settings.policies import Numbering
    from silver.load.recover import Recovered
    from silver.rules import Rules
    from silver.state.plan import BronzeRange
    from silver.state.watermarks import Watermarks

_MOST_NUMBERS = 1_000
_NOTHING = (0, -1)  # the mark of a topic without watermarks, below every sequence


def complete_rules(spark: SparkSession, run: Run, rules: Rules, recovered: Recovered, pinned: BronzeRange) -> Rules:
    """Return the rules of the next load, from those of the config.

    Their `grown` must be read after the range was pinned. It has the number of partitions and the configured numbering, if any.
    `is_last` says whether Bronze has read all records from before the producers knew the new partitions.
    """
    kept = rules.keeping(recovered.rules)
    before = dict(kept.grown)
    grown = dict(before)
    for topic, own in rules.grown:
        each = before.get(topic)
        if each is None or each.partitions != own.partitions:
            each = replace(own, numbering=own.numbering or (each.numbering if each else None))
        elif each.is_last:
            each = replace(each, mark=_highest(spark, run, topic))
        is_decided = rules.decided_topics is None or plain_topic(topic) in rules.decided_topics
        is_last = each.mark is None and own.is_last and is_decided and not pinned.is_cut
        if is_last:  # and only if no commit of Bronze came since
            is_last = tables.version(spark, run.table(BRONZE_RECORDS)) == pinned.to_version
        if each.numbering is None and each.mark is None:
            each = replace(each, numbering=_numbering(spark, run, rules, topic, recovered.watermarks))
        grown[topic] = replace(each, is_last=is_last)
    return replace(kept, grown=tuple(sorted(grown.items())))


def report(run: Run, rules: Rules, before: Rules | None) -> None:
    """Report the topics that got partitions since an earlier load, and how their records are compared."""
    known = {topic: (each.partitions, each.numbering) for topic, each in before.grown} if before else {}
    for topic, each in rules.grown:
        if known.get(topic) != (each.partitions, each.numbering):
            run.report.event("silver.partitions_added", topic=topic, **each.shown)


def _highest(spark: SparkSession, run: Run, topic: str) -> Ordinal:
    """Return the highest watermark a topic ever had, from the ledger: the watermark table has no retired streams."""
    loads = spark.read.table(run.table(SILVER_LOADS).sql).where(F.col("topic") == topic)
    epoch, sequence = loads.agg(F.max(F.struct("epoch_after", "high_watermark_after"))).collect()[0][0] or _NOTHING
    return _NOTHING if epoch is None else (epoch, sequence)


def _numbering(spark: SparkSession, run: Run, rules: Rules, topic: str, watermarks: Watermarks) -> Numbering | None:
    """Infer the numbering of a topic from its records in Silver, as docs/rule.md says; None if they are not conclusive."""
    own = rules.of_topic(topic)
    if own.sequence.form == "offset":
        return "per_partition"
    by_producer: defaultdict[str | None, dict[int, Ordinal]] = defaultdict(dict)
    for (name, partition, producer), ordinal in watermarks.ordinals.items():
        if name == topic:
            by_producer[producer][partition] = ordinal
    several = [(min(marks.values()), producer) for producer, marks in by_producer.items() if len(marks) > 1]
    unknown: Numbering | None = "per_topic" if own.producer else None
    if not several:
        return unknown
    lowest, producer = max(several, key=lambda each: each[0])
    partition = next(each for each, ordinal in by_producer[producer].items() if ordinal == lowest)
    silver = before_load(spark, run, silver_records(), watermarks.load_seq + 1)
    of_producer = F.col("producer").eqNullSafe(F.lit(producer)) & (F.col("topic") == topic) & (F.col("epoch") == lowest[0])
    sequences = silver.where(of_producer).select("partition", "sequence")
    in_partition = F.col("partition") == partition
    highest = sequences.where(in_partition).orderBy(F.desc("sequence")).limit(_MOST_NUMBERS).select("sequence").toArrow()
    numbers = highest["sequence"].to_pylist()
    if not numbers:
        return unknown
    others = sequences.where(~in_partition & F.col("sequence").between(numbers[-1], numbers[0]))
    near, same = others.agg(F.count(F.lit(1)), F.count_if(F.col("sequence").isin(numbers))).collect()[0]
    return "per_partition" if same else "per_topic" if near else unknown
