"""What the functions of `tidemark` return: frozen data classes, with the fields that `--json` of the same command prints.

Lists are tuples. Times are aware datetimes in UTC. Ranges of offsets, loads and versions include both ends. Later versions may
add fields; none goes or changes its type without a line in the changelog. The field `class_` is `class` in JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

from lakehouse.run import findings

Made = TypeVar("Made")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Answer:
    """Makes its subclasses frozen data classes, and writes their annotated descriptions into their docstrings."""

    def __init_subclass__(cls) -> None:
        kinds = get_type_hints(dataclass(frozen=True, kw_only=True)(cls), include_extras=True)
        described = [f"    {name}: {kind.__metadata__[0]}" for name, kind in kinds.items()]
        cls.__doc__ = "\n".join([f"{cls.__doc__}\n", "Attributes:", *described])


def made(kind: type[Made], found: Mapping[str, Any]) -> Made:
    """Make a data class from plain data; ignores keys without a field. A field `class_` has the key `class`.

    >>> made(Rejects, {"class": "late", "state": "held", "records": 2, "rows": 2}).class_
    'late'
    """
    kinds = get_type_hints(kind)
    known = {name: found[key] for name in kinds if (key := name.rstrip("_")) in found}
    return kind(**{name: _typed(kinds[name], value) for name, value in known.items()})


def _typed(kind: Any, value: Any) -> Any:
    if is_dataclass(kind) and isinstance(value, Mapping):
        return made(kind, value)  # type: ignore[arg-type]  # a class, not an instance of one
    parts = [part for part in get_args(kind) if part is not NoneType]
    if get_origin(kind) is tuple and value is not None:
        return tuple(_typed(parts[0], each) for each in value)
    return _typed(parts[0], value) if len(parts) == 1 else value


class Counts(Answer):
    """Records, and how many of them ended in each class."""

    records: Annotated[int, "All of them; the classes add up to it."]
    accepted: Annotated[int, "Above the watermark, and in Silver."]
    duplicate: Annotated[int, "Known already, with the same key and value."]
    late: Annotated[int, "Below the watermark, and never seen before."]
    collision: Annotated[int, "Known already, with another key or value."]
    invalid: Annotated[int, "Sequence, producer or epoch could not be read, or the value could not be decoded."]
    jump: Annotated[int, "Further above the watermark than its topic's `max_jump`."]
    fenced: Annotated[int, "Of an epoch below its stream's, and never seen before."]
    replay: Annotated[int, "Read from Kafka more than once: a copy of a record that is counted under its own class."]


class SkippedTopic(Answer):
    """A topic that a run could not read, and skipped because `kafka.on_unreadable_topic` is skip."""

    topic: Annotated[str, "Kafka topic."]
    reason: Annotated[str, "Why it cannot be read."]
    since: Annotated[datetime | None, "When a run first skipped it; None in the result of a run."] = None


class BronzeResult(Answer):
    """What Bronze did in a run."""

    records: Annotated[int, "Kafka records appended to `bronze_records`."]
    batches: Annotated[int, "Micro-batches with records."]
    from_version: Annotated[int, "The table's Delta version before."]
    to_version: Annotated[int, "Its version after; the same if there was nothing new."]
    skipped: Annotated[tuple[SkippedTopic, ...], "Topics that were skipped; such a run raises `TopicsSkippedError`."] = ()
    seconds: Annotated[float, "Duration."]


class SilverResult(Counts):
    """What Silver did in a run: the records of its loads by class."""

    loads: Annotated[tuple[int, ...], "The numbers of its loads; none if Bronze gained nothing."]
    repeated: Annotated[tuple[int, ...], "The loads that an earlier run had begun."]
    undecodable: Annotated[int, "How many of the invalid records have a sequence, and a value that could not be decoded."]
    schema_misfits: Annotated[tuple[str, ...], "The first schemas of a registry that do not fit the payload's fields, and why."]
    other_topics: Annotated[tuple[str, ...], "Topics that Bronze holds and the config does not name; no load decides them."]
    seconds: Annotated[float, "Duration."]


class GateResult(Answer):
    """What the gate found in a run. A gate that fails raises `GateFailedError` instead."""

    gate_run_id: Annotated[str | None, "The gate run; None if there was nothing to audit."]
    passed: Annotated[bool, "Whether every critical expectation was met."]
    first_load_seq: Annotated[int | None, "The first audited load; None if there was nothing to audit."] = None
    last_load_seq: Annotated[int | None, "The last audited load; None if there was nothing to audit."] = None
    warned: Annotated[tuple[str, ...], "Expectations of severity `warn` that were not met."] = ()
    failed: Annotated[tuple[str, ...], "Critical expectations that were not met, if an operator released the loads."] = ()
    decision: Annotated[str | None, "What an operator decided on these loads: `released`, or None."] = None
    seconds: Annotated[float, "Duration."]


class GoldResult(Answer):
    """What Gold did in a run."""

    gate_run_id: Annotated[str | None, "The gate run that let the loads out; None if there was nothing to publish."]
    first_load_seq: Annotated[int | None, "The first published load; None if there was nothing to publish."] = None
    last_load_seq: Annotated[int | None, "The last published load; None if there was nothing to publish."] = None
    records: Annotated[int, "Records published."]
    models: Annotated[tuple[str, ...], "The SQL models of the config that were made."]
    seconds: Annotated[float, "Duration."]


class RunResult(Answer):
    """What a run did: `tidemark.run`."""

    pipeline: Annotated[str, "The pipeline's name."]
    run_id: Annotated[str, "The run, as the tables name it."]
    bronze: Annotated[BronzeResult | None, "What Bronze did; None if that stage did not run."]
    silver: Annotated[SilverResult | None, "What Silver did; None if that stage did not run."]
    gate: Annotated[GateResult | None, "What the gate found; None if that stage did not run."]
    gold: Annotated[GoldResult | None, "What Gold did; None if that stage did not run."]
    seconds: Annotated[float, "Duration."]


Trip = findings.Trip


class _Stream(Answer):
    """Part of the answers that name a stream."""

    topic: Annotated[str, "Kafka topic."]
    partition: Annotated[int, "Kafka partition."]
    producer: Annotated[str | None, "The stream's producer; None if none is configured or it could not be read."]


class KeptOut(_Stream):
    """A record that a load would keep out of Silver, or a block of duplicates."""

    epoch: Annotated[int | None, "Epoch; None if it could not be read."]
    class_: Annotated[str, "The class."]
    reason: Annotated[str | None, "The reason in detail, or None."]
    first_offset: Annotated[int, "Kafka offset of the first record."]
    last_offset: Annotated[int, "Kafka offset of the last record."]
    first_sequence: Annotated[int | None, "Sequence of the first record; None if it could not be read."]
    last_sequence: Annotated[int | None, "Sequence of the last record; None if it could not be read."]
    records: Annotated[int, "How many records."]
    state: Annotated[str, "`held`, or `discarded` for what waits for nobody."]


class StreamPlan(_Stream, Counts):
    """What a load would do to one stream."""

    epoch_before: Annotated[int | None, "The epoch before the load; None if no record was accepted yet."]
    high_watermark_before: Annotated[int | None, "The highest accepted sequence before it; None if no record was accepted yet."]
    epoch_after: Annotated[int | None, "The epoch after the load; None if no record was accepted yet."]
    high_watermark_after: Annotated[int | None, "The highest accepted sequence after it; None if no record was accepted yet."]
    last_offset: Annotated[int, "The last Kafka offset that the load decides."]
    missing: Annotated[int, "Sequences in gaps: the accepted records step over them."]
    jumps_forward: Annotated[int, "Places where the sequence steps over others."]
    jumps_backward: Annotated[int, "Places where the sequence goes back."]


class Plan(Answer):
    """What the next load of Silver would do: `tidemark.plan`."""

    pipeline: Annotated[str, "The pipeline's name."]
    load_seq: Annotated[int | None, "The load's number; None if Bronze gained nothing."]
    is_repeat: Annotated[bool, "Whether an earlier run claimed the load, and the next one finishes it."]
    bronze_after_version: Annotated[int | None, "The version of `bronze_records` that the load before ended at."] = None
    bronze_to_version: Annotated[int | None, "The version that this one ends at; None without a load."] = None
    records: Annotated[int, "Records that it would decide."]
    breaker: Annotated[tuple[Trip, ...], "Why the breaker would stop the load; empty if it would not."]
    kept_out: Annotated[tuple[KeptOut, ...], "The first records of each class that would be kept out."]
    streams: Annotated[tuple[StreamPlan, ...], "What it would do to each stream."]
    other_topics: Annotated[tuple[str, ...], "Topics that Bronze holds and the config does not name."]


class Accepted(Answer):
    """The last accepted record of a stream. Kafka may hold newer ones, so no producer continues after it."""

    epoch: Annotated[int, "Its epoch."]
    sequence: Annotated[int, "Its sequence."]


class Stream(_Stream):
    """A stream's watermark."""

    epoch: Annotated[int | None, "The stream's epoch; None until a record is accepted."]
    high_watermark: Annotated[int | None, "The highest accepted sequence; None until a record is accepted."]
    last_accepted: Annotated[Accepted | None, "Both of them; None until a record is accepted."]
    last_offset: Annotated[int, "The last Kafka offset that was decided."]
    load_seq: Annotated[int, "The load that moved it last."]
    updated_at: Annotated[datetime, "When that was."]
    rules_fingerprint: Annotated[str, "The extractors that its sequences were read by."]


