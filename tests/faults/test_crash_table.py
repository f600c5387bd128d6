"""Each protocol dies at each of its crash points in turn. The next run works on a copy of the files, as a kill leaves them.
One process of each protocol gets SIGKILL. `tests/model` has the interleavings, and `make faults` random moments."""

import fnmatch
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.contracts.gate import REJECTED, RELEASED, Decision
from lakehouse.errors import GateFailedError, TableStateError, UsageError
from lakehouse.run.context import Run
from pipelines.operate import accept_topic, erasure, gate_decision
from pipelines.recover import rebuild
from silver.state.request import Erase, RecordFilter, Request, Reset
from tests.faults.kills import _ELSEWHERE, STAGES, Durations, Point, crash_points
from tests.faults.pool import Runner
from tests.faults.table import ANN, OF_ANN, Act, Group, Lake, Row, came, decided, in_turn, loaded, published, restored
from tests.support import kept
from tests.support.bronze import Record
from tests.support.kafka import Sent, delete_records, send
from tests.support.silver import message
from tests.support.stages import require_sound
from tidemark.extras.demo.broker import create_topic

pytestmark = [pytest.mark.spark, pytest.mark.fault]


def sent(start: int, *sequences: int, partition: int = 0) -> list[Record]:
    return [Record.of(offset, sequence, partition=partition) for offset, sequence in enumerate(sequences, start)]


# Load: four records in Bronze, the third sent again; a fifth comes before the next run.


def compact_and_vacuum(lake: Lake) -> None:
    """Bronze has one file, and no version before it can be read."""
    lake.spark.sql(f"OPTIMIZE {lake.run.table('bronze_records').sql}")
    folder = lake.folder / "bronze_records"
    live = {Path(uri).name for uri in DeltaTable(folder).file_uris()}
    old = [file for file in folder.glob("*.parquet") if file.name not in live]
    assert old
    for file in old:  # as VACUUM does in a minute
        file.unlink()


_SECOND_2 = [(2, "duplicate", "discarded")]

LOAD = Group(
    "load",
    before=(came(*sent(0, 1, 2, 2, 3)),),
    dies=Lake.load,
    then=Lake.load,
    watched=("claimed", "silver", "rejects", "watermark"),
    rows=(
        Row("silver.claimed", ([1], [], [], []), meanwhile=came(*sent(4, 4))),
        Row("silver.appended", ([1], [0, 1, 3], [], []), meanwhile=compact_and_vacuum),
        Row("silver.rejected", ([1], [0, 1, 3], _SECOND_2, [])),
        Row("silver.advanced", ([1], [0, 1, 3], _SECOND_2, [(3, 3)])),
    ),
    done=([2], []),
    after={"silver": [0, 1, 3, 4], "rejects": _SECOND_2, "watermark": [(4, 4)]},
)


# Bronze: a first read; a read over timestamps that are no time; a topic that lost records, and is accepted.

_ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
_GOOD, _ODD = 1_795_254_019_123, 2**63 - 1


def in_topic(topic: str, *timestamps: int, first: int = 1) -> Act:
    """Records in sequence come to a topic, each with a timestamp."""
    records = [Sent(b"v", b"k", [("seq", b"%d" % nth)], 0, at) for nth, at in enumerate(timestamps, first)]
    return lambda lake: send(lake.servers, topic, records)


def new_topic(topic: str) -> Act:
    return lambda lake: create_topic(lake.servers, topic, 1, _ANY_TIME)


def accept(lake: Lake) -> object:
    """Accept what broke the topic; what it was."""
    request = Request("accept", "known", "ann", wanted=RecordFilter(topic="short"))
    return accept_topic.carry_out(lake.spark, lake.run, lake.settings, request, is_dry_run=False)["cause"]


FIRST_READ = Group(
    "bronze",
    before=(new_topic("first"), in_topic("first", _GOOD, _GOOD, _GOOD)),
    dies=Lake.ingest,
    then=Lake.ingest,
    watched=("topics", "bronze"),
    rows=(
        Row("bronze.created", ([], [])),
        Row("bronze.topics_noted", (["begun"], [])),
        Row("bronze.started", (["begun"], [])),
        Row("bronze.ingested", (["begun"], [0, 1, 2]), killed="bronze"),
    ),
    done=0,
    after={"topics": ["begun"], "bronze": [0, 1, 2]},
    is_verified=False,
    config={"kafka": {"topics": ["first"]}},
)

