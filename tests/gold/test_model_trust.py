"""What a Gold model may read, on a real session: Gold's tables, and no file, program, variable or method of the JVM."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.settings.model_sql import as_query, foreign_relations
from lakehouse.spark.query_sandbox import beyond_tables, no_file_relations

WIDE = ", ".join(f"{number} AS c{number}" for number in range(60))
FILES = [
    "SELECT * FROM text.`{file}`",
    "SELECT * FROM TEXT.`{file}`",
    "SELECT * FROM csv.`{file}`",
    "SELECT * FROM `text`.`{file}`",
    "SELECT * FROM binaryFile.`{file}`",
    "SELECT * FROM delta.`{file}`",
    "SELECT * FROM `org.apache.spark.sql.execution.datasources.text.TextFileFormat`.`{file}`",
    "TABLE text.`{file}`",
    "WITH a AS (SELECT * FROM text.`{file}`) SELECT * FROM a",
    "SELECT * FROM gold_records, text.`{file}`",
    "SELECT * FROM gold_records LEFT JOIN text.`{file}` ON true",
    "SELECT (SELECT max(value) FROM text.`{file}`) AS a",
    "SELECT {wide}, (SELECT max(value) FROM text.`{file}`) AS a",
    "SELECT {wide}, struct({wide}, (SELECT max(value) FROM text.`{file}`)) AS a",
    "SELECT * FROM gold_records WHERE EXISTS (SELECT 1 FROM text.`{file}`)",
    "SELECT * FROM gold_records WHERE topic IN (SELECT value FROM text.`{file}`)",
    "SELECT 1 UNION ALL SELECT value FROM text.`{file}`",
    "SELECT 1) UNION ALL (SELECT value FROM text.`{file}`",
    "SELECT * FROM gold_records JOIN LATERAL (SELECT * FROM text.`{file}`)",
    "FROM text.`{file}` SELECT *",
    "FROM text.`{file}` |> SELECT value",
    "SELECT * FROM json.`file://{file}`",
    "SELECT * FROM text.`{file}[t\n]`",
    "SELECT * FROM text.`\n{file}\n`",
    "SELECT 'UnresolvedRelation [a', value FROM text.`{file}[t\n]`",
]
CALLS = [
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT '${{env:HOME}}'",
    "SELECT TRANSFORM(1) USING 'cat' AS (a STRING)",
    "SELECT * FROM table_changes_by_path('{file}', 0)",
]
TAKEN = [
    "SELECT topic, count(*) AS records FROM gold_records GROUP BY topic",
    "WITH a AS (SELECT 1 AS n) SELECT * FROM a JOIN gold_records ON true",
    "SELECT r.topic, 'UnresolvedRelation' AS word FROM gold_records AS r",
    "SELECT explode(sequence(1, 3)) AS n",
    "SELECT n FROM (SELECT sequence(1, 3) AS a) LATERAL VIEW explode(a) AS n",
]
FUNCTIONS = [
    "SELECT * FROM table_changes('delta.`{file}`', 1)",
    "SELECT * FROM `Table_Changes`('gold_records', 1)",
    "SELECT (SELECT max(id) FROM range(3)) AS a",
    "SELECT * FROM gold_records, LATERAL explode(array(1))",
    "FROM range(2) |> SELECT id",
    "SELECT * FROM a.b(1)",
    "SELECT * FROM anything(TABLE(gold_records))",
]


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession) -> Iterator[None]:
    spark.createDataFrame([("a", 1)], "topic STRING, offset BIGINT").createOrReplaceTempView("gold_records")
    yield
    spark.catalog.dropTempView("gold_records")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("hunter2\n")
    return tmp_path / "secret"


def test_a_model_that_names_a_file_calls_the_jvm_or_runs_a_program_is_refused(spark: SparkSession, file: Path) -> None:
    for each in [*FILES, *CALLS, *FUNCTIONS]:
        try:
            assert beyond_tables(spark, each.format(file=file, wide=WIDE), is_in_catalog=False), each
        except PySparkException as error:
            assert "PARSE_SYNTAX_ERROR" in str(error), each  # noqa: PT017 -- or it is no query


def test_every_table_function_of_the_engine_is_refused(spark: SparkSession) -> None:
    functions = spark._jsparkSession.sessionState().tableFunctionRegistry().listFunction()
    names = [functions.apply(nth).funcName() for nth in range(functions.length())]
    assert len(names) > 10
    assert [each for each in names if not beyond_tables(spark, f"SELECT * FROM `{each}`(1)", is_in_catalog=True)] == []


def test_each_wall_alone_finds_every_file(spark: SparkSession, file: Path) -> None:
    """The parsed plan names it, and no file is a table while a model is analysed."""
    for each in FILES:
        query = each.format(file=file, wide=WIDE)
        with suppress(PySparkException):
            plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(query).toString()
            assert all(foreign_relations(plan, is_in_catalog=is_in_catalog) for is_in_catalog in (False, True)), each
        with no_file_relations(spark), pytest.raises(PySparkException):
            spark.sql(as_query(query))
    assert spark.sql(f"SELECT * FROM text.`{file}`").collect()[0][0] == "hunter2"  # ours go on: tables are named by folders


def test_a_session_of_ours_puts_no_variable_into_a_query(spark: SparkSession) -> None:
    assert spark.sql("SELECT '${env:HOME}' AS said").collect()[0]["said"] == "${env:HOME}"


def test_queries_over_gold_are_taken(spark: SparkSession) -> None:
    for text in TAKEN:
        assert beyond_tables(spark, text, is_in_catalog=False) is None
        with no_file_relations(spark):
            assert spark.sql(as_query(text)).collect()
