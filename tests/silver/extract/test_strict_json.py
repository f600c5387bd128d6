"""JSON texts drawn at random: each type has the value that a strict reader in Python takes, or is undecodable as it says."""

import random

import pytest
from pyspark.sql import SparkSession

from silver.rules import Payload
from tests.support import strict_json
from tests.support.decodings import payloads
from tests.support.examples import examples

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", strict_json.KINDS)
def test_a_drawn_text_is_read_as_a_strict_reader_reads_it(spark: SparkSession, kind: str) -> None:
    chance = random.Random(kind)
    texts = list(dict.fromkeys(strict_json.drawn(chance) for _ in range(examples(500, 5_000))))

    found = payloads(spark, Payload("json", f"v {kind}"), texts)

    values = [each["v"] if isinstance(each, dict) else each for each in found]
    read = {text: (value, strict_json.read(text, kind)) for text, value in zip(texts, values, strict=True)}
    assert {text: each for text, each in read.items() if each[0] not in each[1]} == {}