ODD_TIMESTAMPS = Group(
    "bronze",
    before=(
        *(new_topic("odd"), new_topic("other"), in_topic("odd", _GOOD), Lake.ingest),  # it starts behind the first record
        *(in_topic("odd", _GOOD, _GOOD, _ODD, _GOOD, _ODD), in_topic("other", _GOOD)),
    ),
    dies=Lake.ingest,
    then=Lake.ingest,
    watched=("topics", "bronze"),
    rows=(
        Row("bronze.carried_on", (["begun", "begun"], [1, 2])),
        Row("bronze.begun_anew", (["begun", "begun", "begun"], [0, 1, 2, 3, 4, 5])),
    ),
    done=0,
    after={"bronze": [0, 1, 2, 3, 4, 5]},  # offset 0 is of the other topic
    is_verified=False,
    config={"kafka": {"topics": ["odd", "other"], "starting_offsets": "latest"}},
)

ACCEPTANCE = Group(
    "bronze",
    before=(
        *(new_topic("short"), in_topic("short", _GOOD, _GOOD), Lake.ingest, in_topic("short", _GOOD, _GOOD, first=3)),
        lambda lake: delete_records(lake.servers, "short", before=3),
    ),
    dies=accept,
    then=lambda lake: (accept(lake), lake.ingest(), lake.load()),
    watched=("loads", "topics", "bronze"),
    rows=(
        Row("topic.claimed", ([(1, "accept")], ["begun"], [0, 1])),
        Row("topic.accepted", ([(1, "accept")], ["begun", "expired"], [0, 1])),
    ),
    done=(None, 1, ([2], [])),
    after={"loads": [(1, "accept"), (2, "records")], "topics": ["begun", "expired"], "bronze": [0, 1, 3]},
    is_verified=False,
    config={"kafka": {"topics": ["short"]}},
)


# Gate and Gold: load 1 is published, with one key in two streams; load 2 waits; load 3 comes before the next run.

_COUNTED: dict[str, Any] = {"gold": {"models": [{"name": "by_key", "sql": str(Path(__file__).with_name("by_key.sql"))}]}}
_OLD, _BOTH = [(1, 1)], [(1, 1), (2, 2)]
_ZERO, _ONE = [(0, 0), (1, 0)], [(0, 1), (1, 0)]

GOLD = Group(
    "gate and Gold",
    before=(published(*sent(0, 1), *sent(0, 1, partition=1)), loaded(*sent(1, 2))),
    dies=Lake.publish,
    then=Lake.publish,
    watched=("gate runs", "gold", "latest by stream", "published", "counted"),
    rows=(
        Row("gate.audited", (_OLD, [0, 0], _ZERO, [1], [2])),
        Row("gate.recorded", (_BOTH, [0, 0], _ZERO, [1], [2])),
        Row("gold.records", (_BOTH, [0, 0, 1], _ZERO, [1], [2]), dies=Lake.gold),
        Row("gold.by_stream", (_BOTH, [0, 0, 1], _ONE, [1], [2]), dies=Lake.gold),
        Row(*("gold.latest", (_BOTH, [0, 0, 1], _ONE, [1], [2])), meanwhile=loaded(*sent(1, 2, partition=1)), killed="gold"),
        Row("gold.published", ([*_BOTH, (2, 3)], [0, 0, 1, 1], [(0, 1), (1, 1)], [1, 2, 3], [2])),
        Row("gold.model_made", ([*_BOTH, (2, 3)], [0, 0, 1, 1], [(0, 1), (1, 1)], [1, 2, 3], [4]), dies=Lake.gold),
    ),
    done=(None, None),
    after={"gold": [0, 0, 1, 1], "latest by stream": [(0, 1), (1, 1)], "latest": [1], "published": [1, 2, 3], "counted": [4]},
    config=_COUNTED,
)


def fails(lake: Lake) -> None:
    with pytest.raises(GateFailedError):
        lake.publish()


def gate_run(decision: str) -> Act:
    asked = Decision(decision, "looked at", "ann")
    return lambda lake: gate_decision.decide(lake.spark, lake.run, lake.settings, asked, is_dry_run=False)


def refuse_to_reject(lake: Lake) -> None:
    """What was released cannot be rejected."""
    with pytest.raises(UsageError, match="released, and not published yet"):
        gate_run(REJECTED)(lake)


