"""Reads the position of a change event that Debezium wrote, in Spark. See `debezium` for what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.extract import debezium, json_strictness, prefix
from lakehouse.extract.debezium import BITS, COMMIT_BITS, NO_NUMBER, PLACE_BITS
from lakehouse.extract.written import at_path
from lakehouse.settings.payload_schema import CORRUPT, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakehouse.extract.written import Written

_TEXT, _PARSED, _DECODED, _PROBLEM = "_text_of_event", "_parsed_event", "_decoded_event", "_problem_of_event"
_ROW, _ENVELOPE = "_row", "_envelope"
_NUMBER, _STRING, _ANY_OBJECT = Type("scalar", "BIGINT"), Type("scalar", "STRING"), "STRUCT<_: STRING>"


def parsed(records: DataFrame, is_event: Sequence[tuple[Written | None, Column]], databases: Sequence[str]) -> DataFrame:
    """Add the columns `steps`: the value's text or decoded value, its problem, its fields, and the parts of its position.

    `is_event` says which records are change events, and how their values are decoded; None for JSON.
    """
    fields = {name: places for database in databases for name, places in debezium.paths(database).items()}
    is_json = _any([F.lit(False), *(is_of for written, is_of in is_event if written is None)])
    decoded = [(written, is_of) for written, is_of in is_event if written is not None]
    found, columns = _of_json(records, is_json, fields)
    if decoded:
        found, others = _of_decoded(found, decoded, fields)
        is_decoded = _any([is_of for _, is_of in decoded])
        columns = {name: F.when(is_decoded, others[name]).otherwise(column) for name, column in columns.items()}
    # Columns, as Spark computes a field of a struct again wherever it is used.
    found = found.withColumns(columns)
    return found.withColumns(
        {name: part for each in databases for name, part in zip(_parts(each), _numbers(each), strict=True)}
    )


def steps(databases: Sequence[str]) -> list[str]:
    """Return the columns that `parsed` adds."""
    fields = (_of(name) for database in databases for name in debezium.paths(database))
    return [_TEXT, _PARSED, _DECODED, _PROBLEM, *fields, *(name for database in databases for name in _parts(database))]


def _of(name: str) -> str:
    return f"_{name}_of_event"


def _parts(database: str) -> list[str]:
    return [f"_{database}_{nth}" for nth, _ in enumerate(COMMIT_BITS[database] + PLACE_BITS[database])]


def _of_json(records: DataFrame, is_event: Column, fields: Mapping[str, Sequence[str]]) -> tuple[DataFrame, dict[str, Column]]:
    value = F.when(is_event, F.col("value"))
    # No JSON begins with a zero byte, as the prefix of a schema registry does.
    text = F.coalesce(prefix.without_prefix(value), value).cast("string")
    places = [place for each in fields.values() for place in each]
    numbers = {place.rpartition(".")[2] for name in debezium.NUMBERS for place in fields.get(name, ())}
    wrapped = (f"payload.{place}" for place in places)
    wanted = at_path(*places, *wrapped, "schema.type", leaf=lambda name: _NUMBER if name in numbers else _STRING)
    # One projection per step, as the next one uses its column more than once.
    found = records.withColumn(_TEXT, text)
    found = found.withColumn(_PARSED, json_strictness.parse_document(F.col(_TEXT), wanted.sql()))
    text, parsed = F.col(_TEXT), F.col(_PARSED)
    # A row may have a column `source` of another type. Then the other fields are read, and the text is parsed again.
    is_object = json_strictness.is_one(parsed) | json_strictness.is_one(json_strictness.parse_document(text, _ANY_OBJECT))
    problem = F.when(text.isNull(), F.lit("null")).when(~is_object, F.lit(json_strictness.NOT_JSON))
    document = json_strictness.document(parsed)
    columns = {
        _of(name): F.when(document["schema"]["type"] == "struct", _first_at(document["payload"], each)).otherwise(
            _first_at(document, each)
        )
        for name, each in fields.items()
    }
    return found, {_PROBLEM: problem, **columns}


def _of_decoded(
    records: DataFrame, is_event: Sequence[tuple[Written, Column]], fields: Mapping[str, Sequence[str]]
) -> tuple[DataFrame, dict[str, Column]]:
    """Decode rows and envelopes apart: a column of a row may be named `source`."""
    value, places = F.col("value"), [place for each in fields.values() for place in each]
    parts = []
    for part in (_ROW, _ENVELOPE):
        wanted = at_path(*(place for place in places if _part(place) == part))
        decoded = F.coalesce(*(F.when(is_of, each.decoder.decode(value, each, wanted)) for each, is_of in is_event))
        parts.append(decoded.alias(part))
    found, event = records.withColumn(_DECODED, F.struct(*parts)), F.col(_DECODED)
    is_decoded = event[_ROW][CORRUPT].isNotNull() | event[_ENVELOPE][CORRUPT].isNotNull()
    problem = F.when(value.isNull(), F.lit("null")).when(~is_decoded, F.lit("not_decoded"))
    texts = {name: _first_at(event, [f"{_part(place)}.{place}" for place in each]) for name, each in fields.items()}
    columns = {_of(name): text.try_cast("bigint") if name in debezium.NUMBERS else text for name, text in texts.items()}
    return found, {_PROBLEM: problem, **columns}


def _part(place: str) -> str:
    return _ROW if place.startswith("__") else _ENVELOPE


def _first_at(struct: Column, places: Sequence[str]) -> Column:
    return F.coalesce(*(reduce(lambda found, name: found.getField(name), place.split("."), struct) for place in places))


def position(database: str) -> Column:
    """Return epoch, sequence and problem of each record as a struct, from `steps`. Numbers with a problem mean nothing."""
    commit_bits, place_bits = COMMIT_BITS[database], PLACE_BITS[database]
    parts = [F.col(name) for name in _parts(database)]
    commit, place = parts[: len(commit_bits)], parts[len(commit_bits) :]
    op, is_snapshot, width = _op(), _is_snapshot(), sum(place_bits)
    problem = F.coalesce(
        F.col(_PROBLEM),
        F.when(op.isNull() | _any([each.isNull() for each in commit]), F.lit(debezium.NO_POSITION))
        .when(~is_snapshot & _any([each.isNull() for each in place]), F.lit(debezium.LACKS[database]))
        .when(
            _any([each == NO_NUMBER for each in commit]) | (~is_snapshot & _any([each == NO_NUMBER for each in place])),
            F.lit(json_strictness.NOT_WHOLE),
        )
        .when(_are_wide(commit, commit_bits) | (~is_snapshot & _are_wide(place, place_bits)), F.lit("out_of_range")),
    )
    low = F.when(is_snapshot, F.col("offset") % 2**width).otherwise(_split(place, place_bits)[1])
    bit = is_snapshot if debezium.SNAPSHOT_BIT[database] else ~is_snapshot
    epoch, sequence = _split([*commit, bit.cast("bigint"), low], [*commit_bits, 1, width])
    return F.struct(epoch.alias("epoch"), sequence.alias("sequence"), problem.alias("problem"))


def _op() -> Column:
    return F.coalesce(F.col(_of("op")), F.when(F.col(_of("connector")).isNotNull(), F.col(_of("op_of_envelope"))))


def _is_snapshot() -> Column:
    return F.coalesce(_op() == "r", F.lit(False)) | (F.coalesce(F.col(_of("snapshot")), F.lit("false")) != "false")


def _numbers(database: str) -> list[Column]:
    """Return the parts of the commit's place and of the place in the transaction, as `debezium._parts`."""
    found = {name: F.col(_of(name)) for name in debezium.paths(database)}
    is_change = (~(F.coalesce(_op() == "d", F.lit(False)) | (F.coalesce(found["deleted"], F.lit("")) == "true"))).cast("bigint")
    if database == "postgres":
        commit, lsn = (_group(found["sequence"], debezium.LSNS, nth) for nth in (1, 2))
        return [F.greatest(commit, lsn), _group(found["total_order"], debezium.DIGITS, 1)]
    if database == "mysql":
        return [_group(found["file"], debezium.FILE, 1), _number(found["pos"]), _number(found["row"]), is_change]
    if database == "mongodb":
        no_transaction = found["total_order"].isNull() & found["txnNumber"].isNull()
        order = F.when(no_transaction, F.lit(0).cast("bigint")).otherwise(_group(found["total_order"], debezium.DIGITS, 1))
        return [_number(found["ts_ms"]), _number(found["ord"]), order]
    of_commit, of_change = (
        [_group(found[name], debezium.LSN_OF_SQLSERVER, nth, base=16) for nth in (1, 2, 3)]
        for name in ("commit_lsn", "change_lsn")
    )
    distance = of_commit[0] - of_change[0]
    most = debezium.MOST_FILES
    file = F.when(distance.isNotNull(), F.when(distance.between(0, most), most - distance).otherwise(F.lit(most + 1)))
    return [*of_commit, file, *of_change[1:], _group(found["event_serial_no"], debezium.DIGITS, 1), is_change]


