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
from typing import TYPE_CHECKING

from bronze.kafka import metadata
from bronze.kafka.source import require_reachable
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
from lakehouse.spark import storage_errors
from lakehouse.storage import S3Storage
from lakehouse.table import Lakehouse
from silver.extract import one_record
from tidemark.extras.onboarding import candidates, sample
from tidemark.extras.onboarding.values import Budget, Decoder, Registered
from tidemark.process.context import job_of, load_settings
from tidemark.process.exit_codes import scrub_text
from tidemark.readers import status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lakehouse.settings.pipeline import Settings, ValueFormat
    from tidemark.extras.onboarding.candidates import Candidate
    from tidemark.extras.onboarding.sample import Sample, Sampled

_FEWEST = 10  # with fewer unreadable records a run goes on, whatever their share is; see `silver.load.breaker`
_SHOWN = 20
_MOST_IDS = 256  # schemas that are fetched; a load may have no more
_UNREAD = "topics"  # the finding where librdkafka cannot read a sample
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
    return [_finding("config", (True, read, "a config in order")), *machine, *kafka, *tables]


def _finding(name: str, verdict: tuple[bool, str, str], next_step: str = "") -> Finding:
    ok, observed, expected = verdict
    return Finding(name, ok=ok, observed=observed, expected=expected, next_step="" if ok else next_step)


def _of_error(name: str, error: TidemarkError, expected: str, before: str = "") -> Finding:
    parts = (before, error.what, error.where and f"{error.where}:", error.observed)
    said = " ".join(" ".join(str(part) for part in parts if part).split())
    observed = scrub_text(said).removesuffix(":")
    return _finding(name, (False, observed, str(error.expected or expected)), error.next_step or "")


def _mistakes(error: ConfigError, config: Path) -> list[Finding]:
    if not isinstance(error, ConfigMistakesError):
        return [_of_error("config", error, f"{config} in order")]
    return [
        _finding(
            f"config {each.key or config}",
            (False, f"{each.place}: {each.what} {each.observed or ''}".strip(), each.expected),
            each.next_step,
        )
        for each in error.mistakes
    ]


def _of_kafka(settings: Settings, most: int) -> Iterator[Finding]:
    kafka, found = settings.kafka, None
    try:
        require_reachable(str(kafka.bootstrap_servers))
        yield _finding("brokers", (True, f"{kafka.bootstrap_servers!s} answers", "an open port"))
        found = sample.read(kafka, most)
    except SourceError as error:
        yield _of_error("brokers", error, "an open port")
    except metadata.LookError as error:
        expected = "topics that this login may describe and read, with properties that librdkafka has"
        next_step = "Check the topics' rights, and kafka.properties."
        yield _finding(_UNREAD, (False, f"no sample: {error}", expected), next_step)
    if found is not None:
        yield from _of_topics(settings, found)
    yield from _of_registry(settings, found.records if found else ())


def _of_topics(settings: Settings, found: Sample) -> Iterator[Finding]:
    """Whether the topics are there, their records have what the config names, and how many would be kept out."""
    expected = "a topic that this login may describe and read"
    for topic in settings.kafka.topics:
        if topic in found.missing_topics:
            yield _of_error(f"topic {topic}", sample.no_topic(settings.kafka, [topic]), expected)
            continue
        spans = [span for (name, _), span in found.partitions.items() if name == topic]
        held = sum(end - first for first, end in spans)
        records = sum(record.topic == topic for record in found.records)
        observed = f"{len(spans):,} partitions, {held:,} offsets; {records:,} records read"
        yield _finding(f"topic {topic}", (True, observed, expected))
    for topic in ("", *settings.topics) if found.records else ("",):  # "": all topics without settings of their own
        records_ = [each for each in found.records if (each.topic if each.topic in settings.topics else "") == topic]
        if records_:
            for each in _of_records(settings.of_topic(topic), replace(found, records=records_)):
                yield replace(each, name=f"{each.name} {topic}".strip())
        elif topic or not found.records:
            nothing = (True, "none yet, so nothing is said of them", "records with a sequence")
            yield _finding(f"records {topic}".strip(), nothing)


def _of_records(settings: Settings, found: Sample) -> Iterator[Finding]:
    """What is said of records of topics that are read alike."""
    sources, records = Sources.of(settings), [Registered().record(each) for each in found.records]
    if sources.is_left_to_silver:
        observed = "read by your code, or of Avro or Protobuf values, which Spark does: `tidemark plan` tries it"
        yield _finding("sequence", (True, observed, "a sequence"))
    else:
        read = {role: candidates.candidate(source, records, detects=False) for role, source in sources.by_role.items()}
        for role, each in read.items():
            yield _of_role(settings, found, records, role, each)
        if read["sequence"].known:
            yield _of_order(found, read)
    if settings.value is not None:
        yield _of_values(settings, settings.value, found)


