"""Accept a topic's break: first a load that records the decision in the ledger, then a row in `bronze_topics`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bronze import timestamps
from bronze.kafka.metadata import LookError
from bronze.kafka.source import Ingest
from bronze.progress import topic_breaks
from bronze.progress.checkpoint import read_position
from bronze.progress.topic_breaks import NUMBERINGS, Break
from bronze.progress.topic_registry import Topic, write_accepted
from lakehouse.contracts.bronze import NEW, RECREATED, SAME, plain_topic
from lakehouse.contracts.silver import ACCEPT
from lakehouse.delta import tables
from lakehouse.errors import SourceError, UsageError
from lakehouse.extract.sources import Sources
from lakehouse.run.crash_points import crash_point
from lakehouse.table import BRONZE_TOPICS, SILVER_LOADS
from pipelines.operate import requests
from silver.state import watermarks
from silver.state.request import Accepted, Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bronze.progress.checkpoint import BronzePosition
    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings

Choose = Callable[[Break], str | None]
"""Returns whether a recreated topic has the same or a new numbering; None if unknown."""


def carry_out(  # noqa: PLR0913 -- the inputs of every request, and who chooses the numbering
    spark: SparkSession,
    run: Run,
    settings: Settings,
    request: Request,
    *,
    is_dry_run: bool,
    numbering: str | Choose | None = None,
) -> dict[str, object]:
    """Find the break of a topic, write the acceptance to the ledger, and let Bronze continue.

    Records before a corrupt batch are appended to `bronze_records` first. The claim is next, so the ledger always lists the
    records that Bronze skips. A repeat after a crash finds its load and does the rest. The next run starts a new checkpoint
    after Bronze's last records. A recreated topic continues as `name@2` from its beginning, with its own streams. Its
    `numbering` is same or new, or a function that chooses; see docs/rule.md.

    Returns:
        kind (accept); topic; cause: recreated, expired, corrupt, or None if nothing is broken; stored_as, the topic's name in
        the tables from now on; numbering: same, new, or None unless recreated; is_cut: whether the same topic
        lost the end of its log; old_topic_id; new_topic_id; lost (partition, first_offset, last_offset); load_seq; is_dry_run.

    Raises:
        UsageError: The topic is not one of kafka.topics, or was never read. Or it was recreated, and its numbering is not
            given; or it cannot have the same numbering, because a declared epoch is not in the records.
        SourceError: The brokers do not describe the topic.
    """
    topic = str(request.wanted.topic) if request.wanted else ""
    position = read_position(spark, run, is_dry_run=True)
    found = _found(Ingest(spark, run, settings.kafka), position, topic)
    result: dict[str, object] = {"kind": ACCEPT, "topic": topic, "cause": None, "load_seq": None, "is_dry_run": is_dry_run}
    if found is None:
        return result
    chosen = _chosen(found, numbering)
    if chosen == SAME:
        _require_epochs_in_records(spark, run, topic)
    if not is_dry_run:
        _append_whole(Ingest(spark, run, settings.kafka, Sources.of(settings)), position, found)
    accepted = _accepted(found, chosen)
    kept = _kept(spark, run, accepted)
    load_seq, request = kept or (0, replace(request, accepted=accepted))
    if kept is None:
        done = requests.carry_out(spark, run, settings, request, is_dry_run=is_dry_run)
        load_seq = int(str(done["load_seq"]))
        crash_point("topic.claimed")
    if not is_dry_run:
        after = Topic(topic, accepted.incarnation, found.topic_id, position.checkpoint.number + 1, {}, found.starts)
        decision = {"cause": found.cause, "numbering": chosen, "load_seq": load_seq, "reason": request.reason}
        write_accepted(spark, run, after, found.lost, decision | {"accepted_by": request.requested_by})
        run.report.event("topic.accepted", topic=topic, stored_as=accepted.goes_on_as, cause=found.cause, load_seq=load_seq)
        crash_point("topic.accepted")
    ids = {"old_topic_id": found.topic.topic_id, "new_topic_id": found.topic_id}
    lost = [asdict(each) for each in found.lost]
    result |= {"cause": found.cause, "stored_as": accepted.goes_on_as, "numbering": chosen, "is_cut": found.is_cut}
    return {**result, **ids, "lost": lost, "load_seq": load_seq}


def _found(job: Ingest, position: BronzePosition, topic: str) -> Break | None:
    kafka, is_ours = job.kafka, topic in job.kafka.topics
    if not is_ours or topic not in position.topics:
        raise UsageError(
            "This topic was never read; there is nothing to continue." if is_ours else "kafka.topics does not name this topic.",
            where=str(job.run.table(BRONZE_TOPICS)) if is_ours else "topic accept",
            observed=topic,
            expected=", ".join(sorted(position.topics if is_ours else kafka.topics)),
        )
    try:
        found = topic_breaks.find(job, position, topic)
        return found or topic_breaks.find_corrupt(job, position, topic)
    except LookError as error:
        raise SourceError(
            "The topic cannot be described, so its loss is unknown. Nothing was written.",
            where=f"topic {topic} at {kafka.bootstrap_servers}",
            observed=str(error),
            expected="a broker that describes the topic",
            next_step="Check that the topic exists and the brokers can be reached from here. Over Spark Connect this cannot "
            "use JKS stores, or logins other than PLAIN and SCRAM: use a classic session, or PEM files.",
        ) from None


def _append_whole(job: Ingest, position: BronzePosition, found: Break) -> None:
    """Append the readable records before corrupt batches to Bronze, which continues after the batches."""
    for partition, start, end in found.whole:
        timestamps.fill(job, position, {(found.topic.name, partition): (start, end)} if start < end else {})


def _chosen(found: Break, numbering: str | Choose | None) -> str | None:
    """Return the numbering of a recreated topic; None if the topic continues."""
    if found.cause != RECREATED:
        return None
    chosen = numbering(found) if callable(numbering) else numbering
    if chosen in (SAME, NEW):
        return chosen
    raise UsageError(
        f"{found.what} Nothing was written: say whether its numbers are the old ones.",
        where=f"topic {found.topic.name}",
        expected="--same-numbering or --new-numbering",
        next_step=NUMBERINGS + (" A log that lost its end has the same numbering." if found.is_cut else ""),
    )


def _require_epochs_in_records(spark: SparkSession, run: Run, topic: str) -> None:
    declared = [stream for stream in watermarks.read(spark, run).declared if plain_topic(stream[0]) == topic]
    if declared:
        raise UsageError(
            "An epoch was declared for this topic, and its records lack it: copies do not match the numbers in Silver.",
            where=f"topic {topic}",
            observed=f"{len(declared)} streams with a declared epoch",
            expected="none",
            next_step="Accept it with --new-numbering, or rebuild Silver with an `epoch` that the records carry.",
        )


def _accepted(found: Break, numbering: str | None) -> Accepted:
    topic = found.topic
    is_other = found.cause == RECREATED
    incarnation = topic.incarnation + is_other
    goes_on_as = f"{topic.name}@{incarnation}" if is_other else topic.stored_as
    ids = (topic.topic_id, found.topic_id)
    return Accepted(topic.name, topic.stored_as, found.cause, incarnation, goes_on_as, *ids, found.lost, numbering or NEW)


def _kept(spark: SparkSession, run: Run, accepted: Accepted) -> tuple[int, Request] | None:
    """Return the load and request of the same acceptance if the ledger already has it."""
    ledger = run.table(SILVER_LOADS)
    if not tables.exists(spark, ledger):
        return None
    rows = spark.read.table(ledger.sql).where(F.col("kind") == ACCEPT).select("load_seq", "request").distinct().collect()
    kept = {row["load_seq"]: Request.from_json(row["request"]) for row in rows}
    return next(((load_seq, request) for load_seq, request in kept.items() if request.accepted == accepted), None)
