"""The breaker: stops a load that looks wrong before any of it is written. `Streams._require_few` limits new streams."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, replace
from functools import reduce
from itertools import islice
from operator import and_, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts import silver as contract
from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.silver import STREAM, Stream, stream_of
from lakehouse.errors import BreakerOpenError
from lakehouse.escape import printable, shortened
from lakehouse.extract.json_strictness import NOT_JSON, NOT_UTF8
from lakehouse.run.findings import Trip
from lakehouse.settings.extractor import describe
from lakehouse.table import BRONZE_RECORDS
from silver.extract import one_record
from silver.model import TopicLimits, tuples_of
from silver.state.tables import latest_bronze

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.run.context import Run
    from silver.rules import Rules
    from silver.state.ledger import Plan

    _Rows = Sequence[Mapping[str, Any]]

_FEWEST = 10
"""Fewer quarantined records never open the breaker, whatever their share."""
_MOST_NAMED = 20  # trips; a restarted host may have thousands of streams
_MOST_BYTES = 1024 * 1024  # of a value whose fields are named
_LONGEST = 250  # characters shown of a name; a topic name has at most 249
_MOST_ADVICE = 3  # kinds of records, the most frequent first

_RESTARTED = (
    "Declare a sequence that began again with `tidemark watermark reset --new-epoch`. If one corrupt number raised the "
    "watermark, set policies.max_jump, and move it back with `tidemark watermark reset --to N`."
)
_MEND = {
    contract.LATE: _RESTARTED,
    contract.COLLISION: _RESTARTED,
    contract.JUMP: "If the numbers after the jump are right, allow a greater policies.max_jump, or move the watermark with "
    "`tidemark watermark reset --to N`.",
    contract.FENCED: "Stop the producer that still sends an older epoch.",
}


class _Limit(NamedTuple):
    share: float
    section: str

    @property
    def expected(self) -> str:
        return f"a share of at most {self.share:g} ({self.section}.max_quarantined_share)"

    def is_passed(self, kept_out: int, records: int) -> bool:
        return kept_out >= _FEWEST and kept_out > self.share * records


def _shown(found: list[Trip]) -> list[Trip]:
    if len(found) <= _MOST_NAMED:
        return found
    more = replace(found[-1], where=f"{len(found) - _MOST_NAMED:,} streams more", observed="not listed here")
    return [*found[:_MOST_NAMED], more]


def list_trips(load_seq: int, ledger: _Rows, shares: TopicLimits[float]) -> list[tuple[Trip, _Rows]]:
    """List the reasons to open the breaker, each with the ledger's rows of the streams that cause it."""
    limits = {topic: _Limit(*shares.of(topic)) for topic in {row["topic"] for row in ledger}}
    parts: defaultdict[_Limit, list[Mapping[str, Any]]] = defaultdict(list)
    for row in ledger:
        parts[limits[row["topic"]]].append(row)
    found: list[tuple[Trip, _Rows]] = []
    for limit, rows in parts.items():
        count = _counts(rows)
        if limit.is_passed(_kept_out(count), count["records"]):
            _, of_topic, topic = limit.section.partition("policies.topics.")
            topics = f"topic {topic}" if of_topic else "the topics without a share of their own"
            where = f"load {load_seq}, {topics}" if len(parts) > 1 else f"load {load_seq}"
            observed = f"{_kept_out(count)} of {count['records']} records: {_named(count)}"
            found.append((Trip("Too much of the load would go into quarantine.", where, observed, limit.expected), rows))
    restarted = [(_restarted(row, limit), [row]) for limit, rows in parts.items() for row in rows]
    return found + [(trip, rows) for trip, rows in restarted if trip is not None]


