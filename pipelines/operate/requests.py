"""Operators' requests: release or discard, reset, accept a topic's break, erase a key. Each is a load of Silver."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import DISCARD, DISCARDED, HELD, QUARANTINED, RELEASE, RELEASED, is_retired, silver_records
from lakehouse.delta import small_tables, tables
from lakehouse.errors import BreakerOpenError, TableStateError, UsageError
from lakehouse.protocol import gold_rejects
from lakehouse.table import BRONZE_RECORDS, GOLD_STREAM_HEALTH, SILVER_LOADS, SILVER_REJECTS, SILVER_WATERMARKS
from pipelines import bronze_to_silver
from pipelines.operate import erasure
from pipelines.recover import shadows
from pipelines.silver_to_gold import amend_gold
from silver.load import recover, steps
from silver.requests import erase_key
from silver.requests import planner as by_request
from silver.rules import Rules
from silver.state import watermarks
from silver.state.ledger import shared_columns
from silver.state.tables import before_load, create_tables
from silver.state.watermarks import Streams, Watermarks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings
    from silver.load.recover import Recovered
    from silver.state.ledger import Plan
    from silver.state.request import Erase, Request, Reset

UNDECIDED = "undecided"
"""Key in an erasure's `left`: records of the key in Bronze that no load has decided."""

_NEAR = 3

_MOVED = ("topic", "partition", "producer", "epoch_before", "high_watermark_before", "epoch_after", "high_watermark_after")


def carry_out(spark: SparkSession, run: Run, settings: Settings, request: Request, *, is_dry_run: bool) -> dict[str, object]:
    """Execute a request, after finishing an unfinished load. A repeat finds nothing to do.

    Commits to silver_loads, silver_records, silver_rejects and silver_watermarks, in this order, each at most once.

    Returns:
        kind; load_seq, None if there was nothing to do; records settled, and `classes`, their number per class; erased, the
        number that lost their content; retired, the number of streams; `left`, how many were not settled, by reason; `streams`,
        the watermark of each before and after, and its declared epoch; is_dry_run. An erasure adds `left_until`, see
        `pipelines.operate.erasure.left`, `left_shadows`, see `pipelines.recover.shadows.drop`, and "undecided" in `left`. The
        dry run of a reset adds `first_load` and `next_load`: previews of the load before it, or None, and of the load after
        it.

    Raises:
        TableMissingError: Silver has not been written yet.
        TableStateError: A load is unfinished, and this is a dry run. Or the tables contradict each other.
        UsageError: The watermark does not exist or must not move there. Or the single record to settle neither waits nor was
            settled in the same way.
        BreakerOpenError: Records before a new epoch were not loaded, because of other streams.
        AnotherWriterError: Another run claimed the same load first.
    """
    if request.accepted is None:  # a topic can break before Silver's first load
        tables.version(spark, run.table(SILVER_WATERMARKS))  # raises if Silver has not been written yet
    undecided = 0 if request.erase is None or is_dry_run else _undecided(spark, run, request.erase)
    if undecided:
        _decide_first(spark, run, settings)
    if request.reset is not None and not is_dry_run:
        _before_reset(spark, run, settings, request.reset)
    recovered = _recovered(spark, run, Rules.of(settings), is_dry_run=is_dry_run)
    left_shadows = None
    if request.erase is not None and not is_dry_run:
        left_shadows = shadows.drop(spark, run)  # no cutover is open now
    # Read after the state, which may have a load of a topic that was accepted meanwhile.
    rules = bronze_to_silver.rules_of(spark, run, settings)
    planned = _planned(spark, run, rules, recovered, _with_load_numbers(spark, run, request))
    _require_found(spark, run, request, planned)
    result: dict[str, object] = {"kind": request.kind, "is_dry_run": is_dry_run, **_summary(planned)}
    if is_dry_run:
        reset = request.reset
        return result if reset is None else result | _next_loads(spark, run, settings, recovered, planned=planned, reset=reset)
    if request.erase is not None:
        result["left_until"] = erasure.left(settings)
        result["left_shadows"] = left_shadows
        if undecided and (stayed := _undecided(spark, run, request.erase)):
            result["left"] = {UNDECIDED: stayed}
        erasure.keep_out_of_logs(spark, run, settings)
    if planned.ledger:
        steps.claim(spark, run, planned)
        steps.apply_claim(spark, run, planned)
    if request.erase is not None:
        amend_gold(spark, run, settings)
    return result


