"""Every closed form of an extractor: what it reads, and what it says of what it cannot read. All cases are one Spark job."""

import re
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.errors import ConfigError
from lakehouse.extract.columns import extract
from lakehouse.extract.sources import Source, Sources
from lakehouse.spark import frames
from tests.support.decodings import extracted

LARGEST = 2**63 - 1
Given = bytes | tuple[tuple[str, bytes | None], ...] | None  # a value, or headers


def read(spark: SparkSession, cases: Sequence[tuple[Sources, Sequence[Given]]]) -> list[list[tuple[Any, ...]]]:
    """What each sources read from each of its records: producer, epoch, sequence, problem. Each is a topic of its own."""
    rows: list[dict[str, Any]] = []
    for nth, (_, given) in enumerate(cases):
        for offset, each in enumerate(given):
            value, headers = (None, each) if isinstance(each, tuple) else (each, None)
            pairs = None if headers is None else [{"key": key, "value": text} for key, text in headers]
            rows.append({"topic": f"t{nth}", "offset": offset, "value": value, "headers": pairs})
    own = tuple((f"t{nth}", sources) for nth, (sources, _) in enumerate(cases))
    found = extract(frames.of_contract(spark, rows, BRONZE), Sources(Source("offset"), own=own))
    read_of = found.select("topic", "offset", "producer", "epoch", "sequence", "problem").collect()
    by_place = {(row[0], row[1]): tuple(row[2:]) for row in read_of}
    return [[by_place[f"t{nth}", offset] for offset, _ in enumerate(given)] for nth, (_, given) in enumerate(cases)]


