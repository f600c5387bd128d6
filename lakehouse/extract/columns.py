"""Extractors: read sequence, producer and epoch with the Column API, or the reason for a failure.

Every form yields a value or one problem, never an error. No record of a producer can stop a load.
Digits are ASCII 0-9 only; a sequence and an epoch are whole numbers from 0 to 2^63-1.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE, EXTRACTED, FINGERPRINT
from lakehouse.errors import ConfigError
from lakehouse.extract import debezium_columns, json_strictness, per_topic, prefix
from lakehouse.extract.on_driver import MOST_BYTES
from lakehouse.extract.written import at_path
from lakehouse.settings import payload_schema
from lakehouse.settings.extractor import IN_VALUE, ROLES, WIDTHS, Encoding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.extract.sources import Source, Sources
    from lakehouse.extract.written import Written

MISSING = "missing"
NULL = "null"
DISAGREES = "disagrees"
EMPTY = "empty"
TOO_LONG = "too_long"
OUT_OF_RANGE = "out_of_range"
NOT_DECODED = "not_decoded"

_OF_KAFKA = tuple(name for name in BRONZE.names if name not in (*EXTRACTED, FINGERPRINT))
"""The columns that a custom extractor may name."""
_IN_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_DIGITS = r"\A[0-9]+\z"  # not ^...$: Java's $ also matches before a last line feed
_BIGINT_BYTES = WIDTHS["int64"]

_Pair = tuple[Column, Column]
"""A value, and the problem: null if the value could be read."""


def extract(records: DataFrame, sources: Sources, *, is_ingest: bool = False) -> DataFrame:
    """Read producer, epoch, sequence and problem from each record's bytes. Grain: a record, as given.

    Rows need the columns of `columns_read`, and `topic` if some topics have their own sources. Added are `producer` (string),
    `epoch` and `sequence` (bigint; null if there is a problem) and `problem` (string; the first role that could not be read and
    why, such as `sequence_missing`). With `is_ingest` they are null for topics that Bronze leaves to Silver. A custom extractor
    raises as `imported`.
    """
    ways = [each for each, _ in sources.kinds]
    here = [nth for nth, each in enumerate(ways) if not (is_ingest and each.is_left_to_silver)]
    roles = {role: cases for role in ROLES if (cases := _cases(ways, here, role))}
    given = per_topic.numbered(records, [topics for _, topics in sources.kinds])
    # One projection per step: the next step uses its columns more than once, and Spark then computes them only once.
    slots = _slots(roles)
    events = [each for each in roles.get("sequence", ()) if each.source.form == "debezium"]
    is_event = [(each.written, per_topic.is_of(each.kinds, each.of)) for each in events]
    databases = sorted({each.source.argument for each in events})
    found = debezium_columns.parsed(given, is_event, databases) if events else given
    found = found.withColumns(slots)
    raw = found.withColumns(_values_and_problems(roles, _raw))
    encoded = {role: _by_encoding(cases) for role, cases in roles.items()}
    whole = raw.withColumns(
        {f"_whole_{role}": _of_kind([(each, _whole(each)) for each in cases]) for role, cases in encoded.items()}
    )
    read = whole.withColumns(_values_and_problems(encoded, _read))
    problem = F.coalesce(
        *(F.concat(F.lit(f"{role}_"), F.col(f"_problem_{role}")) for role in roles), F.lit(None).cast("string")
    )
    is_read = F.col("problem").isNull() & per_topic.is_of(here, len(ways))
    zero, with_epoch = F.lit(0).cast("bigint"), [nth for nth in here if ways[nth].epoch]
    epoch = F.when(per_topic.is_of(with_epoch, len(ways)), F.col("_value_epoch")).otherwise(zero) if with_epoch else zero
    return (
        read.withColumn("problem", problem)
        .withColumns(
            {
                "producer": F.col("_value_producer") if "producer" in roles else F.lit(None).cast("string"),
                "epoch": F.when(is_read, epoch),
                "sequence": F.when(is_read, F.col("_value_sequence")),
            }
        )
        .drop(
            *(f"_{step}_{role}" for step in ("whole", "value", "problem") for role in roles),
            *slots,
            *debezium_columns.steps(databases),
            per_topic.KIND,
        )
    )


@dataclass(frozen=True)
class _Case:
    """A source of a role, for some kinds of topics. `of` is the number of all kinds."""

    source: Source
    written: Written | None
    role: str
    kinds: tuple[int, ...]
    of: int

    @property
    def slot(self) -> str:
        """The column that the form reads from. JSON and headers share one for all kinds, Debezium's epoch and sequence one."""
        if self.source.form in ("debezium", "debezium_epoch"):
            return f"_found_{self.source.argument}_{self.kinds[0]}"
        shared = {"header": "header", "json": "json", "prefixed_json": "json"}.get(self.source.form, str(self.kinds[0]))
        return f"_found_{self.role}_{shared}"


