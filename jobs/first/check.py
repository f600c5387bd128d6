"""`tidemark check`: what the next run of this config would refuse. Commits nothing.

Kafka, the machine and the place of the tables are looked at without a session. For the rest it calls the functions that a run
calls, see `pipelines.refusals`: a session starts where there are tables, or something that Spark alone can judge.
What a probe writes to try it, it removes again.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from bronze.kafka import metadata, sample
from bronze.kafka.source import require_reachable
from jobs.first import candidates, findings
from jobs.first.objects import Decoder, Steps
from jobs.process.context import job_of, load_settings
from jobs.process.exit_codes import scrub_text
from lakehouse.config.mistakes import ConfigMistakesError
from lakehouse.contracts.silver import PROBLEMS
from lakehouse.delta import root_check
from lakehouse.errors import ConfigError, RegistryError, SourceError, TidemarkError, ToolError
from lakehouse.extract.on_driver import Record, raw
from lakehouse.extract.sources import Sources
from lakehouse.extract.written import framing, message_path, schema_id, without_prefix
from lakehouse.machine import doctor
from lakehouse.machine.doctor import Finding
from lakehouse.run.schema_registry import SchemaRegistry
from lakehouse.settings import avro_schema, payload_schema, protobuf_schema
from lakehouse.settings.avro_schema import AvroSchemaError
from lakehouse.settings.pipeline import ValueFormat
from lakehouse.spark import storage_errors
from lakehouse.storage.s3 import S3Storage
from lakehouse.table import Lakehouse
from silver.extract import one_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bronze.kafka.sample import Sample, Sampled
    from jobs.first.candidates import Candidate
    from lakehouse.settings.pipeline import Settings

_FEWEST = 10
"""With fewer unreadable records a run goes on, whatever their share is; see `silver.load.breaker`."""
_SHOWN = 20
_MOST_IDS = 256
"""Of schemas that are asked for; a load may have no more."""
_UNREAD = "topics"
"""The finding where librdkafka cannot read a sample."""
_NEEDED = {
    "bronze": "topics that can be read from Bronze's last offsets on",
    "silver": "tables that belong together, made by these rules, and records that wait which a load may take",
    "gate": "loads that wait which pass",
    "gold": "tables of this version, and models that can be made",
}
"""What each stage of a run needs."""


def check(config: Path, overrides: list[str] | None, *, most: int) -> list[Finding]:
    """Look for what a run would refuse, in the order in which to mend it: config, machine, Kafka, records, tables, stages."""
    try:
        settings = load_settings(config, overrides)
        from pipelines import preflight

        preflight.require(settings)
    except ConfigError as error:
        return [*_mistakes(error, config), *doctor.diagnose()]
    lakehouse = Lakehouse.of(settings)
    read = f"{config}: pipeline {settings.pipeline}"
    machine = doctor.diagnose(store=lakehouse.storage.jars if lakehouse.storage else None)
    kafka = list(_of_kafka(settings, most))
    tables = list(_of_tables(settings, lakehouse, is_sampled=all(each.name != _UNREAD for each in kafka)))
    if any(each.name == "bronze" and each.ok for each in tables):  # Spark's client can what librdkafka cannot
        kafka = [replace(each, ok=True, next_step="") if each.name == _UNREAD else each for each in kafka]
    return [_ok("config", read, "a config in order"), *machine, *kafka, *tables]


def _ok(name: str, observed: str, expected: str) -> Finding:
    return Finding(name, ok=True, observed=observed, expected=expected, next_step="")


def _no(name: str, observed: str, expected: str, next_step: str) -> Finding:
    return Finding(name, ok=False, observed=observed, expected=expected, next_step=next_step)


def _of_error(name: str, error: TidemarkError, expected: str) -> Finding:
    return _no(name, _told(error), str(error.expected or expected), error.next_step or "")


def _told(error: TidemarkError) -> str:
    """What an error says, in one line."""
    told = " ".join(str(part) for part in (error.what, error.where and f"{error.where}:", error.observed) if part)
    return scrub_text(" ".join(told.split())).removesuffix(":")


def _mistakes(error: ConfigError, config: Path) -> list[Finding]:
    if not isinstance(error, ConfigMistakesError):
        return [_of_error("config", error, f"{config} in order")]
    return [
        _no(
            f"config {each.key or config}",
            f"{each.place}: {each.what} {each.observed or ''}".strip(),
            each.expected,
            each.next_step,
        )
        for each in error.mistakes
    ]


def _of_kafka(settings: Settings, most: int) -> Iterator[Finding]:
    kafka = settings.kafka
    servers = str(kafka.bootstrap_servers)
    try:
        require_reachable(servers)
        yield _ok("brokers", f"{servers} answers", "an open port")
    except SourceError as error:
        yield _of_error("brokers", error, "an open port")
        yield from _of_registry(settings, ())
        return
    try:
        found = sample.read(kafka, most)
    except metadata.LookError as error:
        expected = "topics that this login may describe and read, with properties that librdkafka has"
        yield _no(_UNREAD, f"no sample: {error}", expected, "Check the topics' rights, and kafka.properties.")
        yield from _of_registry(settings, ())
        return
    for topic in kafka.topics:
        if topic in found.missing_topics:
            yield _of_error(f"topic {topic}", sample.no_topic(kafka, [topic]), "a topic that this login may describe and read")
            continue
        spans = [span for (name, _), span in found.partitions.items() if name == topic]
        held = sum(end - first for first, end in spans)
        records = sum(record.topic == topic for record in found.records)
        expected = "a topic that this login may describe and read"
        yield _ok(f"topic {topic}", f"{len(spans):,} partitions, {held:,} offsets; {records:,} records read", expected)
    if not found.records:
        yield _ok("records", "none yet, so nothing is said of them", "records with a sequence")
    else:
        yield from _of_records(settings, found)
    yield from _of_registry(settings, found.records)


def _of_registry(settings: Settings, records: Sequence[Sampled]) -> Iterator[Finding]:
    """Whether the schema registry answers, lets this login in, and knows what the sample was written with."""
    if settings.registry is None:
        return
    name, expected = "registry", "a registry that answers, and knows the schemas that records were written with"
    values = {topic: settings.of_topic(topic).value for topic in settings.kafka.topics}
    behind = {topic: value for topic, value in values.items() if value is not None and value.registry is not None}
    is_needed, url = any(value.format != "json" for value in behind.values()), settings.registry.url
    met = _ids([each for each in records if each.topic in behind], behind)
    asked = SchemaRegistry(settings.registry)
    try:
        asked.require_answer()
        places = {each.number: place for each, place in sorted(met.items(), reverse=True)}
        schemas = {number: asked.schema(number, met_at=place) for number, place in sorted(places.items())[:_MOST_IDS]}
    except (RegistryError, ToolError) as error:
        needed = _of_error(name, error, expected)
        yield needed if is_needed else _ok(name, f"{needed.observed}. JSON is read without it", expected)
        return
    listed = ", ".join(map(str, sorted(schemas)[:_SHOWN])) + (", ..." if len(schemas) > _SHOWN else "")
    observed = f"{url}: answers; " + (
        f"knows what the sample was written with: {listed}" if schemas else "the sample names no id"
    )
    odd = [
        f"{each.number}, which {place} has: {why}"
        for each, place in sorted(met.items())
        if each.number in schemas and (why := _misfit(behind[each.topic], schemas[each.number], each.message_path))
    ]
    if odd:
        next_step = "Correct value.schema, or have the producer write what it says: as it is, such values are undecodable."
        yield _no(name, f"{observed}. These do not fit value.schema: {'; '.join(odd[:_SHOWN])}", expected, next_step)
        return
    yield _ok(name, observed, expected)


def _misfit(value: ValueFormat, schema: tuple[str, str], message_path: str) -> str | None:
    """Why no value of a schema can be decoded into the payload's fields; None if it can, or if no schema is needed for it."""
    kind, text = schema
    if value.format == "json":
        return None
    wanted, text = payload_schema.of(value.schema_), text if kind == value.format.upper() else ""
    if value.format == "avro":
        return avro_schema.misfit(text, wanted)
    return protobuf_schema.misfit_at(text, message_path, wanted)