def _require_found(spark: SparkSession, run: Run, request: Request, planned: Plan) -> None:
    """Require that the request's record waits or was settled in the same way; otherwise name the nearest waiting ones."""
    wanted = request.wanted
    if wanted is None or wanted.offset is None or planned.ledger or planned.settled.left:
        return
    named = {name: value for name in ("topic", "partition") if (value := getattr(wanted, name)) is not None}
    rejects = spark.read.table(run.table(SILVER_REJECTS).sql).where(F.col("class").isin(*QUARANTINED))
    for name, value in named.items():
        rejects = rejects.where(F.col(name) == value)
    rejects = rejects.select("state", F.col("first_offset").alias("offset"))
    distance = F.abs(F.col("offset") - wanted.offset)
    rows = rejects.where((F.col("state") == HELD) | (distance == 0)).orderBy(distance).limit(_NEAR + 1).collect()
    aside = [row for row in gold_rejects.effective_rejects(spark, run) if named.items() <= row.items()]
    found = [(row["offset"], row["state"]) for row in rows] + [(row["offset"], row["state"]) for row in aside]
    if (wanted.offset, RELEASED if request.kind == RELEASE else DISCARDED) in found:
        return
    there = [f"offset {offset} is {state}" for offset, state in found if offset == wanted.offset]
    place = wanted.offset
    held = sorted((offset for offset, state in found if state == HELD), key=lambda offset: (abs(offset - place), offset))
    near = f"the nearest held offsets are {', '.join(map(str, held[:_NEAR]))}" if held else "nothing is held in this partition"
    raise UsageError(
        "No held record has this offset; nothing was written.",
        where=f"topic {wanted.topic}, partition {wanted.partition}, offset {wanted.offset}",
        observed="; ".join([*there, near]),
        expected="the offset of a record that waits",
        next_step=f"See what waits: `tidemark quarantine list --topic {wanted.topic}`.",
    )


def _before_reset(spark: SparkSession, run: Run, settings: Settings, reset: Reset) -> None:
    """Refuse an impossible reset before anything is written; then load the records before a new epoch.

    A claimed load counts as finished. A claimed restore or rebuild must finish first, because it changes the watermarks.
    """
    rules = bronze_to_silver.rules_of(spark, run, settings)
    recovered = recover.recover(spark, run, rules)
    if recovered.cutover is not None:
        recovered = _recovered(spark, run, rules, is_dry_run=False)
    rules = rules.keeping(recovered.rules)
    known = _known(spark, run, recovered, reset)
    by_request.reset(reset, known, rules, before_load(spark, run, silver_records(), known.load_seq + 1))
    if _begins_epoch(reset, known):
        _decide_first(spark, run, settings, reset)


def _known(spark: SparkSession, run: Run, recovered: Recovered, reset: Reset) -> Watermarks:
    """Return the watermarks as of the claimed load, including the stream's watermark if it was retired."""
    known = recovered.watermarks
    if recovered.open_claim is not None:
        known = known.after(recovered.open_claim)
    return Streams(spark, run, known).resolve([reset.stream])


def _begins_epoch(reset: Reset, known: Watermarks) -> bool:
    """Whether a reset starts a new epoch that is not declared yet for the stream's next records."""
    mark = known.rows.get(reset.stream)
    if not reset.is_new_epoch or mark is None or mark.ordinal is None:
        return False
    return mark.declared_epoch is None or mark.declared_epoch <= mark.ordinal[0]


def _decide_first(spark: SparkSession, run: Run, settings: Settings, reset: Reset | None = None) -> None:
    """Load Bronze's undecided records, so that they can be erased, or because they precede a new epoch.

    An open breaker does not stop the erasure of the rest. If it opens because of the stream that a reset names, the records
    belong to the new epoch; otherwise raises BreakerOpenError.
    """
    try:
        bronze_to_silver.run(spark, run, settings)
    except BreakerOpenError as error:
        if reset is None:
            run.report.event("erase.breaker_open", observed=str(error.observed))
            return
        _require_own_breaker(spark, run, settings, recover.recover(spark, run, Rules.of(settings)), reset)
        run.report.event("reset.undecided_in_new_epoch", observed=str(error.observed))


