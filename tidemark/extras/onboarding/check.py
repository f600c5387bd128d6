"""`tidemark check`: what the next run of this config would refuse. Commits nothing, and removes what a probe writes.

Looks at Kafka, the machine and the tables' place without a session. Calls a run's own functions, see `pipelines.refusals`, with
one: where there are tables, or something that Spark alone can judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from bronze.kafka.metadata import LookError
from bronze.kafka.source import require_reachable
from lakehouse.config.mistakes import ConfigMistakesError, Mistake
from lakehouse.contracts.silver import PROBLEMS
from lakehouse.delta import root_check
from lakehouse.errors import ConfigError, RegistryError, SourceError, TidemarkError, ToolError
from lakehouse.extract.on_driver import Record, raw
from lakehouse.extract.sources import Sources
from lakehouse.extract.written import without_prefix
from lakehouse.machine import doctor
from lakehouse.machine.doctor import Finding
from lakehouse.settings import payload_schema
from lakehouse.spark import storage_errors
from lakehouse.storage import S3Storage
from lakehouse.table import Lakehouse
from silver.extract import one_record
from tidemark.extras.formats import avro_schema, protobuf_schema
from tidemark.extras.formats.prefixes import framing, message_path, schema_id
from tidemark.extras.formats.registry_client import SchemaRegistry
from tidemark.extras.onboarding import candidates, sample
from tidemark.extras.onboarding.candidates import Found
from tidemark.extras.onboarding.sample import Sampled
from tidemark.extras.onboarding.values import Registered, Schema, among
from tidemark.process.context import job_of, load_settings
from tidemark.process.exit_codes import scrub_text
from tidemark.readers import status

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.settings.pipeline import Registry, Settings, ValueFormat
    from tidemark.extras.onboarding.candidates import Candidate
    from tidemark.extras.onboarding.sample import Sample

_FEWEST = 10  # with fewer unreadable records a run goes on, whatever their share is; see `silver.load.breaker`
_SHOWN = 20
_MOST_IDS = 256  # schemas that are fetched; a load may have no more
_UNREAD = "topics"  # the finding where librdkafka cannot read a sample
_CHECKS = {
    "config": ("a config in order", ""),
    "brokers": ("an open port", ""),
    _UNREAD: ("topics that this login may describe and read", "Check the topics' rights, and kafka.properties."),
    "topic": ("a topic that this login may describe and read", ""),
    "records": ("records with a sequence", ""),
    "sequence": ("a sequence in every record", ""),
    "producer": ("a producer in every record", ""),
    "epoch": ("an epoch in every record", ""),
    "order": ("a sequence that rises within each stream", "Name the `producer`, or the `epoch` of a restart; `tidemark plan`."),
    "values": ("values of the format that `value` names", "Correct `value` in the config, or the producer."),
    "registry": ("a registry that answers, and knows the records' schemas", "Correct value.schema, or the producer."),
    "tables": ("a place that this user may write, without another pipeline's tables", "Check lakehouse.root, and its rights."),
    "commits": ("a place that refuses a second commit of one version", "Give this user the right to write there."),
    "partitions": ("partitions that are compared, unless each counts for itself", ""),
    "bronze": ("topics that can be read from Bronze's last offsets on", ""),
    "silver": ("tables of one state, made by these rules, and waiting records that a load accepts", ""),
    "gate": ("waiting loads that pass", ""),
    "gold": ("tables of this version, and models that can be made", ""),
}
"""By the first word of a finding's name: what is expected, and what to do otherwise."""


def check(config: Path, overrides: list[str] | None, *, most: int) -> list[Finding]:
    """Look for what a run would refuse, in the order in which to mend it: config, machine, Kafka, records, tables, stages."""
    try:
        settings = load_settings(config, overrides)
        from pipelines import preflight

        preflight.require_config(settings)
    except ConfigMistakesError as error:
        mistakes = [_of_error(f"config {each.key or config}", each, f"{each.place}:") for each in error.mistakes]
        return [*mistakes, *doctor.diagnose()]
    except ConfigError as error:
        return [_of_error("config", error), *doctor.diagnose()]
    lakehouse = Lakehouse.of(settings)
    machine = doctor.diagnose(store=lakehouse.storage.jars if lakehouse.storage else None)
    kafka = list(_of_kafka(settings, most))
    tables = list(_of_tables(settings, lakehouse, is_sampled=all(each.name != _UNREAD for each in kafka)))
    if any(each.name == "bronze" and each.ok for each in tables):  # Spark's client can what librdkafka cannot
        kafka = [replace(each, ok=True, next_step="") if each.name == _UNREAD else each for each in kafka]
    return [_finding("config", f"{config}: pipeline {settings.pipeline}"), *machine, *kafka, *tables]