class _Met(NamedTuple):
    """A schema that values of a topic were written with, and for Protobuf the message of its file."""

    number: int
    topic: str
    message_path: str


def _ids(records: Sequence[Sampled], behind: Mapping[str, ValueFormat]) -> dict[_Met, str]:
    """The ids before the values of each topic, without those that the config calls undecodable, each with a record's place."""
    met: dict[_Met, str] = {}
    for each in records:
        value, registry, number = each.value or b"", behind[each.topic].registry, schema_id(each.value or b"")
        path = message_path(value) if behind[each.topic].format == "protobuf" else ""
        if number is not None and path is not None and registry is not None and number not in registry.undecodable_ids:
            met.setdefault(_Met(number, each.topic, path), each.place)
    return met


def _of_records(settings: Settings, found: Sample) -> Iterator[Finding]:
    """Whether the records have what the config names for their topics, and how many would be kept out."""
    for topic in ("", *settings.topics):  # "": all topics without settings of their own
        records = [each for each in found.records if (each.topic if each.topic in settings.topics else "") == topic]
        for each in _of_kind(settings.of_topic(topic), replace(found, records=records)) if records or topic else ():
            yield replace(each, name=f"{each.name} {topic}".strip())


def _of_kind(settings: Settings, found: Sample) -> Iterator[Finding]:
    if not found.records:
        yield _ok("records", "none yet, so nothing is said of them", "records with a sequence")
        return
    sources, records = Sources.of(settings), candidates.records_of(found.records)
    if sources.is_left_to_silver:
        yield _ok(
            "sequence",
            "read by your code, or of Avro or Protobuf values, which Spark does: `tidemark plan` tries it",
            "a sequence",
        )
    else:
        read = {role: candidates.candidate(source, records) for role, source in sources.by_role.items()}
        for role, each in read.items():
            yield _of_role(settings, records, found, role, each)
        if read["sequence"].readable:
            yield _of_order(found, read)
    if settings.value is not None:
        yield _of_values(settings, settings.value, found)


