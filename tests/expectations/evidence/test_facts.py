"""The facts pass over literal rows."""

from collections.abc import Sequence

from chispa import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession

from expectations.evidence import facts

_SILVER = """topic string, partition int, producer string, epoch bigint, sequence bigint, offset bigint, load_seq bigint,
    arrival string, value binary, payload struct<id:string>"""
_FACTS = """topic string, partition int, producer string, load_seq bigint, rows bigint, not_increasing bigint,
    repeated_keys bigint, nulls bigint, undecodable bigint, first struct<epoch:bigint,sequence:bigint>,
    last struct<epoch:bigint,sequence:bigint>"""

Kept = tuple[object, ...]


def kept(
    offset: int,
    sequence: int | None,
    *,
    load_seq: int | None = 1,
    epoch: int = 0,
    producer: str | None = None,
    late: bool = False,
) -> Kept:
    return ("t", 0, producer, epoch, sequence, offset, load_seq, "late" if late else "in_order", b"v", ("x",))


def counted(spark: SparkSession, rows: list[Kept]) -> DataFrame:
    return facts.silver_facts(spark.createDataFrame(rows, _SILVER))


def expect(spark: SparkSession, found: DataFrame, rows: Sequence[tuple[object, ...]], columns: str = _FACTS) -> None:
    assert_df_equality(found, spark.createDataFrame(rows, columns), ignore_row_order=True, ignore_nullable=True, transforms=[])


_STREAM = (0, None, 0)
CASES: dict[str, tuple[list[Kept], set[tuple[object, ...]]]] = {
    "rising sequences with gaps violate nothing": (
        [kept(0, 1), kept(3, 9), kept(1, 2), kept(7, 10, load_seq=2)],
        {(None, 1, 3, 0, 0, 0, 0, (0, 1), (0, 9)), (None, 2, 1, 0, 0, 0, 0, (0, 10), (0, 10))},
    ),
    "a sequence that falls by offset is counted": (
        [kept(0, 1), kept(1, 5), kept(2, 4), kept(3, 6)],
        {(None, 1, 4, 1, 0, 0, 0, (0, 1), (0, 6))},
    ),
    "a row that is there twice repeats its key and does not rise": (
        [kept(0, 1), kept(1, 2), kept(1, 2)],
        {(None, 1, 3, 1, 1, 0, 0, (0, 1), (0, 2))},
    ),
    "a key that a later load repeats is counted there": (
        [kept(0, 1), kept(5, 2), kept(9, 1, load_seq=2, late=True)],
        {(None, 1, 2, 0, 0, 0, 0, (0, 1), (0, 2)), (None, 2, 1, 0, 1, 0, 0, None, (0, 1))},
    ),
    "a late row need not rise and counts where it is the highest": (
        [kept(0, 1), kept(1, 5), kept(2, 3, late=True), kept(3, 6), kept(4, 9, load_seq=2, late=True)],
        {(None, 1, 4, 0, 0, 0, 0, (0, 1), (0, 6)), (None, 2, 1, 0, 0, 0, 0, None, (0, 9))},
    ),
    "producers and epochs are separate": (
        [kept(0, 8), kept(1, 1, epoch=1), kept(2, 1, producer="a"), kept(3, 1, producer="b")],
        {
            (None, 1, 2, 0, 0, 0, 0, (0, 8), (1, 1)),
            ("a", 1, 1, 0, 0, 0, 0, (0, 1), (0, 1)),
            ("b", 1, 1, 0, 0, 0, 0, (0, 1), (0, 1)),
        },
    ),
    "a null in a required column is counted and a null producer is none": (
        [kept(0, 1), kept(1, 2, load_seq=None)],
        {(None, 1, 1, 0, 0, 0, 0, (0, 1), (0, 1)), (None, None, 1, 0, 0, 1, 0, (0, 2), (0, 2))},
    ),
    "a value without payload is undecodable and a tombstone is not": (
        [
            ("", *_STREAM, 1, 0, 1, "in_order", b"{}", (None,)),
            ("", *_STREAM, 2, 1, 1, "in_order", b"oops", None),
            ("", *_STREAM, 3, 2, 1, "in_order", None, None),
        ],
        {(None, 1, 3, 0, 0, 0, 1, (0, 1), (0, 3))},
    ),
}  # rows of Silver, and the facts of their streams but for the topic and partition