class Partition(Answer):
    """Silver's position in a partition."""

    topic: Annotated[str, "Kafka topic."]
    partition: Annotated[int, "Kafka partition."]
    streams: Annotated[int, "How many streams it has."]
    high_watermark: Annotated[int | None, "The highest of their watermarks; None until a record is accepted."]
    last_offset: Annotated[int, "The last Kafka offset that was decided."]
    load_seq: Annotated[int, "The last load that moved it."]


class Incarnation(Answer):
    """A topic between its creation and its deletion, a copy to another cluster, or a cut of its log."""

    topic: Annotated[str, "Kafka topic."]
    stored_as: Annotated[str, "Its name in the tables."]
    incarnation: Annotated[int, "1 for the first."]
    numbering: Annotated[str | None, "`same` if it continues the numbers of the one before, else `new`; None for the first."]


class RecordIncarnation(Incarnation):
    """The incarnation of a record."""

    same_offset: Annotated[tuple[str, ...], "Other incarnations with a record at this offset, as the tables name them."]


class Missing(_Stream):
    """Sequences that a stream lacks, where the config says that its sequences are contiguous."""

    sequences: Annotated[int, "How many are missing."]
    ranges: Annotated[int, "In how many ranges."]


class LastLoad(Counts):
    """The last load that was claimed, and its records by class."""

    load_seq: Annotated[int, "Its number."]
    run_id: Annotated[str, "The run that claimed it."]
    claimed_at: Annotated[datetime, "When that was."]