def _finding(name: str, observed: str, *, ok: bool = True, next_step: str | None = None) -> Finding:
    expected, usual = _CHECKS[name.partition(" ")[0]]
    return Finding(name, ok=ok, observed=observed, expected=expected, next_step="" if ok else next_step or usual)


def _of_error(name: str, error: TidemarkError | Mistake, before: str = "") -> Finding:
    where = error.where if isinstance(error, TidemarkError) else None
    parts = (before, error.what, where and f"{where}:", error.observed)
    said = " ".join(" ".join(str(part) for part in parts if part).split())
    found = _finding(name, scrub_text(said).removesuffix(":"), ok=False, next_step=error.next_step)
    return replace(found, expected=str(error.expected or found.expected))


def _of_kafka(settings: Settings, most: int) -> Iterator[Finding]:
    kafka, records = settings.kafka, list[Sampled]()
    try:
        require_reachable(str(kafka.bootstrap_servers))
        yield _finding("brokers", f"{kafka.bootstrap_servers!s} answers")
        found = sample.read(kafka, most)
        records += found.records
        yield from _of_topics(settings, found)
    except SourceError as error:
        yield _of_error("brokers", error)
    except LookError as error:
        yield _finding(_UNREAD, f"no sample: {error}", ok=False)
    if settings.registry is not None:
        yield _of_registry(settings, settings.registry, records)


def _of_topics(settings: Settings, found: Sample) -> Iterator[Finding]:
    """Whether the topics are there, their records have what the config names, and how many would be kept out."""
    for topic in settings.kafka.topics:
        if topic in found.missing_topics:
            yield _of_error(f"topic {topic}", sample.no_topic(settings.kafka, [topic]))
            continue
        spans = [span for (name, _), span in found.partitions.items() if name == topic]
        held = sum(end - first for first, end in spans)
        records = sum(record.topic == topic for record in found.records)
        yield _finding(f"topic {topic}", f"{len(spans):,} partitions, {held:,} offsets; {records:,} records read")
    for topic in ("", *settings.topics) if found.records else ("",):  # "": all topics without settings of their own
        alike = [each for each in found.records if (each.topic if each.topic in settings.topics else "") == topic]
        for finding in _of_records(settings.of_topic(topic), replace(found, records=alike)) if alike else ():
            yield replace(finding, name=f"{finding.name} {topic}".strip())
        if not alike and (topic or not found.records):
            yield _finding(f"records {topic}".strip(), "no records yet")


def _of_records(settings: Settings, found: Sample) -> Iterator[Finding]:
    """Whether records of topics that are read alike have what the config names."""
    if settings.skips_tombstones:
        found = replace(found, records=[each for each in found.records if each.value is not None])
    sources, rows = Sources.of(settings), Found.of(found, Registered())
    if sources.is_left_to_silver:
        yield _finding("sequence", "only Spark reads Avro, Protobuf and code of your own: `tidemark plan` tries it")
    else:
        # A position has the epoch in it.
        by_role = {role: each for role, each in sources.by_role.items() if each.form != "debezium_epoch"}
        read = {role: candidates.judge(rows, source, detects=False) for role, source in by_role.items()}
        for role, each in read.items():
            yield _of_role(settings, rows, role, each)
        if read["sequence"].known:
            tried = candidates.Option.of(found, read)
            events = among((each.behind_prefix if each.behind_prefix.value else each).json for each in rows.records)
            databases = [each.database for each in events if each.database and read["sequence"].is_in_value]
            position = f"; of change events, debezium:{databases[0]} reads the whole position" if databases else ""
            is_rising = tried.steps.fits or tried.steps.kept_out < _FEWEST
            yield _finding("order", f"{tried.describe()}{position}", ok=is_rising)
    if settings.value is not None:
        yield _of_values(settings, settings.value, found)


