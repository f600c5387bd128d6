"""Extractors: sequence, producer and epoch as closed forms of the Column API, and why one could not be read.

Every form ends in a value or in one problem, never in an error: what a producer sends cannot stop a load.
Digits are ASCII 0-9 only; a sequence and an epoch are whole numbers from 0 to 2^63-1.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import BRONZE
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from silver.rules import Payload, Rules, Source

MISSING = "missing"
NULL = "null"
DISAGREES = "disagrees"
NOT_WHOLE = "not_a_whole_number"
OUT_OF_RANGE = "out_of_range"

_DIGITS = r"\A[0-9]+\z"  # not ^...$: Java's $ also matches before a last line feed
_WIDTHS = {"int32": 4, "int64": 8}


def extract(records: DataFrame, rules: Rules) -> DataFrame:
    """Add what the rules read from each record.

    Grain: a record, as given.

    Args:
        records: Rows with Bronze's columns, or those of them that the rules read.
        rules: Where sequence, producer and epoch are read from.

    Returns:
        The rows with `producer` (string; null where none is configured), `epoch` and `sequence` (bigint) and `problem`
        (string; null where all could be read, else the first of sequence, producer, epoch that could not and why,
        for example `sequence_missing`; epoch and sequence are null then).

    Raises:
        ConfigError: A custom extractor cannot be imported or asks for a column that Bronze does not have.
    """
    raw = records.withColumns(_raw_columns(rules))
    read = raw.withColumns(
        {
            "_sequence": _number(rules.sequence, "_raw_sequence"),
            "_epoch": _number(rules.epoch, "_raw_epoch") if rules.epoch else _found(F.lit(0).cast("bigint")),
            "_producer": _text(rules.producer, "_raw_producer") if rules.producer else _found(F.lit(None).cast("string")),
        }
    )
    problem = F.coalesce(
        *(F.concat(F.lit(f"{role}_"), F.col(f"_{role}.problem")) for role in ("sequence", "producer", "epoch"))
    )
    return read.withColumns(
        {
            "producer": F.col("_producer.value"),
            "epoch": F.when(problem.isNull(), F.col("_epoch.value")),
            "sequence": F.when(problem.isNull(), F.col("_sequence.value")),
            "problem": problem,
        }
    ).drop("_sequence", "_epoch", "_producer", "_raw_sequence", "_raw_epoch", "_raw_producer")


def columns_read(rules: Rules) -> list[str]:
    """The Bronze columns that `extract` reads under these rules: what the narrow pass has to load.

    >>> from silver.rules import Rules, Source
    >>> columns_read(Rules(Source("header", "seq"), producer=Source("json", "$.p")))
    ['headers', 'value']
    """
    read = {name for source in (rules.sequence, rules.producer, rules.epoch) if source for name in _reads(source)}
    return sorted(read - {"topic", "partition", "offset"})


def decode(payload: Payload) -> Column:
    """The decoded value: a string, or a struct of the JSON's fields; null where it cannot be decoded."""
    value = F.col("value")
    text = F.when(F.is_valid_utf8(value.cast("string")), value.cast("string"))
    if payload.format == "text":
        return text
    corrupt = "_tidemark_corrupt"
    parsed = F.from_json(text, f"{payload.schema}, {corrupt} STRING", {"columnNameOfCorruptRecord": corrupt})
    return F.when(parsed[corrupt].isNull() & text.isNotNull(), parsed.dropFields(corrupt))


def _raw_columns(rules: Rules) -> dict[str, Column]:
    sources = {"sequence": rules.sequence, "producer": rules.producer, "epoch": rules.epoch}
    return {f"_raw_{role}": _raw(source) for role, source in sources.items() if source}


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