def _group(text: Column, pattern: str, nth: int, *, base: int = 10) -> Column:
    found = F.regexp_extract(text, rf"\A(?:{pattern})\z", nth)
    digits = found if base == 10 else F.conv(found, base, 10)  # noqa: PLR2004 -- decimal
    return F.when(text.isNotNull(), F.coalesce(digits.try_cast("bigint"), F.lit(NO_NUMBER).cast("bigint")))


def _number(found: Column) -> Column:
    return F.greatest(found, F.when(found < 0, F.lit(NO_NUMBER).cast("bigint")))


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(or_, conditions)


def _are_wide(parts: Sequence[Column], widths: Sequence[int]) -> Column:
    """Whether a part has more bits than its width."""
    return _any([F.lit(False), *(each >= 2**width for each, width in zip(parts, widths, strict=True) if width < BITS)])


def _split(parts: Sequence[Column], widths: Sequence[int]) -> tuple[Column, Column]:
    """Return the upper and the lower 63 bits of parts in a row."""
    halves: tuple[list[Column], list[Column]] = [], []
    at = 0
    for part, width in zip(reversed(parts), reversed(widths), strict=True):
        value = part.cast("bigint")
        if at < BITS:
            fits = BITS - at
            halves[1].append(F.shiftleft(value if width <= fits else value.bitwiseAND(2**fits - 1), at))
        if at + width > BITS:
            halves[0].append(F.shiftleft(value, at - BITS) if at >= BITS else F.shiftright(value, BITS - at))
        at += width
    upper, lower = (reduce(lambda one, other: one.bitwiseOR(other), half, F.lit(0).cast("bigint")) for half in halves)
    return upper, lower