class Rejects(Answer):
    """What was kept out of Silver, of one class and in one state."""

    class_: Annotated[str, "The class."]
    state: Annotated[str, "`held`, `released` or `discarded`."]
    records: Annotated[int, "How many records."]
    rows: Annotated[int, "How many rows of `silver_rejects`: a block of duplicates is one."]


class KeptAside(Answer):
    """What expectations kept out of Gold, in one state."""

    state: Annotated[str, "`held`, `released` or `discarded`."]
    records: Annotated[int, "How many records."]


class AddedPartitions(Answer):
    """A topic that got partitions, until a load has decided all that was sent before."""

    topic: Annotated[str, "The topic, as the tables name it."]
    before: Annotated[int, "How many it had."]
    partitions: Annotated[int, "How many it has."]
    numbering: Annotated[str | None, "`per_topic` or `per_partition`; None where nothing shows it."]
    compared: Annotated[str, "What is compared across them, and what is not."]


class Decision(Answer):
    """What an operator decided after a gate failed."""

    gate_run_id: Annotated[str, "The gate run."]
    decision: Annotated[str, "`released` or `rejected`."]
    reason: Annotated[str, "Why."]
    decided_by: Annotated[str, "Who decided."]
    decided_at: Annotated[datetime, "When."]


class Unmet(Answer):
    """An expectation that was not met."""

    expectation: Annotated[str, "Its name."]
    column: Annotated[str | None, "The column or fact that it looks at, if it names one."]
    severity: Annotated[str, "`critical` or `warn`."]
    outcome: Annotated[str, "`failed` or `errored`."]
    observed: Annotated[str | None, "What was observed."]
    expected: Annotated[str | None, "What was expected."]


