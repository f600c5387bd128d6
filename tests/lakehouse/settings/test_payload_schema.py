"""The schema of a payload, read without Spark: what is accepted, and what is refused before anything starts."""

from typing import get_args

import pytest

from lakehouse.settings.base import SettingError
from lakehouse.settings.payload_schema import _SCALARS, Kind, Type, parse
from tests.pipelines import test_payload_types
from tests.support import hostile_bytes


def test_fields_are_given_by_name_with_their_types() -> None:
    found = parse("id: string NOT NULL COMMENT 'a, b :)', `é` dec, in STRUCT<a: ARRAY<MAP<STRING, STRUCT<n LONG NOT NULL>>>>")

    assert [(field.name, field.type.kind, field.is_required) for field in found.fields] == [
        ("id", "scalar", True),
        ("é", "scalar", False),
        ("in", "struct", False),
    ]
    assert found.sql() == (
        "STRUCT<`id`: STRING COMMENT 'a, b :)', `é`: DECIMAL(10,0), `in`: STRUCT<`a`: ARRAY<MAP<STRING, STRUCT<`n`: BIGINT>>>>>"
    )


REFUSED = {
    "STRNG is no type.*Did you mean STRING": ["id STRNG"],
    "BIGGINT is no type.*Did you mean BIGINT": ["a INT, id STRUCT<x: BIGGINT>"],
    "VOID cannot be.*Delta cannot store it": ["a VOID", "a ARRAY<VOID>"],
    "write STRING": ["a VARCHAR(5)", "a CHAR(5)"],
    "INTERVAL cannot be": ["a INTERVAL DAY TO SECOND"],
    "VARIANT cannot be": ["a VARIANT"],
    "TIME cannot be": ["a TIME"],
    "keys of a MAP": ["a MAP<INT, INT>"],
    "at most 38 digits": ["a DECIMAL(39, 2)"],
    "cannot be": ["a DECIMAL(5, 6)"],
    "listed twice": ["a INT, A STRING", "s STRUCT<a: INT, A: INT>"],
    "cannot be the name of a field": ["`a,b` INT", "_tidemark_corrupt STRING"],
    "no list of fields": ["s STRUCT<>", "a INT,", "a ARRAY<INT", "a INT DEFAULT 5", "a STRING COLLATE UNICODE"],
    "nested too deep": ["a " + "ARRAY<" * 200 + "INT" + ">" * 200],
}


@pytest.mark.parametrize(("ddl", "why"), [(ddl, why) for why, ddls in REFUSED.items() for ddl in ddls])
def test_what_cannot_be_decoded_stored_or_read_is_refused(ddl: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        parse(ddl)


@pytest.mark.parametrize("schema", [test_payload_types.SCHEMA, hostile_bytes.SCHEMA], ids=["through every stage", "fuzzed"])
def test_what_is_tested_with_every_type_has_every_type_that_is_accepted(schema: str) -> None:
    def types(found: Type) -> list[Type]:
        return [found, *(each for inner in found.inner() for each in types(inner))]

    there = types(parse(schema))
    assert {each.name for each in there} - {""} == {*_SCALARS.values()}
    assert {each.kind for each in there} == {*get_args(Kind)}