def _of_role(settings: Settings, rows: Found, role: str, each: Candidate) -> Finding:
    total, read = len(rows.records), len(rows.records) - (each.names if role == "producer" else each.numbers).count(None)
    observed = f"{each.label} in {read:,} of {total:,} records"
    if role == "producer":
        observed += f", {len(each.different_names):,} different"
    else:
        observed += f", {min(each.known):,} to {max(each.known):,}" if read and each.source.form != "debezium" else ""
        problems = ", ".join(f"{count:,}: {PROBLEMS.get(name, name)}" for name, count in each.problems.items())
        causes = (one_record.unread(each.source, raw(each.source, record)[1], record.value) for record in rows.records)
        cause = next((f" (of the first, {why})" for why in causes if why), "")
        observed += f"; {problems}{cause}" if problems else ""
    if read and not _is_too_much(settings, total - read, total):
        return _finding(role, observed)
    known = ", ".join(other.label for other in candidates.find(rows.sample).candidates[:_SHOWN])
    mend = f"correct `{role}` in the config, or mend the producer. `tidemark init` says what fits."
    return _finding(role, observed, ok=False, next_step=f"The records have {known}: {mend}")


def _is_too_much(settings: Settings, kept_out: int, total: int) -> bool:
    """Whether a run of such records would be stopped by the breaker."""
    return kept_out >= _FEWEST and kept_out > settings.policies.max_quarantined_share * total


def _of_values(settings: Settings, value: ValueFormat, found: Sample) -> Finding:
    """How many values are certainly undecodable. The types of a schema are Spark's to judge."""
    total, schema = len(found.records), Schema("AVRO", value.avro_schema) if value.avro_schema else None
    reasons = (_undecodable(each.value, value, schema) for each in found.records if each.value is not None)
    whys = Counter(why for why in reasons if why)
    listed = "".join(f"{', ' if at else '; '}{count:,} {why}" for at, (why, count) in enumerate(whys.items()))
    rest = "" if value.format == "text" else "; whether they fit their schema, `tidemark plan` says"
    observed = f"{total - whys.total():,} of {total:,} can be {value.format}{listed}{rest}"
    is_stopped = value.undecodable == "quarantine" and _is_too_much(settings, whys.total(), total)
    return _finding("values", observed, ok=not is_stopped)


def _undecodable(raw: bytes, value: ValueFormat, schema: Schema | None = None) -> str | None:
    """Why a value is certainly undecodable, and what it begins with; None if it may be decoded."""
    body = raw if value.registry is None else without_prefix(raw)
    if body is None or len(raw) > value.max_bytes:
        why: str | None = "without the id of a schema" if body is None else "longer than value.max_bytes"
    elif value.format == "avro":
        why = "not of value.avro_schema" if schema and not schema.why and schema.decoded(raw) is None else None
    elif value.format == "protobuf" and value.registry is not None:
        why = "without the indexes of a message" if message_path(raw) is None else None
    elif value.format == "protobuf":
        why = "no Protobuf" if raw[:1] in (b"\0", b"\3") else None  # no message has a field 0
    else:
        record = Record(body)
        fault = one_record.instead_of_object(record) if value.format == "json" else None
        why = "not UTF-8" if record.json_problem == "not_utf8" else fault and f"no JSON object: {fault}"
    header = framing(raw) if value.registry is None or body is None else None
    return f"{why.partition(':')[0]}: behind {header}" if why and header else why


def _of_registry(settings: Settings, registry: Registry, records: Sequence[Sampled]) -> Finding:
    """Whether the schema registry answers, lets this login in, and knows what the sample was written with."""
    values = {topic: value for topic in settings.kafka.topics if (value := settings.of_topic(topic).value) and value.registry}
    client, schemas, misfits = SchemaRegistry(registry), set[int](), dict[tuple[int, str, str], str]()
    try:
        client.require_answer()
        for each in records:
            value, number = values.get(each.topic), schema_id(each.value or b"")
            path = message_path(each.value or b"") if value and value.format == "protobuf" else ""
            own = value.registry if value else None
            if value is None or own is None or number is None or path is None or (number, each.topic, path) in misfits:
                continue
            if number not in own.undecodable_ids and len(schemas) < _MOST_IDS:
                schemas.add(number)
                why = _misfit(value, *client.schema(number, met_at=each.place), path)
                misfits[number, each.topic, path] = f"{number}, which {each.place} has: {why}" if why else ""
    except (RegistryError, ToolError) as error:
        found = _of_error("registry", error)
        is_needed = any(value.format != "json" for value in values.values())
        return found if is_needed else _finding("registry", f"{found.observed}. JSON is read without it")
    known = ", ".join(map(str, sorted(schemas)[:_SHOWN])) + (", ..." if len(schemas) > _SHOWN else "")
    knows = f"knows what the sample was written with: {known}" if schemas else "the sample names no id"
    odd = [said for said in misfits.values() if said]
    unfit = f". These do not fit value.schema: {'; '.join(odd[:_SHOWN])}" if odd else ""
    return _finding("registry", f"{registry.url}: answers; {knows}{unfit}", ok=not odd)


