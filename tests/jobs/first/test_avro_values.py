"""Avro values of a sample, decoded on the driver: what is kept of them, and what hostile bytes come to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.first.avro_values import Decoder, Steps
from lakehouse.extract.on_driver import OfOtherType
from lakehouse.settings import avro_schema
from lakehouse.settings.avro_schema import AvroSchemaError
from tests.support.avro import record, written
from tests.support.examples import examples

SIZE = {"type": "enum", "name": "Size", "symbols": ["S", "L"]}
AT = {"type": "long", "logicalType": "timestamp-millis"}
META = record("Meta", seq="long", at=AT)
WHOLE = record(
    "Order",
    "shop",
    sizes={"type": "array", "items": SIZE},
    size="Size",
    seq=["null", "long"],
    tags={"type": "map", "values": ["null", "string"]},
    meta=["null", META],
    again="Meta",
    amount="double",
    raw="bytes",
    by=["int", "string"],
)
VALUE = {
    "sizes": ["S", "L"],
    "size": "L",
    "seq": 7,
    "tags": {"a": None, "b": "x"},
    "meta": None,
    "again": {"seq": 3, "at": 2**62},
    "amount": 1.5,
    "raw": b"17",
    "by": "ann",
}


def decoder(schema: Any) -> Decoder:
    return Decoder.of(avro_schema.writer(json.dumps(schema)))


# Written without logical types, as a time may be any number there.
BODY = written(json.loads(json.dumps(WHOLE).replace(', "logicalType": "timestamp-millis"', "")), VALUE)
WHOLE_DECODER = decoder(WHOLE)


def test_scalars_at_the_top_and_in_records_are_kept_and_the_rest_is_stepped_over() -> None:
    assert decoder(WHOLE).fields(BODY, Steps()) == {
        "size": b"L",
        "seq": b"7",
        "again.seq": b"3",
        "again.at": b"4611686018427387904",
        "amount": OfOtherType("double", "1.5"),
        "raw": OfOtherType("bytes", "0x3137"),
    }


@settings(max_examples=examples(300, 5_000), deadline=None)
@given(st.binary(max_size=60), st.integers(0, len(BODY)), st.integers(0, len(BODY)))
def test_any_bytes_decode_or_do_not(junk: bytes, start: int, end: int) -> None:
    found = WHOLE_DECODER.fields(BODY[:start] + junk + BODY[end:], Steps())
    assert found is None or found.keys() <= {".".join(path) for path in WHOLE_DECODER.paths}


def test_a_value_that_claims_more_than_it_has_is_none_and_a_long_text_with_other_bytes_stays_text() -> None:
    text = record("R", a="string")
    assert decoder(text).fields(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x", Steps()) is None
    assert decoder(text).fields(b"\x04\xffA", Steps()) == {"a": "\ufffdA".encode()}


def test_bytes_that_stand_for_many_steps_are_counted_before_they_are_taken() -> None:
    item = record("Item", b="boolean", **{f"n{n}": "null" for n in range(500)})
    found = decoder(record("R", items={"type": "array", "items": item}, seq="long"))
    steps = Steps(100_000)
    assert found.steps_per_byte > 500
    assert found.fields(b"\x02\x01\x00\x0a", steps) == {"seq": b"5"}
    assert found.fields(b"\xd0\x0f" + b"\x01" * 1000 + b"\x00\x0a", steps) is None
    assert steps.left > 90_000


@pytest.mark.parametrize("schema", ["string", record("R", a={"type": "array", "items": "int"}), record("R")])
def test_a_schema_without_fields_to_look_at_has_no_decoder(schema: Any) -> None:
    with pytest.raises(AvroSchemaError, match="no fields"):
        decoder(schema)