def _raw(source: Source) -> Column:
    """What the form finds, undecoded: struct<value: binary, problem: string>."""
    value = F.col("value")
    match source.form:
        case "header":
            return _header(source.argument)
        case "value":
            return _found(value, F.when(value.isNull(), F.lit(NULL)))
        case "json":
            at_path = F.get_json_object(value.cast("string"), source.argument).cast("binary")
            return _found(at_path, F.when(value.isNull(), F.lit(NULL)).when(at_path.isNull(), F.lit(MISSING)))
        case "bytes":
            start, end = (int(bound) for bound in source.argument.split(":"))
            problem = F.when(value.isNull(), F.lit(NULL)).when(F.octet_length(value) < end, F.lit(MISSING))
            return _found(F.substring(value, start + 1, end - start), problem)
        case "offset":
            return _found(F.col("offset").cast("string").cast("binary"))
        case "custom":
            function = _imported(source)
            columns = [F.col(name) for name in inspect.signature(function).parameters]
            found = function(*columns).cast("string").cast("binary")
            return _found(found, F.when(found.isNull(), F.lit(MISSING)))


def _header(name: str) -> Column:
    """A header's value; one that is repeated must say the same each time."""
    headers = F.col("headers")
    matches = F.filter(headers, lambda header: header["key"] == name)
    values = F.array_distinct(F.transform(matches, lambda header: header["value"]))
    count = F.coalesce(F.size(values), F.lit(0))
    problem = (
        F.when(headers.isNull() | (count < 1), F.lit(MISSING))
        .when(count > 1, F.lit(DISAGREES))
        .when(F.get(values, F.lit(0)).isNull(), F.lit(NULL))
    )
    return _found(F.get(values, F.lit(0)), problem)


def _number(source: Source, raw: str) -> Column:
    """A whole number from 0 to 2^63-1: struct<value: bigint, problem: string>."""
    found, problem = F.col(f"{raw}.value"), F.col(f"{raw}.problem")
    if source.encoding == "utf8":
        text = found.cast("string")
        is_whole = text.rlike(_DIGITS)
        number = F.when(is_whole, text.try_cast("bigint"))
    else:
        width = _WIDTHS[source.encoding]
        is_whole = F.octet_length(found) == width
        unsigned = F.when(is_whole, F.conv(F.hex(found), 16, 10)).try_cast("bigint")
        number = F.when(unsigned < 2 ** (8 * width - 1), unsigned) if width == _WIDTHS["int32"] else unsigned
    return _found(
        number,
        F.when(problem.isNotNull(), problem)
        .when(~F.coalesce(is_whole, F.lit(False)), F.lit(NOT_WHOLE))
        .when(number.isNull(), F.lit(OUT_OF_RANGE)),
    )


def _text(source: Source, raw: str) -> Column:
    """A producer's name: struct<value: string, problem: string>. Bytes that are no UTF-8 are no name; numbers are digits."""
    if source.encoding != "utf8":
        number = _number(source, raw)
        return _found(number["value"].cast("string"), number["problem"])
    found, problem = F.col(f"{raw}.value").cast("string"), F.col(f"{raw}.problem")
    is_name = F.is_valid_utf8(found)
    return _found(F.when(problem.isNull() & is_name, found), F.coalesce(problem, F.when(~is_name, F.lit("not_utf8"))))


def _found(value: Column, problem: Column | None = None) -> Column:
    """A struct of a value and why there is none; a null problem means there is one."""
    return F.struct(value.alias("value"), (F.lit(None) if problem is None else problem).cast("string").alias("problem"))


def _imported(source: Source) -> Callable[..., Column]:
    """The operator's own extractor: a function of Columns that are named after Bronze's.

    Raises:
        ConfigError: The module or function is not there, or a parameter is no column of Bronze.
    """
    module_name, _, function_name = source.argument.partition(":")
    try:
        function: Callable[..., Column] = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"The custom extractor cannot be imported: {error}.",
            where=source.argument,
            next_step="Install the package that holds it where the job runs, or correct `custom: module:function`.",
        ) from error
    unknown = [name for name in inspect.signature(function).parameters if name not in BRONZE.names]
    if unknown:
        raise ConfigError(
            "The custom extractor has parameters that are no columns of bronze_records.",
            where=source.argument,
            observed=", ".join(unknown),
            expected=f"some of {', '.join(BRONZE.names)}",
        )
    return function
