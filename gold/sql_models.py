"""The operator's SQL models: tables computed from Gold's tables, each rebuilt when it is not current."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse.delta import small_tables, tables
from lakehouse.delta.errors import SPARK_ERRORS
from lakehouse.errors import ModelError, headline
from lakehouse.run.crash_points import crash_point
from lakehouse.settings.model_sql import as_query
from lakehouse.spark.query_sandbox import beyond_tables, no_file_relations
from lakehouse.table import GOLD_LATEST, GOLD_RECORDS, GOLD_STREAM_HEALTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.contract import Contract
    from lakehouse.run.context import Run
    from lakehouse.settings.gold import Gold, GoldModel

_SOURCES = (GOLD_RECORDS, GOLD_LATEST, GOLD_STREAM_HEALTH)


def refresh_models(spark: SparkSession, run: Run, gold: Gold, *, amended_by: int | None = None) -> tuple[str, ...]:
    """Rebuild every model that is not current, replacing its whole table, in one commit each; return their names.

    A model is current if its table's last commit names the query's hash, the last published load and `amended_by`, a load that
    changed published rows. If a model fails, the others are built before a `ModelError` is raised.
    """
    if not gold.models or not tables.exists(spark, run.table(GOLD_STREAM_HEALTH)):
        return ()
    made_of: dict[str, int] = {"last_load_seq": small_tables.highest(spark, run.table(GOLD_STREAM_HEALTH), "load_seq")}
    if amended_by is not None:
        made_of["amended_by"] = amended_by
    sources = {name: run.table(name) for name in _SOURCES}
    with _views(spark, {name: tables.read(spark, each, version=tables.version(spark, each)) for name, each in sources.items()}):
        return _each(gold, lambda model: _refresh(spark, run, model, made_of))


def require_models(spark: SparkSession, run: Run, gold: Gold, contracts: Iterable[Contract]) -> None:
    """Check the models' queries against the contracts of Gold's tables; raise a `ModelError`. Commits nothing."""
    with _views(spark, {each.name: spark.createDataFrame([], each.ddl()) for each in contracts if each.name in _SOURCES}):
        _each(gold, lambda model: _query(spark, run, model.sql.read_text(encoding="utf-8")) is not None)


def _each(gold: Gold, make: Callable[[GoldModel], bool]) -> tuple[str, ...]:
    """Call `make` for every model, whether or not others fail; return the names of those for which it returned True."""
    made, broken = [], []
    for model in gold.models:
        try:
            if make(model):
                made.append(model.name)
        except (OSError, ModelError, *SPARK_ERRORS) as error:
            broken.append(f"{model.name} ({model.sql}): {headline(str(error))}")
    if broken:
        raise ModelError(
            f"{len(broken)} of {len(gold.models)} models failed. Gold's own tables do not need them.",
            where="gold.models",
            observed="".join(f"\n    {each}" for each in broken),
            expected="one query each, over gold_records, gold_latest and gold_stream_health",
            next_step="Correct the SQL; the next run builds the model, even without new records.",
        )
    return tuple(made)


def _refresh(spark: SparkSession, run: Run, model: GoldModel, made_of: dict[str, int]) -> bool:
    table = run.table(model.name)
    text = model.sql.read_text(encoding="utf-8")
    metadata = json.dumps({"model_sha256": hashlib.sha256(text.encode()).hexdigest(), **made_of}, sort_keys=True)
    if tables.last_metadata(spark, table) == metadata:
        return False
    tables.overwrite(_query(spark, run, text), table, metadata=metadata)
    run.report.event("gold.model_made", model=model.name, **made_of)
    crash_point("gold.model_made")
    return True


def _query(spark: SparkSession, run: Run, text: str) -> DataFrame:
    found = beyond_tables(spark, text, is_in_catalog=run.lakehouse.root is None)
    if found:
        raise ModelError(f"the query holds {found}")
    with no_file_relations(spark):
        rows = spark.sql(as_query(text))
    rows.schema  # noqa: B018 -- over Spark Connect only reading the schema looks up the query's names
    return rows


@contextmanager
def _views(spark: SparkSession, sources: Mapping[str, DataFrame]) -> Iterator[None]:
    """Create views of the rows under the names of Gold's tables. Afterwards restores a caller's views of these names."""
    kept = {name: f"_tidemark_kept_{name}" for name in _SOURCES if _is_temporary_view(spark, name)}
    _rename_views(spark, kept)
    for name, rows in sources.items():
        rows.createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in _SOURCES:
            spark.catalog.dropTempView(name)
        _rename_views(spark, {to: name for name, to in kept.items()})


def _is_temporary_view(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.getTable(name).isTemporary
    except SPARK_ERRORS:
        return False


def _rename_views(spark: SparkSession, names: Mapping[str, str]) -> None:
    """Rename temporary views. Drops the old name last, because Spark Connect resolves a name when it is used."""
    for before, after in names.items():
        spark.table(before).createOrReplaceTempView(after)
        spark.catalog.dropTempView(before)