class GateRun(Answer):
    """The last gate run."""

    gate_run_id: Annotated[str, "The gate run."]
    first_load_seq: Annotated[int, "The first load that it audited."]
    last_load_seq: Annotated[int, "The last load that it audited."]
    evaluated_at: Annotated[datetime, "When."]
    passed: Annotated[bool, "Whether every critical expectation was met."]
    decision: Annotated[Decision | None, "What an operator decided on it, or None."]
    expectations: Annotated[int, "How many expectations it looked at."]
    unmet: Annotated[tuple[Unmet, ...], "Those that were not met."]


class Published(Answer):
    """The last load that Gold published."""

    load_seq: Annotated[int, "The load."]
    gate_run_id: Annotated[str, "The gate run that let it out."]
    published_at: Annotated[datetime, "When."]


class Lag(Answer):
    """How far Silver is behind a partition of Kafka."""

    topic: Annotated[str, "Kafka topic."]
    partition: Annotated[int, "Kafka partition."]
    last_offset: Annotated[int | None, "The last offset that Silver decided; None before the first."]
    end_offset: Annotated[int, "The offset that the next record gets."]
    lag: Annotated[int, "Offsets that can be read and are not decided yet; markers of transactions count, too."]
    open_transaction: Annotated[int | None, "The first offset of the earliest open transaction, where reading ends."] = None


class Status(Answer):
    """A pipeline's state, as its tables say: `tidemark.status`."""

    pipeline: Annotated[str, "The pipeline's name."]
    lakehouse: Annotated[str, "Where its tables are."]
    streams: Annotated[tuple[Stream, ...], "Watermarks by topic, partition and producer, as many as `limit` allows."]
    stream_count: Annotated[int, "How many there are."]
    partitions: Annotated[tuple[Partition, ...], "Silver's position in each partition."]
    incarnations: Annotated[tuple[Incarnation, ...], "The incarnations of topics that have several."] = ()
    missing: Annotated[tuple[Missing, ...], "Streams that lack sequences, as many as `limit` allows."]
    missing_count: Annotated[int, "How many there are."]
    totals: Annotated[Counts | None, "Records by class over all loads; None before the first."]
    last_load: Annotated[LastLoad | None, "The last load; None before the first."]
    unfinished_load: Annotated[int | None, "The load that the next run finishes, or None."]
    grown: Annotated[tuple[AddedPartitions, ...], "Topics that got partitions."]
    rejects: Annotated[tuple[Rejects, ...], "What was kept out of Silver."]
    kept_aside: Annotated[tuple[KeptAside, ...], "What expectations kept out of Gold."]
    gate: Annotated[GateRun | None, "The last gate run; None before the first."]
    published: Annotated[Published | None, "The last published load; None before the first."]
    skipped_topics: Annotated[tuple[SkippedTopic, ...], "Topics that the last run could not read, and skipped."] = ()
    lag: Annotated[tuple[Lag, ...] | None, "How far Silver is behind; None if Kafka was not asked or did not answer."] = None
    lag_unknown: Annotated[str | None, "Why Kafka could not be asked, or None."] = None
    topics_not_found: Annotated[tuple[str, ...], "Topics of the config that Kafka does not have, or that may not be seen."] = ()


class RecordLoad(Answer):
    """The load that decided a record, and its stream's watermark around it."""

    load_seq: Annotated[int, "The load."]
    run_id: Annotated[str, "The run that claimed it."]
    claimed_at: Annotated[datetime, "When."]
    bronze_after_version: Annotated[int, "The version of `bronze_records` that the load before ended at."]
    bronze_to_version: Annotated[int, "The version that this one ended at."]
    epoch_before: Annotated[int | None, "The stream's epoch before the load; None if no record was accepted yet."]
    high_watermark_before: Annotated[int | None, "Its highest accepted sequence before; None if no record was accepted yet."]
    epoch_after: Annotated[int | None, "The stream's epoch after the load; None if no record was accepted yet."]
    high_watermark_after: Annotated[int | None, "Its highest accepted sequence after; None if no record was accepted yet."]