def _cases(ways: Sequence[Sources], here: Sequence[int], role: str) -> list[_Case]:
    """Return the different sources of a role, each with its kinds of topics."""
    found: dict[tuple[Source, Written | None], list[int]] = {}
    for nth in here:
        if (source := ways[nth].by_role.get(role)) is not None:
            written = ways[nth].written if source.form == "field" else ways[nth].decoded_event
            found.setdefault((source, written), []).append(nth)
    return [_Case(source, written, role, tuple(nths), len(ways)) for (source, written), nths in found.items()]


def _by_encoding(cases: Sequence[_Case]) -> list[_Case]:
    found: dict[str, _Case] = {}
    for each in cases:
        before = found.get(each.source.encoding)
        found[each.source.encoding] = replace(each, kinds=(*(before.kinds if before else ()), *each.kinds))
    return list(found.values())


def _of_kind(values: Sequence[tuple[_Case, Column]]) -> Column:
    return per_topic.of_kind([(each.kinds, value) for each, value in values], values[0][0].of)


def _values_and_problems(roles: Mapping[str, Sequence[_Case]], read: Callable[[_Case], _Pair]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for role, cases in roles.items():
        pairs = [(each, *read(each)) for each in cases]
        found[f"_value_{role}"] = _of_kind([(each, value) for each, value, _ in pairs])
        found[f"_problem_{role}"] = _of_kind([(each, problem.cast("string")) for each, _, problem in pairs])
    return found


def _slots(roles: Mapping[str, Sequence[_Case]]) -> dict[str, Column]:
    found: dict[str, list[tuple[_Case, Column]]] = {}
    for each in (case for cases in roles.values() for case in cases if case.source.form not in ("value", "bytes")):
        found.setdefault(each.slot, []).append((each, _found(each.source, each.written)))
    return {slot: _of_kind(values) for slot, values in found.items()}


def fingerprint(sources: Sources) -> Column:
    """Return the fingerprint of the sources that a record is read by; null if Bronze does not read it."""
    texts = [(topics, None if each.is_left_to_silver else each.fingerprint) for each, topics in sources.kinds]
    return per_topic.by_topic([(topics, F.lit(text).cast("string")) for topics, text in texts])


def columns_read(sources: Sources) -> list[str]:
    """Return the columns of a record that `extract` reads, except topic, partition and offset.

    >>> from lakehouse.extract.sources import Source, Sources
    >>> columns_read(Sources(Source("header", "seq"), producer=Source("json", "$.p")))
    ['headers', 'value']
    """
    read = {name for each, _ in sources.kinds for source in each.by_role.values() for name in _reads(source)}
    return sorted(read - {"topic", "partition", "offset"})


def _reads(source: Source) -> list[str]:
    if source.form == "custom":
        return list(inspect.signature(imported(source.argument, where=source.argument)).parameters)
    if source.form == "header":
        return ["headers"]
    return ["value"] if source.form in IN_VALUE else []


def _found(source: Source, written: Written | None) -> Column:
    """Return the input of the form: headers' keys, a whole column, the JSON or field at a path, or a function's result."""
    match source.form:
        case "header":
            # No lambda function: with a single one Spark does not compile the projection.
            return F.col("headers")["key"]
        case "json" | "prefixed_json":
            return F.get_json_object(_text(source), source.argument)
        case "field":
            if written is None:
                raise ConfigError("A field is read from values without a format.", where="value")
            return written.decoder.decode(F.col("value"), written, at_path(source.argument))
        case "debezium" | "debezium_epoch":
            return debezium_columns.position(source.argument)
        case "custom":
            return imported(source.argument, where=source.argument)(*map(F.col, _reads(source)))
        case "offset" | "value" | "bytes":
            return F.col(source.form)


def _raw(case: _Case) -> _Pair:  # noqa: PLR0911 -- one for each form
    source, value, at_path = case.source, F.col("value"), F.col(case.slot)
    match source.form:
        case "header":
            return _header(source.argument, at_path)
        case "value":
            return value, F.when(value.isNull(), F.lit(NULL))
        case "json" | "prefixed_json":
            is_name = case.role == "producer" and source.encoding == "utf8"
            unsure = json_strictness.problem(_text(source), source.argument, at_path, is_name=is_name)
            no_text = F.when(value.isNull(), F.lit(NULL)).when(_text(source).isNull(), F.lit(MISSING))
            return at_path.cast("binary"), F.coalesce(no_text, unsure)
        case "field":
            at_field = reduce(lambda struct, name: struct.getField(name), source.argument.split("."), at_path)
            is_decoded = at_path.getField(payload_schema.CORRUPT).isNotNull()
            problem = F.when(value.isNull(), F.lit(NULL)).when(~is_decoded, F.lit(NOT_DECODED))
            return at_field.cast("binary"), problem.when(at_field.isNull(), F.lit(MISSING))
        case "debezium" | "debezium_epoch":
            number = at_path.getField("sequence" if source.form == "debezium" else "epoch")
            return number.cast("string").cast("binary"), at_path.getField("problem")
        case "bytes":
            start, end = (int(bound) for bound in source.argument.split(":"))
            problem = F.when(value.isNull(), F.lit(NULL)).when(F.octet_length(value) < end, F.lit(MISSING))
            return F.substring(value, start + 1, end - start), problem
        case "offset" | "custom":
            text = at_path.cast("string")
            return text.cast("binary"), F.when(text.isNull(), F.lit(MISSING))


def _text(source: Source) -> Column:
    value = F.col("value")
    return (prefix.without_prefix(value) if source.form == "prefixed_json" else value).cast("string")


def _header(name: str, keys: Column) -> _Pair:
    """Return a header's value; the values of a repeated header must be equal."""
    headers, nth = F.col("headers"), F.array_position(keys, name)
    value = F.get(headers, (nth - 1).cast("int"))["value"]
    # Remove all copies of the name's first header: if one with the name remains, its value differs.
    others = F.array_remove(headers, F.struct(F.lit(name).alias("key"), value.alias("value")))
    problem = (
        F.when(headers.isNull() | (nth < 1), F.lit(MISSING))
        .when((F.size(headers) > 1) & F.array_contains(others["key"], name), F.lit(DISAGREES))
        .when(value.isNull(), F.lit(NULL))
    )
    return value, problem


def _whole(case: _Case) -> Column:
    """Return the integer that the bytes encode; null if they encode none, or if it does not fit a bigint."""
    found = F.col(f"_value_{case.role}")
    if case.source.encoding == "utf8":
        return F.when(F.octet_length(found) <= MOST_BYTES, found.cast("string").try_cast("bigint"))
    # More than eight bytes overflow `conv`, which raises under ANSI; `_number` rejects longer values by their width.
    return F.conv(F.hex(F.substring(found, 1, _BIGINT_BYTES)), 16, 10).try_cast("bigint")


def _read(case: _Case) -> _Pair:
    return (_name if case.role == "producer" else _number)(case.role, case.source.encoding)


def _number(role: str, encoding: Encoding) -> _Pair:
    found, problem, number = F.col(f"_value_{role}"), F.col(f"_problem_{role}"), F.col(f"_whole_{role}")
    if encoding == "utf8":
        text = found.cast("string")
        # A text that equals its number as a string has only digits. Others (a leading zero) need the slow regular expression.
        is_digits = F.coalesce((number >= 0) & (number.cast("string") == text), F.lit(False))
        is_whole, is_in_range = is_digits | F.coalesce(text.rlike(_DIGITS), F.lit(False)), number.isNotNull()
        problem = F.coalesce(problem, F.when(F.octet_length(found) > MOST_BYTES, F.lit(TOO_LONG)))
    else:
        width = WIDTHS[encoding]
        is_whole = F.coalesce(F.octet_length(found) == width, F.lit(False))
        is_in_range = F.coalesce(number < 2 ** (8 * width - 1), F.lit(False)) if width < _BIGINT_BYTES else number.isNotNull()
    unread = F.when(~is_whole, F.lit(json_strictness.NOT_WHOLE)).when(~is_in_range, F.lit(OUT_OF_RANGE))
    return F.when(is_whole & is_in_range, number), F.coalesce(problem, unread)


def _name(role: str, encoding: Encoding) -> _Pair:
    """Return a producer's name: 1 to 1,024 bytes of valid UTF-8. A binary number becomes its digits."""
    if encoding != "utf8":
        number, problem = _number(role, encoding)
        return F.when(problem.isNull(), number.cast("string")), problem
    found, problem = F.col(f"_value_{role}").cast("string"), F.col(f"_problem_{role}")
    length = F.octet_length(found)
    unread = (
        F.when(length == 0, F.lit(EMPTY))
        .when(length > MOST_BYTES, F.lit(TOO_LONG))
        .when(~F.is_valid_utf8(found), F.lit(json_strictness.NOT_UTF8))
    )
    problem = F.coalesce(problem, unread)
    return F.when(problem.isNull(), found), problem


def imported(named: str, *, where: str) -> Callable[..., Column]:
    """Import a custom extractor, `module:function`, with Bronze's columns as parameters; or raise a `ConfigError`."""
    module_name, _, function_name = named.partition(":")
    try:
        function: Callable[..., Column] = getattr(importlib.import_module(module_name), function_name)
        parameters = inspect.signature(function).parameters  # os:sep is no function, builtins:max has no signature
    except Exception as error:  # the operator's code: its import may raise any error
        raise ConfigError(
            f"The custom extractor cannot be imported, or is no function of Python: {type(error).__name__}: {error}.",
            where=where,
            observed=named,
            next_step="Install the package that holds it where the job runs, or correct `custom: module:function`.",
        ) from error
    unknown = [name for name, given in parameters.items() if name not in _OF_KAFKA or given.kind not in _IN_ORDER]
    if unknown:
        raise ConfigError(
            "The custom extractor has parameters without an order, or that are no columns of bronze_records of Kafka's own.",
            where=where,
            observed=", ".join(unknown),
            expected=f"some of {', '.join(_OF_KAFKA)}",
        )
    return function