RANGE_RELEASED = Group(
    "gate and Gold",
    before=(published(*sent(0, 1, 2)), loaded(*sent(2, 3, 1)), fails),
    dies=gate_run(RELEASED),
    then=lambda lake: (loaded(*sent(4, 4))(lake), lake.publish(), lake.publish())[1:],
    watched=("gate runs", "gold"),
    rows=(Row("gate.decided", (_BOTH, [0, 1]), meanwhile=refuse_to_reject),),
    done=((2, 2), (3, 3)),
    after={"gate runs": [(1, 1), (2, 2), (3, 3)], "gold": [0, 1, 2, 4]},
    is_verified=False,
    config={"gate": {"budgets": {"duplicate": {"critical": 0}}}},
)

RANGE_RELEASED_TWICE = replace(
    RANGE_RELEASED, rows=(Row("gate.decided", (_BOTH, [0, 1]), meanwhile=gate_run(RELEASED)),), done=((3, 3), (None, None))
)

RANGE_REJECTED = replace(
    RANGE_RELEASED_TWICE,
    dies=gate_run(REJECTED),
    rows=(Row("gate.decided", (_BOTH, [0, 1])),),
    after={"gold": [0, 1, 4]},
    is_verified=True,
)


# Cutover: by `seq` load 1 is 1 2 100 3 4 2, with 3 and 4 late; load 2 releases 3; load 3 is 101 twice. All is published. A
# restore takes it back to load 1. By `n` it is 1 2 3 4 5 2 and 6 twice; 7 comes once the claim of a rebuild is made.


def two_numbers(start: int, *pairs: tuple[int, int]) -> list[Record]:
    headers = [(("seq", b"%d" % seq), ("n", b"%d" % n)) for seq, n in pairs]
    return [Record(offset, key=b"k", value=each[0][1], headers=each) for offset, each in enumerate(headers, start)]


def by_seq(act: Act) -> Act:
    """An act under the config of before."""
    return lambda lake: act(Lake(lake.spark, lake.folder, lake.run_at, {}))


_BEFORE_CUTOVER = (
    by_seq(published(*two_numbers(0, (1, 1), (2, 2), (100, 3), (3, 4), (4, 5), (2, 2)))),
    by_seq(decided("release", wanted=RecordFilter(offset=3))),
    by_seq(published(*two_numbers(6, (101, 6), (101, 6)))),
)
_BY_SEQ, _BY_N = [0, 1, 2, 3, 6], [0, 1, 2, 3, 4, 6]
_DUPLICATES = [(5, "duplicate", "discarded"), (7, "duplicate", "discarded")]
_HELD, _RELEASED = ([(3, "late", state), (4, "late", "held"), *_DUPLICATES] for state in ("held", "released"))
_CLAIMS = [1, 2, 3, 4, 5, 6]

RESTORE = Group(
    "cutover",
    before=_BEFORE_CUTOVER,
    dies=restored(1),
    then=Lake.run_all,
    watched=("claimed", "silver", "rejects", "finished", "gold", "published"),
    rows=(
        Row("swap.claimed", ([1, 2, 3, 4], _BY_SEQ, _RELEASED, [3], _BY_SEQ, [1, 2, 3])),
        Row("swap.fenced", ([1, 2, 3, 4], _BY_SEQ, _RELEASED, [3], _BY_SEQ, [1, 2, 3])),
        Row("swap.records", ([1, 2, 3, 4], [0, 1, 2], _RELEASED, [3], _BY_SEQ, [1, 2, 3]), killed="silver"),
        Row("swap.rejects", ([1, 2, 3, 4], [0, 1, 2], _HELD[:3], [3], _BY_SEQ, [1, 2, 3])),
        Row("swap.loads", ([1, 4], [0, 1, 2], _HELD[:3], [3], _BY_SEQ, [1, 2, 3])),
        Row("swap.advanced", ([1, 4], [0, 1, 2], _HELD[:3], [4], _BY_SEQ, [1, 2, 3])),
        Row("gold.withdrawn", ([1, 4, 5], [0, 1, 2, 6], _HELD, [5], [0, 1, 2], [1, 2, 3])),
        Row("gold.latest_anew", ([1, 4, 5], [0, 1, 2, 6], _HELD, [5], [0, 1, 2], [1, 2, 3]), dies=Lake.gold),
    ),
    done=([], []),
    after={
        "loads": [(1, "records"), (4, "restore"), (5, "records")],
        "silver by load": [(0, 1), (1, 1), (2, 1), (6, 5)],
        "rejects": _HELD,
        "gold": [0, 1, 2, 6],
        "latest": [6],
    },
)