# What each source reads as the sequence, or the problem without the word in front; and where it does.
SEQUENCES: dict[Source, dict[int | str, list[Given]]] = {
    Source("value"): {
        0: [b"0"],
        7: [b"007"],
        5: [b"0" * 40 + b"5", b"0" * 1_023 + b"5"],
        LARGEST: [b"%d" % LARGEST],
        "out_of_range": [b"%d" % (LARGEST + 1), b"9" * 40],
        "not_a_whole_number": [b"", b"-1", b"+1", b"1.0", b"1e3", b" 1", b"1\n", "\u0663".encode(), b"\xff\xfe"],
        "too_long": [b"0" * 1_024 + b"5", b"9" * 3_000_000],
        "null": [None],
    },
    Source("header", "seq"): {
        1: [(("seq", b"1"),)],
        2: [(("a", b"9"), ("seq", b"2"), ("b", b"9"))],
        3: [(("seq", b"3"), ("a", None), ("seq", b"3"))],
        "disagrees": [(("seq", b"3"), ("seq", each)) for each in (b"4", b"03", None)],
        "null": [(("seq", None),)],
        "not_a_whole_number": [(("seq", b""),)],
        "missing": [(("SEQ", b"1"),), (("a", b"1"), ("a", b"1")), (), None],
    },
    Source("value", encoding="int64"): {
        LARGEST: [LARGEST.to_bytes(8)],
        "out_of_range": [b"\x80" + bytes(7)],
        "not_a_whole_number": [bytes(4), b"", b"\xff" * 9, b"\xff" * 100_000],
        "null": [None],
    },
    Source("value", encoding="int32"): {
        2**31 - 1: [(2**31 - 1).to_bytes(4)],
        "out_of_range": [b"\xff" * 4],
        "not_a_whole_number": [bytes(8)],
    },
    Source("bytes", "2:6", "int32"): {
        7: [b"xx" + (7).to_bytes(4) + b"rest"],
        8: [b"xx" + (8).to_bytes(4)],
        "out_of_range": [b"\xff" * 100_000],
        "missing": [b"xx\0\0", b""],
        "null": [None],
    },
    Source("offset"): {0: [b"a"], 1: [None]},
    Source("json", "$.m.seq"): {
        5: [b'{"m": {"seq": 5}}'],
        6: [b'{"m": {"seq": "6"}}'],
        12345678901234567: [b'{"m": {"seq": 12345678901234567}}'],
        "not_a_whole_number": [b'{"m": {"seq": 1.5}}', b'{"m": {"seq": -5}}'],
        "missing": [b'{"m": {"seq": null}}', b'{"m": 5}', b"{}", b"[]", b"null", b'"text"', b'[{"m": {"seq": 5}}]'],
        "not_json": [
            b'{"m": {"seq": ' + b"7" * 2000 + b"}}",  # more digits than a JSON number may have
            *(b'{"m": {"seq"', b"", b" ", b"1}", b"[1]}", b'{"m": {"seq": 5}, "n": ' + b"7" * 2000 + b"}"),
        ],
        "not_utf8": [b"\xff", b'{"m": {"seq": 5}, "s": "\xff"}'],
        "null": [None],
    },
    Source("json", "$.seq"): {
        5: [
            *(b'{"seq": 5} ', b' {"seq": 5}\n', b'{"s\\u0065q": 5}', b'{"seq": "5"}', b'{"seq": 5, "bomb": 1e32000000}'),
            *(b'{"seq": 5, "s": "it\'s"}', b'{"seq": 5, "s": "\\"seq\\": -0"}'),
        ],
        0: [b'{"seq": 0, "day": "2026-01-02"}'],
        "missing": [b'[{"seq": 5}]', b'"{\\"seq\\": 5}"'],
        2: [b'{"old": {"seq": 1}, "seq": 2}', b'{"is": "seq", "seq": 2, "in": [{"seq": 3}]}'],
        "not_a_whole_number": [b'{"seq": 1e32000000}', b'{"seq": -0}', b'{"seq": -0, "s": "it\'s"}'],
        "too_long": [b'{"seq": "' + b"9" * 2_000 + b'"}'],
        "not_json": [
            *(b"{'seq': 5}", b"{\"seq\": 5, 's': 1}", b'{"seq": 5} x', b'{"seq": 5}{"seq": 6}', b'{"seq": 5}, {"seq": 6}'),
            *(b'{"seq": 5}] {}', b'{"seq": 5}], {"a": [1}', b'{"seq": 5}\x00', b'{"seq": 5}],"v":[{"seq": 6}'),
            *(b'{"seq": 007}', b'{"seq": +5}', b'{"seq": NaN}', b'{"seq": 5,}', b'{"seq": 5', b'\xef\xbb\xbf{"seq": 5}'),
            *(b"[" * 100_000, b'{"seq": 5, "s": "\x01"}', b'{"seq": 5, "s": "\n"}', b'{"seq": 5, "s": "\\ud800"}'),
            b'"{\\"seq\\": 5}',
        ],
        "repeated": [
            *(b'{"seq": 5, "seq": 6}', b'{"seq": 5, "seq": 5}', b'{"seq": 5, "s\\u0065q": 6}'),
            b'{"seq": 5, "seq": 6, "seq": 5}',
        ],
    },
    Source("json", "$.m[0]['a b'].seq-0"): {
        5: [b'{"m": [{"a b": {"seq-0": 5}}]}', b'{"m": [{"a b": {"seq-0": 5}}, {"a b": 1}]}'],
        0: [b'{"m": [{"a b": {"seq-0": 0}}]}'],
        "not_a_whole_number": [b'{"m": [{"a b": {"seq-0": -0}}]}'],
        "repeated": [b'{"m": [{"a b": {"seq-0": 5}, "a b": 1}]}', b'{"m": [{"a b": {"seq-0": 5}}], "m": []}'],
    },
    Source("json", "$.k-0"): {
        0: [
            *(b'{"k-1": 5, "k-0": 0}', b'{"a": [-1, -0.5, "\\"-0"], "k-0": 0}'),
            b'{"a": "' + b"-0 " * 300_000 + b'", "b": [' + b"-0, " * 300_000 + b'0], "k-0": 0}',
        ],
        "not_a_whole_number": [b'{"k-1": 5, "k-0": -0}', b'{"a": [-1, -0.5, "\\"-0"], "k-0":-0}'],
    },
}


