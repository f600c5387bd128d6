"""Great Expectations: the only module that imports it.

The import takes about six seconds of one core, and no option shortens it. So functions import it, not modules, and a
run with new records starts the import after Bronze.

Some of its Spark metrics find `payload.id` inside the struct, others do not. Some refuse a SMALLINT, and all read the FLOAT
0.1 as 0.10000000149. Some compare in Python: a Decimal with a float, and a time in the driver's zone with one in UTC.
`flatten` adds columns of types that they compare exactly, and `unlike` finds arguments that do not fit a column's type.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from expectations.checks import Subject
from lakehouse.contracts.gate import ERRORED, FAILED, PASSED
from lakehouse.errors import ConfigError, TidemarkError, headline
from lakehouse.settings.base import nearest
from lakehouse.settings.secrets import mask

if TYPE_CHECKING:
    from pathlib import Path

    from great_expectations.core import ExpectationValidationResult
    from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
    from great_expectations.data_context.store.store import DataDocsSiteConfigTypedDict
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.expectations.expectation import Expectation
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from expectations.checks import Check

Row = dict[str, Any]

_CHECK = "tidemark_check"
_OBSERVED_CHARACTERS = 500
_NOT_SHOWN = "not shown: it may be a value of a record"
_COUNTED = {
    *(f"expect_table_{what}_count_to_{how}" for what in ("row", "column") for how in ("be_between", "equal")),
    *(f"expect_column_proportion_of_{what}_values_to_be_between" for what in ("unique", "non_null")),
    "expect_column_unique_value_count_to_be_between",
}
"""Expectations on all rows whose observed value is a count or a share."""
_ABOUT_COLUMNS = ("Error: The column ", "The column ")
_ABOUT_QUERIES = ("UNRESOLVED_", "DATATYPE_MISMATCH", "PARSE_", "MISSING_", "AMBIGUOUS_", "UNSUPPORTED_")
"""Prefixes of messages, and of Spark's error conditions, that concern a query and not a row."""


@dataclass(frozen=True)
class Result:
    """The outcome of a check, `passed`, `failed` or `errored`, and what was observed, or why it could not be evaluated."""

    check: Check
    outcome: str
    observed: str


def import_early() -> None:
    """Start the import in a thread, while an earlier stage waits for Spark."""
    if "great_expectations" not in sys.modules:
        threading.Thread(target=importlib.import_module, args=("great_expectations",)).start()


def require_expectations(checks: Sequence[Check]) -> None:
    """Check that Great Expectations knows each of the operator's own checks and accepts its arguments.

    Raises:
        ConfigError: The name is unknown, the arguments do not fit, or the expectation is wrong or cannot be evaluated on Spark;
            or it should keep rows out of Gold and cannot name any.
    """
    own = [check for check in checks if check.subject is Subject.RECORDS]
    for place, check in enumerate(own):
        where = f"gate.expectations[{place}]"
        if why := REFUSED.get(check.type):
            in_any_case = " That sequences rise within each stream is checked in any case (sequence_increases)."
            raise ConfigError(
                f"{check.type} {why}",
                where=where,
                observed=check.type,
                expected="another expectation",
                next_step=f"Remove it.{in_any_case if why is _NO_ORDER else ''}",
            )
        _expectation(check, place, where)
        if check.quarantines_rows and not _has_rows(check.type):
            raise ConfigError(
                f"{check.type} checks all rows together: it cannot name rows to keep out of Gold.",
                where=where,
                observed="on_fail: quarantine_rows",
                expected="an expectation on each row, such as expect_column_values_to_not_be_null",
                next_step="Remove on_fail: the load then stops if it is not met; with severity: warn it is only recorded.",
            )