def rebuilt(lake: Lake, *, apply: bool = True) -> object:
    return rebuild.rebuild(lake.spark, lake.run, lake.settings, apply=apply, reason="another extractor", by="ann")


def refuse_a_look(lake: Lake) -> None:
    """Nothing is rebuilt for a look until the cutover is finished; a record comes."""
    with pytest.raises(TableStateError, match="Finish it first"):
        rebuilt(lake, apply=False)
    came(*two_numbers(8, (102, 7)))(lake)


REBUILD = Group(
    "cutover",
    before=_BEFORE_CUTOVER,
    dies=rebuilt,
    then=Lake.run_all,
    watched=("claimed", "silver", "rejects", "finished", "gold"),
    rows=(  # the fence and what follows the rejects are the code of a restore
        Row("swap.claimed", (_CLAIMS, _BY_SEQ, _RELEASED, [3], _BY_SEQ), meanwhile=refuse_a_look),
        Row("swap.records", (_CLAIMS, _BY_N, _RELEASED, [3], _BY_SEQ)),
        Row("swap.rejects", (_CLAIMS, _BY_N, _DUPLICATES, [3], _BY_SEQ)),
        Row("gold.replaced", ([4, 5, 6, 7], [*_BY_N, 8], _DUPLICATES, [7], [*_BY_N, 8])),
        Row("gold.latest_anew", ([4, 5, 6, 7], [*_BY_N, 8], _DUPLICATES, [7], [*_BY_N, 8]), dies=Lake.gold),
    ),
    done=([], []),
    after={
        "silver by load": [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4), (6, 5), (8, 7)],
        "watermark": [(7, 8)],
        "gold": [*_BY_N, 8],
        "latest": [8],
    },
    config={"sequence": {"header": "n"}},
)


# A person's decisions: of load 1, 1 5 2 3, the last two are late. One is released, the other discarded; then the watermark is
# reset to 9. 6 comes after the first claim.

_LATE_TWO, _LATE_THREE = ([(offset, "late", state) for state in ("held", "released", "discarded")] for offset in (2, 3))
_BOTH_HELD, _ONE_RELEASED = [_LATE_TWO[0], _LATE_THREE[0]], [_LATE_TWO[1], _LATE_THREE[0]]
_BOTH_SETTLED = [_LATE_TWO[1], _LATE_THREE[2]]

DECISIONS = Group(
    "decision",
    before=(loaded(*sent(0, 1, 5, 2, 3)),),
    dies=decided("release", wanted=RecordFilter(offset=2)),
    then=Lake.load,
    watched=("claimed", "silver", "rejects", "watermark", "finished"),
    rows=(
        Row("silver.claimed", ([1, 2], [0, 1], _BOTH_HELD, [(5, 3)], [1]), meanwhile=came(*sent(4, 6))),
        Row("silver.appended", ([1, 2], [0, 1, 2], _BOTH_HELD, [(5, 3)], [1]), killed="silver"),
        Row("silver.rejected", ([1, 2], [0, 1, 2], _ONE_RELEASED, [(5, 3)], [1])),
        Row("silver.advanced", ([1, 2], [0, 1, 2], _ONE_RELEASED, [(5, 3)], [2]), meanwhile=Lake.load),
        Row(
            *("silver.rejected", ([1, 2, 3, 4], [0, 1, 2, 4], _BOTH_SETTLED, [(6, 4)], [3])),
            dies=decided("discard", wanted=RecordFilter()),
        ),
        Row(
            *("silver.claimed", ([1, 2, 3, 4, 5], [0, 1, 2, 4], _BOTH_SETTLED, [(6, 4)], [4])),
            dies=decided("reset", reset=Reset("t", 0, to=9)),
        ),
    ),
    done=([5], [5]),
    after={"silver by load": [(0, 1), (1, 1), (2, 2), (4, 3)], "rejects": _BOTH_SETTLED, "watermark": [(9, 4)]},
)


# Erasure: load 1 has every class of Ann's, accepted, duplicate, late, collision and invalid, and is published.


def of(key: bytes, offset: int, sequence: object, partition: int = 0) -> Record:
    """A record of a person; its value and a header name the person."""
    text = str(sequence).encode()
    return Record(offset, key + b" " + text, key, (("seq", text), ("who", key)), partition)


