"""What `init` makes of Debezium's change events: the position, the columns of the row, and what the connector lacks."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.load import parse
from lakehouse.extract.on_driver import Record
from lakehouse.settings.pipeline import Registry, Settings
from tests.support.answering_registry import answering
from tests.support.change_events import as_avro, as_bytes, event, of_snapshot, unwrapped, with_schema
from tests.support.decodings import prefixed
from tidemark.extras.onboarding import check, values
from tidemark.extras.onboarding.init import Asked, Look, Section, answer, config_sections, config_text
from tidemark.extras.onboarding.sample import Sample, Sampled
from tidemark.extras.onboarding.values import Event

Found = dict[str, Any]
ASKED = Asked("localhost:9092", ["t"], "./lake", Path("tidemark.yml"), False, 100, [], {})
ROW = "id BIGINT, note STRING, ratio DOUBLE"
AFTER = "op STRING, after STRUCT<`id`: BIGINT, `note`: STRING, `ratio`: DOUBLE>"


def sampled(given: Sequence[bytes | None], topic: str = "t") -> list[Sampled]:
    """A key for every record, as each row has."""
    return [Sampled(topic, 0, offset, b'{"id":%d}' % (offset % 9), value, ()) for offset, value in enumerate(given)]


def look_at(records: list[Sampled], registered: values.Registered | None = None, **asked: Any) -> Look:
    asking = replace(ASKED, topics=list(dict.fromkeys(each.topic for each in records)), **asked)
    return Look(Sample(records), asking, registered or values.Registered())


def config_of(look: Look) -> tuple[Settings, str]:
    """The config that is written, and the answer."""
    assert look.chosen is not None
    text = config_text(config_sections(look))
    return parse(text, Path("tidemark.yml"), environ={}), " ".join(answer(look, []).split())


def why_none(look: Look) -> str:
    """The answer where no config is written."""
    assert (look.options, look.chosen) == ([], None)
    return " ".join(answer(look, []).split())


def changes(database: str) -> Iterator[Found]:
    """A snapshot and changes, several of them at one LSN."""
    yield from (of_snapshot(database) for _ in range(9))
    for n in range(1, 31):
        match database:
            case "postgres":
                yield event(database, order=1 + n % 3, sequence=f'["{24023200 + n // 3}","{24023190}"]')
            case "mysql":
                yield event(database, op="du"[n % 2], row=n)
            case "sqlserver":
                yield event(database, commit_lsn=f"00000027:00000758:{6 + n:04x}")
            case _:
                yield event(database, ord=31 + n)


@pytest.mark.parametrize("database", ["postgres", "mysql", "sqlserver", "mongodb"])
@pytest.mark.parametrize(
    ("shape", "schema"), [(dict, AFTER), (with_schema, f"payload STRUCT<{AFTER}>"), (unwrapped, f"{ROW}, __op STRING")]
)
def test_a_topic_of_change_events_is_read_by_position(database: str, shape: Callable[[Found], Found], schema: str) -> None:
    settings, said = config_of(look_at(sampled([as_bytes(shape(each)) for each in changes(database)])))
    assert (settings.sequence.debezium, settings.producer, settings.epoch) == (database, None, None)
    assert settings.value is not None
    assert str(settings.value.schema_).replace("`op`:", "op").replace("`after`:", "after") == schema
    assert settings.policies.numbering is None
    assert said.startswith(
        f"The sequence is debezium:{database}: the only one that fits. Producer: none. Epoch: none. It rises."
    )


@pytest.mark.parametrize("shape", [dict, unwrapped])
def test_avro_of_a_registry_is_read_by_its_position_and_the_row_has_its_types(shape: Callable[[Found], Found]) -> None:
    schema, bodies = as_avro([shape(each) for each in changes("postgres")])
    records = sampled([prefixed(7, body) for body in bodies])
    with answering({7: {"schema": json.dumps(schema)}}) as url:
        settings, _ = config_of(look_at(records, values.ask_registry(Registry(url=url), records), registry=url))
    assert settings.value is not None
    assert (settings.sequence.debezium, settings.value.format) == ("postgres", "avro")
    expected = f"{ROW}, __op STRING" if shape is unwrapped else "after STRUCT<{}>, op STRING"
    assert settings.value.schema_ == expected.format("`id`: BIGINT, `note`: STRING, `ratio`: DOUBLE")


def test_events_without_a_place_in_their_transaction_name_the_setting_and_write_nothing() -> None:
    for shape in (dict, with_schema, unwrapped):
        lacking = [as_bytes(shape(each | {"transaction": None})) for each in changes("postgres")]
        said = why_none(look_at(sampled(lacking)))
        why = "the value has no transaction.total_order: set provide.transaction.metadata=true in the connector"
        assert (
            f"The values of t are Debezium's change events: {why} (in 30 of 39 records). docs/cdc.md has the settings." in said
        )
        assert "tidemark_producer" not in said
    bare = [as_bytes({"id": n, "__op": "u", "__lsn": 100 + n, "__source_ts_ms": 5}) for n in range(30)]
    why = "no position of Debezium's connector for that database: see transforms.unwrap.add.fields. docs/cdc.md"
    assert why in why_none(look_at(sampled(bare)))


def test_tombstones_after_deletes_are_no_reason_against_a_position() -> None:
    found = [value for each in changes("mysql") for value in (as_bytes(each), None)]
    settings, said = config_of(look_at(sampled(found)))
    assert settings.sequence.debezium == "mysql"
    skipped = "39 records of t are tombstones after deletes, which a run skips"
    assert f"{skipped}: tombstones.on.delete=false in the connector" in said
    assert " invalid" not in said


def test_shards_of_mongodb_that_share_positions_are_told_apart_by_their_name() -> None:
    both = [as_bytes(event("mongodb", ord=n, rs=f"rs{shard}", at_ms=shard)) for n in range(1, 20) for shard in (0, 1)]
    settings, _ = config_of(look_at(sampled(both)))
    assert (settings.sequence.debezium, settings.producer and settings.producer.json_path) == ("mongodb", "$.source.rs")


def test_topics_of_two_databases_and_others_each_have_their_own_sequence() -> None:
    records = [
        *sampled([as_bytes(each) for each in changes("mysql")], "a"),
        *sampled([as_bytes(each) for each in changes("sqlserver")], "b"),
        *sampled([b'{"n": %d}' % n for n in range(100, 130)], "c"),
    ]
    settings, _ = config_of(look_at(records))
    assert [settings.of_topic(topic).sequence.debezium for topic in "abc"] == ["mysql", "sqlserver", None]
    assert settings.of_topic("c").sequence.json_path == "$.n"
    assert settings.value is None  # a proposal only: not all values are change events


def checked(sequence: dict[str, str], given: Sequence[bytes | None]) -> dict[str, tuple[bool, str]]:
    text = config_text([*ASKED.sections(), Section({"sequence": sequence})])
    found = check._of_records(parse(text, Path("tidemark.yml"), environ={}), Sample(sampled(given)))
    return {each.name: (each.ok, each.observed) for each in found}


def test_check_reads_positions_and_names_them_where_a_part_is_the_sequence() -> None:
    found = [value for each in changes("mysql") for value in (as_bytes(each), None)]
    read = {"sequence": (True, "debezium:mysql in 39 of 39 records"), "order": (True, "rises")}
    assert checked({"debezium": "mysql"}, found) == read
    is_ok, said = checked({"json": "$.source.pos"}, found)["order"]
    assert said.endswith("; of change events, debezium:mysql reads the whole position")
    is_ok, said = checked({"debezium": "postgres"}, found)["sequence"]
    assert (is_ok, "see transforms.unwrap.add.fields" in said) == (False, True)


OTHER = [{"op": "u", "before": None, "after": {"id": n, "n": n}} for n in range(50)]


@pytest.mark.parametrize("source", [None, {"connector": "oracle", "scn": "7"}])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_column_of_a_changed_row_is_never_the_sequence(source: Any, *, is_wrapped: bool) -> None:
    found = [each | {"source": source} for each in OTHER]
    look = look_at(sampled([as_bytes(with_schema(each) if is_wrapped else each) for each in found]))
    assert look.options == []
    whys = [each.why_not["sequence"] for each in look.overall.candidates if each.label.endswith("after.n")]
    assert whys == ["it is a column of the changed row, and another change of the row has the same one"]
    assert Event.of(Record(b'{"n": 1, "__file": "a.1"}').json) is None
    of_maria = Event.of(Record(b'{"op": "c", "after": null, "source": {"connector": "mariadb"}}').json)
    assert getattr(of_maria, "database", None) == "mysql"
    assert look_at(sampled([as_bytes({"id": n, "n": n, "__deleted": "false"}) for n in range(50)])).options == []


@pytest.mark.parametrize(("shape", "path"), [(dict, "$.source.lsn"), (with_schema, "$.payload.source.lsn")])
def test_a_position_of_an_unknown_connector_is_the_sequence(shape: Callable[[Found], Found], path: str) -> None:
    records = sampled([as_bytes(shape(each | {"source": {"lsn": 100 + n}})) for n, each in enumerate(OTHER)])
    assert [each.label for each in look_at(records).options] == [f"json:{path}"]


CONNECT: dict[str, tuple[Any, Any, str | None]] = {
    "small": ({"type": "int16"}, 5, "SMALLINT"),
    "born": ({"type": "int32", "name": "io.debezium.time.Date"}, 19_000, "INT"),
    "at": ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 1, "BIGINT"),
    "zoned": ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2026-03-01T10:00:00Z", "TIMESTAMP"),
    "ratio": ({"type": "float"}, 2, "FLOAT"),
    "absent": ({"type": "double"}, None, "DOUBLE"),
    "raw": ({"type": "bytes"}, "AAE=", "BINARY"),
    "price": ("decimal", "BOo=", "STRING"),
    "money": ("decimal", 12.5, "DECIMAL(10,2)"),
    "tags": ({"type": "array", "items": {"type": "int32"}}, [1], "ARRAY<INT>"),
    "any": (
        {"type": "struct", "fields": [{"field": "scale", "type": "int32"}]},
        {"scale": 2, "n": 1},
        "STRUCT<`scale`: INT, `n`: BIGINT>",
    ),
    "odd": ({"type": "map"}, {"a": 1}, "STRUCT<`a`: BIGINT>"),
}
DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}


def described(columns: dict[str, tuple[Any, Any, str | None]]) -> Found:
    """A change with the schema that `schemas.enable` writes."""
    fields = [{**(DECIMAL if kind == "decimal" else kind), "field": name} for name, (kind, _, _) in columns.items()]
    after = {"type": "struct", "field": "after", "fields": fields}
    row = {name: value for name, (_, value, _) in columns.items()}
    found = event("postgres", order=1) | {"after": row}
    return {"schema": {"type": "struct", "fields": [after, {"type": "string", "field": "op"}]}, "payload": found}


def test_columns_have_the_types_that_kafka_connect_declares_as_json_holds_them() -> None:
    payload = values.payload([Record(as_bytes(described(CONNECT))).json])
    columns = ", ".join(f"`{name}`: {kind}" for name, (_, _, kind) in CONNECT.items())
    assert payload.schema == f"payload STRUCT<`op`: STRING, `after`: STRUCT<{columns}>>"
    wider: dict[str, tuple[Any, Any, str | None]] = {"small": ({"type": "int64"}, 70_000, None)}
    both = values.payload([Record(as_bytes(described(each))).json for each in (CONNECT, wider)])
    assert "`small`: BIGINT" in both.schema  # of two types, what the sample holds


NAMES = ["schema", "payload", "type", "fields", "field", "struct", "op", "after", "source", "items", "name"]
DOCUMENTS = st.recursive(
    st.none() | st.text(max_size=3) | st.integers(),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.sampled_from(NAMES), of, max_size=5),
)


@given(DOCUMENTS)
def test_any_document_is_a_change_event_or_none(document: Any) -> None:
    within = {"schema": {"type": "struct", "fields": document}, "payload": {"op": "c", "after": {"fields": document}}}
    for each in (document, within):
        found = Record(json.dumps(each).encode()).json
        assert Event.of(found) is None or values.payload([found]) is not None