def _of_role(settings: Settings, found: Sample, records: Sequence[Record], role: str, each: Candidate) -> Finding:
    total, read = len(records), len(records) - (each.names if role == "producer" else each.numbers).count(None)
    observed = f"{each.label} in {read:,} of {total:,} records"
    if role == "producer":
        observed += f", {len(each.different_names):,} different"
    else:
        observed += f", {min(each.known):,} to {max(each.known):,}" if read else ""
        problems = ", ".join(f"{count:,}: {PROBLEMS.get(name, name)}" for name, count in each.problems.items())
        causes = (one_record.unread(each.source, raw(each.source, record)[1], record.value) for record in records)
        cause = next((f" (of the first, {why})" for why in causes if why), "")
        observed += f"; {problems}{cause}" if problems else ""
    is_read = read > 0 and not _is_too_much(settings, total - read, total)
    known = "" if is_read else ", ".join(other.label for other in candidates.find(found).candidates[:_SHOWN])
    next_step = (
        f"The records have {known}: correct `{role}` in the config, or mend the producer. `tidemark init` says what fits."
    )
    return _finding(role, (is_read, observed, f"a {role} in every record"), next_step)


def _is_too_much(settings: Settings, kept_out: int, total: int) -> bool:
    """Whether a run of such records would be stopped by the breaker."""
    return kept_out >= _FEWEST and kept_out > settings.policies.max_quarantined_share * total


def _of_order(found: Sample, read: dict[str, Candidate]) -> Finding:
    tried = candidates.Option.of(found, read)
    expected = "a sequence that rises within each stream; `tidemark plan` applies all rules to Bronze's records"
    next_step = "See `tidemark plan`. Several producers in a partition need `producer`, or one that restarts an `epoch`."
    return _finding("order", (tried.steps.fits or tried.steps.kept_out < _FEWEST, tried.describe(), expected), next_step)


def _of_values(settings: Settings, value: ValueFormat, found: Sample) -> Finding:
    """How many values are certainly undecodable. The types of a schema are Spark's to judge."""
    fits, total = _of_schema(value), len(found.records)
    reasons = (_undecodable(each.value, value, fits) for each in found.records if each.value is not None)
    whys = Counter(why for why in reasons if why)
    listed = "".join(f"{', ' if at else '; '}{count:,} {why}" for at, (why, count) in enumerate(whys.items()))
    rest = "" if value.format == "text" else "; whether they fit their schema, `tidemark plan` says"
    observed = f"{total - whys.total():,} of {total:,} can be {value.format}{listed}{rest}"
    is_stopped = value.undecodable == "quarantine" and _is_too_much(settings, whys.total(), total)
    next_step = "Correct `value` in the config, or the producer."
    return _finding("values", (not is_stopped, observed, f"values that are {value.format}"), next_step)


def _of_schema(value: ValueFormat) -> Callable[[bytes], bool]:
    """Says whether a value may be of `value.avro_schema`."""
    with suppress(AvroSchemaError):
        if value.format == "avro" and value.avro_schema is not None:
            return partial(Decoder(avro_schema.writer(value.avro_schema)).fits, budget=Budget())
    return lambda _: True


def _undecodable(raw: bytes, value: ValueFormat, is_of_schema: Callable[[bytes], bool] = lambda _: True) -> str | None:
    r"""Why a value is certainly undecodable, and what it begins with; None if it may be decoded.

    >>> from lakehouse.settings.pipeline import ValueFormat
    >>> of_text, of_json = ValueFormat(format="text"), ValueFormat(format="json", schema="id STRING")
    >>> _undecodable(b"\xff", of_text), _undecodable(b"[1]", of_json), _undecodable(b"\0\0\0\0\7{}", of_json)
    ('not UTF-8', 'no JSON object: a list', 'no JSON object: behind the prefix of a schema registry')
    """
    body = raw if value.registry is None else without_prefix(raw)
    if body is None or len(raw) > value.max_bytes:
        why = "without the id of a schema" if body is None else "longer than value.max_bytes"
    elif value.format == "avro":
        why = "" if is_of_schema(raw) else "not of value.avro_schema"
    elif value.format == "protobuf" and value.registry is not None:
        why = "without the indexes of a message" if message_path(raw) is None else ""
    elif value.format == "protobuf":
        why = "no Protobuf" if raw[:1] in (b"\0", b"\3") else ""  # no message has a field 0
    else:
        why = _no_text(body) or ("" if value.format == "text" else _no_json(body))
    header = framing(raw) if value.registry is None or body is None else None
    return f"{why}: behind {header}" if why and header else why or None