def forget(lake: Lake) -> object:
    """Remove what still holds Ann's key; whether it is proven that nothing does."""
    return erasure.forget(lake.spark, lake.run, lake.settings, ANN, is_dry_run=False)["is_proven"]


_ANNS: list[tuple[Any, ...]] = [(0, 1), (2, 5), (3, 1), (5, 3), (7, 2), (10, "x"), (0, 1, 1)]
_BOBS: list[tuple[Any, ...]] = [(1, 2), (4, 2), (8, 1), (11, 6), (1, 2, 1)]
_ERASE_ANN = decided("erase", erase=Erase.of("t", ANN))

ERASURE = Group(
    "erasure",
    before=(published(*(of(ANN, *each) for each in _ANNS), *(of(b"bob", *each) for each in _BOBS)),),
    dies=_ERASE_ANN,
    then=Lake.run_all,
    watched=("hashes", *(f"ann in {name}" for name in OF_ANN), "finished"),
    rows=(
        Row("silver.claimed", ([3], [7], [3], [2], [1], [3], [1])),
        Row("erase.rejects", ([1], [7], [3], [2], [1], [3], [1])),
        Row("erase.silver", ([1], [7], [0], [2], [1], [3], [1]), killed="silver"),
        Row("erase.bronze", ([1], [0], [0], [2], [1], [3], [1])),
        Row("silver.advanced", ([1], [0], [0], [2], [1], [3], [2])),
        Row("erase.gold_latest_by_stream", ([1], [0], [0], [0], [1], [3], [2])),
        Row("erase.gold_latest", ([1], [0], [0], [0], [0], [3], [2]), dies=Lake.gold),
        Row("erase.gold_records", ([1], [0], [0], [0], [0], [0], [2]), dies=Lake.gold),
    ),
    done=([], []),
    after={
        **{f"ann in {name}": [0] for name in OF_ANN},
        "hashes": [1],
        "loads": [(1, "records"), (2, "erase")],
        "erased": [7],
        "counted": [3],
    },
    config=_COUNTED,
)

FORGETTING = Group(
    "erasure",
    before=(loaded(of(ANN, 0, 1), of(b"bob", 1, 2)), _ERASE_ANN),
    dies=forget,
    then=forget,
    watched=("finished",),
    rows=(*(Row(f"forget.{step}", ([2],)) for step in ("properties", "vacuumed", "table")),),
    done=True,
    after={"loads": [(1, "records"), (2, "erase")]},
)


# Row quarantine: loads 1 and 2 are published, but for offsets 3, of Ann's, and 4, which expectations keep out of Gold.

_STRICT: dict[str, Any] = {
    "gate": {
        "expectations": [
            {"expect_column_values_to_not_be_null": {"column": "payload.id", "on_fail": "quarantine_rows"}},
            {"expect_column_values_to_be_between": {"column": "payload.n", "max_value": 100, "on_fail": "quarantine_rows"}},
        ]
    },
    "value": {"format": "json", "schema": "id STRING, n BIGINT"},
}


def without_id(offset: int, sequence: int, *, key: bytes = b"k", n: int = 1) -> Record:
    return message(offset, sequence, key=key.decode(), value=b'{"n": %d}' % n)


def publish_without_expectations(lake: Lake) -> None:
    Lake(lake.spark, lake.folder, lake.run_at, _STRICT | {"gate": {}}).publish()


def release_offset_3(lake: Lake) -> None:
    decided("release", wanted=RecordFilter(kind="unmet", offset=3))(lake)
    lake.run_all()


_TWO_OUT, _ONE_OUT, _GIVEN_UP = ([(3, state), (4, "held")] for state in ("held", "released", "discarded"))
_BEFORE_ROWS = (
    published(message(0, 1), message(1, 2, key="other")),
    published(message(2, 3), without_id(3, 4, key=ANN), without_id(4, 5, n=101), message(5, 6)),
)

ROWS_KEPT_OUT = Group(
    "row quarantine",
    before=(*_BEFORE_ROWS, loaded(without_id(6, 7), message(7, 8))),
    dies=Lake.publish,
    then=Lake.publish,
    watched=("gate runs", "kept out", "gold", "finished"),
    rows=(
        Row("gate.kept_aside", (_BOTH, _TWO_OUT, [0, 1, 2, 5], [3])),
        Row("gold.latest", ([*_BOTH, (3, 3)], _TWO_OUT, [0, 1, 2, 5, 6, 7], [3]), dies=publish_without_expectations),
    ),
    done=(3, 3),
    after={"kept out": [*_TWO_OUT, (6, "held")], "gold": [0, 1, 2, 5, 7]},
    config=_STRICT,
)