def evaluate(checks: Sequence[Check], data: Mapping[Subject, list[Row] | DataFrame]) -> list[Result]:
    """Evaluate checks that `require_expectations` has passed, those of one subject together, on its rows or Spark DataFrame.

    Returns:
        A result for each check, in their order: `errored` where Great Expectations raised, so that a verdict is recorded.
    """
    context = _context()
    found: dict[int, Result] = {}
    for subject, content in data.items():
        numbered = {number: check for number, check in enumerate(checks) if check.subject is subject}
        if not numbered:
            continue
        rows, evaluated = content, list(numbered.values())
        if not isinstance(rows, list):
            rows, evaluated = flatten(rows, evaluated)
        try:
            batch = _batch(context, subject.value, rows)
            validated = _validated(batch, dict(zip(numbered, evaluated, strict=True)))
            found |= {number: _result(check, validated[number]) for number, check in numbered.items()}
        except TidemarkError:
            raise
        except Exception as error:  # noqa: BLE001 -- third-party code: any error is the result
            problem = f"{type(error).__name__}: {headline(str(error))}"
            found |= {number: _errored(check, problem) for number, check in numbered.items()}
    return [found[number] for number in sorted(found)]


def unexpected_rows(check: Check, records: DataFrame, *, names: Sequence[str], most: int) -> list[Row]:
    """Return some columns of the records that violate an expectation; none if it evaluates all rows at once.

    Raises:
        TidemarkError: It could not be evaluated.
    """
    flat, (evaluated,) = flatten(records, [check])
    flat_names = dict(zip(named(check.arguments), named(evaluated.arguments), strict=True))
    # Copies, because the column that is evaluated may be one of them.
    copies = {f"{_CHECK}_{number}": flat[flat_names.get(name, name)] for number, name in enumerate(names)}
    wanted = {
        "result_format": "SUMMARY",
        "partial_unexpected_count": most,
        "unexpected_index_column_names": list(copies),
        "exclude_unexpected_values": True,
    }
    result: Mapping[str, Any] = {}
    try:
        batch = _batch(_context(), Subject.RECORDS.value, flat.withColumns(copies))
        validated = batch.validate(_expectation(evaluated, 0, check.name), result_format=wanted)
        result, problem = validated.result, _problem(validated.exception_info)
    except Exception as error:  # noqa: BLE001 -- third-party code: any error explains why there are no rows
        problem = f"{type(error).__name__}: {headline(str(error))}"
    if problem is not None:
        raise TidemarkError("Great Expectations could not return the rows.", observed=problem[:_OBSERVED_CHARACTERS])
    # Without the values, all records come in one row, with a list per column.
    lists: list[dict[str, list[Any]]] = result.get("partial_unexpected_index_list") or []
    return [
        dict(zip(names, row, strict=True))
        for columns in lists
        for row in zip(*(columns[alias] for alias in copies), strict=True)
    ]


def _has_rows(kind: str) -> bool:
    """Whether an expectation evaluates each row, by a map metric, and so can name the unexpected ones."""
    from great_expectations.expectations.registry import get_expectation_impl

    return kind not in _NO_ROWS and hasattr(get_expectation_impl(kind), "map_metric")


def build_docs(results: Sequence[Result], folder: Path, *, run_name: str) -> None:
    """Build Data Docs of one gate run, replacing the last one's.

    Their pages show values unescaped, so they are built from names, arguments and booleans alone.
    """
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult, RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.validator.validation_statistics import calc_validation_statistics

    def without_values(result: Result) -> ExpectationValidationResult:
        check, is_errored = result.check, result.outcome == ERRORED
        arguments = {name: mask(value) for name, value in check.arguments.items() if name != "meta"}
        return ExpectationValidationResult(
            success=result.outcome == PASSED,
            expectation_config=ExpectationConfiguration(type=check.type, kwargs=arguments),
            exception_info={
                "raised_exception": is_errored,
                "exception_message": "See gate_results." if is_errored else "",
                "exception_traceback": "",
            },
        )

    shown = [without_values(result) for result in results]
    counts, suite = calc_validation_statistics(shown), "tidemark_gate"
    validated = ExpectationSuiteValidationResult(
        success=counts.success, results=shown, suite_name=suite, statistics=counts._asdict()
    )
    # It parses a bare name as a time, and fails on an invalid zone: 20261121T093000-4502ad.
    run = RunIdentifier(run_name=f"gate run {run_name}")
    validated.meta["run_id"] = run
    context = _context()
    identifier = ValidationResultIdentifier(ExpectationSuiteIdentifier(suite), run, suite)
    context.validation_results_store.set(identifier, validated)
    site: DataDocsSiteConfigTypedDict = {
        "class_name": "SiteBuilder",
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.absolute())},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
    context.add_data_docs_site("gate", site)
    context.build_data_docs()