def _no_text(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    return ""


def _no_json(body: bytes) -> str:
    found = one_record.instead_of_object(Record(body))
    return "" if found is None else "no JSON object" if framing(body) else f"no JSON object: {found}"


def _of_registry(settings: Settings, records: Sequence[Sampled]) -> Iterator[Finding]:
    """Whether the schema registry answers, lets this login in, and knows what the sample was written with."""
    if settings.registry is None:
        return
    name, expected = "registry", "a registry that answers, and knows the schemas that records were written with"
    values = {topic: value for topic in settings.kafka.topics if (value := settings.of_topic(topic).value) and value.registry}
    met: dict[tuple[int, str, str], str] = {}
    for each in records:
        if each.value is not None and (value := values.get(each.topic)) and value.registry:
            number, path = schema_id(each.value), message_path(each.value) if value.format == "protobuf" else ""
            if number is not None and path is not None and number not in value.registry.undecodable_ids:
                met.setdefault((number, each.topic, path), each.place)
    client = SchemaRegistry(settings.registry)
    try:
        client.require_answer()
        places = {number: place for (number, _, _), place in sorted(met.items(), reverse=True)}
        schemas = {number: client.schema(number, met_at=place) for number, place in sorted(places.items())[:_MOST_IDS]}
    except (RegistryError, ToolError) as error:
        found = _of_error(name, error, expected)
        is_needed = any(value.format != "json" for value in values.values())
        yield found if is_needed else _finding(name, (True, f"{found.observed}. JSON is read without it", expected))
        return
    known = ", ".join(map(str, sorted(schemas)[:_SHOWN])) + (", ..." if len(schemas) > _SHOWN else "")
    knows = f"knows what the sample was written with: {known}" if schemas else "the sample names no id"
    odd = [
        f"{number}, which {place} has: {why}"
        for (number, topic, path), place in sorted(met.items())
        if number in schemas and (why := _misfit(values[topic], *schemas[number], path))
    ]
    unfit = f". These do not fit value.schema: {'; '.join(odd[:_SHOWN])}" if odd else ""
    next_step = "Correct value.schema, or have the producer write what it says: as it is, such values are undecodable."
    yield _finding(name, (not odd, f"{settings.registry.url}: answers; {knows}{unfit}", expected), next_step)


def _misfit(value: ValueFormat, kind: str, text: str, message: str) -> str | None:
    """Why no value of a schema can be decoded into the payload's fields; None if it can, or if no schema is needed for it."""
    if value.format == "json":
        return None
    wanted, text = payload_schema.of(value.schema_), text if kind == value.format.upper() else ""
    return avro_schema.misfit(text, wanted) if value.format == "avro" else protobuf_schema.misfit_at(text, message, wanted)


def _of_tables(settings: Settings, lakehouse: Lakehouse, *, is_sampled: bool) -> Iterator[Finding]:
    expected = f"a place that this user may write, without another pipeline's tables (this one is {settings.pipeline})"
    observed, is_begun, commits = f"{lakehouse.name}: reached by a session", True, list[Finding]()
    if lakehouse.is_in_files:
        try:
            found = root_check.look(lakehouse, [model.name for model in settings.gold.models])
        except root_check.ERRORS as error:
            yield _of_place("tables", error, lakehouse, expected, "Check lakehouse.root, its rights, and its credentials.")
            return
        observed, is_begun, commits = _there(lakehouse, found), found.is_there, [_of_commits(lakehouse)]
    refused = _refusals(settings) if is_begun or not is_sampled or _is_for_spark(settings) else {}
    tables = refused.pop("tables", None)
    yield _of_error("tables", tables, expected, f"{observed}.") if tables else _finding("tables", (True, observed, expected))
    yield from commits
    if is_begun and not any(refused.values()):  # tables that a run refuses may lack what is read here
        yield from _of_added_partitions(lakehouse)
    for stage, refusal in refused.items():
        needed = _NEEDED[stage]
        yield _of_error(stage, refusal, needed) if refusal else _finding(stage, (True, needed, needed))


def _of_added_partitions(lakehouse: Lakehouse) -> Iterator[Finding]:
    expected = "partitions that are compared, unless each counts for itself"
    with suppress(TidemarkError):
        for row in status.read_grown(lakehouse):
            yield _finding(f"partitions {row['topic']}", (True, status.added(row), expected))


def _is_for_spark(settings: Settings) -> bool:
    """Whether Spark alone can judge what a first run would do: models, formats that it decodes, properties of its client."""
    values = [settings.of_topic(topic).value for topic in settings.kafka.topics]
    is_decoded = any(value.format in ("avro", "protobuf") for value in values if value is not None)
    return bool(settings.gold.models or settings.kafka.properties) or is_decoded


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
    plain = _finding(name, (False, f"{lakehouse.name}: {error}", expected), next_step)
    return _of_error(name, refused, expected) if refused else plain


def _of_commits(lakehouse: Lakehouse) -> Finding:
    name, expected = "commits", "a place that can be written, and that refuses a second commit of one version"
    if isinstance(lakehouse.storage, S3Storage) and lakehouse.storage.is_single_writer:
        return _finding(name, (True, "not tried: single_writer is set", "nobody else who writes"))
    try:
        is_exclusive = root_check.is_exclusive(lakehouse)
    except root_check.ERRORS as error:
        return _of_place(name, error, lakehouse, expected, "Give this user the right to write there, or name another root.")
    observed = {
        None: "written; no hard links here, so only the lock on the root keeps writers apart",
        True: "written; the second of two was refused (put-if-absent)",
        False: "the second of two overwrote the first",
    }[is_exclusive]
    single = "lakehouse: {storage: {single_writer: true}}"
    next_step = f"Take a store that keeps `If-None-Match: *`; or, if nobody else ever writes: {single}."
    return _finding(name, (is_exclusive is not False, observed, expected), next_step)