def test_the_facts_of_streams(spark: SparkSession) -> None:
    """Of all cases by one pass, each case a topic."""
    found: dict[str, set[tuple[object, ...]]] = {case: set() for case in CASES}
    for row in counted(spark, [(case, *row[1:]) for case, (rows, _) in CASES.items() for row in rows]).collect():
        found[row["topic"]].add(tuple(tuple(value) if isinstance(value, Row) else value for value in row[2:]))
    assert found == {case: expected for case, (_, expected) in CASES.items()}


def test_a_null_topic_is_a_null_and_without_a_payload_nothing_is_undecodable(spark: SparkSession) -> None:
    rows: list[Kept] = [(None, *_STREAM, 1, 0, 1, None, b"v", None)]

    expect(spark, counted(spark, rows), [(None, 0, None, 1, 1, 0, 0, 2, 1, None, (0, 1))])
    assert facts.silver_facts(spark.createDataFrame(rows, _SILVER).drop("payload")).collect()[0]["undecodable"] == 0


def test_the_pass_shuffles_once_and_no_payload(spark: SparkSession) -> None:
    plan = counted(spark, [kept(0, 1)])._jdf.queryExecution().executedPlan().toString()

    shuffles = [line for line in plan.splitlines() if "Exchange" in line]
    assert len(shuffles) == 1
    assert "payload" not in shuffles[0]


def test_bronze_is_counted_by_version(spark: SparkSession) -> None:
    schema = "topic string, partition int, offset bigint, _commit_version bigint"
    appended = spark.createDataFrame([("t", 0, 0, 1), ("t", 0, 1, 1), ("t", 1, 0, 1), ("t", 0, 2, 3)], schema)

    columns = "topic string, partition int, version bigint, records bigint"
    expect(spark, facts.bronze_counts(appended), [("t", 0, 1, 2), ("t", 1, 1, 1), ("t", 0, 3, 1)], columns)


def test_bronze_offsets_are_counted_once_each_and_within_their_spans(spark: SparkSession) -> None:
    offsets = [("t", 0, offset) for offset in (0, 1, 2, 2, 3, 9)]
    bronze = spark.createDataFrame([*offsets, ("t", 1, 0)], "topic string, partition int, offset bigint")
    of_load = "topic string, partition int, load_seq bigint"
    spans = [("t", 0, 1, None, 1), ("t", 0, 2, 1, 5), ("t", 1, 2, None, 7)]

    found = facts.bronze_offsets(bronze, spark.createDataFrame(spans, f"{of_load}, above bigint, up_to bigint"))

    expect(spark, found, [("t", 0, 1, 2), ("t", 0, 2, 2), ("t", 1, 2, 1)], f"{of_load}, records bigint")


def test_only_where_each_known_original_is_earlier_may_a_stream_have_restarted(spark: SparkSession) -> None:
    """Of each duplicate: its producer, sequence, offset and second; of each original the same, and an epoch."""
    again: list[tuple[str | None, int, int, int]] = [
        *[("all", 1, 10, 7), ("all", 2, 11, 8), ("one not", 1, 12, 7), ("one not", 2, 13, 5), ("at once", 1, 14, 5)],
        *[("not kept", 1, 15, 9), ("one not kept", 1, 16, 9), ("one not kept", 2, 17, 9), (None, 1, 18, 9)],
    ]
    first = [(name, 0, sequence, 5) for name in ("all", "one not", "at once", None) for sequence in (1, 2)]
    first += [("not kept", 1, 1, 5), ("one not kept", 0, 2, 5)]
    seconds = "timestamp_seconds(second) AS timestamp"
    ends = [("t", 0, producer, 2, 0, offset, sequence) for producer, sequence, offset, _ in again]
    sent = [("t", 0, offset, second) for _, _, offset, second in again] + [("t", 1, 10, 0), ("t", 0, 9, 0)]
    of_stream, of_load = "topic string, partition int, producer string", "load_seq bigint"

    found = facts.later_again(
        spark.createDataFrame(ends, f"{of_stream}, {of_load}, epoch bigint, offset bigint, sequence bigint"),
        sent=spark.createDataFrame(sent, "topic string, partition int, offset bigint, second int").selectExpr("*", seconds),
        kept=spark.createDataFrame(
            [("t", 0, *row) for row in first], f"{of_stream}, epoch bigint, sequence bigint, second int"
        ).selectExpr("*", seconds),
    )

    restarted = [("t", 0, producer, 2) for producer in ("all", "one not kept", None)]
    expect(spark, found, restarted, f"{of_stream}, {of_load}")