def _context() -> EphemeralDataContext:
    """A context in memory: no files, no network, no progress bars."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults, ProgressBarsConfig

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _batch(context: EphemeralDataContext, name: str, content: list[Row] | DataFrame) -> Batch:
    if isinstance(content, list):
        facts = context.data_sources.add_pandas(name).add_dataframe_asset(name)
        rows = pa.Table.from_pylist(content).to_pandas()
        return facts.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": rows})
    records = context.data_sources.add_spark(name, persist=False).add_dataframe_asset(name)
    return records.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": content})


def _validated(batch: Batch, numbered: Mapping[int, Check]) -> dict[int, ExpectationValidationResult]:
    """Return results by each expectation's number, because Great Expectations does not preserve their order."""
    import great_expectations as gx

    expectations = [_expectation(check, number, check.name) for number, check in numbered.items()]
    suite = gx.ExpectationSuite(name="tidemark_gate", expectations=expectations)
    # No sample of unexpected values: it would need a job per expectation, and expose personal data.
    validated = batch.validate(suite, result_format={"result_format": "BASIC", "partial_unexpected_count": 0})
    return {result.expectation_config.meta[_CHECK]: result for result in validated.results if result.expectation_config}


def _expectation(check: Check, number: int, where: str) -> Expectation:
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError, GreatExpectationsError
    from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

    meta = {**(check.arguments.get("meta") or {}), _CHECK: number}
    try:
        return get_expectation_impl(check.type)(**{**check.arguments, "meta": meta})
    except ExpectationNotFoundError:
        known = list_registered_expectation_implementations()
        near = nearest(check.type, known)
        raise ConfigError(
            "Great Expectations has no such expectation.",
            where=where,
            observed=check.type,
            expected=f"one of its {len(known)} expectations",
            next_step=f"Did you mean {near}?" if near else "Look through the gallery of Great Expectations.",
        ) from None
    except (GreatExpectationsError, TypeError, ValueError) as error:
        # Only pydantic's errors describe the wrong arguments without repeating a value.
        errors = error.errors() if hasattr(error, "errors") else []
        reasons = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors] or [type(error).__name__]
        raise ConfigError(
            f"The arguments do not fit {check.type}.",
            where=where,
            observed="; ".join(dict.fromkeys(reasons)),
            expected="the arguments that Great Expectations documents for it",
            next_step=f"Correct them; given are: {', '.join(check.arguments) or 'none'}.",
        ) from None


def _result(check: Check, validated: ExpectationValidationResult) -> Result:
    problem = _problem(validated.exception_info)
    if problem is not None:
        return _errored(check, problem)
    # For records only counts are shown, never values such as a maximum.
    is_counted = validated.result.get("unexpected_count") is not None or check.type in _COUNTED
    is_shown = is_counted or check.subject is not Subject.RECORDS
    observed = _observed(validated.result)[:_OBSERVED_CHARACTERS] if is_shown else _NOT_SHOWN
    return Result(check, PASSED if validated.success else FAILED, observed)


def _errored(check: Check, problem: str) -> Result:
    """Return the result of a check that could not be evaluated. Of Spark's errors about rows it keeps only the condition."""
    condition = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", problem)
    if check.subject is Subject.RECORDS and not problem.startswith(_ABOUT_COLUMNS):
        if condition is None:
            problem = "an error whose message may hold a record's value"
        elif not condition[1].startswith(_ABOUT_QUERIES):
            problem = f"[{condition[1]}], raised by Spark; its message may hold a value"
    return Result(check, ERRORED, problem[:_OBSERVED_CHARACTERS])


