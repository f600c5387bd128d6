"""What the functions of `tidemark` return: frozen data classes, with the fields that `--json` of the same command prints.

Lists are tuples. Times are aware datetimes in UTC. Ranges of offsets, loads and versions include both ends. Later versions may
add fields; none goes or changes its type without a line in the changelog. The field `class_` is `class` in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime  # noqa: TC003 -- `made` reads the fields' types at run time
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Records, and how many of them ended in each class.

    Attributes:
        records: All of them; the classes add up to it.
        accepted: Above the watermark, and in Silver.
        duplicate: Known already, with the same key and value.
        late: Below the watermark, and never seen before.
        collision: Known already, with another key or value.
        invalid: Sequence, producer or epoch could not be read, or the value could not be decoded.
        jump: Further above the watermark than its topic's `max_jump`.
        fenced: Of an epoch below its stream's.
        replay: Read from Kafka more than once: a copy of a record that is counted under its own class.
    """

    records: int
    accepted: int
    duplicate: int
    late: int
    collision: int
    invalid: int
    jump: int
    fenced: int
    replay: int


@dataclass(frozen=True, kw_only=True)
class BronzeResult:
    """What Bronze did in a run.

    Attributes:
        records: Kafka records appended to `bronze_records`.
        batches: Micro-batches with records.
        from_version: The table's Delta version before.
        to_version: Its version after; the same if there was nothing new.
        seconds: Duration.
    """

    records: int
    batches: int
    from_version: int
    to_version: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SilverResult(Counts):
    """What Silver did in a run: the records of its loads by class.

    Attributes:
        loads: The numbers of its loads; none if Bronze gained nothing.
        repeated: Those of them that an earlier run had begun.
        undecodable: How many of the invalid records have a sequence, and a value that could not be decoded.
        schema_misfits: The first schemas of a registry whose values cannot be decoded into the payload's fields, and why.
        other_topics: Topics that Bronze holds and the config does not name; no load decides them.
        seconds: Duration.
    """

    loads: tuple[int, ...]
    repeated: tuple[int, ...]
    undecodable: int
    schema_misfits: tuple[str, ...]
    other_topics: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What the gate found in a run. A gate that fails raises `GateFailedError` instead.

    Attributes:
        gate_run_id: The gate run; None if there was nothing to audit.
        passed: Whether every critical expectation was met.
        first_load_seq: The first audited load; None if there was nothing to audit.
        last_load_seq: The last audited load; None if there was nothing to audit.
        warned: Expectations of severity `warn` that were not met.
        failed: Critical expectations that were not met, if an operator released the loads; otherwise none.
        decision: What an operator decided on these loads: `released`, or None.
        seconds: Duration.
    """

    gate_run_id: str | None
    passed: bool
    first_load_seq: int | None = None
    last_load_seq: int | None = None
    warned: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    decision: str | None = None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class GoldResult:
    """What Gold did in a run.

    Attributes:
        gate_run_id: The gate run that let the loads out; None if there was nothing to publish.
        first_load_seq: The first published load; None if there was nothing to publish.
        last_load_seq: The last published load; None if there was nothing to publish.
        records: Records published.
        models: The SQL models of the config that were made.
        seconds: Duration.
    """

    gate_run_id: str | None
    first_load_seq: int | None = None
    last_load_seq: int | None = None
    records: int
    models: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run did: `tidemark.run`.

    Attributes:
        pipeline: The pipeline's name.
        run_id: The run, as the tables name it.
        bronze: What Bronze did; None if that stage did not run.
        silver: What Silver did; None if that stage did not run.
        gate: What the gate found; None if that stage did not run.
        gold: What Gold did; None if that stage did not run.
        seconds: Duration.
    """

    pipeline: str
    run_id: str
    bronze: BronzeResult | None
    silver: SilverResult | None
    gate: GateResult | None
    gold: GoldResult | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Trip:
    """Why the breaker would stop a load.

    Attributes:
        what: What looks wrong.
        where: The load, or the stream.
        observed: What was counted.
        expected: What is allowed, and the config key that sets it.
    """

    what: str
    where: str
    observed: str
    expected: str


