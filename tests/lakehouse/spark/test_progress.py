import threading

from pyspark.sql import SparkSession

from lakehouse.spark import progress
from tests.conftest import Events


def test_a_long_query_reports_its_tasks_and_nothing_while_spark_rests(spark: SparkSession) -> None:
    def compute() -> None:
        spark.range(0, 400_000, 1, 8).selectExpr("sum(crc32(cast(id AS STRING)))").collect()

    report = Events()
    with progress.report_progress(spark, report, "silver", every_seconds=0.01):
        threading.Event().wait(0.1)
    compute()
    assert report.seen == []

    with progress.report_progress(spark, report, "silver", every_seconds=0.02):
        for _ in range(100):
            compute()
            if report.seen:
                break
    name, fields = report.seen[0]
    assert name == "silver.working"
    assert 0 <= int(str(fields["tasks_done"])) <= int(str(fields["tasks"])) > 0
