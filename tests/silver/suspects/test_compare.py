"""Suspects told apart on the driver and in Spark: two ways to one outcome."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.spark import frames
from silver.suspects import compare_in_spark, compare_on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEY = "topic string, partition int, producer string, epoch bigint, sequence bigint"
CONTENTS = ("a", "b", "erased:20", "erased:20:collision")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_driver_and_spark_tell_suspects_apart_alike(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    keys = [("t", partition, producer, 0, number) for partition in (0, 1) for producer in (None, "p") for number in range(6)]
    known = [(*key, chance.choice(CONTENTS), place) for key in keys for place in chance.sample(range(-1, 4), k=2) if place % 2]
    suspects = []
    for stream in {key[:3] for key in keys}:
        for offset in range(0, 60, 2):
            key = chance.choice([key for key in keys if key[:3] == stream])
            suspects.append((*key, offset, offset // 16 * 16, chance.choice(CONTENTS)))
    suspects.sort(key=lambda row: (row[:2], row[2] or "", row[5]))
    many = frames.of_tuples(spark, suspects, f"{KEY}, offset bigint, block bigint, content_sha256 string")
    few = frames.of_tuples(spark, known, f"{KEY}, content_sha256 string, place bigint")

    here = list(
        compare_on_driver.judged(many.toArrow().to_pylist(), compare_on_driver.first_of_each(few.toArrow().to_pylist()))
    )
    found = compare_in_spark.judged(many, few).toArrow().to_pylist()

    assert {row["class"] for row in here} == {"duplicate", "late", "collision"}
    assert sorted(map(_told, here)) == sorted(map(_told, found))


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("topic", "partition", "producer", "epoch", "class", "block", "first_offset", "last_offset")
    more = ("first_sequence", "last_sequence", "records", "content_sha256")
    return tuple(str(row[name]) for name in (*names, *more))
