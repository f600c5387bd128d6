"""Every closed form of an extractor: what it reads, and what it says of what it cannot read. All cases are one Spark job."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.errors import ConfigError
from lakehouse.extract.columns import extract
from lakehouse.extract.sources import Source, Sources
from lakehouse.spark import frames
from tests.support.decodings import extracted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LARGEST = 2**63 - 1
Given = bytes | tuple[tuple[str, bytes | None], ...] | None
"""A value, or headers."""


def read(spark: SparkSession, cases: Sequence[tuple[Sources, Sequence[Given]]]) -> list[list[tuple[Any, ...]]]:
    """What each sources read from each of its records: producer, epoch, sequence, problem. Each is a topic of its own."""
    rows, own = [], []
    for nth, (sources, given) in enumerate(cases):
        own.append((f"t{nth}", sources))
        for offset, each in enumerate(given):
            has_headers = isinstance(each, tuple)
            headers = [{"key": key, "value": value} for key, value in each] if isinstance(each, tuple) else None
            rows.append({"topic": f"t{nth}", "offset": offset, "value": None if has_headers else each, "headers": headers})
    frame = frames.of_contract(spark, rows, BRONZE)
    found = extract(frame, Sources(Source("offset"), own=tuple(own)))
    by_place = {
        (row[0], row[1]): tuple(row[2:])
        for row in found.select("topic", "offset", "producer", "epoch", "sequence", "problem").collect()
    }
    return [[by_place[f"t{nth}", offset] for offset, _ in enumerate(given)] for nth, (_, given) in enumerate(cases)]


# What each source reads as the sequence, or the problem without the word in front.
SEQUENCES: dict[Source, dict[Any, int | str]] = {
    Source("value"): {
        b"0": 0,
        b"007": 7,
        b"0" * 40 + b"5": 5,
        b"%d" % LARGEST: LARGEST,
        **dict.fromkeys((b"%d" % (LARGEST + 1), b"9" * 40), "out_of_range"),
        **dict.fromkeys(
            (b"", b"-1", b"+1", b"1.0", b"1e3", b" 1", b"1\n", "\u0663".encode(), b"\xff\xfe"), "not_a_whole_number"
        ),
        b"0" * 1_023 + b"5": 5,
        b"0" * 1_024 + b"5": "too_long",
        b"9" * 3_000_000: "too_long",
        None: "null",
    },
    Source("header", "seq"): {
        (("seq", b"1"),): 1,
        (("a", b"9"), ("seq", b"2"), ("b", b"9")): 2,
        (("seq", b"3"), ("a", None), ("seq", b"3")): 3,
        **dict.fromkeys(((("seq", b"3"), ("seq", each)) for each in (b"4", b"03", None)), "disagrees"),
        (("seq", None),): "null",
        (("seq", b""),): "not_a_whole_number",
        **dict.fromkeys(((("SEQ", b"1"),), (("a", b"1"), ("a", b"1")), (), None), "missing"),
    },
    Source("value", encoding="int64"): {
        LARGEST.to_bytes(8): LARGEST,
        b"\x80" + bytes(7): "out_of_range",
        bytes(4): "not_a_whole_number",
        None: "null",
    },
    Source("value", encoding="int32"): {
        (2**31 - 1).to_bytes(4): 2**31 - 1,
        b"\xff" * 4: "out_of_range",
        bytes(8): "not_a_whole_number",
    },
    Source("bytes", "2:6", "int32"): {
        b"xx" + (7).to_bytes(4) + b"rest": 7,
        b"xx" + (8).to_bytes(4): 8,
        b"xx\0\0": "missing",
        None: "null",
    },
    Source("offset"): {b"a": 0, None: 1},
    Source("json", "$.m.seq"): {
        b'{"m": {"seq": 5}}': 5,
        b'{"m": {"seq": "6"}}': 6,
        b'{"m": {"seq": 12345678901234567}}': 12345678901234567,
        b'{"m": {"seq": 1.5}}': "not_a_whole_number",
        b'{"m": {"seq": -5}}': "not_a_whole_number",
        b'{"m": {"seq": ' + b"7" * 2000 + b"}}": "missing",  # more digits than a JSON number may have: unreadable
        b'{"m": {"seq": null}}': "missing",
        b'{"m": 5}': "missing",
        b'{"m": {"seq"': "missing",
        b"\xff": "missing",
        None: "null",
    },
    Source("json", "$.seq"): {
        b'{"seq": 5} ': 5,
        b' {"seq": 5}\n': 5,
        b'{"seq": 5, "s": "it\'s"}': 5,
        b'{"seq": 5, "s": "\\"seq\\": -0"}': 5,
        b'{"seq": 0, "day": "2026-01-02"}': 0,
        b'{"old": {"seq": 1}, "seq": 2}': 2,
        b'{"is": "seq", "seq": 2, "in": [{"seq": 3}]}': 2,
        b'{"s\\u0065q": 5}': 5,
        b'{"seq": "5"}': 5,
        b'{"seq": 5, "bomb": 1e32000000}': 5,
        b'{"seq": 1e32000000}': "not_a_whole_number",
        b'{"seq": "' + b"9" * 2_000 + b'"}': "too_long",
        b'{"seq": -0}': "not_a_whole_number",
        b'{"seq": -0, "s": "it\'s"}': "not_a_whole_number",
        b"{'seq': 5}": "not_json",
        b"{\"seq\": 5, 's': 1}": "not_json",
        b'{"seq": 5} x': "not_json",
        b'{"seq": 5}{"seq": 6}': "not_json",
        b'{"seq": 5}, {"seq": 6}': "not_json",
        b'{"seq": 5}] {}': "not_json",
        b'{"seq": 5}], {"a": [1}': "not_json",
        b'{"seq": 5}\x00': "not_json",
        b'{"seq": 5, "seq": 6}': "repeated",
        b'{"seq": 5, "seq": 5}': "repeated",
        b'{"seq": 5, "s\\u0065q": 6}': "repeated",
        b'{"seq": 5, "seq": 6, "seq": 5}': "repeated",
        b'{"seq": 007}': "missing",
        b'{"seq": +5}': "missing",
        b'{"seq": NaN}': "missing",
        b'{"seq": 5,}': "missing",
        b'{"seq": 5': "missing",
        b'\xef\xbb\xbf{"seq": 5}': "missing",
        b"[" * 100_000: "missing",
    },
    Source("json", "$.m[0]['a b'].seq-0"): {
        b'{"m": [{"a b": {"seq-0": 5}}]}': 5,
        b'{"m": [{"a b": {"seq-0": -0}}]}': "not_a_whole_number",
        b'{"m": [{"a b": {"seq-0": 0}}]}': 0,
        b'{"m": [{"a b": {"seq-0": 5}, "a b": 1}]}': "repeated",
        b'{"m": [{"a b": {"seq-0": 5}}], "m": []}': "repeated",
        b'{"m": [{"a b": {"seq-0": 5}}, {"a b": 1}]}': 5,
    },
    Source("json", "$.k-0"): {
        b'{"k-1": 5, "k-0": 0}': 0,
        b'{"k-1": 5, "k-0": -0}': "not_a_whole_number",
        b'{"a": [-1, -0.5, "\\"-0"], "k-0": 0}': 0,
        b'{"a": [-1, -0.5, "\\"-0"], "k-0":-0}': "not_a_whole_number",
        b'{"a": "' + b"-0 " * 300_000 + b'", "b": [' + b"-0, " * 300_000 + b'0], "k-0": 0}': 0,
    },
}


def test_each_source_reads_a_whole_number_or_says_why_there_is_none(spark: SparkSession) -> None:
    found = read(spark, [(Sources(source), list(given)) for source, given in SEQUENCES.items()])
    for (source, given), rows in zip(SEQUENCES.items(), found, strict=True):
        outcomes = [row[2] if row[3] is None else row[3].removeprefix("sequence_") for row in rows]
        assert dict(zip(given, outcomes, strict=True)) == given, source


def in_every_role(form: Any, encoding: Any) -> Sources:
    """Sequence, producer and epoch, all read from the same four or eight bytes."""
    source = Source(form, {"header": "x", "value": "", "bytes": f"0:{4 if encoding == 'int32' else 8}"}[form], encoding)
    return Sources(source, producer=source, epoch=source)


def test_bytes_of_any_length_end_in_a_problem_and_never_in_an_error(spark: SparkSession) -> None:
    cases: list[tuple[Sources, list[Given]]] = []
    for form in ("header", "value", "bytes"):
        for encoding, width in (("int32", 4), ("int64", 8)):
            given = [b"", b"\xff" * 9, b"\xff" * 100_000, b"\x80" * width, b"\xff" * width, b"\0" * (width - 1) + b"\x07"]
            headers: list[Given] = [(("x", each),) for each in given]
            cases.append((in_every_role(form, encoding), headers if form == "header" else [*given]))

    for (sources, _), rows in zip(cases, read(spark, cases), strict=True):
        is_cut = sources.sequence.form == "bytes"
        longer = "sequence_out_of_range" if is_cut else "sequence_not_a_whole_number"
        unread = "sequence_missing" if is_cut else "sequence_not_a_whole_number"
        assert [row[3] for row in rows] == [unread, longer, longer, *["sequence_out_of_range"] * 2, None], sources
        assert rows[-1] == ("7", 7, 7, None)


WHO = Sources(Source("header", "seq"), producer=Source("header", "who"), epoch=Source("header", "epoch"))
NUMBERED = Sources(Source("bytes", "8:16", "int64"), producer=Source("bytes", "0:8", "int64"))
# What is read in all roles: producer, epoch, sequence, problem.
RECORDS: dict[Sources, dict[Any, tuple[Any, ...]]] = {
    WHO: {
        (("seq", b"1"), ("who", b"a"), ("epoch", b"2")): ("a", 2, 1, None),
        (("who", b"a"), ("epoch", b"2")): ("a", None, None, "sequence_missing"),
        (("seq", b"1"), ("epoch", b"2")): (None, None, None, "producer_missing"),
        (("seq", b"1"), ("who", b"\xff"), ("epoch", b"2")): (None, None, None, "producer_not_utf8"),
        (("seq", b"1"), ("who", b"a"), ("epoch", b"x")): ("a", None, None, "epoch_not_a_whole_number"),
    },
    NUMBERED: {(42).to_bytes(8) + (7).to_bytes(8): ("42", 0, 7, None)},
    Sources(Source("offset"), producer=Source("header", "x")): {
        (("x", b"4"),): ("4", 0, 0, None),
        (("x", b"4"), ("x", b"5")): (None, None, None, "producer_disagrees"),
    },
    Sources(Source("offset"), producer=Source("header", "x", "int32")): {
        (("x", bytes(3) + b"\4"),): ("4", 0, 0, None),
        (("x", bytes(3) + b"\4"), ("x", bytes(3) + b"\5")): (None, None, None, "producer_disagrees"),
    },
    Sources(Source("offset"), producer=Source("value")): {
        b"a" * 1_024: ("a" * 1_024, 0, 0, None),
        b"": (None, None, None, "producer_empty"),
        **dict.fromkeys((b"a" * 1_025, b"a" * 3_000_000), (None, None, None, "producer_too_long")),
    },
}


def test_the_producer_is_read_with_the_sequence_and_the_first_problem_is_told(spark: SparkSession) -> None:
    found = read(spark, [(sources, list(given)) for sources, given in RECORDS.items()])
    for (sources, given), rows in zip(RECORDS.items(), found, strict=True):
        assert dict(zip(given, rows, strict=True)) == given, sources


def test_a_custom_extractor_takes_bronzes_columns_by_name(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def tenfold(value: Column) -> Column:
        return value.cast("string").try_cast("bigint") * 10

    def unknown(sequence: Column) -> Column:
        return sequence

    module = types.ModuleType("operators_own")
    monkeypatch.setitem(sys.modules, "operators_own", module)
    monkeypatch.setattr(module, "tenfold", tenfold, raising=False)
    monkeypatch.setattr(module, "unknown", unknown, raising=False)
    monkeypatch.setattr(module, "nothing", lambda: F.lit(None), raising=False)

    def sequences(function: str) -> list[Any]:
        found = extracted(spark, Sources(Source("custom", f"operators_own:{function}")), [b"4", b"x"])
        return [problem or sequence for _, _, sequence, problem in found]

    assert sequences("tenfold") == [40, "sequence_missing"]
    assert sequences("nothing") == ["sequence_missing"] * 2
    with pytest.raises(ConfigError, match="no columns of bronze_records"):
        sequences("unknown")
    with pytest.raises(ConfigError, match="cannot be imported"):
        sequences("absent")