def _problem(exception_info: Mapping[str, Any] | None) -> str | None:
    """Return why an expectation could not be evaluated. Great Expectations reports it flat or by metric."""
    infos = [exception_info, *(exception_info or {}).values()]
    for info in infos:
        if isinstance(info, dict) and info.get("raised_exception"):
            return headline(str(info.get("exception_message") or "")) or "unknown error"
    return None


def _observed(result: Mapping[str, Any]) -> str:
    value, unexpected = result.get("observed_value"), result.get("unexpected_count")
    if "element_count" in result and unexpected is not None:
        return f"{unexpected} of {result['element_count']} unexpected"
    if value is None and unexpected is not None:
        return f"{unexpected} unexpected"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_NO_ROWS = ("expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list")
"""By their class they evaluate each row; on Spark they check only the column's type."""

_NO_ORDER = "gives wrong answers on Spark: it orders by a constant and knows no streams."
_NO_SPARK = "cannot be evaluated: Great Expectations does not have it for Spark."
_NO_TABLE = "cannot be evaluated: the gate has no other table."
REFUSED = {
    **dict.fromkeys((f"expect_column_values_to_be_{way}creasing" for way in ("in", "de")), _NO_ORDER),
    **dict.fromkeys(
        (f"expect_column_values_to_{what}match_like_pattern{many}" for what in ("", "not_") for many in ("", "_list")),
        _NO_SPARK,
    ),
    "expect_column_values_to_be_dateutil_parseable": _NO_SPARK,
    "expect_column_bootstrapped_ks_test_p_value_to_be_greater_than": _NO_SPARK,
    "expect_column_chisquare_test_p_value_to_be_greater_than": _NO_SPARK,
    "expect_column_parameterized_distribution_ks_test_p_value_to_be_greater_than": _NO_SPARK,
    "expect_column_pair_cramers_phi_value_to_be_less_than": _NO_SPARK,
    "expect_multicolumn_values_to_be_unique": _NO_SPARK,
    "expect_table_row_count_to_equal_other_table": _NO_TABLE,
    "expect_query_results_to_match_comparison": _NO_TABLE,
}
"""Expectations that Great Expectations accepts but that are useless here, each with the reason."""

Kind = Literal["number", "moment", "text", "boolean", "binary", "nested"]

_TYPES: dict[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"), "number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"), "moment"),
    "STRING": "text",
    "BOOLEAN": "boolean",
    "BINARY": "binary",
}
_BOUNDED = {f"expect_column_{what}_to_be_between" for what in ("values", "min", "max")}
_OF_NUMBERS = {
    *(f"expect_column_{what}_to_be_between" for what in ("mean", "median", "stdev", "sum", "quantile_values")),
    *("expect_column_value_z_scores_to_be_less_than", "expect_column_values_to_not_be_outliers"),
    "expect_multicolumn_sum_to_equal",
}
_OF_SETS = {
    *("expect_column_values_to_be_in_set", "expect_column_values_to_not_be_in_set"),
    *(f"expect_column_distinct_values_to_{what}_set" for what in ("be_in", "contain", "equal")),
    "expect_column_most_common_value_to_be_in_set",
}
_OF_ONE_KIND = {
    *("expect_column_pair_values_to_be_equal", "expect_column_pair_values_a_to_be_greater_than_b"),
    *("expect_multicolumn_values_to_be_equal", "expect_select_column_values_to_be_unique_within_record"),
}
_KINDS: dict[str, tuple[Kind, ...]] = {
    **dict.fromkeys(_BOUNDED, ("number", "moment")),
    **dict.fromkeys(_OF_NUMBERS, ("number",)),
    **dict.fromkeys(_OF_SETS, ("number", "moment", "text", "boolean")),
    "expect_column_values_to_match_strftime_format": ("text",),
    "expect_column_values_to_be_json_parseable": ("text", "binary"),
    "expect_column_values_to_match_json_schema": ("text", "binary"),
}
"""The kinds of columns that an expectation can be evaluated on, if not all."""
_OF_TYPES = {f"expect_column_{what}" for what in ("values_to_be_of_type", "values_to_be_in_type_list", "type_to_be")}
"""Expectations on the type of a column."""
_COMPARED_IN_PYTHON = {
    *("expect_column_min_to_be_between", "expect_column_max_to_be_between"),
    "expect_column_most_common_value_to_be_in_set",
}
"""Expectations that compare values of the column in Python, after Spark has found them."""
_BOUNDS = ("min_value", "max_value")
_COLUMNS = ("column", "column_A", "column_B", "column_list", "column_set")
_WORDS: dict[Kind, str] = {
    "number": "numbers",
    "moment": "dates or times in ISO 8601",
    "text": "texts",
    "boolean": "true or false",
    "binary": "bytes",
}