class PassedBy(Answer):
    """The record of the same load that had moved the watermark past a late one."""

    offset: Annotated[int, "Its Kafka offset."]
    sequence: Annotated[int, "Its sequence."]


class SettledBy(Answer):
    """Who released or discarded a record."""

    load_seq: Annotated[int, "The load that did it."]
    kind: Annotated[str, "`release` or `discard`."]
    reason: Annotated[str, "Why."]
    requested_by: Annotated[str, "Who requested it."]
    run_id: Annotated[str, "The run that did it."]
    claimed_at: Annotated[datetime, "When."]


class Winner(Answer):
    """The record that had a duplicate's or collision's sequence first."""

    topic: Annotated[str, "Its topic: of a moved topic's record it may be an earlier incarnation."]
    partition: Annotated[int, "Its partition."]
    offset: Annotated[int, "Its Kafka offset."]
    table: Annotated[str, "The table that holds it: `silver_records` or `silver_rejects`."]
    load_seq: Annotated[int, "The load that decided it."]
    timestamp: Annotated[datetime | None, "Its Kafka timestamp, if Silver holds it."]


class Audit(Answer):
    """The last audit of a record's load."""

    gate_run_id: Annotated[str, "The gate run."]
    silver_version: Annotated[int, "The version of `silver_records` that it audited."]
    evaluated_at: Annotated[datetime, "When."]
    passed: Annotated[bool, "Whether every critical expectation was met."]


class PublishedBy(Answer):
    """The publishing of a record's load."""

    gate_run_id: Annotated[str, "The gate run that let it out."]
    published_at: Annotated[datetime, "When."]


class Aside(Answer):
    """How an expectation kept a record out of Gold."""

    reason: Annotated[str, "The expectations that were not met."]
    state: Annotated[str, "`held`, `released` or `discarded`."]
    gate_run_id: Annotated[str, "The gate run that did it."]
    settled: Annotated[SettledBy | None, "Who released or discarded it, or None."]


class Header(Answer):
    """A header of a record."""

    key: Annotated[str, "Its name."]
    value: Annotated[bytes | None, "Its bytes, or None."]


class Record(Answer):
    """A record as Bronze holds it."""

    key: Annotated[bytes | None, "The key's bytes; None if it has none, or if it was erased."]
    value: Annotated[bytes | None, "The value's bytes; None for a tombstone, or if it was erased."]
    headers: Annotated[tuple[Header, ...] | None, "Its headers in their order; None if it has none, or if they were erased."]
    timestamp_type: Annotated[int, "0 if the producer set the timestamp, 1 if the broker did."]
    ingested_at: Annotated[datetime, "When Bronze read it."]
    run_id: Annotated[str, "The run that read it."]
    problem: Annotated[str | None, "What of producer, epoch and sequence could not be read at ingest."] = None


class Fate(Answer):
    """What became of one record, and by which rule: `tidemark.why`."""

    topic: Annotated[str, "Kafka topic."]
    partition: Annotated[int, "Kafka partition."]
    offset: Annotated[int, "Kafka offset."]
    incarnation: Annotated[RecordIncarnation | None, "The topic's incarnation; None if it has only one."] = None
    timestamp: Annotated[datetime | None, "Kafka timestamp; None if it is none."]
    timestamp_ms: Annotated[int | None, "What Kafka has as the timestamp, where it is none; else None."]
    producer: Annotated[str | None, "The producer that it was decided by; None if none is configured or it could not be read."]
    epoch: Annotated[int | None, "The epoch that it was decided by; None if it could not be read."]
    sequence: Annotated[int | None, "The sequence that it was decided by; None if it could not be read."]
    class_: Annotated[str, "The class; `undecided` if no load has decided it yet."]
    rule: Annotated[str, "Why it is in this class, in words."]
    reason: Annotated[str | None, "The reason in detail, or None."]
    state: Annotated[str | None, "The state of what was kept out of Silver: `held`, `released` or `discarded`."]
    arrival: Annotated[str | None, "`in_order` or `late` if Silver holds it."]
    copies: Annotated[int, "How often Bronze holds the offset: all but one are replays."]
    erased_load_seq: Annotated[int | None, "The load that erased it, or None."]
    is_undecodable: Annotated[bool, "Whether Silver holds its value as bytes alone, because it is not of the payload's format."]
    misfit: Annotated[str | None, "The field of an undecodable JSON value that is not of its type, or why nothing was read."]
    load: Annotated[RecordLoad | None, "The load that decided it; None if none has."]
    passed_by: Annotated[PassedBy | None, "The record that moved the watermark past it in the same load, if it is late."]
    settled: Annotated[SettledBy | None, "Who released or discarded it, or None."]
    winner: Annotated[Winner | None, "The record that had its sequence first, if it is a duplicate or collision."]
    gate: Annotated[Audit | None, "The last audit of its load, or None."]
    decision: Annotated[Decision | None, "What an operator decided on its load after the gate failed, or None."]
    published: Annotated[PublishedBy | None, "The publishing of its load; None if that is not published."]
    aside: Annotated[Aside | None, "How an expectation kept it out of Gold; None if none did."]
    record: Annotated[Record, "The record as Bronze holds it."]