def _misfit(value: ValueFormat, kind: str, text: str, message: str) -> str | None:
    """Why no value of a schema can be decoded into the payload's fields; None if it can, or if no schema is needed for it."""
    if value.format == "json":
        return None
    wanted, text = payload_schema.of(value.schema_), text if kind == value.format.upper() else ""
    return avro_schema.misfit(text, wanted) if value.format == "avro" else protobuf_schema.misfit_at(text, message, wanted)


def _of_tables(settings: Settings, lakehouse: Lakehouse, *, is_sampled: bool) -> Iterator[Finding]:
    observed, is_begun, commits = f"{lakehouse.name}: reached by a session", True, list[Finding]()
    if lakehouse.is_in_files:
        try:
            found = root_check.look(lakehouse, [model.name for model in settings.gold.models])
        except root_check.ERRORS as error:
            yield _of_place("tables", error, lakehouse)
            return
        there = f"{len(found.ours)} table{'s' if len(found.ours) > 1 else ''} of pipeline {found.owner or 'unknown'}"
        if not found.ours:
            there = "no tables yet" if found.is_there else "not there yet; the first run makes it"
        others = f", and tables that are not Tidemark's: {', '.join(found.others[:_SHOWN])}" if found.others else ""
        observed, is_begun, commits = f"{lakehouse.name}: {there}{others}", found.is_there, [_of_commits(lakehouse)]
    # Only Spark can judge models, formats that it decodes, and properties of its client.
    values = [settings.of_topic(topic).value for topic in settings.kafka.topics]
    is_decoded = any(value.format in ("avro", "protobuf") for value in values if value is not None)
    refused: dict[str, TidemarkError | None] = {}
    if is_begun or not is_sampled or settings.gold.models or settings.kafka.properties or is_decoded:
        from pipelines import refusals

        with job_of(settings) as job:
            try:
                refused = refusals.find(job)
            except ToolError as error:  # no session
                refused = {"tables": error}
    tables = refused.pop("tables", None)
    yield _of_error("tables", tables, f"{observed}.") if tables else _finding("tables", observed)
    yield from commits
    if is_begun and not any(refused.values()):  # tables that a run refuses may lack what is read here
        yield from _of_added_partitions(lakehouse)
    for stage, refusal in refused.items():
        yield _of_error(stage, refusal) if refusal else _finding(stage, _CHECKS[stage][0])


def _of_added_partitions(lakehouse: Lakehouse) -> Iterator[Finding]:
    with suppress(TidemarkError):
        for row in status.read_grown(lakehouse):
            yield _finding(f"partitions {row['topic']}", status.added(row))


def _of_place(name: str, error: Exception, lakehouse: Lakehouse) -> Finding:
    refused = storage_errors.failure(error, lakehouse)
    return _of_error(name, refused) if refused else _finding(name, f"{lakehouse.name}: {error}", ok=False)


def _of_commits(lakehouse: Lakehouse) -> Finding:
    if isinstance(lakehouse.storage, S3Storage) and lakehouse.storage.is_single_writer:
        return _finding("commits", "not tried: single_writer is set")
    try:
        is_exclusive = root_check.is_exclusive(lakehouse)
    except root_check.ERRORS as error:
        return _of_place("commits", error, lakehouse)
    observed = {
        None: "written; no hard links here, so only the lock on the root keeps writers apart",
        True: "written; the second of two was refused (put-if-absent)",
        False: "the second of two overwrote the first",
    }[is_exclusive]
    next_step = "Take a store that keeps `If-None-Match: *`; if nobody else ever writes, set lakehouse.storage.single_writer."
    return _finding("commits", observed, ok=is_exclusive is not False, next_step=next_step)
