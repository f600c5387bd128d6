"""What lies below a watermark is a duplicate, a late record or a collision, whichever load brought the first copy."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import BreakerOpenError, TidemarkError
from lakehouse.extract.sources import Source
from lakehouse.run.context import Run
from pipelines.arrival_order import orders
from silver import model
from silver.load import steps
from silver.model import Limits, LoadLimits, TopicLimits
from silver.rules import Payload, Policy, Rules
from tests.conftest import Prepared, Runs
from tests.support.bronze import Record, put
from tests.support.prepared import empty
from tests.support.small_config import settings_of
from tidemark.commands.look import order_rows
from tidemark.readers.why import why, write_why

RULES = Rules(Source("header", "seq"))
LIMITS = Limits()


def loaded(spark: SparkSession, run: Run, records: list[Record], rules: Rules = RULES, limits: Limits = LIMITS) -> steps.Load:
    put(spark, run, records)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(model, "LIMITS", limits)
        done = steps.load_once(spark, run, rules, LoadLimits(TopicLimits(0.5)))
    assert done is not None
    return done


def rejects(spark: SparkSession, run: Run, *, topic: str = "t", partition: int = 0) -> list[tuple[object, ...]]:
    """Class, first and last offset, records and state of each reject."""
    rows = spark.read.table(run.table("silver_rejects").sql).where(f"topic = '{topic}' AND partition = {partition}")
    names = ("class", "first_offset", "last_offset", "records", "state")
    return [tuple(row) for row in rows.orderBy("first_offset").select(*names).collect()]


def kept(spark: SparkSession, run: Run, *, topic: str = "t", partition: int = 0) -> list[tuple[int, int, str]]:
    """Offset, sequence and arrival of each record in Silver."""
    rows = spark.read.table(run.table("silver_records").sql).where(f"topic = '{topic}' AND partition = {partition}")
    return [tuple(row) for row in rows.orderBy("offset").select("offset", "sequence", "arrival").collect()]


def in_order(*records: tuple[int, int]) -> list[tuple[int, int, str]]:
    return [(offset, sequence, "in_order") for offset, sequence in records]


def moved(records: list[Record], partition: int) -> list[Record]:
    return [replace(record, partition=partition) for record in records]


def other(record: Record, value: bytes = b"another payload") -> Record:
    return replace(record, value=value)


FIRST = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 2, 3, 6, 7])]
AGAIN = [
    Record.of(5, 2),
    Record.of(6, 3),
    Record.of(7, 4),
    Record.of(8, 6),
    other(Record.of(9, 7)),
    Record.of(10, 4),
    other(Record.of(11, 4)),
    replace(Record.of(12, 7), key=None),
    Record.of(13, 8),
]
TOLD = [
    ("duplicate", 5, 6, 2, "discarded"),
    ("late", 7, 7, 1, "held"),
    ("duplicate", 8, 8, 1, "discarded"),
    ("collision", 9, 9, 1, "held"),
    ("duplicate", 10, 10, 1, "discarded"),
    ("collision", 11, 11, 1, "held"),
    ("collision", 12, 12, 1, "held"),
]


def test_suspects_are_told_apart_whichever_load_brought_the_first_copy(spark: SparkSession, prepared: Prepared) -> None:
    run, limits = prepared(empty), Limits(records=3, suspects=3)
    records = [*FIRST, *AGAIN]
    loaded(spark, run, moved(records[:8], 1), limits=limits)
    loaded(spark, run, [*records, *moved(records[8:], 1)], limits=limits)

    for partition in (0, 1):
        assert rejects(spark, run, partition=partition) == TOLD
        assert kept(spark, run, partition=partition) == in_order((0, 1), (1, 2), (2, 3), (3, 6), (4, 7), (13, 8))
        told = [why(run.lakehouse, "t", partition, offset) for offset in range(len(records))]
        assert [(each["class"], each["sequence"]) for each in told] == [
            *[("accepted", 1), ("accepted", 2), ("accepted", 3), ("accepted", 6), ("accepted", 7)],
            *[("duplicate", 2), ("duplicate", 3), ("late", 4), ("duplicate", 6), ("collision", 7)],
            *[("duplicate", 4), ("collision", 4), ("collision", 7), ("accepted", 8)],
        ]
        first = {5: 1, 6: 2, 8: 3, 9: 4, 10: 7, 11: 7, 12: 4}
        assert {offset: each["winner"]["offset"] for offset, each in enumerate(told) if each["winner"]} == first
        loads = [1 if partition and offset < 8 else 2 for offset in range(14)]
        assert [each["load"]["load_seq"] for each in told] == loads
    assert order_rows(orders(spark, run, settings_of(run), topic="t")) == [
        *(["bronze", "t", partition, None, 14, 7, 2, 3, 1, 0] for partition in (0, 1)),
        *(["silver", "t", partition, None, 6, 0, 0, 0, 1, 0] for partition in (0, 1)),
    ]


JUMPED = [Record.of(offset, sequence) for offset, sequence in enumerate([1, 6, 4, 7, 6, 6])] + [other(Record.of(6, 6))]


def test_what_a_held_jump_alone_has_was_never_accepted(spark: SparkSession, prepared: Prepared) -> None:
    rules = replace(RULES, max_jump=3, topics=(("late", Policy(max_jump=3, late="accept")),))
    cuts, genuine = (0, 3, 5), [other(Record.of(4, 6), b"genuine"), Record.of(5, 6)]
    run = prepared(empty)
    first = [record for partition, cut in enumerate(cuts) for record in moved(JUMPED[:cut], partition)]
    loaded(spark, run, [*first, *(replace(record, topic="late") for record in JUMPED[:4])], rules)
    rest = [record for partition, cut in enumerate(cuts) for record in moved(JUMPED[cut:], partition)]
    loaded(spark, run, [*rest, *(replace(record, topic="late") for record in genuine)], rules)

    for partition in range(len(cuts)):
        assert rejects(spark, run, partition=partition) == [
            ("jump", 1, 1, 1, "held"),
            ("late", 4, 4, 1, "held"),
            ("duplicate", 5, 5, 1, "discarded"),
            ("collision", 6, 6, 1, "held"),
        ]
        assert why(run.lakehouse, "t", partition, 5)["winner"]["offset"] == 4
    assert kept(spark, run, topic="late") == [*in_order((0, 1), (2, 4), (3, 7)), (4, 6, "late")]
    assert rejects(spark, run, topic="late") == [("jump", 1, 1, 1, "held"), ("collision", 5, 5, 1, "held")]


def test_the_breaker_names_the_stream_and_a_larger_share_lets_the_load_in(spark: SparkSession, prepared: Prepared) -> None:
    run = prepared(empty)
    value = rb'{"id": 1, "a\u001bb": 2}'
    sent = [replace(Record.of(offset, offset, producer="p", partition=2), value=value) for offset in range(11)]
    with pytest.raises(BreakerOpenError) as unread:
        loaded(spark, run, sent, Rules(Source("header", "sq")))
    message = str(unread.value)
    assert "11 of 11 records: 11 invalid; the first one, topic t, partition 2, offset 0 (sequence_missing), " in message
    assert "has the headers seq, producer, and a JSON object of id, a\\x1bb" in message
    assert 'Look whether `sequence`, header "sq" (utf8), names what the records have' in message

    of_flags = Rules(Source("header", "seq"), payload=Payload("json", "id BOOLEAN", undecodable="quarantine"))
    with pytest.raises(BreakerOpenError, match=r"offset 0 \(value_undecodable: ") as undecodable:
        steps.load_once(spark, run, of_flags, LoadLimits(TopicLimits(0.5)))
    assert "Look whether `value.schema` names the fields" in str(undecodable.value.next_step)
    assert "sequence" not in str(undecodable.value.next_step)

    marked = [replace(Record.of(offset, offset, partition=3), value=b'\xef\xbb\xbf{"seq": 1}') for offset in range(22)]
    with pytest.raises(BreakerOpenError, match=r"\(sequence_not_json: .* begins with a byte order mark\)"):
        loaded(spark, run, marked, Rules(Source("json", "$.seq")))

    loaded(spark, run, [Record.of(0, 1), Record.of(1, 2**63 - 1), Record.of(0, 1, partition=1)])
    others = [Record.of(offset, offset + 1, partition=1) for offset in range(1, 101)]
    with pytest.raises(BreakerOpenError, match="partition 0") as stopped:
        loaded(spark, run, [*(Record.of(offset, offset) for offset in range(2, 22)), *others])
    assert "20 of 20 records" in str(stopped.value)
    assert len(kept(spark, run) + kept(spark, run, partition=1)) == 3

    steps.load_once(spark, run, RULES, LoadLimits(TopicLimits(1)))
    assert [row[0] for row in rejects(spark, run)] == ["late"] * 20
    assert len(kept(spark, run) + kept(spark, run, partition=1)) == 103


def test_why_says_what_became_of_a_record_or_why_there_is_none(
    spark: SparkSession, new_run: Runs, prepared: Prepared, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TidemarkError, match="Nothing was read yet"):
        why(new_run().lakehouse, "t", 0, 0)
    run = prepared(empty)
    gap, late = [Record.of(0, 1), Record.of(2, 2)], [Record.of(0, 1), Record.of(1, 9), Record.of(2, 10), Record.of(3, 5)]
    loaded(spark, run, [Record.of(0, 1), Record.of(0, 1), Record.of(1, "x"), *moved(gap, 1), *moved(late, 2)])
    put(spark, run, [Record.of(2, 3)])

    told = [why(run.lakehouse, "t", *place) for place in ((0, 0), (0, 1), (0, 2), (2, 3))]
    for each in told:
        write_why(each)
    for place, said in [
        (("t", 0, 3), "was not read yet(.|\n)*has offset 2"),
        (("t", 7, 0), "Nothing was read of this partition"),
        (("tt", 0, 0), "Nothing was read of this topic(.|\n)*Did you mean t"),
        (("t", 1, 1), "gaps where a log was compacted"),
    ]:
        with pytest.raises(TidemarkError, match=said):
            why(run.lakehouse, *place)

    assert (told[-1]["class"], told[-1]["passed_by"]) == ("late", {"offset": 2, "sequence": 10})
    printed = capsys.readouterr().out
    for said in (
        "offset 0 (epoch 0, sequence 1): accepted.\n",
        "Bronze holds it 2 times; all but one are replays.\n",
        "offset 1 (epoch 0): invalid.\n",
        "(sequence_not_a_whole_number).\n",
        "offset 2 (no sequence): undecided.\n",
        "Watermark before the load: none, after: 10.\n",
        "It came after offset 2 of the same load, which had moved it to 10.\n",
    ):
        assert said in printed
