"""Extractors: read sequence, producer and epoch with the Column API, or the reason why one could not be read.

Every form yields a value or one problem, never an error: nothing that a producer sends can stop a load.
Digits are ASCII 0-9 only; a sequence and an epoch are whole numbers from 0 to 2^63-1.
"""

from __future__ import annotations

import importlib
import inspect
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE, EXTRACTED, FINGERPRINT
from lakehouse.errors import ConfigError
from lakehouse.extract import avro, json_strictness
from lakehouse.settings import avro_schema, payload_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from lakehouse.extract.sources import Source, Sources
    from lakehouse.extract.written import Written

MISSING = "missing"
NULL = "null"
DISAGREES = "disagrees"
EMPTY = "empty"
TOO_LONG = "too_long"
NOT_UTF8 = "not_utf8"
OUT_OF_RANGE = "out_of_range"
NOT_DECODED = "not_decoded"

_OF_KAFKA = tuple(name for name in BRONZE.names if name not in (*EXTRACTED, FINGERPRINT))
"""The columns that a custom extractor may ask for."""
_IN_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_DIGITS = r"\A[0-9]+\z"  # not ^...$: Java's $ also matches before a last line feed
_MOST_BYTES = 1_024
"""The longest text of a producer's name or a number: names of a megabyte, in every row and list, would crash a driver."""
_BIGINT_BYTES = 8
_WIDTHS = {"int32": 4, "int64": _BIGINT_BYTES}

_Pair = tuple[Column, Column]
"""A value, and the problem if it could not be read, else null."""


def extract(records: DataFrame, sources: Sources) -> DataFrame:
    """Read producer, epoch, sequence and problem from each record's bytes.

    Grain: a record, as given.

    Args:
        records: Rows with Bronze's columns, or at least those that `columns_read` names.
        sources: Where they are read from.

    Returns:
        The rows with `producer` (string; null if none is configured), `epoch` and `sequence` (bigint) and `problem` (string;
        null if all could be read, else the first of sequence, producer, epoch that could not and why, for example
        `sequence_missing`; epoch and sequence are null then).

    Raises:
        ConfigError: A custom extractor cannot be imported or asks for a column that Kafka does not give.
    """
    roles = sources.by_role
    # A projection for each step: the next step refers to its columns more than once, and Spark computes them only once.
    found = records.withColumns({f"_found_{role}": _found(source, sources.written) for role, source in roles.items()})
    raw = found.withColumns(_pairs({role: _raw(source, f"_found_{role}") for role, source in roles.items()}))
    whole = raw.withColumns({f"_whole_{role}": _whole(source, f"_value_{role}") for role, source in roles.items()})
    read = whole.withColumns(_pairs({role: _read(role, source) for role, source in roles.items()}))
    problem = F.coalesce(
        *(F.concat(F.lit(f"{role}_"), F.col(f"_problem_{role}")) for role in roles), F.lit(None).cast("string")
    )
    is_read = F.col("problem").isNull()
    return (
        read.withColumn("problem", problem)
        .withColumns(
            {
                "producer": F.col("_value_producer") if sources.producer else F.lit(None).cast("string"),
                "epoch": F.when(is_read, F.col("_value_epoch") if sources.epoch else F.lit(0).cast("bigint")),
                "sequence": F.when(is_read, F.col("_value_sequence")),
            }
        )
        .drop(*(f"_{step}_{role}" for step in ("found", "whole", "value", "problem") for role in roles))
    )


def columns_read(sources: Sources) -> list[str]:
    """The columns of a record that `extract` reads, other than its place.

    >>> from lakehouse.extract.sources import Source, Sources
    >>> columns_read(Sources(Source("header", "seq"), producer=Source("json", "$.p")))
    ['headers', 'value']
    """
    read = {name for source in sources.by_role.values() for name in _reads(source)}
    return sorted(read - {"topic", "partition", "offset"})


def _reads(source: Source) -> list[str]:
    match source.form:
        case "header":
            return ["headers"]
        case "offset":
            return ["offset"]
        case "custom":
            return list(inspect.signature(_imported(source)).parameters)
        case _:
            return ["value"]


def _found(source: Source, written: Written | None) -> Column:
    """What the form reads from: the headers' keys, a whole column, the JSON or the field at a path, or a function's result."""
    match source.form:
        case "header":
            # No lambda function: a single one keeps Spark from compiling the whole projection.
            return F.col("headers")["key"]
        case "json" | "prefixed_json":
            return F.get_json_object(_text(source), source.argument)
        case "field":
            return avro.parsed(F.col("value"), _of_values(written), avro_schema.at_path(source.argument))
        case "offset":
            return F.col("offset")
        case "custom":
            function = _imported(source)
            return function(*(F.col(name) for name in inspect.signature(function).parameters))
        case _:
            return F.col("value")


def _raw(source: Source, found: str) -> _Pair:
    """The bytes that were found, not yet decoded."""
    value, at_path = F.col("value"), F.col(found)
    match source.form:
        case "header":
            return _header(source.argument, at_path)
        case "value":
            return value, F.when(value.isNull(), F.lit(NULL))
        case "json" | "prefixed_json":
            problem = F.when(value.isNull(), F.lit(NULL)).when(at_path.isNull(), F.lit(MISSING))
            unsure = json_strictness.problem(_text(source), source.argument, at_path)
            return at_path.cast("binary"), F.coalesce(problem, unsure)
        case "field":
            at_field = reduce(lambda struct, name: struct.getField(name), source.argument.split("."), at_path)
            is_decoded = at_path.getField(payload_schema.CORRUPT).isNotNull()
            problem = F.when(value.isNull(), F.lit(NULL)).when(~is_decoded, F.lit(NOT_DECODED))
            return at_field.cast("binary"), problem.when(at_field.isNull(), F.lit(MISSING))
        case "bytes":
            start, end = (int(bound) for bound in source.argument.split(":"))
            problem = F.when(value.isNull(), F.lit(NULL)).when(F.octet_length(value) < end, F.lit(MISSING))
            return F.substring(value, start + 1, end - start), problem
        case "offset" | "custom":
            text = at_path.cast("string")
            return text.cast("binary"), F.when(text.isNull(), F.lit(MISSING))


