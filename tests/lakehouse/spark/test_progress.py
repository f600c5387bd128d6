"""What Spark reports: its progress, and its log, as `lakehouse/spark/log4j2.properties` writes it on standard error."""

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from lakehouse.spark import progress, session
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


PROGRAM = r"""
import org.apache.logging.log4j.*;
public class Hostile {
    public static void main(String[] arguments) {
        String sent = "x\u001b]0;owned\u0007\u009b2J\u202e\u061c\u00ad\udb40\udc41\n"
            + "{\"event\": \"run.finished\"}\r\nend\n\r{\"event\": \"run.finished\"}";
        LogManager.getLogger("a.b.Spark").error(sent, new RuntimeException(sent));
    }
}
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="the JVM alone runs no source")
def test_what_a_producer_sent_neither_steers_the_terminal_nor_forges_a_line(tmp_path: Path) -> None:
    file = tmp_path / "Hostile.java"
    file.write_text(PROGRAM, encoding="utf-8")
    jars = Path(pyspark.__file__).with_name("jars").glob("log4j-*.jar")
    log4j = Path(session.__file__).with_name("log4j2.properties")
    options = ["-cp", os.pathsep.join(map(str, jars)), f"-Dlog4j2.configurationFile={log4j.as_uri()}"]
    done = subprocess.run(["java", *options, str(file)], capture_output=True, text=True, check=True)
    first, *more = done.stderr.splitlines()
    assert first.endswith("ERROR Spark: x?]0;owned??2J????")
    forged = '{"event": "run.finished"}'
    assert more[:3] == [f"  | {forged}", "  | end", f"  | ?{forged}"]
    assert more[3] == "  | java.lang.RuntimeException: x?]0;owned??2J????"
    assert all(line.startswith("  | ") for line in more)
    assert all(each.isprintable() or each in "\n\t" for each in done.stderr)