_PYTHON_TYPES: dict[Kind, tuple[type, ...]] = {"number": (int, float), "moment": (date,), "text": (str,), "boolean": (bool,)}

_CASTS = {"tinyint": ("int",), "smallint": ("int",), "float": ("string", "double")}
"""Casts by type, applied in order. A FLOAT becomes the DOUBLE with the same digits, as in the config."""
_CASTS_FOR_PYTHON = {"decimal": ("double",), **dict.fromkeys(("date", "timestamp"), ("timestamp_ntz",))}


def kind_of(sql_type: str) -> Kind:
    """Return the kind of values of a SQL type."""
    return _TYPES.get(sql_type.partition("(")[0].upper(), "nested")


def unlike(expectation: str, arguments: Mapping[str, Any], kinds: Mapping[str, Kind]) -> tuple[str, str] | None:
    """Return an argument that does not fit the kind of its column, and the expected kind of argument; None if all fit.

    >>> unlike("expect_column_mean_to_be_between", {"column": "id", "min_value": 1}, {"id": "text"})
    ('column', 'numbers')
    >>> unlike("expect_column_values_to_be_between", {"column": "at", "min_value": 1}, {"at": "moment"})
    ('min_value', 'dates or times in ISO 8601')
    >>> unlike("expect_column_max_to_be_between", {"column": "n", "max_value": 2**53 + 1}, {"n": "number"})
    ('max_value', 'a number that a DOUBLE can hold')
    """
    names = [name for name in (*_BOUNDS, *_COLUMNS) if arguments.get(name) is not None]
    allowed = _KINDS.get(expectation)
    if allowed is not None and not set(kinds.values()).issubset(allowed):
        name = next(name for name in names if name in _COLUMNS or expectation in _BOUNDED)
        return name, " or ".join(_WORDS[kind] for kind in allowed)
    if expectation in _OF_ONE_KIND and len(set(kinds.values())) > 1:
        return next(name for name in names if name in _COLUMNS), "columns of one kind"
    kind: Kind = "number" if expectation in _OF_NUMBERS else kinds.get(str(arguments.get("column")), "nested")
    for name in names:
        if name in _BOUNDS and expectation in _BOUNDED | _OF_NUMBERS:
            if not _is_a(arguments[name], kind):
                return name, _WORDS[kind]
            if kind == "number" and _is_rounded(arguments[name]):
                return name, "a number that a DOUBLE can hold"
    given = arguments.get("value_set")
    if expectation in _OF_SETS and isinstance(given, (list, tuple)) and not all(_is_a(value, kind) for value in given):
        return "value_set", _WORDS[kind]
    return None


