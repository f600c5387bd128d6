"""Any bytes as any type: a payload or a reason, never an error; JSON as a strict reader takes it. An example is a batch."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from silver.extract.payload import decoded
from silver.rules import Payload
from tests.support import strict_json
from tests.support.decodings import decoding, payloads, records
from tests.support.examples import examples
from tests.support.hostile_bytes import SCHEMA, VALUES


def is_decodable(payload: Payload, value: bytes | None) -> bool | None:
    """None where only Spark's own reader of JSON knows."""
    if value is None:
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    if payload.max_bytes is not None and len(value) > payload.max_bytes:
        return False
    return True if payload.format == "text" else None


@settings(max_examples=examples(2, 6), suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(values=st.lists(VALUES, min_size=100, max_size=100))
def test_every_type_of_payload_is_decoded_or_refused_from_any_bytes(spark: SparkSession, values: list[Any]) -> None:
    for payload in (Payload("text", max_bytes=1_000), Payload("json", SCHEMA, max_bytes=1_000)):
        decodings = decoded(records(spark, values), decoding(payload))
        text = F.to_json(F.struct("payload")).alias("text")
        found = {row["offset"]: row for row in decodings.select("offset", "payload", "undecodable", text).collect()}
        backwards = decodings.select("offset", "undecodable", text).orderBy(F.desc("offset"))
        again = {row["offset"]: row for row in backwards.collect()}
        for offset, value in enumerate(values):
            row = found[offset]
            assert (row["payload"] is None) == (value is None or row["undecodable"] is not None), (value, row)
            assert (again[offset]["undecodable"], again[offset]["text"]) == (row["undecodable"], row["text"]), value
            is_decoded = is_decodable(payload, value)
            assert is_decoded in (None, row["undecodable"] is None), (value, row)
            if payload.format == "text" and is_decoded:
                assert row["payload"] == (None if value is None else value.decode()), value


@pytest.mark.parametrize("kind", strict_json.KINDS)
def test_a_drawn_text_is_read_as_a_strict_reader_reads_it(spark: SparkSession, kind: str) -> None:
    chance = random.Random(kind)
    texts = list(dict.fromkeys(strict_json.drawn(chance) for _ in range(examples(500, 5_000))))

    found = payloads(spark, Payload("json", f"v {kind}"), texts)

    values = [each["v"] if isinstance(each, dict) else each for each in found]
    read = {text: (value, strict_json.read(text, kind)) for text, value in zip(texts, values, strict=True)}
    assert {text: each for text, each in read.items() if each[0] not in each[1]} == {}
