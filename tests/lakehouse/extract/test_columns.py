"""Every closed form of an extractor: what it reads, and what it says of what it cannot read."""

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LARGEST = 2**63 - 1


def read(spark: SparkSession, sources: Sources, values: list[Any], *, column: str = "value") -> list[tuple[Any, ...]]:
    """What the sources give from each value: producer, epoch, sequence, problem."""
    rows = [{"offset": number, column: value} for number, value in enumerate(values)]
    frame = frames.of_contract(spark, rows, BRONZE)
    found = extract(frame, sources).orderBy("offset").select("producer", "epoch", "sequence", "problem")
    return [tuple(row) for row in found.collect()]


def sequences(spark: SparkSession, source: Source, values: list[Any], *, column: str = "value") -> list[Any]:
    """The sequence of each value, or its problem without the word in front."""
    found = read(spark, Sources(source), values, column=column)
    return [sequence if problem is None else problem.removeprefix("sequence_") for _, _, sequence, problem in found]


def header(*pairs: tuple[str, bytes | None]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs]


def test_digits_are_ascii_only_and_fit_a_long(spark: SparkSession) -> None:
    given = {
        b"0": 0,
        b"007": 7,
        b"0" * 40 + b"5": 5,
        b"%d" % LARGEST: LARGEST,
        b"%d" % (LARGEST + 1): "out_of_range",
        b"9" * 40: "out_of_range",
        b"": "not_a_whole_number",
        b"-1": "not_a_whole_number",
        b"+1": "not_a_whole_number",
        b"1.0": "not_a_whole_number",
        b"1e3": "not_a_whole_number",
        b" 1": "not_a_whole_number",
        b"1\n": "not_a_whole_number",
        "\u0663".encode(): "not_a_whole_number",
        b"\xff\xfe": "not_a_whole_number",
        None: "null",
    }
    assert sequences(spark, Source("value"), list(given)) == list(given.values())


def test_a_header_is_found_by_name_and_a_repeated_one_must_agree(spark: SparkSession) -> None:
    given = [
        (header(("seq", b"1")), 1),
        (header(("a", b"9"), ("seq", b"2"), ("b", b"9")), 2),
        (header(("seq", b"3"), ("a", None), ("seq", b"3")), 3),
        (header(("seq", b"3"), ("seq", b"4")), "disagrees"),
        (header(("seq", b"3"), ("seq", b"03")), "disagrees"),
        (header(("seq", b"3"), ("seq", None)), "disagrees"),
        (header(("seq", None)), "null"),
        (header(("seq", b"")), "not_a_whole_number"),
        (header(("SEQ", b"1")), "missing"),
        (header(("a", b"1"), ("a", b"1")), "missing"),
        (header(), "missing"),
        (None, "missing"),
    ]
    found = sequences(spark, Source("header", "seq"), [headers for headers, _ in given], column="headers")
    assert found == [expected for _, expected in given]


def test_a_json_path_reads_numbers_and_digits_in_text(spark: SparkSession) -> None:
    given = {
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
    }
    assert sequences(spark, Source("json", "$.m.seq"), list(given)) == list(given.values())


def test_big_endian_numbers_have_their_width_and_no_sign(spark: SparkSession) -> None:
    eight = {LARGEST.to_bytes(8): LARGEST, b"\x80" + bytes(7): "out_of_range", bytes(4): "not_a_whole_number", None: "null"}
    four = {(2**31 - 1).to_bytes(4): 2**31 - 1, b"\xff" * 4: "out_of_range", bytes(8): "not_a_whole_number"}

    assert sequences(spark, Source("value", encoding="int64"), list(eight)) == list(eight.values())
    assert sequences(spark, Source("value", encoding="int32"), list(four)) == list(four.values())


@pytest.mark.parametrize("encoding", ["int32", "int64"])
@pytest.mark.parametrize("form", ["header", "value", "bytes"])
def test_bytes_of_any_length_end_in_a_problem_and_never_in_an_error(spark: SparkSession, form: Any, encoding: Any) -> None:
    width = 4 if encoding == "int32" else 8
    source = Source(form, {"header": "x", "value": "", "bytes": f"0:{width}"}[form], encoding)
    sources = Sources(source, producer=source, epoch=source)
    given = [b"", b"\xff" * 9, b"\xff" * 100_000, b"\x80" * width, b"\xff" * width, b"\x00" * (width - 1) + b"\x07"]
    column = "headers" if form == "header" else "value"
    found = read(spark, sources, [header(("x", each)) for each in given] if form == "header" else given, column=column)

    unread = "sequence_missing" if form == "bytes" else "sequence_not_a_whole_number"
    longer = "sequence_out_of_range" if form == "bytes" else "sequence_not_a_whole_number"
    problems = [unread, longer, longer, "sequence_out_of_range", "sequence_out_of_range", None]
    assert [problem for _, _, _, problem in found] == problems
    assert found[-1] == ("7", 7, 7, None)


