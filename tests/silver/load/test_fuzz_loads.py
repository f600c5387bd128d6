"""Any bytes through real loads, the gate and Gold: every reject, count, watermark and kept record as the reference has it.

A load for each record would be too dear: an example is a batch of records under one set of rules, and the distinct records are
what is counted.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from lakehouse.contracts.silver import CLASSES
from lakehouse.extract.sources import Source, Sources
from silver.decide.decision import How, Way
from silver.extract.payload import decoded
from silver.load import steps
from silver.rules import Payload, Rules
from silver.state.tables import create_tables
from tests.support import readings
from tests.support.bronze import Record, frame, put_read
from tests.support.decodings import decoding
from tests.support.examples import IS_WHOLE
from tests.support.hostile_bytes import NAMES, NUMBERS, SCHEMA, VALUES
from tests.support.reference import Reference, Seen
from tests.support.small_config import settings_of
from tests.support.stages import published, require_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

_BATCH = 100
_FEWEST = 50
"""Distinct records of an example, at least."""

_WIDTHS = {"int32": 4, "int64": 8}
_SEQUENCES = (
    *(Source("header", "seq", encoding) for encoding in ("utf8", "int32", "int64")),
    *(Source("value", encoding=encoding) for encoding in ("utf8", "int32", "int64")),
    Source("bytes", "0:1"),
    Source("bytes", "0:4", "int32"),
    Source("bytes", "0:8", "int64"),
    Source("json", "$.seq"),
    Source("offset"),
)
"""Every closed form of an extractor. Those that read bytes leave each other room."""
_TURNS = [(each,) for each in _SEQUENCES] if IS_WHOLE else 2 * [_SEQUENCES]
"""The forms of a sequence that each example chooses from."""
_FIRST_SEED = int(os.environ.get("FUZZ_SEED", "0"))
"""Of the first example; each has its own, and the same at every run. Another one draws other records."""
_PRODUCERS = (
    None,
    *(Source("header", "who", encoding) for encoding in ("utf8", "int32", "int64")),
    Source("bytes", "8:9"),
    Source("json", "$.who"),
)
_EPOCHS = (
    None,
    *(Source("header", "epoch", encoding) for encoding in ("utf8", "int32", "int64")),
    Source("bytes", "9:10"),
    Source("bytes", "9:13", "int32"),
    Source("bytes", "9:17", "int64"),
    Source("json", "$.epoch"),
)
_OTHER = Sources(Source("header", "epoch"), Source("header", "seq"), Source("value"))
"""Sources that no rules have: what Bronze extracted by them says something else."""

_PAYLOADS = st.none() | st.builds(
    Payload,
    st.just("json"),
    st.sampled_from([SCHEMA, "a STRING NOT NULL, seq BIGINT"]),
    st.just(1_000),
    st.sampled_from(["quarantine", "quarantine", "accept"]),
)
_PAYLOADS |= st.builds(
    Payload, st.just("text"), max_bytes=st.just(1_000), undecodable=st.sampled_from(["quarantine", "accept"])
)


def _rules(sequences: Sequence[Source]) -> st.SearchStrategy[Rules]:
    return st.builds(
        Rules,
        st.sampled_from(sequences),
        producer=st.sampled_from(_PRODUCERS),
        epoch=st.sampled_from(_EPOCHS),
        payload=_PAYLOADS,
        max_jump=st.sampled_from([None, 3, 20]),
        late=st.sampled_from(["quarantine", "accept", "drop"]),
    )


@dataclass(frozen=True)
class _Sent:
    """What a producer means to send, and what becomes of it on the way; see `_record`."""

    sequence: int
    producer: int
    epoch: int
    partition: int
    spoils: str | None
    spoiled: bytes | None
    ingest: str


_SENT = st.builds(
    _Sent,
    st.integers(0, 9),
    st.integers(0, 1),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(0, 1),
    st.sampled_from([None] * 6 + ["seq", "who", "epoch", "value", "value", "twice"]),
    st.one_of(VALUES, NUMBERS, NAMES, st.none()),
    st.sampled_from(["own", "other", "none"]),
)


@dataclass(frozen=True)
class _Drawn:
    """An example: records, and how they come into Silver."""

    rules: Rules
    sent: list[_Sent]
    cut: int
    is_current: bool
    is_few: bool
    seed: int

    @property
    def records(self) -> list[tuple[bytes | None, tuple[tuple[str, bytes | None], ...]]]:
        """Value and headers of each record."""
        return [_record(sent, self.rules) for sent in self.sent]


def test_loads_of_any_bytes_end_as_the_reference_has_them(spark: SparkSession, run_at: Callable[[Path], Run]) -> None:
    met: set[object] = set()
    count = 0
    for turn, sequences in enumerate(_TURNS, _FIRST_SEED):
        cuts = st.integers(_BATCH // 4, _BATCH - _BATCH // 4)
        sent = st.lists(_SENT, min_size=_BATCH, max_size=_BATCH)

        # One example at a time, or the next is mostly the same. No shrinking: it takes hundreds of loads.
        @seed(turn)
        @settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
        @given(st.builds(_Drawn, _rules(sequences), sent, cuts, st.booleans(), st.booleans(), st.just(turn)))
        def compare(drawn: _Drawn) -> None:
            nonlocal count
            assume(len(set(drawn.records)) >= _FEWEST)  # the first that hypothesis tries is all the same
            count += 1
            met.update((drawn.rules, *record) for record in drawn.records)
            with tempfile.TemporaryDirectory() as folder:
                _compare(spark, run_at(Path(folder)), drawn, is_published=count % 4 == 1)

        compare()
    assert len(met) >= (_FEWEST * len(_SEQUENCES) if IS_WHOLE else _FEWEST)


def _record(sent: _Sent, rules: Rules) -> tuple[bytes | None, tuple[tuple[str, bytes | None], ...]]:
    """Value and headers that say by the rules what was meant, but for the part that is spoiled."""
    meant = {"seq": sent.sequence, "who": sent.producer, "epoch": sent.epoch}
    sources = dict(zip(meant, (rules.sequence, rules.producer, rules.epoch), strict=True))
    headers: dict[str, bytes | None] = {
        role: _encoded(number, source.encoding)
        for role, number in meant.items()
        if (source := sources[role]) is not None and source.form == "header"
    }
    raw = {role: source for role, source in sources.items() if source is not None and source.form in ("value", "bytes")}
    value: bytes | None = json.dumps({**meant, "who": f"p{sent.producer}", "a": "x"}).encode()
    if rules.sequence.form == "value":
        value = _encoded(sent.sequence, rules.sequence.encoding)
    elif raw:
        room = bytearray(17)
        for role, source in raw.items():
            start, end = map(int, source.argument.split(":"))
            room[start:end] = _encoded(meant[role], source.encoding)
        value = bytes(room)
    if sent.spoils == "value":
        value = sent.spoiled
    elif sent.spoils in meant:
        headers[sent.spoils] = sent.spoiled
    elif sent.spoils == "twice":
        return value, (*headers.items(), ("seq", sent.spoiled), *headers.items())
    return value, tuple(headers.items())


def _encoded(number: int, encoding: str) -> bytes:
    return str(number).encode() if encoding == "utf8" else number.to_bytes(_WIDTHS[encoding])


def _compare(spark: SparkSession, run: Run, drawn: _Drawn, *, is_published: bool) -> None:
    rules = drawn.rules
    records = [
        Record(offset, value=value, headers=headers, partition=sent.partition)
        for offset, (sent, (value, headers)) in enumerate(zip(drawn.sent, drawn.records, strict=True))
    ]
    undecodable = _undecodable(spark, records, rules.payload)
    undecodable_policy = rules.payload.undecodable if rules.payload else "accept"
    reference = Reference(late=rules.late, max_jump=rules.max_jump, undecodable=undecodable_policy)
    ledger: list[dict[str, Any]] = []
    for part in (records[: drawn.cut], records[drawn.cut :]):
        seen = [_seen(record, rules, is_undecodable=record.offset in undecodable) for record in part]
        reference.take(seen)
        ledger += _ledger(seen, reference, load_seq=len({row["load_seq"] for row in ledger}) + 1)
        how = {record.offset: "own" if drawn.is_current else drawn.sent[record.offset].ingest for record in part}
        sources = {"own": rules.sources, "other": _OTHER, "none": None}
        parts = [([each for each in part if how[each.offset] == name], read) for name, read in sources.items()]
        put_read(spark, run, [each for each in parts if each[0]])
        create_tables(spark, run, rules)
        steps.load_once(spark, run, rules, way=Way(How.FEW if drawn.is_few else How.ISLANDS))

    names = ("silver_loads", "silver_records", "silver_rejects")
    tables = {name: spark.read.table(run.table(name).sql).toArrow().to_pylist() for name in names}
    assert _by_stream({name: row[name] for name in ledger[0]} for row in tables["silver_loads"]) == _by_stream(ledger)
    kept = {(row["topic"], row["partition"], row["offset"]): row["arrival"] for row in tables["silver_records"]}
    assert kept == reference.silver
    _compare_rejects(tables["silver_rejects"], records, rules, reference, undecodable)
    if is_published:
        policies = {"max_quarantined_share": 1}
        published(spark, run, settings_of(run, policies=policies))
        assert spark.read.table(run.table("gold_records").sql).count() == len(kept)
        require_sound(spark, run, is_deep=True)


def _undecodable(spark: SparkSession, records: list[Record], payload: Payload | None) -> set[int]:
    """The offsets whose values cannot be decoded. Only Spark knows its reader of JSON; what else decides is told literally."""
    if payload is None:
        return set()
    rows = decoded(frame(spark, records), decoding(payload)).where(F.col("undecodable").isNotNull()).select("offset").collect()
    found = {row["offset"] for row in rows}
    for record in records:
        told = readings.decodes(payload, record.value)
        assert told is None or told == (record.offset not in found), record
    return found


def _seen(record: Record, rules: Rules, *, is_undecodable: bool) -> Seen:
    read = (record.value, record.headers, record.offset)
    producer = readings.name(rules.producer, *read) if rules.producer else None
    epoch = readings.number(rules.epoch, *read) if rules.epoch else 0
    sequence = readings.number(rules.sequence, *read)
    is_read = sequence is not None and epoch is not None and (producer is not None or rules.producer is None)
    payload = repr((record.key, record.value))
    return Seen(
        record.topic,
        record.partition,
        record.offset,
        sequence if is_read else None,
        producer,
        epoch or 0,
        payload,
        is_undecodable,
    )


def _ledger(seen: list[Seen], reference: Reference, *, load_seq: int) -> list[dict[str, Any]]:
    """What the ledger says of each stream of a load, after the reference took it."""
    streams = {record.stream for record in seen}
    rows = []
    for stream in streams:
        mine = [record for record in seen if record.stream == stream]
        counts = Counter(reference.classes[record.place] for record in mine)
        epoch, watermark = reference.watermarks.get(stream, (None, None))
        rows.append(
            {
                **dict(zip(("topic", "partition", "producer"), stream, strict=True)),
                "load_seq": load_seq,
                "records": len(mine),
                **{name: counts[name] for name in CLASSES},
                "late_accepted": counts["late"] if reference.late == "accept" else 0,
                "epoch_after": epoch,
                "high_watermark_after": watermark,
                "last_offset": max(record.offset for record in mine),
            }
        )
    return rows


def _by_stream(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: (row["load_seq"], row["partition"], row["producer"] is not None, row["producer"] or ""))


def _compare_rejects(
    rows: list[dict[str, Any]], records: list[Record], rules: Rules, reference: Reference, undecodable: set[int]
) -> None:
    """Every row says of its records what the reference does, and every record that is kept out stands in one row."""
    seen = {record.offset: _seen(record, rules, is_undecodable=record.offset in undecodable) for record in records}
    out = Counter[int]()
    for row in rows:
        spanned = [
            record
            for offset in range(row["first_offset"], row["last_offset"] + 1)
            if (record := seen[offset]).stream == (row["topic"], row["partition"], row["producer"])
        ]
        out.update(record.offset for record in spanned)
        sequences = [record.sequence for record in spanned]
        assert {(reference.classes[each.place], reference.states[each.place]) for each in spanned} == {
            (row["class"], row["state"])
        }
        assert row["records"] == len(spanned) == 1 or (row["records"] == len(spanned) and row["class"] == "duplicate")
        assert (row["first_sequence"], row["last_sequence"]) == (sequences[0], sequences[-1])
        assert len(sequences) == 1 or sequences == sorted(set(sequences), key=lambda number: number or 0)
        assert {record.epoch if record.sequence is not None else None for record in spanned} == {row["epoch"]}
        reason = _reason(records[row["first_offset"]], rules, is_undecodable=row["first_offset"] in undecodable)
        expected = reason if row["class"] == "invalid" else None
        assert row["reason"] == expected or (expected and expected.endswith("_") and row["reason"].startswith(expected)), row
    kept_out = [record.offset for record in records if seen[record.offset].place not in reference.silver]
    assert out == Counter(kept_out)


def _reason(record: Record, rules: Rules, *, is_undecodable: bool) -> str | None:
    """The first role that cannot be read, and why, as far as the reference tells it; else that the value is undecodable."""
    for role, source in rules.sources.by_role.items():
        is_name = role == "producer"
        read = readings.name if is_name else readings.number
        if read(source, record.value, record.headers, record.offset) is None:
            return f"{role}_{readings.problem(source, record.value, record.headers, is_name=is_name)}"
    return "value_undecodable" if is_undecodable else None