ROWS_RELEASED = replace(
    ROWS_KEPT_OUT,
    before=_BEFORE_ROWS,
    dies=release_offset_3,
    then=Lake.run_all,
    watched=("kept out", "gold", "finished"),
    rows=(
        Row("silver.claimed", (_TWO_OUT, [0, 1, 2, 5], [2])),
        Row("silver.rejected", (_ONE_OUT, [0, 1, 2, 5], [2])),
        Row("gold.records", (_ONE_OUT, [0, 1, 2, 3, 5], [3])),
        Row("gold.latest", (_ONE_OUT, [0, 1, 2, 3, 5], [3]), dies=Lake.gold),
        Row("gold.withdrawn", (_ONE_OUT, [0, 1, 2, 5], [4]), dies=in_turn(Lake.run_all, restored(2))),
    ),
    done=([], []),
    after={"kept out": _TWO_OUT, "gold": [0, 1, 2, 5]},
)

ROWS_ERASED = replace(
    ROWS_RELEASED,
    dies=_ERASE_ANN,
    rows=(Row("erase.gold_rejects", (_GIVEN_UP, [0, 1, 2, 5], [3])),),
    after={"kept out": _GIVEN_UP, "gold": [0, 1, 2, 5]},
    is_verified=False,
)

TABLE = {name.lower(): each for name, each in globals().items() if isinstance(each, Group)}


@pytest.fixture(scope="session")
def lakes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_at: Callable[[Path], Run], request: pytest.FixtureRequest
) -> Callable[[Group], Lake]:
    """Copies the tables of before a group's first run. Each act runs once, also where groups begin alike."""
    made: dict[tuple[Act, ...], Path] = {}

    def copied(group: Group, acts: tuple[Act, ...]) -> Lake:
        broker = request.getfixturevalue("broker") if group.protocol == "bronze" else None
        lake = Lake(spark, tmp_path_factory.mktemp("lake") / "lakehouse", run_at, group.config, broker)
        if acts and acts not in made:
            *first, last = acts
            original = copied(group, tuple(first))
            last(original)
            made[acts] = original.folder
        if acts and made[acts].exists():  # Bronze's first read begins with nothing
            shutil.copytree(made[acts], lake.folder)
        return lake

    return lambda group: copied(group, group.before)


def kill(lake: Lake, row: Row, runner: Runner) -> None:
    runner.get_ready()
    runner.go(config=str(lake.config_file()), crash_at=row.point, stage=row.killed)
    assert Point(row.point).strike(runner, Durations()) == f"at {row.point}"


@pytest.mark.parametrize("group", [pytest.param(group, id=name, marks=group.marks) for name, group in TABLE.items()])
def test_runs_that_die_at_each_crash_point_are_followed_by_one_that_finishes(
    lakes: Callable[[Group], Lake], start_runner: Callable[..., Runner], group: Group
) -> None:
    lake, act = lakes(group), group.dies
    for row in group.rows:
        if row.killed:
            kill(lake, row, start_runner())
        else:
            lake = lake.left_at(row.point, row.dies or act)
        act = group.then
        assert (row.point, lake.read(group.watched)) == (row.point, dict(zip(group.watched, row.left, strict=True)))
        if row.meanwhile is not None:
            row.meanwhile(lake)
    assert group.then(lake) == group.done
    assert lake.read(group.after) == group.after
    if group.is_verified:
        require_sound(lake.spark, lake.run, is_deep=True)


def test_every_crash_point_of_the_product_has_a_row() -> None:
    rows = {row.point for group in TABLE.values() for row in group.rows}
    product = [name.replace("{}", "*") for name in kept.kept()["crash points"]]

    assert [name for name in product if not fnmatch.filter(rows, name)] == []
    assert [row for row in rows if not any(fnmatch.fnmatch(row, name) for name in product)] == []


def test_every_stage_of_the_long_run_has_crash_points_to_die_at() -> None:
    assert {name.partition(".")[0] for name in crash_points()} >= set(STAGES)
    assert not _ELSEWHERE & set(crash_points())
