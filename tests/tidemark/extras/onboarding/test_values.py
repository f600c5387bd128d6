"""The values of a sample: fields that hold all of them without loss, what a schema registry says of them, and Avro decoded."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import RegistryError
from lakehouse.extract.on_driver import Object, Record
from lakehouse.settings.payload_schema import parse
from lakehouse.settings.pipeline import Registry
from tests.support import strict_json
from tests.support.answering_registry import answering
from tests.support.avro import record as named_record
from tests.support.avro import written
from tests.support.decodings import prefixed
from tests.support.examples import examples
from tidemark.extras.onboarding import candidates, values
from tidemark.extras.onboarding.sample import Sample, Sampled
from tidemark.extras.onboarding.values import Schema, payload

JSON_SCHEMA = {"schema": '{"type": "object", "properties": {"n": {"type": "integer"}}}', "schemaType": "JSON"}


def record(**types: Any) -> dict[str, Any]:
    return named_record("R", **types)


def avro(schema: Any) -> dict[str, str]:
    return {"schema": json.dumps(schema)}


def sample(*values: tuple[int, bytes], topic: str = "t") -> list[Sampled]:
    return [Sampled(topic, 0, offset, b"k", prefixed(*value), ()) for offset, value in enumerate(values)]


def looked(schemas: dict[int, Any], records: list[Sampled]) -> values.Registered:
    with answering(schemas) as url:
        return values.ask_registry(Registry(url=url), records)


def labels(records: list[Sampled], found: values.Registered) -> dict[str, str]:
    return {each.label: each.kind for each in candidates.find(Sample(records), found).candidates}


OLD, NEW = record(seq="int", id="string", n="string"), record(amount=["null", "double"], seq="long", id="string", n="double")


def test_old_and_new_schemas_are_one_payload_of_what_all_of_them_hold() -> None:
    records = sample(
        (7, written(OLD, {"seq": 1, "id": "a", "n": "x"})), (9, written(NEW, {"amount": 1.5, "seq": 2, "id": "b", "n": 1.0}))
    )
    found = looked({7: avro(OLD), 9: avro(NEW)}, records)
    assert found.formats == {"t": "avro"}
    assert found.payloads["avro"].schema == "amount DOUBLE, seq BIGINT, id STRING"
    assert found.payloads["avro"].left_out == {"n": "of several types"}
    [seq] = [each for each in candidates.find(Sample(records), found).candidates if each.label == "field:seq"]
    assert (seq.kind, seq.numbers) == ("whole numbers", [1, 2])

    found = looked({7: avro(record(a="string")), 8: avro(record(a="int"))}, sample((7, b"\x02a"), (8, b"\x02")))
    assert (found.formats, found.payloads["avro"].schema) == ({}, "")
    assert found.payloads["avro"].left_out == {"a": "of several types"}


def test_json_has_the_fields_of_the_sample_but_those_of_another_type_elsewhere() -> None:
    records = sample((7, b'{"n": 1}'), (8, b'{"n": 2, "who": 5}'))
    found = looked({7: JSON_SCHEMA, 8: JSON_SCHEMA}, records)
    assert found.payloads["json"].schema == "n BIGINT, who BIGINT"
    assert labels(records, found) == {"json:$.n": "whole numbers", "json:$.who": "whole numbers"}

    text = record(seq="long", id="string")
    records = [*sample((7, written(text, {"seq": 1, "id": "a"}))), *sample((8, b'{"seq": 1.5, "city": "x"}'), topic="u")]
    found = looked({7: avro(text), 8: JSON_SCHEMA}, records)
    assert found.formats == {"t": "avro", "u": "json"}
    assert found.payloads["json"].schema == "city STRING"
    assert found.payloads["json"].left_out == {"seq": "of another type in other topics"}


def test_ids_of_eight_bytes_are_seen_and_counters_before_a_value_are_none() -> None:
    long = [Sampled("t", 0, n, None, bytes(8) + b"\x07" + b"\x02a", ()) for n in range(40)]
    assert values.with_long_ids(long) == ["t"]
    assert values.schema_ids(long) == {}
    counted = [Sampled("t", 0, n, None, n.to_bytes(8) + b"\x02a", ()) for n in range(40)]
    assert values.with_long_ids(counted) == []
    assert values.with_long_ids([*long, counted[39]._replace(value=b"{}")]) == []
    assert values.with_long_ids([Sampled("t", 0, 0, None, None, ()), *sample((7, b"\x02"))]) == []


def test_names_that_no_column_has_are_left_out() -> None:
    odd = dict.fromkeys(["a b", "x\x1b[2J", "ok", "OK", "_tidemark_corrupt", "${env:HOME}", "q`'"], "")
    found = looked({7: JSON_SCHEMA}, sample((7, json.dumps(odd).encode())))
    payload = found.payloads["json"]
    assert [each.name for each in parse(payload.schema).fields] == ["ok", "q`'"]
    assert len(payload.left_out) == 5


NOTHING = "nothing can be decoded by its schema"
LOOP = record(next=["null", "R"], seq="long")
ITEM = named_record("Item", b="boolean", **{f"n{n}": "null" for n in range(11)})
ITEMS = {"items": {"type": "array", "items": ITEM}, "some": ["null", "Item"], "seq": "long"}


UNREADABLE: list[tuple[Any, str]] = [
    ({"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}, "fields of PROTOBUF values are not looked at"),
    ({"schema": "x", "schemaType": "XML"}, "fields of XML values are not looked at"),
    (avro("string"), f"{NOTHING}: the value is string, and a record is wanted"),
    (avro(record(**{f"f{n}": "int" for n in range(1_001)})), f"{NOTHING}: it has more than 1,000 fields"),
    (avro(record(**ITEMS)), f"{NOTHING}: it has more than 10 fields without bytes"),
]


def test_a_schema_by_which_nothing_is_looked_at_is_said_with_the_reason() -> None:
    records = sample((7, b"\x02"))
    for answer, why in UNREADABLE:
        found = looked({7: answer}, records)
        assert (found.schemas[7].why, found.formats, found.payloads) == (why, {}, {})
        assert list(labels(records, found)) == ["value:utf8"]


def test_fields_outside_a_record_within_itself_are_looked_at() -> None:
    found = looked({7: avro(LOOP)}, sample((7, b"\x02\x00\x06\x08")))
    payload = found.payloads["avro"]
    assert (payload.schema, payload.left_out, found.to_json()["undecoded"]) == ("seq BIGINT", {"next": "within itself"}, 0)


def test_ids_that_the_registry_does_not_have_are_told_and_the_others_looked_at() -> None:
    records = sample((7, b"\x02"), (4711, b"\x04"), (8, b"\x06"))
    found = looked({7: avro(record(seq="long")), 8: b"x" * 2_000_000}, records)
    assert (sorted(found.refused), found.to_json()["undecoded"]) == ([8, 4711], 2)
    told = "\n".join(found.lines())
    assert "4711: The schema registry does not know the schema 4711." in told
    assert "topic t, partition 0, offset 1" in told
    assert "8: The schema registry's answer holds no schema." in told
    with pytest.raises(RegistryError, match="does not know the schema 7"):  # none of the schemas
        looked({}, sample((7, b"\x02")))
    with answering({7: avro(OLD)}, status=401) as url, pytest.raises(RegistryError, match="refuses"):
        values.ask_registry(Registry(url=url), sample((7, b"\x02")))


def test_values_of_no_registry_ask_none_and_a_few_among_many_are_mistakes() -> None:
    nobody = Registry(url="http://127.0.0.1:1")
    found = values.ask_registry(nobody, [Sampled("t", 0, 0, None, b"{}", ()), Sampled("t", 0, 1, None, None, ())])
    said = "The registry was not asked: the values do not begin with a zero byte and the id of a schema."
    assert list(found.lines()) == [said]

    records = sample(*[(7, b"\x02")] * 40)
    for value in (b"v", (7).to_bytes(8), b"\0\0", b"", b"oops"):
        records[3] = records[3]._replace(value=value)
        assert values.schema_ids(records) == {}, value
    found = looked({7: avro(record(seq="long"))}, records)
    assert (found.formats, found.to_json()["undecoded"]) == ({"t": "avro"}, 1)


SIZE = {"type": "enum", "name": "Size", "symbols": ["S", "L"]}
META = named_record("Meta", seq="long", at={"type": "long", "logicalType": "timestamp-millis"})
FIELDS: dict[str, tuple[Any, Any]] = {
    "sizes": ({"type": "array", "items": SIZE}, ["S", "L"]),
    "size": ("Size", "L"),
    "seq": (["null", "long"], 7),
    "tags": ({"type": "map", "values": ["null", "string"]}, {"a": None, "b": "x"}),
    "meta": (["null", META], None),
    "again": ("Meta", {"seq": 3, "at": 2**62}),
    "amount": ("double", 1.5),
    "raw": ("bytes", b"17"),
    "by": (["int", "string"], "ann"),
}
WHOLE = named_record("Order", "shop", **{name: kind for name, (kind, _) in FIELDS.items()})
VALUE = {name: value for name, (_, value) in FIELDS.items()}
# Written without logical types, as a time may be any number there.
BODY = written(json.loads(json.dumps(WHOLE).replace(', "logicalType": "timestamp-millis"', "")), VALUE)


def avro_schema(schema: Any) -> Schema:
    return Schema("AVRO", json.dumps(schema))


WHOLE_SCHEMA = avro_schema(WHOLE)


def test_scalars_at_the_top_and_in_records_are_kept_and_the_rest_is_stepped_over() -> None:
    again = {"seq": "3", "at": "4611686018427387904"}
    assert WHOLE_SCHEMA.document(BODY) == {"size": "L", "seq": "7", "again": again, "amount": "1.5"}


@settings(max_examples=examples(300, 5_000))
@given(st.binary(max_size=60), st.integers(0, len(BODY)), st.integers(0, len(BODY)))
def test_any_bytes_decode_or_do_not(junk: bytes, start: int, end: int) -> None:
    found = WHOLE_SCHEMA.document(BODY[:start] + junk + BODY[end:])
    assert found is None or found.keys() <= FIELDS.keys() - {"sizes", "tags", "raw", "by"}


def test_a_value_that_claims_more_than_it_has_is_none() -> None:
    text = avro_schema(record(a="string"))
    assert text.document(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x") is None
    assert text.document(b"\x04\xffA") == {"a": "\ufffdA"}


def test_a_schema_of_lists_only_has_fields_and_no_candidates() -> None:
    lists = record(a={"type": "array", "items": "int"})
    records = sample((7, written(lists, {"a": [1, 2]})))
    found = looked({7: avro(lists)}, records)
    assert (found.payloads["avro"].schema, found.to_json()["undecoded"], labels(records, found)) == ("a ARRAY<INT>", 0, {})
    assert looked({7: avro(record())}, sample((7, b""))).formats == {}


@pytest.mark.parametrize(
    ("texts", "schema", "left_out"),
    [
        (["1", "-7", "null"], "v BIGINT", {}),
        (["1", "1.5"], "v DOUBLE", {}),
        (["-0"], "v DOUBLE", {}),
        (["9223372036854775808", "1"], "v STRING", {}),
        (['"x"', "1", "true"], "v STRING", {}),
        (["true", "null"], "v BOOLEAN", {}),
        (['"x"', "1.5"], "", {"v": "fractions and text"}),
        (["1e400"], "", {"v": "numbers beyond DOUBLE"}),
        (["null"], "", {"v": "always null"}),
        (['"x"', "{}"], "", {"v": "objects and text"}),
        (["[]"], "", {"v": "lists, empty or too deep"}),
        (["{}"], "", {"v": "objects, empty or too deep"}),
        (["[1, null]", "[2.5]"], "v ARRAY<DOUBLE>", {}),
        (['[1, "x"]'], "v ARRAY<STRING>", {}),
        (['{"a": 1, "b c": 2}', '{"a": null, "d": []}'], "v STRUCT<`a`: BIGINT>", {"v.d": "lists, empty or too deep"}),
        (['[{"a": "x"}, {"a": 1.5, "b": 1}]'], "v ARRAY<STRUCT<`b`: BIGINT>>", {"v.[].a": "fractions and text"}),
        (['1, "v": 2'], "", {"v": "a key that an object has twice"}),
    ],
)
def test_the_type_of_a_field_holds_every_value_of_the_sample(texts: list[str], schema: str, left_out: dict[str, str]) -> None:
    found = payload(Record(f'{{"v": {text}}}'.encode()).json for text in texts)
    assert found.schema == schema
    assert {name: why for name, why in found.left_out.items() if name != "v.b c"} == left_out


def test_values_decode_by_the_schema_that_was_found_for_them() -> None:
    for seed in range(examples(300, 5_000)):
        chance = random.Random(seed)
        texts = [strict_json.drawn(chance) for _ in range(chance.randrange(1, 4))]
        found = payload(Record(text).json for text in texts)
        field = next((each for each in parse(found.schema).fields if each.name == "v"), None) if found.schema else None
        if field is not None and field.type.kind == "scalar":
            read = [strict_json.read(text, field.type.sql()) for text in texts if isinstance(Record(text).json, Object)]
            assert {strict_json.WRONG} not in read, (seed, texts, field)


def test_a_deep_or_wide_document_is_looked_at_to_a_limit() -> None:
    deep = payload([Record(b'{"a":' * 200 + b"1" + b"}" * 200).json])
    assert (deep.schema, deep.left_out) == ("", {".".join(["a"] * 20): "objects, empty or too deep"})
    wide = payload([Record(b"{%s}" % b", ".join(b'"f%d": 1' % n for n in range(1_005))).json])
    assert (len(parse(wide.schema).fields), set(wide.left_out.values())) == (1_000, {"beyond 1,000 fields"})
