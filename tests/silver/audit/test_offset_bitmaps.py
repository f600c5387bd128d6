"""Silver's rows and the tables by words, in memory."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.spark import frames
from silver.audit import ledger_checks, offset_bitmaps

KEPT = (
    "topic string, partition int, producer string, load_seq bigint, epoch bigint, sequence bigint, offset bigint, "
    "arrival string"
)
OUT = "topic string, partition int, first_offset bigint, last_offset bigint, records bigint, state string"


def silver(spark: SparkSession, *rows: tuple[int, int, int], late: int) -> DataFrame:
    kept = [
        ("t", 0, None, load_seq, 0, sequence, offset, "late" if offset == late else "in_order")
        for load_seq, sequence, offset in rows
    ]
    return frames.of_tuples(spark, kept, KEPT)


def offsets(spark: SparkSession, *numbers: int) -> DataFrame:
    return frames.of_tuples(spark, [("t", 0, number) for number in numbers], "topic string, partition int, offset bigint")


def compared(*words: DataFrame) -> list[dict[str, Any]]:
    """The offsets that something is wrong with, and the sums, without what is 0."""
    rows = offset_bitmaps.compared(words, has_producers=False).toArrow().to_pylist()
    return [{name: value for name, value in row.items() if value and name not in ("topic", "partition")} for row in rows]


def test_rows_are_counted_by_load_and_a_sequence_that_is_there_twice_is_found(spark: SparkSession) -> None:
    kept = silver(spark, (1, 1, 0), (1, 70, 1), (2, 71, 5), (2, 64, 9), (2, 70, 6), late=6)
    by_load = ledger_checks.kept(kept).toArrow().to_pylist()
    repeated = ledger_checks.repeated(kept).toArrow().to_pylist()

    names = ("load_seq", "rows", "first", "last")
    assert sorted(tuple(row[name] for name in names) for row in by_load) == [
        (1, 2, {"epoch": 0, "sequence": 1}, {"epoch": 0, "sequence": 70}),
        (2, 3, {"epoch": 0, "sequence": 64}, {"epoch": 0, "sequence": 71}),
    ]
    assert [(row["rows"], row["sequences"], row["first_sequence"], row["last_sequence"]) for row in repeated] == [
        (4, 3, 64, 71)
    ]


def test_offsets_that_are_lost_unknown_doubled_or_in_two_places_are_found(spark: SparkSession) -> None:
    bronze = offset_bitmaps.by_word(offsets(spark, 0, 1, 2, 63, 64, 130, 131, 131), b=F.lit(0))
    kept = offset_bitmaps.by_word(offsets(spark, 0, 63, 64, 64, 129, 130), s=F.lit(0))
    spans = [("t", 0, 1, 1, 1, "discarded"), ("t", 0, 63, 65, 3, "held"), ("t", 0, 130, 130, 1, "released")]
    out = offset_bitmaps.rejects_by_word(frames.of_tuples(spark, spans, OUT))

    assert compared(bronze, kept, out) == [
        {"offsets": 7, "doubled": 1, "silver": 6},
        {"offsets": 4, "silver": 2, "lost": 1 << 2, "both": -(1 << 63)},
        {"word": 1, "offsets": 1, "silver": 2, "both": 1, "silver_twice": 1},
        {"word": 2, "offsets": 2, "doubled": 1, "silver": 2, "unknown": 1 << 1, "lost": 1 << 3},
    ]
    row = {"word": 0, "both": -(1 << 63)}
    assert offset_bitmaps.offset_of(row, "both") == 63


def test_what_is_right_comes_to_a_row_per_partition_and_content_that_differs_to_its_word(spark: SparkSession) -> None:
    numbers = [1, 65, 66, 700]
    bronze = offset_bitmaps.by_word(offsets(spark, *numbers), b=F.xxhash64("offset"))
    edited = F.when(F.col("offset") == 65, F.lit(7)).otherwise(F.xxhash64("offset"))
    kept = offset_bitmaps.by_word(offsets(spark, *numbers), s=edited)

    assert compared(bronze, kept) == [{"offsets": 4, "silver": 4}, {"word": 1, "offsets": 2, "silver": 2, "differs": 0b110}]


def test_bronzes_records_are_masked_by_what_silver_holds(spark: SparkSession) -> None:
    kept = offset_bitmaps.by_word(offsets(spark, 1, 63, 64), s=F.lit(0))
    rows = offset_bitmaps.masked(offsets(spark, 0, 1, 63, 64, 65, 200), kept).where("is_kept").orderBy("offset").collect()
    assert [row["offset"] for row in rows] == [1, 63, 64]


def test_content_tells_null_from_empty_and_key_from_value(spark: SparkSession) -> None:
    rows = [(1, None, b""), (1, b"", None), (1, b"", b""), (1, None, None), (2, None, None)]
    frame = frames.of_tuples(spark, rows, "offset bigint, key binary, value binary")
    hashes = {row[0] for row in frame.select(offset_bitmaps.content_hash(("key", "value"))).collect()}
    assert len(hashes) == len(rows)
