"""The fields of a sample's JSON values: types that hold all of them without loss, and what is left out."""

import random

import pytest

from jobs.first.values import kinds, parts, payload
from lakehouse.extract.on_driver import Object, Record
from lakehouse.settings.payload_schema import parse
from tests.support import strict_json
from tests.support.examples import examples


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
        (["[]"], "", {"v": "empty lists"}),
        (["[1, null]", "[2.5]"], "v ARRAY<DOUBLE>", {}),
        (['[1, "x"]'], "v ARRAY<STRING>", {}),
        (['{"a": 1, "b c": 2}', '{"a": null, "d": []}'], "v STRUCT<`a`: BIGINT>", {"v.d": "empty lists"}),
        (['[{"a": "x"}, {"a": 1.5, "b": 1}]'], "v ARRAY<STRUCT<`b`: BIGINT>>", {"v.[].a": "fractions and text"}),
        (['1, "v": 2'], "", {"v": "a key that an object has twice and whole numbers"}),
    ],
)
def test_the_type_of_a_field_holds_every_value_of_the_sample(texts: list[str], schema: str, left_out: dict[str, str]) -> None:
    found = payload(kinds(Record(f'{{"v": {text}}}'.encode()).json for text in texts))
    assert found.schema == schema
    assert {name: why for name, why in found.left_out.items() if name != "v.b c"} == left_out


def test_values_decode_by_the_schema_that_was_found_for_them() -> None:
    for seed in range(examples(300, 5_000)):
        chance = random.Random(seed)
        texts = [strict_json.drawn(chance) for _ in range(chance.randrange(1, 4))]
        found = payload(kinds(Record(text).json for text in texts))
        field = next((each for each in parse(found.schema).fields if each.name == "v"), None) if found.schema else None
        if field is not None and field.type.kind == "scalar":
            read = [strict_json.read(text, field.type.sql()) for text in texts if isinstance(Record(text).json, Object)]
            assert {strict_json.WRONG} not in read, (seed, texts, field)


def test_a_deep_or_wide_document_is_looked_at_to_a_limit() -> None:
    deep = Record(b'{"a":' * 200 + b"1" + b"}" * 200).json
    assert max(len(path) for path, _ in parts(deep)) == 20
    wide = payload(kinds([Record(b"{%s}" % b", ".join(b'"f%d": 1' % n for n in range(1_005))).json]))
    assert (len(parse(wide.schema).fields), set(wide.left_out.values())) == (1_000, {"beyond 1,000 fields"})