def _restarted(row: Mapping[str, Any], limit: _Limit) -> Trip | None:
    if row[contract.ACCEPTED]:
        return None
    count = _counts([row])
    low = count[contract.LATE] - count["late_accepted"] + count[contract.COLLISION]
    if not limit.is_passed(low, count["records"]):
        return None
    what = "A stream sends only numbers below its watermark that are no duplicates: its sequence began again, or one corrupt "
    stream = ", ".join(f"{name} {_short(row[name])}" for name in STREAM if row[name] is not None)
    observed = f"{low} of {count['records']} records below the watermark {row['high_watermark_before']}, none above"
    return Trip(f"{what}number raised the watermark.", stream, f"{observed}: {_named(count)}", limit.expected)


def ledger_without_skipped(planned: Plan) -> _Rows:
    """Return the ledger's rows of a plan, without the records that its rules skip."""
    skipped = Counter[Stream]()
    rejects = planned.rejects.filter(pc.field("reason").isin([*contract.SKIPPED]))
    for topic, partition, producer, records in tuples_of(rejects, (*STREAM, "records")):
        skipped[topic, partition, producer] += records
    less = ((row, skipped[stream_of(row)]) for row in planned.ledger)
    return [{**row, "records": row["records"] - count, contract.INVALID: row[contract.INVALID] - count} for row, count in less]


def is_reason(row: Mapping[str, Any], shares: TopicLimits[float]) -> bool:
    """Whether a stream's own quarantined share is above its limit."""
    counts = _counts([row])
    share, _ = shares.of(row["topic"])
    return _kept_out(counts) > share * counts["records"]


def trip_of(opened: BreakerOpenError) -> Trip:
    """Convert the breaker's error back to a trip."""
    return Trip(opened.what, str(opened.where), str(opened.observed), str(opened.expected))


def find_trips(spark: SparkSession, run: Run, planned: Plan, shares: TopicLimits[float]) -> tuple[list[Trip], Counter[Cause]]:
    """List the trips for a plan and their causes, with an example if most records are invalid."""
    trips = list_trips(planned.load_seq, ledger_without_skipped(planned), shares)
    causes = _causes(planned.rejects, trips) if trips else Counter[Cause]()
    found = _shown([trip for trip, _ in trips])
    invalid = [cause for cause in causes if cause.kind == contract.INVALID]
    if 2 * sum(causes[cause] for cause in invalid) > causes.total():
        example = _example(spark, run, planned, invalid[0])
        found[0] = replace(found[0], observed=f"{found[0].observed}; {example}")
    return found, causes


class Cause(NamedTuple):
    """Records that open the breaker, by topic, class and reason."""

    topic: str
    kind: str
    reason: str | None


def _causes(rejects: pa.Table, trips: Collection[tuple[Trip, _Rows]]) -> Counter[Cause]:
    streams = {stream_of(row) for _, rows in trips for row in rows}
    counted = Counter[Cause]()
    summed = rejects.group_by([*STREAM, "class", "reason"]).aggregate([("records", "sum")])
    for topic, partition, producer, kind, reason, records in tuples_of(summed, summed.column_names):
        if kind in contract.QUARANTINED and reason not in contract.SKIPPED and (topic, partition, producer) in streams:
            counted[Cause(topic, kind, reason)] += records
    return Counter(dict(counted.most_common()))


def advice(causes: Collection[Cause], rules: Rules) -> str:
    """Say what to do about at most three kinds of records that open the breaker, the most frequent first."""
    return " ".join(islice(dict.fromkeys(_advice(cause, rules) for cause in causes), _MOST_ADVICE))


def _advice(cause: Cause, rules: Rules) -> str:
    if cause.kind != contract.INVALID or cause.reason is None:
        return _MEND[cause.kind]
    own, plain = rules.of_topic(cause.topic), plain_topic(cause.topic)
    role, _, problem = cause.reason.partition("_")
    if role == "value":
        return _advice_on_values(own, _short("value" if own.payload == rules.payload else f"topics.{plain}.value"))
    source = own.sources.by_role[role]
    key = role if source == rules.sources.by_role.get(role) else f"topics.{plain}.{role}"
    named = f"`{_short(key)}`, {_short(describe(*astuple(source)))},"
    why = f"The reason {cause.reason}: {contract.PROBLEMS.get(problem, 'see the runbook')}."
    if source.form in one_record.JSON_FORMS and problem in (NOT_JSON, NOT_UTF8):
        return f"{named[0].upper()}{named[1:]} is read from JSON: have the producer write it, one document in a value. {why}"
    return f"Look whether {named} names what the records have; if so, correct the producer. {why}"