@dataclass(frozen=True, kw_only=True)
class KeptOut:
    """A record that a load would keep out of Silver, or a block of duplicates.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None if none is configured or it could not be read.
        epoch: Epoch; None if it could not be read.
        class_: The class.
        reason: The reason in detail, or None.
        first_offset: Kafka offset of the first record.
        last_offset: Kafka offset of the last record.
        first_sequence: Sequence of the first record; None if it could not be read.
        last_sequence: Sequence of the last record; None if it could not be read.
        records: How many records.
        state: `held`, or `discarded` for what waits for nobody.
    """

    topic: str
    partition: int
    producer: str | None
    epoch: int | None
    class_: str
    reason: str | None
    first_offset: int
    last_offset: int
    first_sequence: int | None
    last_sequence: int | None
    records: int
    state: str


@dataclass(frozen=True, kw_only=True)
class StreamPlan(Counts):
    """What a load would do to one stream.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None if none is configured.
        epoch_before: The epoch before the load; None if no record was accepted yet.
        high_watermark_before: The highest accepted sequence before the load; None if no record was accepted yet.
        epoch_after: The epoch after the load; None if no record was accepted yet.
        high_watermark_after: The highest accepted sequence after the load; None if no record was accepted yet.
        last_offset: The last Kafka offset that the load decides.
        missing: Sequences in gaps: the accepted records step over them.
        jumps_forward: Places where the sequence steps over others.
        jumps_backward: Places where the sequence goes back.
    """

    topic: str
    partition: int
    producer: str | None
    epoch_before: int | None
    high_watermark_before: int | None
    epoch_after: int | None
    high_watermark_after: int | None
    last_offset: int
    missing: int
    jumps_forward: int
    jumps_backward: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the next load of Silver would do: `tidemark.plan`.

    Attributes:
        pipeline: The pipeline's name.
        load_seq: The load's number; None if Bronze gained nothing.
        is_repeat: Whether an earlier run claimed the load, and the next one finishes it.
        bronze_after_version: The version of `bronze_records` that the load before ended at; None without a load.
        bronze_to_version: The version that this one ends at; None without a load.
        records: Records that it would decide.
        breaker: Why the breaker would stop the load; empty if it would not.
        kept_out: The first records of each class that would be kept out.
        streams: What it would do to each stream.
        other_topics: Topics that Bronze holds and the config does not name.
    """

    pipeline: str
    load_seq: int | None
    is_repeat: bool
    bronze_after_version: int | None = None
    bronze_to_version: int | None = None
    records: int
    breaker: tuple[Trip, ...]
    kept_out: tuple[KeptOut, ...]
    streams: tuple[StreamPlan, ...]
    other_topics: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The last accepted record of a stream. Kafka may hold newer ones, so no producer continues after it.

    Attributes:
        epoch: Its epoch.
        sequence: Its sequence.
    """

    epoch: int
    sequence: int


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream's watermark.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None if none is configured.
        epoch: The stream's epoch; None until a record is accepted.
        high_watermark: The highest accepted sequence; None until a record is accepted.
        last_accepted: Both of them; None until a record is accepted.
        last_offset: The last Kafka offset that was decided.
        load_seq: The load that moved it last.
        updated_at: When that was.
        rules_fingerprint: The extractors that its sequences were read by.
    """

    topic: str
    partition: int
    producer: str | None
    epoch: int | None
    high_watermark: int | None
    last_accepted: Accepted | None
    last_offset: int
    load_seq: int
    updated_at: datetime
    rules_fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Silver's position in a partition.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        streams: How many streams it has.
        high_watermark: The highest of their watermarks; None until a record is accepted.
        last_offset: The last Kafka offset that was decided.
        load_seq: The last load that moved it.
    """

    topic: str
    partition: int
    streams: int
    high_watermark: int | None
    last_offset: int
    load_seq: int


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Sequences that a stream lacks, where the config says that its sequences are contiguous.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None if none is configured.
        sequences: How many are missing.
        ranges: In how many ranges.
    """

    topic: str
    partition: int
    producer: str | None
    sequences: int
    ranges: int


@dataclass(frozen=True, kw_only=True)
class LastLoad(Counts):
    """The last load that was claimed, and its records by class.

    Attributes:
        load_seq: Its number.
        run_id: The run that claimed it.
        claimed_at: When that was.
    """

    load_seq: int
    run_id: str
    claimed_at: datetime


@dataclass(frozen=True, kw_only=True)
class Rejects:
    """What was kept out of Silver, of one class and in one state.

    Attributes:
        class_: The class.
        state: `held`, `released` or `discarded`.
        records: How many records.
        rows: How many rows of `silver_rejects`: a block of duplicates is one.
    """

    class_: str
    state: str
    records: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class KeptAside:
    """What expectations kept out of Gold, in one state.

    Attributes:
        state: `held`, `released` or `discarded`.
        records: How many records.
    """

    state: str
    records: int


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What an operator decided after a gate failed.

    Attributes:
        gate_run_id: The gate run.
        decision: `released` or `rejected`.
        reason: Why.
        decided_by: Who decided.
        decided_at: When.
    """

    gate_run_id: str
    decision: str
    reason: str
    decided_by: str
    decided_at: datetime