def _comparable(expectation: str, arguments: Mapping[str, Any], kind: Kind) -> Mapping[str, Any]:
    """Convert bounds and values to types that Great Expectations compares with a kind of column: numbers, times in UTC.

    >>> _comparable("expect_column_values_to_be_between", {"max_value": "2026-03-01T01:00:00+01:00"}, "moment")
    {'max_value': '2026-03-01T00:00:00+00:00'}
    """

    def read(value: Any) -> Any:
        if kind not in ("number", "moment") or not _is_a(value, kind):
            return value
        if kind == "number":
            return _number(value)
        if expectation not in _COMPARED_IN_PYTHON:
            return _utc(value).replace(tzinfo=UTC).isoformat()
        return _utc(value).isoformat() if expectation in _BOUNDED else _utc(value)

    changed = dict(arguments)
    if expectation in _BOUNDED:
        changed |= {name: read(arguments[name]) for name in _BOUNDS if arguments.get(name) is not None}
    if expectation in _OF_SETS and isinstance(arguments.get("value_set"), (list, tuple)):
        changed["value_set"] = [read(value) for value in arguments["value_set"]]
    return changed


def _is_a(value: Any, kind: Kind) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, str) and kind in ("number", "moment"):
        try:
            return (_number(value) if kind == "number" else _utc(value)) is not None
        except (ValueError, OverflowError):
            return False
    return isinstance(value, _PYTHON_TYPES.get(kind, ()))


def _is_rounded(bound: str | float) -> bool:
    """Whether a bound changes when Great Expectations converts it to a float."""
    number = _number(bound)
    try:
        return isinstance(number, int) and float(number) != number
    except OverflowError:
        return True


def _number(value: str | float) -> float:
    try:
        return int(value) if isinstance(value, str) else value
    except ValueError:
        return float(value)


def _utc(value: str | date) -> datetime:
    """Return the time in UTC, without a zone; midnight for a date."""
    found = datetime.fromisoformat(value if isinstance(value, str) else value.isoformat())
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def flatten(records: DataFrame, checks: Iterable[Check]) -> tuple[DataFrame, list[Check]]:
    """Add a flat column for each nested or converted one that a check names, and rename it in the check.

    The columns are named such as `payload__id` or `as_double__payload__id`. A path that does not exist is kept, so that the
    check reports it.
    """
    columns: dict[str, Column] = {}
    flat = [_flattened(check, records.schema, columns) for check in checks]
    return (records.withColumns(columns) if columns else records), flat


def _flattened(check: Check, schema: StructType, columns: dict[str, Column]) -> Check:
    names: dict[str, str] = {}
    arguments = check.arguments
    for path in named(arguments):
        found = _type_at(schema, path)
        if found is None:
            continue
        casts = _casts(check.type, found)
        if casts or "." in path:
            names[path] = "__".join((*(f"as_{name}" for name in casts[-1:]), *path.split(".")))
            columns[names[path]] = F.col(path)
        for name in casts:
            columns[names[path]] = columns[names[path]].cast(name)
        if path == arguments.get("column"):
            arguments = _comparable(check.type, arguments, kind_of(found.simpleString()))
    return replace(check, arguments=_renamed(arguments, names))


def _casts(expectation: str, found: DataType) -> tuple[str, ...]:
    sql_type = found.simpleString().partition("(")[0]
    casts = {**_CASTS, **_CASTS_FOR_PYTHON} if expectation in _COMPARED_IN_PYTHON else _CASTS
    return () if expectation in _OF_TYPES else casts.get(sql_type, ())


def named(arguments: Mapping[str, Any]) -> list[str]:
    """Return the columns that an expectation's arguments name, nested ones as paths.

    >>> named({"column_A": "payload.low", "column_list": ["key", "offset"], "min_value": 0})
    ['payload.low', 'key', 'offset']
    """
    given = [arguments.get(name) for name in _COLUMNS]
    paths = [path for each in given for path in (each if isinstance(each, (list, tuple)) else [each])]
    return [path for path in paths if isinstance(path, str)]


def _renamed(arguments: Mapping[str, Any], flat: Mapping[str, str]) -> dict[str, Any]:
    def rename(given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return [rename(part) for part in given]
        return flat.get(given, given) if isinstance(given, str) else given

    return {name: rename(given) if name in _COLUMNS else given for name, given in arguments.items()}


def _type_at(schema: StructType, path: str) -> DataType | None:
    found: DataType = schema
    for name in path.split("."):
        if not isinstance(found, StructType) or name not in found.fieldNames():
            return None
        found = found[name].dataType
    return found