def _advice_on_values(own: Rules, key: str) -> str:
    if own.payload is None or own.payload.format == "text":
        return f"Look whether `{key}.format` and `{key}.max_bytes` fit the values."
    look = f"Look whether `{key}.schema` names the fields and types that the values have; if so, correct the producer."
    if own.written is None or own.payload.format == "json":
        return look
    return f"{look} The event silver.schema_misfit names a schema that does not fit."


def _example(spark: SparkSession, run: Run, planned: Plan, cause: Cause) -> str:
    """Describe a cause's first record: its headers' names, its value's fields, and the field of a wrong type."""
    is_of_cause = (pc.field("topic") == cause.topic) & (pc.field("class") == cause.kind) & (pc.field("reason") == cause.reason)
    row = planned.rejects.filter(is_of_cause).slice(0, 1).to_pylist()[0]
    at = {"topic": row["topic"], "partition": row["partition"], "offset": row["first_offset"]}
    is_there = reduce(and_, (F.col(name) == F.lit(value) for name, value in at.items()))
    records = latest_bronze(spark, run).where(is_there)
    headers = F.transform("headers", lambda header: header["key"])
    fields = F.json_object_keys(F.col("value").cast("string"))
    value = F.when(F.octet_length("value") <= _MOST_BYTES, F.col("value"))
    has = records.select(headers.alias("headers"), fields.alias("fields"), value.alias("value")).limit(1).collect()[0]
    place = ", ".join(f"{name} {_short(value)}" for name, value in at.items())
    named = f", and a JSON object of {_listed(has['fields'])}" if has["fields"] else ""
    value_of = {"topic": cause.topic, "value": has["value"] and bytes(has["value"])}
    misfit = one_record.explain(planned.rules, value_of, cause.reason)
    why = f": {_short(misfit)}" if misfit else ""
    return f"the first one, {place} ({row['reason']}{why}), has {_listed(has['headers'] or [], 'header')}{named}"


def _listed(names: Sequence[str], what: str | None = None) -> str:
    shown = ", ".join(map(_short, names[:_MOST_NAMED])) + (", ..." if len(names) > _MOST_NAMED else "")
    if what is None:
        return shown
    return f"the {what}{'s' if len(names) > 1 else ''} {shown}" if names else f"no {what}"


def _short(value: object) -> str:
    return printable(shortened(str(value), _LONGEST))


def require_closed(spark: SparkSession, run: Run, planned: Plan, shares: TopicLimits[float]) -> None:
    """Raise BreakerOpenError if the breaker opens on a plan."""
    found, causes = find_trips(spark, run, planned, shares)
    if not found:
        return
    raise BreakerOpenError(
        " ".join(dict.fromkeys(trip.what for trip in found)) + " Nothing was written.",
        where=f"{run.table(BRONZE_RECORDS)}: " + "; ".join(trip.where for trip in found),
        observed="; ".join(trip.observed for trip in found),
        expected="; ".join(dict.fromkeys(trip.expected for trip in found)),
        next_step=f"See `tidemark plan`. {advice(causes, planned.rules)} Or let the load into quarantine with a greater "
        "max_quarantined_share (1 for any).",
    )


def _counts(rows: Collection[Mapping[str, Any]]) -> dict[str, int]:
    return {name: sum(map(itemgetter(name), rows)) for name in ("records", "late_accepted", *contract.QUARANTINED)}


def _kept_out(count: Mapping[str, int]) -> int:
    return sum(count[name] for name in contract.QUARANTINED) - count["late_accepted"]


def _named(count: Mapping[str, int]) -> str:
    return ", ".join(f"{count[name]} {name}" for name in contract.QUARANTINED if count[name])
