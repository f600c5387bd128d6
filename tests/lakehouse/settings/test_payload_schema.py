"""The schema of a payload, read without Spark: what is accepted, and what is refused before anything starts."""

from __future__ import annotations

from typing import get_args

import pytest

from lakehouse.settings.payload_schema import _SCALARS, Kind, SchemaError, Type, parse
from tests.pipelines import test_payload_types
from tests.support import hostile_bytes


def test_fields_are_given_by_name_with_their_types() -> None:
    found = parse("id: string NOT NULL COMMENT 'a, b', `é` dec, in STRUCT<a: ARRAY<MAP<STRING, STRUCT<n LONG NOT NULL>>>>")

    assert [(field.name, field.type.kind, field.is_required) for field in found.fields] == [
        ("id", "scalar", True),
        ("é", "scalar", False),
        ("in", "struct", False),
    ]
    assert found.sql() == (
        "STRUCT<`id`: STRING COMMENT 'a, b', `é`: DECIMAL(10,0), `in`: STRUCT<`a`: ARRAY<MAP<STRING, STRUCT<`n`: BIGINT>>>>>"
    )


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("id STRNG", "STRNG is no type.*Did you mean STRING"),
        ("a INT, id STRUCT<x: BIGGINT>", "BIGGINT is no type.*Did you mean BIGINT"),
        ("a VOID", "VOID cannot be.*Delta cannot store it"),
        ("a ARRAY<VOID>", "VOID cannot be"),
        ("a VARCHAR(5)", "write STRING"),
        ("a CHAR(5)", "write STRING"),
        ("a INTERVAL DAY TO SECOND", "INTERVAL cannot be"),
        ("a VARIANT", "VARIANT cannot be"),
        ("a TIME", "TIME cannot be"),
        ("a MAP<INT, INT>", "keys of a MAP"),
        ("a DECIMAL(39, 2)", "at most 38 digits"),
        ("a DECIMAL(5, 6)", "cannot be"),
        ("a STRING COLLATE UNICODE", "no list of fields"),
        ("a INT, A STRING", "stands twice"),
        ("s STRUCT<a: INT, A: INT>", "stands twice"),
        ("`a,b` INT", "cannot be the name of a field"),
        ("_tidemark_corrupt STRING", "cannot be the name of a field"),
        ("s STRUCT<>", "no list of fields"),
        ("a INT,", "no list of fields"),
        ("a ARRAY<INT", "no list of fields"),
        ("a INT DEFAULT 5", "no list of fields"),
        ("a " + "ARRAY<" * 200 + "INT" + ">" * 200, "nested too deep"),
    ],
)
def test_what_cannot_be_decoded_stored_or_read_is_refused(ddl: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        parse(ddl)


@pytest.mark.parametrize("schema", [test_payload_types.SCHEMA, hostile_bytes.SCHEMA], ids=["through every stage", "fuzzed"])
def test_what_is_tested_with_every_type_has_every_type_that_is_accepted(schema: str) -> None:
    def scalars(found: Type) -> set[str]:
        return {found.name, *(name for inner in found.inner() for name in scalars(inner))} - {""}

    def kinds(found: Type) -> set[str]:
        return {found.kind, *(kind for inner in found.inner() for kind in kinds(inner))}

    assert scalars(parse(schema)) == {*_SCALARS.values()}
    assert kinds(parse(schema)) == {*get_args(Kind)}
