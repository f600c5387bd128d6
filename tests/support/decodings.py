"""What is read of values, many of them in one Spark job: their payloads, their keys, and the reason where there is none."""

import random
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.extract.columns import extract
from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written
from lakehouse.spark import frames
from silver.extract.payload import decoded, require_decoders
from silver.rules import Payload, Rules

WRONG = "value_not_of_schema"


def decoding(payload: Payload, written: Written | None = None) -> Rules:
    return Rules(Source("offset"), payload=payload, written=written)


def records(spark: SparkSession, values: Sequence[Any]) -> DataFrame:
    return frames.of_contract(spark, [{"offset": number, "value": value} for number, value in enumerate(values)], BRONZE)


def payloads(
    spark: SparkSession, payload: Payload, values: Sequence[bytes | None], written: Written | None = None
) -> list[Any]:
    require_decoders(spark, decoding(payload, written))
    found = decoded(records(spark, values), decoding(payload, written)).select("offset", "payload", "undecodable")
    rows = sorted(found.toArrow().to_pylist(), key=lambda row: row["offset"])
    return [row["undecodable"] or row["payload"] for row in rows]


def extracted(
    spark: SparkSession, sources: Sources, values: Sequence[Any]
) -> list[tuple[str | None, int | None, int | None, str | None]]:
    require_decoders(spark, decoding(Payload("text"), sources.written))
    found = extract(records(spark, values), sources).orderBy("offset")
    return [tuple(row) for row in found.select("producer", "epoch", "sequence", "problem").collect()]


def prefixed(number: int, value: bytes) -> bytes:
    """A value behind the id of its schema, as Confluent's serializers write it."""
    return b"\0" + number.to_bytes(4) + value


def drawn_bytes(whole: bytes) -> list[bytes]:
    """300 texts of up to 39 bytes, and 300 times a value with up to three bytes changed, cut off somewhere; always the same."""
    chance = random.Random(7)
    values = [chance.randbytes(chance.randrange(40)) for _ in range(300)]
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        values.append(bytes(changed[: chance.randrange(len(changed) + 1)]))
    return values


def one_byte_more_or_less(values: Sequence[bytes]) -> list[bytes]:
    """Each value, each without one of its bytes, and each with another byte at every place."""
    chance = random.Random(11)
    without = [value[:at] + value[at + 1 :] for value in values for at in range(len(value))]
    more = [value[:at] + chance.randbytes(1) + value[at:] for value in values for at in range(len(value) + 1) for _ in range(3)]
    return list(dict.fromkeys([*values, *without, *more]))