WHO = Sources(Source("header", "seq"), producer=Source("header", "who"), epoch=Source("header", "epoch"))
NUMBERED = Sources(Source("bytes", "8:16", "int64"), producer=Source("bytes", "0:8", "int64"))
# What is read in all roles: producer, epoch, sequence, problem.
RECORDS: dict[Sources, dict[Any, list[Given]]] = {
    WHO: {
        ("a", 2, 1, None): [(("seq", b"1"), ("who", b"a"), ("epoch", b"2"))],
        ("a", None, None, "sequence_missing"): [(("who", b"a"), ("epoch", b"2"))],
        (None, None, None, "producer_missing"): [(("seq", b"1"), ("epoch", b"2"))],
        (None, None, None, "producer_not_utf8"): [(("seq", b"1"), ("who", b"\xff"), ("epoch", b"2"))],
        ("a", None, None, "epoch_not_a_whole_number"): [(("seq", b"1"), ("who", b"a"), ("epoch", b"x"))],
    },
    NUMBERED: {("42", 0, 7, None): [(42).to_bytes(8) + (7).to_bytes(8)]},
    Sources(Source("offset"), producer=Source("header", "x")): {
        ("4", 0, 0, None): [(("x", b"4"),)],
        (None, None, None, "producer_disagrees"): [(("x", b"4"), ("x", b"5"))],
    },
    Sources(Source("offset"), producer=Source("header", "x", "int32")): {
        ("4", 0, 0, None): [(("x", bytes(3) + b"\4"),)],
        (None, None, None, "producer_disagrees"): [(("x", bytes(3) + b"\4"), ("x", bytes(3) + b"\5"))],
    },
    Sources(Source("offset"), producer=Source("json", "$.p")): {
        ("10.50", 0, 0, None): [b'{"p": "10.50"}'],
        ("7", 0, 1, None): [b'{"p": 7}'],
        ("true", 0, 2, None): [b'{"p": true}'],
        (None, None, None, "producer_not_text"): [
            *(b'{"p": 10.50}', b'{"p": 0.1234567890123456789}', b'{"p": 1e2}', b'{"p": 1e400}', b'{"p": {"a": 1}}'),
            b'{"p": []}',
        ],
        (None, None, None, "producer_not_utf8"): [b'{"p": "\xff"}', b'{"p": "\xfe"}'],
        (None, None, None, "producer_not_a_whole_number"): [b'{"p": -0}'],
        (None, None, None, "producer_not_json"): [b'{"p": "\\ud800"}', b'{"p": "a"} more'],
    },
    Sources(Source("offset"), producer=Source("value")): {
        ("a" * 1_024, 0, 0, None): [b"a" * 1_024],
        (None, None, None, "producer_empty"): [b""],
        (None, None, None, "producer_too_long"): [b"a" * 1_025, b"a" * 3_000_000],
    },
}


def test_each_source_reads_a_number_or_a_name_or_says_why_there_is_none(spark: SparkSession) -> None:
    """The first role that cannot be read names the problem."""
    cases: dict[Sources, dict[Any, list[Given]]] = {Sources(source): given for source, given in SEQUENCES.items()} | RECORDS
    found = read(spark, [(sources, [each for of in given.values() for each in of]) for sources, given in cases.items()])
    for (sources, given), rows in zip(cases.items(), found, strict=True):
        sequences = [row[2] if row[3] is None else row[3].removeprefix("sequence_") for row in rows]
        assert (rows if sources in RECORDS else sequences) == [outcome for outcome, of in given.items() for _ in of], sources


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


def test_the_page_makes_one_number_of_two(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "sequence.md").read_text(encoding="utf-8")
    [(name, code)] = re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    [function] = re.findall(r'^sequence: \{custom: "([^"]+)"\}$', page, re.MULTILINE)
    given: dict[bytes | None, int | str] = {
        b'{"commit": 7, "row": 3}': 7 * 2**20 + 3,
        b'{"commit": %d, "row": %d}' % (2**43 - 1, 2**20 - 1): LARGEST,
        **dict.fromkeys((b'{"commit": 7}', b'{"commit": 7, "row": 1048576}', b'{"commit": -1, "row": 0}'), "sequence_missing"),
        **dict.fromkeys((b'{"commit": 9223372036854775808, "row": 0}', b"\xff", b"", None), "sequence_missing"),
    }
    found = extracted(spark, Sources(Source("custom", function)), list(given))
    assert [problem or sequence for _, _, sequence, problem in found] == list(given.values())