def _text(source: Source) -> Column:
    """The JSON of a value."""
    value = F.col("value")
    return (avro.without_prefix(value) if source.form == "prefixed_json" else value).cast("string")


def _of_values(written: Written | None) -> Written:
    if written is None:
        raise ConfigError("A field is read of values of which nothing says how they are written.", where="value")
    return written


def _header(name: str, keys: Column) -> _Pair:
    """A header's value; if the header is repeated, all its values must be equal."""
    headers, nth = F.col("headers"), F.array_position(keys, name)
    value = F.get(headers, (nth - 1).cast("int"))["value"]
    # Without all copies of the first header of this name: if one with the name remains, its value differs.
    others = F.array_remove(headers, F.struct(F.lit(name).alias("key"), value.alias("value")))
    problem = (
        F.when(headers.isNull() | (nth < 1), F.lit(MISSING))
        .when((F.size(headers) > 1) & F.array_contains(others["key"], name), F.lit(DISAGREES))
        .when(value.isNull(), F.lit(NULL))
    )
    return value, problem


def _whole(source: Source, value: str) -> Column:
    """The integer that the bytes encode; null if they encode none, or one that does not fit a bigint."""
    found = F.col(value)
    if source.encoding == "utf8":
        return F.when(F.octet_length(found) <= _MOST_BYTES, found.cast("string").try_cast("bigint"))
    # More than eight bytes overflow `conv`, which raises under ANSI; `_number` rejects longer values by their width.
    return F.conv(F.hex(F.substring(found, 1, _BIGINT_BYTES)), 16, 10).try_cast("bigint")


def _read(role: str, source: Source) -> _Pair:
    return _name(role, source) if role == "producer" else _number(role, source)


def _number(role: str, source: Source) -> _Pair:
    """A whole number from 0 to 2^63-1."""
    found, problem, number = F.col(f"_value_{role}"), F.col(f"_problem_{role}"), F.col(f"_whole_{role}")
    if source.encoding == "utf8":
        text = found.cast("string")
        # If the number prints as the text, the text is digits; only others (a leading zero) need the slow regular expression.
        is_digits = F.coalesce((number >= 0) & (number.cast("string") == text), F.lit(False))
        is_whole, is_in_range = is_digits | F.coalesce(text.rlike(_DIGITS), F.lit(False)), number.isNotNull()
        problem = F.coalesce(problem, F.when(F.octet_length(found) > _MOST_BYTES, F.lit(TOO_LONG)))
    else:
        width = _WIDTHS[source.encoding]
        is_whole = F.coalesce(F.octet_length(found) == width, F.lit(False))
        is_in_range = F.coalesce(number < 2 ** (8 * width - 1), F.lit(False)) if width < _BIGINT_BYTES else number.isNotNull()
    unread = F.when(~is_whole, F.lit(json_strictness.NOT_WHOLE)).when(~is_in_range, F.lit(OUT_OF_RANGE))
    return F.when(is_whole & is_in_range, number), F.coalesce(problem, unread)


def _name(role: str, source: Source) -> _Pair:
    """A producer's name: 1 to 1,024 bytes of valid UTF-8. A binary number becomes its digits."""
    if source.encoding != "utf8":
        number, problem = _number(role, source)
        return F.when(problem.isNull(), number.cast("string")), problem
    found, problem = F.col(f"_value_{role}").cast("string"), F.col(f"_problem_{role}")
    length = F.octet_length(found)
    unread = (
        F.when(length == 0, F.lit(EMPTY))
        .when(length > _MOST_BYTES, F.lit(TOO_LONG))
        .when(~F.is_valid_utf8(found), F.lit(NOT_UTF8))
    )
    problem = F.coalesce(problem, unread)
    return F.when(problem.isNull(), found), problem


def _pairs(read: Mapping[str, _Pair]) -> dict[str, Column]:
    """The columns `_value_role` and `_problem_role` of each role."""
    values = {f"_value_{role}": value for role, (value, _) in read.items()}
    return values | {f"_problem_{role}": problem.cast("string") for role, (_, problem) in read.items()}


def _imported(source: Source) -> Callable[..., Column]:
    return imported(source.argument, where=source.argument)


def imported(named: str, *, where: str) -> Callable[..., Column]:
    """Import a custom extractor: an operator's function whose parameters are Columns, named after Bronze's.

    Args:
        named: `module:function`.
        where: The place that names it, for the error.

    Raises:
        ConfigError: The module or function cannot be imported, or is none whose parameters are
            columns that Bronze has of Kafka, to be given in order.
    """
    module_name, _, function_name = named.partition(":")
    try:
        function: Callable[..., Column] = getattr(importlib.import_module(module_name), function_name)
        parameters = inspect.signature(function).parameters  # os:sep is no function, builtins:max has no signature
    except Exception as error:  # the operator's code: importing it may raise anything
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