class Held(Answer):
    """A record that waits in quarantine."""

    class_: Annotated[str, "The class; `unmet` if an expectation kept it out of Gold."]
    reason: Annotated[str | None, "The reason in detail, or None."]
    topic: Annotated[str, "Kafka topic."]
    partition: Annotated[int, "Kafka partition."]
    producer: Annotated[str | None, "The stream's producer; None if none is configured or it could not be read."]
    epoch: Annotated[int | None, "Epoch; None if it could not be read."]
    first_sequence: Annotated[int | None, "Its sequence; None if it could not be read."]
    first_offset: Annotated[int, "Its Kafka offset."]
    load_seq: Annotated[int, "The load that kept it out."]
    kept_out_at: Annotated[datetime | None, "When."]


class Quarantine(Answer):
    """The records that wait in quarantine: `tidemark.quarantine`."""

    records: Annotated[tuple[Held, ...], "By topic, partition and offset, as many as `limit` allows."]
    count: Annotated[int, "How many there are."]


class Moved(_Stream):
    """A stream that a release or discard moved."""

    epoch_before: Annotated[int | None, "Its epoch before; None if no record was accepted yet."]
    high_watermark_before: Annotated[int | None, "Its highest accepted sequence before; None if no record was accepted yet."]
    epoch_after: Annotated[int | None, "Its epoch after; None if no record was accepted yet."]
    high_watermark_after: Annotated[int | None, "Its highest accepted sequence after; None if no record was accepted yet."]
    declared_epoch: Annotated[int | None, "The epoch that an operator declared for what comes next, or None."]


class Settled(Answer):
    """What a release or discard did, or would do: `tidemark.quarantine_release`, `tidemark.quarantine_discard`."""

    pipeline: Annotated[str, "The pipeline's name."]
    run_id: Annotated[str, "The run."]
    kind: Annotated[str, "`release` or `discard`."]
    is_dry_run: Annotated[bool, "Whether nothing was written."]
    load_seq: Annotated[int | None, "The load that did it; None if there was nothing to do."]
    records: Annotated[int, "How many records."]
    classes: Annotated[Mapping[str, int], "How many of each class."]
    left: Annotated[Mapping[str, int], "How many were meant and had to stay, by reason."]
    streams: Annotated[tuple[Moved, ...], "The streams concerned."]


Check = findings.Check


class Verification(Answer):
    """The tables, proved against each other: `tidemark.verify`."""

    pipeline: Annotated[str, "The pipeline's name."]
    ok: Annotated[bool, "Whether every check holds."]
    is_deep: Annotated[bool, "Whether every file was read whole and every load decided again."]
    last_load_seq: Annotated[int | None, "The last finished load; None if damaged files kept the rest from being looked at."]
    published_load_seq: Annotated[int | None, "The last published load; None if there is none."]
    open_claim: Annotated[int | None, "The load that the next run finishes, or None."]
    checks: Annotated[tuple[Check, ...], "Every check, in the order of causes."]
    seconds: Annotated[float, "Duration."]