@dataclass(frozen=True, kw_only=True)
class Unmet:
    """An expectation that was not met.

    Attributes:
        expectation: Its name.
        column: The column or fact that it looks at, if it names one.
        severity: `critical` or `warn`.
        outcome: `failed` or `errored`.
        observed: What was observed.
        expected: What was expected.
    """

    expectation: str
    column: str | None
    severity: str
    outcome: str
    observed: str | None
    expected: str | None


@dataclass(frozen=True, kw_only=True)
class GateRun:
    """The last gate run.

    Attributes:
        gate_run_id: The gate run.
        first_load_seq: The first load that it audited.
        last_load_seq: The last load that it audited.
        evaluated_at: When.
        passed: Whether every critical expectation was met.
        decision: What an operator decided on it, or None.
        expectations: How many expectations it looked at.
        unmet: Those that were not met.
    """

    gate_run_id: str
    first_load_seq: int
    last_load_seq: int
    evaluated_at: datetime
    passed: bool
    decision: Decision | None
    expectations: int
    unmet: tuple[Unmet, ...]


@dataclass(frozen=True, kw_only=True)
class Published:
    """The last load that Gold published.

    Attributes:
        load_seq: The load.
        gate_run_id: The gate run that let it out.
        published_at: When.
    """

    load_seq: int
    gate_run_id: str
    published_at: datetime


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far Silver is behind a partition of Kafka.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        last_offset: The last offset that Silver decided; None before the first.
        end_offset: The offset that the next record gets.
        lag: Offsets that can be read and are not decided yet; markers of transactions count, too.
        open_transaction: The first offset of the earliest open transaction, where reading ends; None if none is open.
    """

    topic: str
    partition: int
    last_offset: int | None
    end_offset: int
    lag: int
    open_transaction: int | None = None


@dataclass(frozen=True, kw_only=True)
class Status:
    """A pipeline's state, as its tables say: `tidemark.status`.

    Attributes:
        pipeline: The pipeline's name.
        lakehouse: Where its tables are.
        streams: Watermarks by topic, partition and producer, as many as `limit` allows.
        stream_count: How many there are.
        partitions: Silver's position in each partition.
        missing: Streams that lack sequences, as many as `limit` allows.
        missing_count: How many there are.
        totals: Records by class over all loads; None before the first.
        last_load: The last load; None before the first.
        unfinished_load: The load that the next run finishes, or None.
        rejects: What was kept out of Silver.
        kept_aside: What expectations kept out of Gold.
        gate: The last gate run; None before the first.
        published: The last published load; None before the first.
        lag: How far Silver is behind each partition; None if Kafka was not asked or did not answer.
        lag_unknown: Why Kafka could not be asked, or None.
        topics_not_found: Topics of the config that Kafka does not have, or that may not be seen.
    """

    pipeline: str
    lakehouse: str
    streams: tuple[Stream, ...]
    stream_count: int
    partitions: tuple[Partition, ...]
    missing: tuple[Missing, ...]
    missing_count: int
    totals: Counts | None
    last_load: LastLoad | None
    unfinished_load: int | None
    rejects: tuple[Rejects, ...]
    kept_aside: tuple[KeptAside, ...]
    gate: GateRun | None
    published: Published | None
    lag: tuple[Lag, ...] | None = None
    lag_unknown: str | None = None
    topics_not_found: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordLoad:
    """The load that decided a record, and its stream's watermark around it.

    Attributes:
        load_seq: The load.
        run_id: The run that claimed it.
        claimed_at: When.
        bronze_after_version: The version of `bronze_records` that the load before ended at.
        bronze_to_version: The version that this one ended at.
        epoch_before: The stream's epoch before the load; None if no record was accepted yet.
        high_watermark_before: Its highest accepted sequence before the load; None if no record was accepted yet.
        epoch_after: The stream's epoch after the load; None if no record was accepted yet.
        high_watermark_after: Its highest accepted sequence after the load; None if no record was accepted yet.
    """

    load_seq: int
    run_id: str
    claimed_at: datetime
    bronze_after_version: int
    bronze_to_version: int
    epoch_before: int | None
    high_watermark_before: int | None
    epoch_after: int | None
    high_watermark_after: int | None


@dataclass(frozen=True, kw_only=True)
class PassedBy:
    """The record of the same load that had moved the watermark past a late one.

    Attributes:
        offset: Its Kafka offset.
        sequence: Its sequence.
    """

    offset: int
    sequence: int


@dataclass(frozen=True, kw_only=True)
class SettledBy:
    """Who released or discarded a record.

    Attributes:
        load_seq: The load that did it.
        kind: `release` or `discard`.
        reason: Why.
        requested_by: Who asked for it.
        run_id: The run that did it.
        claimed_at: When.
    """

    load_seq: int
    kind: str
    reason: str
    requested_by: str
    run_id: str
    claimed_at: datetime


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The record that had a duplicate's or collision's sequence first.

    Attributes:
        offset: Its Kafka offset.
        table: The table that holds it: `silver_records` or `silver_rejects`.
        load_seq: The load that decided it.
        timestamp: Its Kafka timestamp, if Silver holds it.
    """

    offset: int
    table: str
    load_seq: int
    timestamp: datetime | None


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The last audit of a record's load.

    Attributes:
        gate_run_id: The gate run.
        silver_version: The version of `silver_records` that it audited.
        evaluated_at: When.
        passed: Whether every critical expectation was met.
    """

    gate_run_id: str
    silver_version: int
    evaluated_at: datetime
    passed: bool


@dataclass(frozen=True, kw_only=True)
class PublishedBy:
    """The publishing of a record's load.

    Attributes:
        gate_run_id: The gate run that let it out.
        published_at: When.
    """

    gate_run_id: str
    published_at: datetime


@dataclass(frozen=True, kw_only=True)
class Aside:
    """How an expectation kept a record out of Gold.

    Attributes:
        reason: The expectations that were not met.
        state: `held`, `released` or `discarded`.
        gate_run_id: The gate run that did it.
        settled: Who released or discarded it, or None.
    """

    reason: str
    state: str
    gate_run_id: str
    settled: SettledBy | None


@dataclass(frozen=True, kw_only=True)
class Header:
    """A header of a record.

    Attributes:
        key: Its name.
        value: Its bytes, or None.
    """

    key: str
    value: bytes | None


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record as Bronze holds it.

    Attributes:
        key: The key's bytes; None if it has none, or if it was erased.
        value: The value's bytes; None for a tombstone, or if it was erased.
        headers: Its headers in their order; None if it has none, or if they were erased.
        timestamp_type: 0 if the producer set the timestamp, 1 if the broker did.
        ingested_at: When Bronze read it.
        run_id: The run that read it.
        problem: What could not be read of producer, epoch and sequence at ingest; None if all could.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] | None
    timestamp_type: int
    ingested_at: datetime
    run_id: str
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of one record, and by which rule: `tidemark.why`.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        offset: Kafka offset.
        timestamp: Kafka timestamp; None if it is none.
        timestamp_ms: What Kafka has as the timestamp, where it is none; else None.
        producer: The producer that it was decided by; None if none is configured or it could not be read.
        epoch: The epoch that it was decided by; None if it could not be read.
        sequence: The sequence that it was decided by; None if it could not be read.
        class_: The class; `undecided` if no load has decided it yet.
        rule: Why it is in this class, in words.
        reason: The reason in detail, or None.
        state: The state of what was kept out of Silver: `held`, `released` or `discarded`.
        arrival: `in_order` or `late` if Silver holds it.
        copies: How often Bronze holds the offset: all but one are replays.
        erased_load_seq: The load that erased it, or None.
        is_undecodable: Whether Silver holds its value as bytes alone, because it is not of the payload's format.
        misfit: The field of an undecodable JSON value that is not of its type, and what it has; or why nothing could be read
            from a JSON value. None if none is seen.
        load: The load that decided it; None if none has.
        passed_by: The record that moved the watermark past it in the same load, if it is late.
        settled: Who released or discarded it, or None.
        winner: The record that had its sequence first, if it is a duplicate or collision.
        gate: The last audit of its load, or None.
        decision: What an operator decided on its load after the gate failed, or None.
        published: The publishing of its load; None if that is not published.
        aside: How an expectation kept it out of Gold; None if none did.
        record: The record as Bronze holds it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    timestamp_ms: int | None
    producer: str | None
    epoch: int | None
    sequence: int | None
    class_: str
    rule: str
    reason: str | None
    state: str | None
    arrival: str | None
    copies: int
    erased_load_seq: int | None
    is_undecodable: bool
    misfit: str | None
    load: RecordLoad | None
    passed_by: PassedBy | None
    settled: SettledBy | None
    winner: Winner | None
    gate: Audit | None
    decision: Decision | None
    published: PublishedBy | None
    aside: Aside | None
    record: Record


@dataclass(frozen=True, kw_only=True)
class Held:
    """A record that waits in quarantine.

    Attributes:
        class_: The class; `unmet` if an expectation kept it out of Gold.
        reason: The reason in detail, or None.
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None if none is configured or it could not be read.
        epoch: Epoch; None if it could not be read.
        first_sequence: Its sequence; None if it could not be read.
        first_offset: Its Kafka offset.
        load_seq: The load that kept it out.
        kept_out_at: When.
    """

    class_: str
    reason: str | None
    topic: str
    partition: int
    producer: str | None
    epoch: int | None
    first_sequence: int | None
    first_offset: int
    load_seq: int
    kept_out_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """The records that wait in quarantine: `tidemark.quarantine`.

    Attributes:
        records: They, by topic, partition and offset, as many as `limit` allows.
        count: How many there are.
    """

    records: tuple[Held, ...]
    count: int


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A stream that a release or discard moved.

    Attributes:
        topic: Kafka topic.
        partition: Kafka partition.
        producer: The stream's producer; None if none is configured.
        epoch_before: Its epoch before; None if no record was accepted yet.
        high_watermark_before: Its highest accepted sequence before; None if no record was accepted yet.
        epoch_after: Its epoch after; None if no record was accepted yet.
        high_watermark_after: Its highest accepted sequence after; None if no record was accepted yet.
        declared_epoch: The epoch that an operator declared for what comes next, or None.
    """

    topic: str
    partition: int
    producer: str | None
    epoch_before: int | None
    high_watermark_before: int | None
    epoch_after: int | None
    high_watermark_after: int | None
    declared_epoch: int | None


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What a release or discard did, or would do: `tidemark.quarantine_release`, `tidemark.quarantine_discard`.

    Attributes:
        pipeline: The pipeline's name.
        run_id: The run.
        kind: `release` or `discard`.
        is_dry_run: Whether nothing was written.
        load_seq: The load that did it; None if there was nothing to do.
        records: How many records.
        classes: How many of each class.
        left: How many were meant and had to stay, by reason.
        streams: The streams concerned.
    """

    pipeline: str
    run_id: str
    kind: str
    is_dry_run: bool
    load_seq: int | None
    records: int
    classes: Mapping[str, int]
    left: Mapping[str, int]
    streams: tuple[Moved, ...]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check of a verification.

    Attributes:
        check: Its name.
        ok: Whether it holds.
        where: What was looked at; if it does not hold, the first place where it does not.
        observed: What was found.
        expected: What should have been found.
        next_step: What to do; empty if it holds.
    """

    check: str
    ok: bool
    where: str
    observed: str
    expected: str
    next_step: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The tables, proved against each other: `tidemark.verify`.

    Attributes:
        pipeline: The pipeline's name.
        ok: Whether every check holds.
        is_deep: Whether every file was read whole and every load decided again.
        last_load_seq: The last finished load; None if damaged files kept the rest from being looked at.
        published_load_seq: The last published load; None if there is none.
        open_claim: The load that the next run finishes, or None.
        checks: Every check, in the order of causes.
        seconds: Duration.
    """

    pipeline: str
    ok: bool
    is_deep: bool
    last_load_seq: int | None
    published_load_seq: int | None
    open_claim: int | None
    checks: tuple[Check, ...]
    seconds: float


def made(kind: type[Made], found: Mapping[str, Any]) -> Made:
    """Make one of these classes from what a command prints as JSON; keys without a field are left out.

    >>> made(Rejects, {"class": "late", "state": "held", "records": 2, "rows": 2}).class_
    'late'
    """
    hints = get_type_hints(kind)
    known = {field.name: found[key] for field in fields(kind) if (key := field.name.rstrip("_")) in found}  # type: ignore[arg-type]  # all of them are data classes
    return kind(**{name: _typed(hints[name], value) for name, value in known.items()})


def _typed(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if is_dataclass(kind):
        return made(kind, value)  # type: ignore[arg-type]  # a class, not an instance of one
    parts = [part for part in get_args(kind) if part is not NoneType]
    if get_origin(kind) is tuple:
        return tuple(_typed(parts[0], each) for each in value)
    if get_origin(kind) is Mapping:
        return dict(value)
    return _typed(parts[0], value) if parts else value