@pytest.mark.parametrize("encoding", ["utf8", "int32"])
def test_a_producer_that_could_not_be_read_has_no_name(spark: SparkSession, encoding: Any) -> None:
    sources = Sources(Source("offset"), producer=Source("header", "x", encoding))
    four, five = (str(number).encode() if encoding == "utf8" else number.to_bytes(4) for number in (4, 5))
    found = read(spark, sources, [header(("x", four)), header(("x", four), ("x", five))], column="headers")

    assert [(producer, problem) for producer, _, _, problem in found] == [("4", None), (None, "producer_disagrees")]


def test_text_that_is_empty_or_too_long_is_no_name_and_no_number(spark: SparkSession) -> None:
    sources = Sources(Source("offset"), producer=Source("value"))
    given = {
        b"": "producer_empty",
        b"a" * 1_024: None,
        b"a" * 1_025: "producer_too_long",
        b"a" * 3_000_000: "producer_too_long",
    }
    found = read(spark, sources, list(given))

    assert [problem for _, _, _, problem in found] == list(given.values())
    assert [producer is not None and len(producer) for producer, *_ in found] == [False, 1_024, False, False]
    numbers = {b"0" * 1_023 + b"5": 5, b"0" * 1_024 + b"5": "too_long", b"9" * 3_000_000: "too_long"}
    assert sequences(spark, Source("value"), list(numbers)) == list(numbers.values())


def test_a_json_path_is_strict_where_the_sequence_is_read(spark: SparkSession) -> None:
    given = {
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
    }
    assert sequences(spark, Source("json", "$.seq"), list(given)) == list(given.values())
    deep = {
        b'{"m": [{"a b": {"seq-0": 5}}]}': 5,
        b'{"m": [{"a b": {"seq-0": -0}}]}': "not_a_whole_number",
        b'{"m": [{"a b": {"seq-0": 0}}]}': 0,
        b'{"m": [{"a b": {"seq-0": 5}, "a b": 1}]}': "repeated",
        b'{"m": [{"a b": {"seq-0": 5}}], "m": []}': "repeated",
        b'{"m": [{"a b": {"seq-0": 5}}, {"a b": 1}]}': 5,
    }
    assert sequences(spark, Source("json", "$.m[0]['a b'].seq-0"), list(deep)) == list(deep.values())
    beside: dict[bytes | None, int | str] = {
        b'{"k-1": 5, "k-0": 0}': 0,
        b'{"k-1": 5, "k-0": -0}': "not_a_whole_number",
        b'{"a": [-1, -0.5, "\\"-0"], "k-0": 0}': 0,
        b'{"a": [-1, -0.5, "\\"-0"], "k-0":-0}': "not_a_whole_number",
        b'{"a": "' + b"-0 " * 300_000 + b'", "b": [' + b"-0, " * 300_000 + b'0], "k-0": 0}': 0,
    }
    assert sequences(spark, Source("json", "$.k-0"), list(beside)) == list(beside.values())


def test_a_byte_range_that_the_value_does_not_fill_is_missing(spark: SparkSession) -> None:
    given = {b"xx" + (7).to_bytes(4) + b"rest": 7, b"xx" + (8).to_bytes(4): 8, b"xx\x00\x00": "missing", None: "null"}
    assert sequences(spark, Source("bytes", "2:6", "int32"), list(given)) == list(given.values())


def test_the_offset_is_a_sequence_of_its_own(spark: SparkSession) -> None:
    assert sequences(spark, Source("offset"), [b"a", None]) == [0, 1]


def test_the_first_problem_is_told_and_a_producer_that_could_be_read_is_kept(spark: SparkSession) -> None:
    sources = Sources(Source("header", "seq"), producer=Source("header", "who"), epoch=Source("header", "epoch"))
    given = [
        header(("seq", b"1"), ("who", b"a"), ("epoch", b"2")),
        header(("who", b"a"), ("epoch", b"2")),
        header(("seq", b"1"), ("epoch", b"2")),
        header(("seq", b"1"), ("who", b"\xff"), ("epoch", b"2")),
        header(("seq", b"1"), ("who", b"a"), ("epoch", b"x")),
    ]
    assert read(spark, sources, given, column="headers") == [
        ("a", 2, 1, None),
        ("a", None, None, "sequence_missing"),
        (None, None, None, "producer_missing"),
        (None, None, None, "producer_not_utf8"),
        ("a", None, None, "epoch_not_a_whole_number"),
    ]


def test_a_producer_in_binary_is_named_by_its_number(spark: SparkSession) -> None:
    sources = Sources(Source("bytes", "8:16", "int64"), producer=Source("bytes", "0:8", "int64"))
    found = read(spark, sources, [(42).to_bytes(8) + (7).to_bytes(8)])
    assert found == [("42", 0, 7, None)]


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

    assert sequences(spark, Source("custom", "operators_own:tenfold"), [b"4", b"x"]) == [40, "missing"]
    assert sequences(spark, Source("custom", "operators_own:nothing"), [b"4"]) == ["missing"]
    with pytest.raises(ConfigError, match="no columns of bronze_records"):
        sequences(spark, Source("custom", "operators_own:unknown"), [b"4"])
    with pytest.raises(ConfigError, match="cannot be imported"):
        sequences(spark, Source("custom", "operators_own:absent"), [b"4"])
