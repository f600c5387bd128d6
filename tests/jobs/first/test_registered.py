"""What a schema registry says of a sample: formats, fields, and what is said of ids that it does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bronze.kafka.sample import Sampled
from jobs.first import candidates, registered
from lakehouse.errors import RegistryError
from lakehouse.settings.payload_schema import parse
from lakehouse.settings.registry import Registry
from tests.support.answering_registry import answering
from tests.support.avro import record as named_record
from tests.support.avro import written
from tests.support.decodings import prefixed

JSON_SCHEMA = {"schema": '{"type": "object", "properties": {"n": {"type": "integer"}}}', "schemaType": "JSON"}


def record(**types: Any) -> dict[str, Any]:
    return named_record("R", **types)


def avro(schema: Any) -> dict[str, str]:
    return {"schema": json.dumps(schema)}


def sample(*values: tuple[int, bytes], topic: str = "t") -> list[Sampled]:
    return [Sampled(topic, 0, offset, b"k", prefixed(*value), ()) for offset, value in enumerate(values)]


def looked(schemas: dict[int, Any], records: list[Sampled]) -> registered.Registered:
    with answering(schemas) as url:
        return registered.look(Registry(url=url), records)


def labels(found: candidates.Found) -> dict[str, str]:
    return {each.label: each.kind for each in found.candidates}


OLD, NEW = record(seq="int", id="string", n="string"), record(amount=["null", "double"], seq="long", id="string", n="double")


def test_old_and_new_schemas_are_one_payload_of_what_all_of_them_hold() -> None:
    records = sample(
        (7, written(OLD, {"seq": 1, "id": "a", "n": "x"})),
        (9, written(NEW, {"amount": 1.5, "seq": 2, "id": "b", "n": 1.0})),
    )
    found = looked({7: avro(OLD), 9: avro(NEW)}, records)
    assert found.formats == {"t": "avro"}
    assert found.payloads["avro"] == ("amount DOUBLE, seq BIGINT, id STRING", {"n": "of several types or spellings"})
    told = candidates.find(records, found)
    assert labels(told)["field:seq"] == "whole numbers"
    assert [each.numbers for each in told.candidates if each.label == "field:seq"] == [[1, 2]]


def test_schemas_that_have_no_field_in_common_are_told_and_nothing_is_decoded() -> None:
    found = looked({7: avro(record(a="string")), 8: avro(record(a="int"))}, sample((7, b"\x02a"), (8, b"\x02")))
    assert (found.formats, found.payloads["avro"].schema) == ({}, "")
    assert list(found.lines())[-1] == "Left out of the fields of avro: a (of several types or spellings)."


def test_json_behind_a_prefix_has_the_fields_of_the_sample_as_text() -> None:
    records = sample((7, b'{"n": 1}'), (8, b'{"n": 2, "who": 5}'))
    found = looked({7: JSON_SCHEMA, 8: JSON_SCHEMA}, records)
    assert found.payloads["json"].schema == "n STRING, who STRING"
    assert labels(candidates.find(records, found)) == {"json:$.n": "whole numbers", "json:$.who": "whole numbers"}


def test_topics_of_two_formats_share_no_field_of_two_types() -> None:
    text = record(seq="long", id="string")
    first = sample((7, written(text, {"seq": 1, "id": "a"})))
    second = sample((8, b'{"seq": 1.5, "city": "x"}'), topic="u")
    found = looked({7: avro(text), 8: JSON_SCHEMA}, [*first, *second])
    assert found.formats == {"t": "avro", "u": "json"}
    assert found.payloads["json"] == ("city STRING", {"seq": "of another type in other topics"})


def test_names_that_no_column_has_are_left_out_and_control_characters_are_escaped() -> None:
    odd = dict.fromkeys(["a b", "x\x1b[2J", "ok", "OK", "_tidemark_corrupt", "${env:HOME}", "q`'"], "")
    found = looked({7: JSON_SCHEMA}, sample((7, json.dumps(odd).encode())))
    payload = found.payloads["json"]
    assert [each.name for each in parse(payload.schema).fields] == ["ok", "q`'"]
    assert len(payload.left_out) == 5
    assert "\x1b" not in "".join(found.lines())


LOOP = record(next=["null", "R"], seq="long")
DEEP = json.loads('{"type": "array", "items": ' * 60 + '"int"' + "}" * 60)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}, "fields of Protobuf values are not looked at"),
        ({"schema": "x", "schemaType": "\x1b[2J" * 20}, "values of this kind are not read"),
        (avro(LOOP), "nothing can be decoded by its schema: R refers to itself"),
        (avro(record(a=DEEP)), "nothing can be decoded by its schema: it has more than 10,000 types, or more than 50 levels"),
        (avro("string"), "nothing can be decoded by its schema: the value is string, and a record is wanted"),
        (
            avro(record(**{f"f{n}": "int" for n in range(1_001)})),
            "nothing can be decoded by its schema: it has more than 1,000 fields",
        ),
        ({"schema": "[" * 100_000}, "nothing can be decoded by its schema: it is no JSON"),
    ],
)
def test_a_schema_by_which_nothing_is_looked_at_is_said_with_the_reason(answer: Any, why: str) -> None:
    records = sample((7, b"\x02"))
    found = looked({7: answer}, records)
    assert (found.schemas[7].why, found.formats, found.payloads) == (why, {}, {})
    assert not set("".join(found.lines())) & {"\x1b"}
    assert list(labels(candidates.find(records, found))) == ["value:utf8"]


def test_ids_that_the_registry_does_not_have_are_told_and_the_others_looked_at() -> None:
    schema = record(seq="long")
    records = sample((7, b"\x02"), (4711, b"\x04"), (8, b"\x06"))
    found = looked({7: avro(schema), 8: b"x" * 2_000_000}, records)
    assert (sorted(found.refused), found.undecoded) == ([8, 4711], 2)
    told = "\n".join(found.lines())
    assert "4711: The schema registry does not know the schema 4711." in told
    assert "topic t, partition 0, offset 1" in told
    assert "8: The schema registry's answer holds no schema." in told


def test_a_registry_that_has_none_of_the_schemas_or_refuses_is_an_error() -> None:
    with pytest.raises(RegistryError, match="does not know the schema 7"):
        looked({}, sample((7, b"\x02")))
    with answering({7: avro(OLD)}, status=401) as url, pytest.raises(RegistryError, match="refuses"):
        registered.look(Registry(url=url), sample((7, b"\x02")))


def test_values_of_no_registry_ask_none() -> None:
    nobody = Registry(url="http://127.0.0.1:1")
    found = registered.look(nobody, [Sampled("t", 0, 0, None, b"{}", ()), Sampled("t", 0, 1, None, None, ())])
    assert list(found.lines()) == [
        "The registry was not asked: the values do not begin with a zero byte and the id of a schema."
    ]


def test_a_few_values_without_the_prefix_are_a_producers_mistakes() -> None:
    records = sample(*[(7, b"\x02")] * 40)
    for value in (b"v", (7).to_bytes(8), b"\0\0", b"", b"oops"):
        records[3] = records[3]._replace(value=value)
        assert registered.schema_ids(records) == {}, value
    found = looked({7: avro(record(seq="long"))}, records)
    assert (found.formats, found.undecoded) == ({"t": "avro"}, 1)