def _require_own_breaker(spark: SparkSession, run: Run, settings: Settings, recovered: Recovered, reset: Reset) -> None:
    """Raise if the breaker opens on the next load, but not because of the stream's own records."""
    try:
        bronze_to_silver.require_others_let_in(spark, run, settings, recovered, stream=reset.stream)
    except BreakerOpenError as error:
        raise BreakerOpenError(
            "Bronze's undecided records precede the new epoch, and the breaker stops their load because of other streams. No "
            "epoch was declared.",
            where=error.where,
            observed=error.observed,
            expected=error.expected,
            next_step=f"Load these records first, then declare the epoch. {error.next_step or ''}",
        ) from error


def _undecided(spark: SparkSession, run: Run, erase: Erase) -> int:
    """Count the key's undecided records in Bronze: an erasure covers only decided ones."""
    whole = spark.read.table(run.table(BRONZE_RECORDS).sql).where(erase_key.has_key(erase))
    decided = erase_key.records(whole, erase, watermarks.read(spark, run), 0)
    return whole.count() - decided.count()


def _recovered(spark: SparkSession, run: Run, rules: Rules, *, is_dry_run: bool) -> Recovered:
    if not is_dry_run:
        create_tables(spark, run, rules)
    elif not tables.exists(spark, run.table(SILVER_WATERMARKS)):
        return recover.Recovered(Watermarks({}), last=[], open_claim=None)
    recovered = recover.recover(spark, run, rules)
    if recovered.open_claim is None:
        return recovered
    if is_dry_run:
        raise TableStateError(
            "A claimed load is unfinished. The tables do not have its outcome.",
            where=str(run.table(SILVER_LOADS)),
            observed=f"load {recovered.watermarks.load_seq + 1} is claimed",
            next_step="Finish it first: `tidemark run --stage silver`.",
        )
    steps.finish(spark, run, recovered)
    return recover.recover(spark, run, rules)


def _with_load_numbers(spark: SparkSession, run: Run, request: Request) -> Request:
    """Replace the request's age by a load number, and add Gold's last published load: a repeat may run on another day."""
    if request.kind in (RELEASE, DISCARD):
        request = replace(request, published_to=small_tables.highest(spark, run.table(GOLD_STREAM_HEALTH), "load_seq"))
    if request.wanted is None or request.wanted.days is None:
        return request
    before = datetime.now(UTC) - timedelta(days=request.wanted.days)
    loads = spark.read.table(run.table(SILVER_LOADS).sql).where(F.col("claimed_at") <= F.lit(before))
    return replace(request, up_to_load_seq=loads.agg(F.max("load_seq")).collect()[0][0] or 0)


def _planned(spark: SparkSession, run: Run, rules: Rules, recovered: Recovered, request: Request) -> Plan:
    known = recovered.watermarks
    versions = (recovered.bronze_version, recovered.bronze_version)  # a request takes nothing from Bronze
    # A request decides no topic: topics that the previous load did not decide are left to the next one.
    rules = replace(rules.keeping(recovered.rules), decided_topics=recovered.decided_topics)
    claim = shared_columns(run, rules, versions, load_seq=known.load_seq + 1, request=request)
    return by_request.plan_request(spark, run, known, claim)


def _summary(planned: Plan) -> dict[str, object]:
    classes: Counter[str] = Counter(planned.settled.rows["class"].to_pylist())
    if planned.settled.in_gold.num_rows:
        classes[UNMET] = planned.settled.in_gold.num_rows
    return {
        "load_seq": planned.load_seq if planned.ledger else None,
        "records": sum(classes.values()),
        "classes": dict(classes),
        "erased": planned.count("erased"),
        "left": dict(planned.settled.left),
        "retired": sum(map(is_retired, planned.ledger)),
        "streams": [{name: row[name] for name in (*_MOVED, "declared_epoch")} for row in planned.ledger],
    }


def _next_loads(  # noqa: PLR0913 -- what a plan takes, the planned request and the reset
    spark: SparkSession, run: Run, settings: Settings, recovered: Recovered, *, planned: Plan, reset: Reset
) -> dict[str, object]:
    """Preview the next load under the request's watermarks, and the load that would precede a new epoch."""
    if _begins_epoch(reset, _known(spark, run, recovered, reset)):
        first = bronze_to_silver.previewed(spark, run, settings, recovered)
        if first["breaker"]:
            _require_own_breaker(spark, run, settings, recovered, reset)
        elif first["load_seq"] is not None:
            return {"first_load": first, "next_load": bronze_to_silver.NOTHING}
    after = replace(recovered, watermarks=recovered.watermarks.after(planned.ledger))
    following = bronze_to_silver.previewed(spark, run, settings, after)
    return {"first_load": None, "next_load": following}