def _of_role(settings: Settings, records: Sequence[Record], found: Sample, role: str, each: Candidate) -> Finding:
    total, source = len(records), Sources.of(settings).by_role[role]
    values = [value for value in (each.names if role == "producer" else each.numbers) if value is not None]
    problems = ", ".join(f"{count:,}: {PROBLEMS.get(name, name)}" for name, count in each.problems.items())
    observed = f"{candidates.label(source)} in {len(values):,} of {total:,} records"
    if role == "producer":
        observed += f", {len(set(values)):,} different"
    elif values:
        numbers = [value for value in each.numbers if value is not None]
        observed += f", {min(numbers):,} to {max(numbers):,}"
    expected = f"a {role} in every record"
    unread = total - len(values)
    if unread and problems and role != "producer":
        causes = (one_record.unread(source, raw(source, record)[1], record.value) for record in records)
        cause = next((f" (of the first, {why})" for why in causes if why), "")
        observed += f"; {problems}{cause}"
    if not values or _is_too_much(settings, unread, total):
        known = ", ".join(other.label for other in candidates.find(found.records).candidates[:_SHOWN])
        next_step = (
            f"The records have {known}: correct `{role}` in the config, or mend the producer. `tidemark init` says what fits."
        )
        return _no(role, observed, expected, next_step)
    return _ok(role, observed, expected)


def _is_too_much(settings: Settings, kept_out: int, total: int) -> bool:
    """Whether a run of such records would be stopped by the breaker."""
    return kept_out >= _FEWEST and kept_out > settings.policies.max_quarantined_share * total


def _of_order(found: Sample, read: dict[str, Candidate]) -> Finding:
    tried = findings.option(found, read["sequence"], read.get("producer"), read.get("epoch"))
    observed = f"{tried.steps.describe()}; {tried.unread:,} invalid" if tried.unread else tried.steps.describe()
    expected = "a sequence that rises within each stream; `tidemark plan` decides a sample by all rules"
    if findings.fits(tried.steps) or tried.steps.kept_out < _FEWEST:
        return _ok("order", observed, expected)
    next_step = "See `tidemark plan`. Several producers in a partition need `producer`, or one that starts anew an `epoch`."
    return _no("order", observed, expected, next_step)


def _of_values(settings: Settings, value: ValueFormat, found: Sample) -> Finding:
    """How many values are certainly undecodable. The types of a schema are Spark's to judge."""
    whys, decoder = Counter[str](), _decoder(value)
    for record in found.records:
        if record.value is not None and (why := _undecodable(record.value, value, decoder)):
            whys[why] += 1
    wrong, total = whys.total(), len(found.records)
    listed = ", ".join(f"{count:,} {why}" for why, count in whys.items())
    observed = f"{total - wrong:,} of {total:,} can be {value.format}{f'; {listed}' if listed else ''}"
    rest = "" if value.format == "text" else "; whether they fit their schema, `tidemark plan` says"
    expected, next_step = f"values that are {value.format}", "Correct `value` in the config, or the producer."
    if value.undecodable == "quarantine" and _is_too_much(settings, wrong, total):
        return _no("values", observed + rest, expected, next_step)
    return _ok("values", observed + rest, expected)


def _decoder(value: ValueFormat) -> Callable[[bytes], bool] | None:
    """Says whether a value is of `value.avro_schema`; None where there is no such schema, or no field of it is read here."""
    if value.format != "avro" or value.avro_schema is None:
        return None
    with suppress(AvroSchemaError):
        return partial(Decoder.of(avro_schema.writer(value.avro_schema)).fits, steps=Steps())
    return None


def _undecodable(raw: bytes, value: ValueFormat, is_of_schema: Callable[[bytes], bool] | None = None) -> str | None:
    r"""Why a value is certainly undecodable, and what it begins with; None if it may be decoded.

    >>> of_text, of_json = ValueFormat(format="text"), ValueFormat(format="json", schema="id STRING")
    >>> _undecodable(b"\xff", of_text), _undecodable(b"[1]", of_json), _undecodable(b"\0\0\0\0\7{}", of_json)
    ('not UTF-8', 'no JSON object: a list', 'no JSON object: behind the prefix of a schema registry')
    """
    why = _why_undecodable(raw, value, is_of_schema)
    has_prefix = value.registry is not None and without_prefix(raw) is not None
    header = framing(raw) if why and not has_prefix else None
    return f"{why}: behind {header}" if header else why


