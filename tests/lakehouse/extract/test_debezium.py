"""Positions of change events: what is read of each database's values, by Spark and on the driver, and what is invalid."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.extract import on_driver
from lakehouse.extract.columns import columns_read, extract
from lakehouse.extract.on_driver import Record
from lakehouse.extract.sources import Source, Sources
from lakehouse.extract.written import Written
from lakehouse.spark import frames
from tests.support.change_events import as_avro, as_bytes, event, of_snapshot, unwrapped, with_schema

DATABASES = ("postgres", "mysql", "sqlserver", "mongodb")
HALF = 2**63
LSN = 24023128
OFFSET = 7
Read = tuple[int, int] | str


def sources(database: str) -> Sources:
    return Sources(Source("debezium", database), epoch=Source("debezium_epoch", database))


def read(database: str, value: bytes | None, offset: int = OFFSET) -> Read:
    record = Record(value, offset=offset)
    (sequence, problem), (epoch, other) = (
        on_driver.number(source, record) for source in (Source("debezium", database), Source("debezium_epoch", database))
    )
    assert problem == other
    return problem or (epoch or 0, sequence or 0)


def number(database: str, found: dict[str, Any], offset: int = OFFSET) -> int:
    """The whole position, which orders as (epoch, sequence) does."""
    position = read(database, as_bytes(found), offset)
    assert not isinstance(position, str), position
    return position[0] * HALF + position[1]


CHANGE = {"postgres": event("postgres", order=1), **{name: event(name) for name in DATABASES[1:]}}
IN_BITS = {
    "postgres": f"{LSN:063b}1{1:034b}",
    "mysql": f"{3:031b}{484:032b}1{0:033b}1",
    "sqlserver": f"{0x27:027b}{0x758:026b}{5:011b}0{4095:012b}{0x758:026b}{3:011b}{1:011b}1",
    "mongodb": f"{1558965508000:044b}{31:024b}0{0:034b}",
}


@pytest.mark.parametrize("database", DATABASES)
def test_a_position_holds_every_part_in_the_order_of_commits(database: str) -> None:
    assert number(database, CHANGE[database]) == int(IN_BITS[database], 2)


# Genuine events of a partition, in the order in which a connector sends them.
IN_ORDER: dict[str, list[dict[str, Any]]] = {
    "postgres": [
        of_snapshot("postgres"),
        of_snapshot("postgres", snapshot="last"),
        event("postgres", order=1, sequence=f'[null,"{LSN + 8}"]'),  # no commit was read before
        event("postgres", order=2, sequence=f'[null,"{LSN + 8}"]'),  # one COPY writes many rows at one LSN
        event("postgres", order=1, sequence=f'["{LSN + 96}","{LSN + 16}"]'),  # an overlapping transaction: a lower LSN
        event("postgres", order=2, op="d", sequence=f'["{LSN + 96}","{LSN + 64}"]'),
        event("postgres", order=1, sequence=f'["{LSN + 2**33}","{LSN + 32}"]'),
        of_snapshot("postgres", sequence=f'["{LSN + 2**33}","{LSN + 2**33 + 8}"]'),  # the second snapshot
        event("postgres", order=1, sequence=f'["{LSN + 2**33 + 8}","{LSN + 2**33 + 16}"]'),
    ],
    "mysql": [
        of_snapshot("mysql"),
        of_snapshot("mysql"),
        event("mysql", op="u"),
        event("mysql", row=1),
        event("mysql", op="d", row=2),  # a changed key: a delete, and an insert of the other key at the same place
        event("mysql", op="c", row=2),
        event("mysql", pos=2**32 - 1, op="t"),
        event("mysql", file="mysql-bin.000004", pos=4),
    ],
    "sqlserver": [
        of_snapshot("sqlserver", commit_lsn="00000027:00000758:0004"),
        event("sqlserver", op="d"),
        event("sqlserver", op="c"),
        event("sqlserver", event_serial_no=2),
        of_snapshot("sqlserver"),  # the second snapshot, which holds this commit
        event("sqlserver", commit_lsn="00000027:00000758:0007", change_lsn="00000026:0000FFFF:00ff"),
        event("sqlserver", commit_lsn="00000027:00000758:0007", change_lsn="00000027:00000001:0001"),
        event("sqlserver", commit_lsn="00000028:00000010:0001", change_lsn="00000028:00000010:0001"),
    ],
    "mongodb": [
        of_snapshot("mongodb", ord=30),
        of_snapshot("mongodb", ord=30),
        event("mongodb", op="u"),
        of_snapshot("mongodb"),
        event("mongodb", ord=32, lsid="{}", txnNumber=4, order=1),
        event("mongodb", ord=32, lsid="{}", txnNumber=4, order=2),
        event("mongodb", ts_ms=1558965509000, ord=1),
    ],
}


@pytest.mark.parametrize("database", DATABASES)
def test_positions_rise_with_every_event_and_snapshots_come_before_what_follows(database: str) -> None:
    numbers = [number(database, each, offset) for offset, each in enumerate(IN_ORDER[database])]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("database", DATABASES)
def test_a_resend_has_its_position_again_in_every_form_of_the_value(database: str) -> None:
    for found in IN_ORDER[database]:
        forms = [found, with_schema(found), unwrapped(found), unwrapped(found, bare=True), with_schema(unwrapped(found))]
        assert len({read(database, as_bytes(each)) for each in forms}) == 1
        assert read(database, b"\0\0\0\0\x07" + as_bytes(found)) == read(database, as_bytes(found))


def test_a_resend_of_the_first_transaction_has_its_position_again() -> None:
    """A connector that had read no commit names the LSN of its last event in place of a commit after a restart."""
    sent, again = (event("postgres", order=2, sequence=f'[{commit},"{LSN + 16}"]') for commit in ("null", f'"{LSN + 8}"'))
    assert read("postgres", as_bytes(sent)) == read("postgres", as_bytes(again))


def test_a_row_of_a_snapshot_has_its_offset_as_its_place_in_the_snapshot() -> None:
    first, other = number("mysql", of_snapshot("mysql"), 5), number("mysql", of_snapshot("mysql"), 2**34 + 6)
    assert other - first == 1
    assert number("sqlserver", of_snapshot("sqlserver"), 2**40) - number("sqlserver", of_snapshot("sqlserver"), 0) == 2**40


def lacking(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**found, "source": {name: value for name, value in found["source"].items() if name not in names}}


def of(database: str, source: dict[str, Any]) -> bytes:
    return as_bytes(event(database, **source))


PLAIN = as_bytes(CHANGE["mysql"])
INVALID: dict[str, dict[str, Sequence[bytes | None]]] = {
    "postgres": {
        "no_total_order": [as_bytes(event("postgres")), as_bytes(unwrapped(event("postgres")))],
        "no_position": [
            *(as_bytes(each) for each in ({}, {"source": 5, "op": "c"}, lacking(CHANGE["postgres"], "sequence"))),
            *(b"null", b'{"schema": {"type": "struct"}}', b'{"schema": 5, "payload": 5, "transaction": 5, "op": "c"}'),
            *(b'{"id": 5, "op": "c", "__sequence": "[\\"1\\",\\"2\\"]", "__transaction_total_order": 1}',),  # no __op
        ],
        "not_a_whole_number": [
            as_bytes(event("postgres", order=1, sequence=text))
            for text in ("[null,null]", '["1"]', '["-1","2"]', '["1" , "2"]', f'["{10**18}","{10**18}"]', '["1","2"]\n', "{}")
        ],
        "out_of_range": [as_bytes(event("postgres", order=2**34))],
        "null": [None],
    },
    "mysql": {
        "no_position": [
            *(as_bytes(lacking(CHANGE["mysql"], name)) for name in ("file", "pos", "row", "connector")),
            *(of("mysql", {"row": value}) for value in (1.0, "1", True, {"a": 1}, 10**40, "9" * 2_000)),
        ],
        "not_a_whole_number": [
            *(of("mysql", {name: -1}) for name in ("pos", "row")),
            *(as_bytes(event("mysql", file=text)) for text in ("mysql-bin.", "a.0x3", "a.12345678901", "a.3\n", "")),
        ],
        "out_of_range": [of("mysql", each) for each in ({"pos": 2**32}, {"row": 2**33}, {"file": f"a.{2**31}"})],
        "not_json": [
            *(
                b"",
                b"\0\0",
                b"{",
                PLAIN + b" {}",
                PLAIN.replace(b'"', b"'"),
                PLAIN[:-1],
                b'{"a": NaN}',
                b"[" * 100_000,
                b"\xff",
            ),
            *(b"5", b"[]", b'"text"', b'{"a": ' + b"1" * 1001 + b"}"),
        ],
    },
    "sqlserver": {
        "no_position": [of("sqlserver", {name: None}) for name in ("commit_lsn", "change_lsn", "event_serial_no")],
        "not_a_whole_number": [
            as_bytes(event("sqlserver", commit_lsn=text)) for text in ("27:758:5", "00000027:00000758:000g", "0" * 20, "")
        ],
        "out_of_range": [
            of("sqlserver", each)
            for each in (
                {"commit_lsn": "ffffffff:00000758:0005"},
                {"change_lsn": "00000028:00000758:0003"},  # after its own commit
                {"commit_lsn": "00002027:00000758:0003"},  # more log files than a transaction is believed to span
                {"event_serial_no": 2048},
            )
        ],
    },
    "mongodb": {
        "no_total_order": [as_bytes(event("mongodb", txnNumber=4))],
        "no_position": [as_bytes(lacking(CHANGE["mongodb"], name)) for name in ("ts_ms", "ord")],
        "out_of_range": [as_bytes(event("mongodb", ord=2**24)), as_bytes(event("mongodb", ts_ms=2**44))],
    },
}
LENIENT = [PLAIN.replace(b"484", each) for each in (b'485,"pos":484', b'484,"other":"\xff"')]
LENIENT += [PLAIN.replace(b"1.5", each) for each in (b"[" * 400 + b"]" * 400, rb'"\ud83d"')]
ZEROS = [as_bytes(CHANGE["postgres"]).replace(b'"total_order":1', b'"total_order":' + each) for each in (b"0", b"-0")]


def test_a_value_without_a_position_is_invalid_and_its_reason_names_what_to_set() -> None:
    for database, reasons in INVALID.items():
        for reason, values in reasons.items():
            assert [read(database, value) for value in values] == [reason] * len(values), (database, reason)
    assert [read("mysql", value) for value in LENIENT] == [read("mysql", PLAIN)] * len(LENIENT)
    assert read("postgres", ZEROS[0]) == read("postgres", ZEROS[1]) == (0, LSN << 35 | 1 << 34)
    minus_zero = PLAIN.replace(b'"row":0', b'"row":-0')
    assert read("mysql", minus_zero) == read("mysql", PLAIN)


def test_spark_reads_what_the_driver_reads(spark: SparkSession) -> None:
    """All databases in one job, each in its own topic, and a topic with another form of sequence."""
    given: dict[str, list[bytes | None]] = {}
    for database in DATABASES:
        found = IN_ORDER[database]
        forms = [form for each in found for form in (each, with_schema(each), unwrapped(each), unwrapped(each, bare=True))]
        invalid = [value for values in INVALID[database].values() for value in values]
        given[database] = [*map(as_bytes, forms), b"\0\0\0\0\x07" + as_bytes(found[0]), *invalid]
    given["postgres"] += ZEROS
    given["mysql"] += [*LENIENT, PLAIN.replace(b'"row":0', b'"row":-0')]
    given["other"] = [b'{"seq": 5}', b"{", None]
    rows = [
        {"topic": topic, "offset": offset, "value": value}
        for topic, values in given.items()
        for offset, value in enumerate(values)
    ]
    all_sources = Sources(Source("json", "$.seq"), own=tuple((name, sources(name)) for name in DATABASES))
    frame = extract(frames.of_contract(spark, rows, BRONZE), all_sources)
    assert {name for name in frame.columns if name.startswith("_")} == set()
    by_spark = {
        (row.topic, row.offset): row.problem or (row.epoch, row.sequence)
        for row in frame.select("topic", "offset", "epoch", "sequence", "problem").collect()
    }
    for database in DATABASES:
        for offset, value in enumerate(given[database]):
            expected = read(database, value, offset)
            expected = f"sequence_{expected}" if isinstance(expected, str) else expected
            assert by_spark[database, offset] == expected, (database, value)
    assert [by_spark["other", offset] for offset in range(3)] == [(0, 5), "sequence_not_json", "sequence_null"]


def test_a_topic_of_one_database_alone_is_read_without_its_name(spark: SparkSession) -> None:
    rows = [{"topic": "t", "offset": OFFSET, "value": PLAIN}]
    [row] = extract(frames.of_contract(spark, rows, BRONZE), sources("mysql")).collect()
    assert (row.epoch, row.sequence, row.problem) == (*read("mysql", PLAIN), None)
    assert columns_read(sources("mysql")) == ["value"]


def test_spark_reads_the_positions_of_avro_as_those_of_json(spark: SparkSession) -> None:
    """All databases in one job, as envelopes and as rows with a column `source`, and one topic in JSON."""
    rows: list[dict[str, Any]] = []
    own: list[tuple[str, Sources]] = []
    expected: dict[tuple[str, int], Read] = {}
    for database in DATABASES:
        given = IN_ORDER[database]
        for shape in ([*given], [{**unwrapped(each), "source": 5} for each in given]):
            schema, values = as_avro(shape)
            topic = f"{database}{len(own)}"
            own.append((topic, replace(sources(database), written=Written("avro", json.dumps(schema)))))
            for offset, (value, as_json) in enumerate(zip([*values, None, b"\xff"], [*given, None, None], strict=True)):
                rows.append({"topic": topic, "offset": offset, "value": value})
                problem = "sequence_null" if value is None else "sequence_not_decoded"
                expected[topic, offset] = read(database, as_bytes(as_json), offset) if as_json else problem
    rows.append({"topic": "json", "offset": OFFSET, "value": PLAIN})
    expected["json", OFFSET] = read("mysql", PLAIN)
    frame = extract(frames.of_contract(spark, rows, BRONZE), replace(sources("mysql"), own=tuple(own)))
    assert {name for name in frame.columns if name.startswith("_")} == set()
    assert {
        (row.topic, row.offset): row.problem or (row.epoch, row.sequence)
        for row in frame.select("topic", "offset", "epoch", "sequence", "problem").collect()
    } == expected