def _why_undecodable(raw: bytes, value: ValueFormat, is_of_schema: Callable[[bytes], bool] | None) -> str | None:
    body = raw if value.registry is None else without_prefix(raw)
    if len(raw) > value.max_bytes:
        return "longer than value.max_bytes"
    if body is None:
        return "without the id of a schema"
    if value.format == "avro":
        return None if is_of_schema is None or is_of_schema(raw) else "not of value.avro_schema"
    if value.format == "protobuf":
        is_named = value.registry is None or message_path(raw) is not None
        no_message = raw[:1] in (b"\0", b"\3") and value.registry is None  # no message has a field 0
        return "no Protobuf" if no_message else None if is_named else "without the indexes of a message"
    try:
        body.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    found = None if value.format == "text" else one_record.instead_of_object(Record(body))
    return None if found is None else "no JSON object" if framing(raw) else f"no JSON object: {found}"


def _of_tables(settings: Settings, lakehouse: Lakehouse, *, is_sampled: bool) -> Iterator[Finding]:
    expected = f"a place that this user may write, without another pipeline's tables (this one is {settings.pipeline})"
    observed, is_begun, commits = f"{lakehouse.name}: reached by a session", True, []
    if lakehouse.is_in_files:
        try:
            found = root_check.look(lakehouse, [model.name for model in settings.gold.models])
        except root_check.ERRORS as error:
            yield _of_place("tables", error, lakehouse, expected, "Check lakehouse.root, its rights, and its credentials.")
            return
        observed, is_begun, commits = _there(lakehouse, found), found.is_there, [_of_commits(lakehouse)]
    refused = _refusals(settings) if is_begun or not is_sampled or _is_for_spark(settings) else {}
    if tables := refused.pop("tables", None):
        yield replace(_of_error("tables", tables, expected), observed=f"{observed}. {_told(tables)}")
    else:
        yield _ok("tables", observed, expected)
    yield from commits
    for stage, refusal in refused.items():
        needed = _NEEDED[stage]
        yield _ok(stage, needed, needed) if refusal is None else _of_error(stage, refusal, needed)


def _is_for_spark(settings: Settings) -> bool:
    """Whether Spark alone can judge what a first run would do: models, formats that it decodes, properties of its client."""
    values = [settings.of_topic(topic).value for topic in settings.kafka.topics]
    formats = {value.format for value in values if value is not None}
    return bool(settings.gold.models or settings.kafka.properties or formats & {"avro", "protobuf"})


def _refusals(settings: Settings) -> dict[str, TidemarkError | None]:
    from pipelines import refusals

    with job_of(settings) as job:
        try:
            return refusals.find(job)
        except ToolError as error:  # no session
            return {"tables": error}


def _there(lakehouse: Lakehouse, found: root_check.Found) -> str:
    whose = f"pipeline {found.owner}" if found.owner else "a pipeline that they do not name"
    there = f"{len(found.ours)} table{'s' if len(found.ours) > 1 else ''} of {whose}"
    if not found.ours:
        there = "no tables yet" if found.is_there else "not there yet; the first run makes it"
    others = f", and tables that are not Tidemark's: {', '.join(found.others[:_SHOWN])}" if found.others else ""
    return f"{lakehouse.name}: {there}{others}"


def _of_place(name: str, error: Exception, lakehouse: Lakehouse, expected: str, next_step: str) -> Finding:
    refused = storage_errors.failure(error, lakehouse)
    return _of_error(name, refused, expected) if refused else _no(name, f"{lakehouse.name}: {error}", expected, next_step)


def _of_commits(lakehouse: Lakehouse) -> Finding:
    name, expected = "commits", "a place that can be written, and that refuses a second commit of one version"
    if isinstance(lakehouse.storage, S3Storage) and lakehouse.storage.is_single_writer:
        return _ok(name, "not tried: single_writer is set", "nobody else who writes")
    try:
        is_exclusive = root_check.is_exclusive(lakehouse)
    except root_check.ERRORS as error:
        return _of_place(name, error, lakehouse, expected, "Give this user the right to write there, or name another root.")
    if is_exclusive is None:
        return _ok(name, "written; no hard links here, so only the lock on the root keeps writers apart", expected)
    if is_exclusive:
        return _ok(name, "written; the second of two was refused (put-if-absent)", expected)
    single = "lakehouse: {storage: {single_writer: true}}"
    next_step = f"Take a store that keeps `If-None-Match: *`; or, if nobody else ever writes: {single}."
    return _no(name, "the second of two overwrote the first", expected, next_step)
