"""Programs of users: the examples of docs/python.md, and sessions that a caller started."""

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import tidemark
from lakehouse.machine import jars
from lakehouse.machine.storage_jar import storage_jar
from tests.support.kafka import send, sequenced
from tests.support.small_config import write_config
from tidemark.extras.demo.broker import LocalBroker

# A JVM that is started after the session's starts quickly.
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.e2e, pytest.mark.usefixtures("spark")]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
EXAMPLES = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))

# One JVM: a session without Delta's settings, then one with them and without Delta's jars.
LACKING = """
import sys
from pyspark.sql import SparkSession

import tidemark

def refused(given):
    try:
        tidemark.run(sys.argv[1], spark=given)
    except tidemark.ToolError as error:
        print(error.what, *error.next_step.splitlines()[1:3])

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
refused(spark)
refused(None)  # the one that is found running
print(spark.range(3).count())
spark.stop()
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
spark = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").getOrCreate()
refused(spark)
print(spark._jsc is not None)
"""
STOPPED = """
import sys

import tidemark
from lakehouse.spark.session import open_session

spark = open_session("a caller's")
spark.stop()
try:
    tidemark.plan(sys.argv[1], spark=spark)
except tidemark.ToolError as error:
    print(error.what)
"""


@pytest.fixture
def place(tmp_path: Path, broker: LocalBroker, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's examples, and an environment that makes its config one of this broker and a topic of records."""
    for name, text in EXAMPLES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    name = topic()
    send(broker.bootstrap_servers, name, sequenced(1, 2, 2, 4, 3))
    monkeypatch.setenv("TIDEMARK_KAFKA__BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("TIDEMARK_KAFKA__TOPICS", f"[{name}]")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(*command: str | Path, **environment: str) -> list[str]:
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([*map(str, command)], env=given, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def test_every_example_uses_functions_and_errors_that_there_are() -> None:
    nodes = [node for name, text in EXAMPLES.items() if name != "tidemark.yml" for node in ast.walk(ast.parse(text))]
    used = {each.attr for each in nodes if isinstance(each, ast.Attribute) and getattr(each.value, "id", None) == "tidemark"}
    assert used
    assert used <= set(tidemark.__all__)


def test_the_script_runs_and_prints_what_became_of_the_records(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(place / "first.py"))
    assert capsys.readouterr().out.splitlines() == [
        "5 records decided, 3 accepted, 1 duplicates",
        "offset 4 is late: its sequence was below the watermark and had never come before",
        "[{'key': 'k', 'sequence': 4}]",
    ]


def test_the_notebook_runs_in_a_kernel_with_a_session_of_its_own(place: Path) -> None:
    cells = [text for name, text in sorted(EXAMPLES.items()) if name.startswith("notebook, cell ")]
    # The jars that are here already, and not from a Maven repository.
    place_of_jars = os.pathsep.join(str(jar) for jar in [*jars.spark_jars(), storage_jar()])
    cells[0] = cells[0].replace("spark.jars.packages", "spark.driver.extraClassPath").replace(jars.packages(), place_of_jars)
    assert place_of_jars in cells[0]
    made = [nbformat.v4.new_code_cell(text) for text in [*cells, "spark.range(3).count()"]]  # type: ignore[no-untyped-call]  # it has no types
    notebook = nbformat.v4.new_notebook(cells=made)  # type: ignore[no-untyped-call]  # as above

    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(place)}}).execute()

    shown = [cell.outputs[-1].data["text/plain"] for cell in notebook.cells[1:]]
    assert shown[0].startswith("GoldResult(gate_run_id=")
    assert "records=3" in shown[0]
    assert [line.split() for line in shown[1].splitlines()] == [
        ["sequence", "value"],
        *(["0", "1", "v1"], ["1", "2", "v2"], ["2", "4", "v4"]),
    ]
    assert shown[2] == "3"


def test_a_session_that_lacks_delta_is_refused_with_the_lines_and_a_stopped_one(tmp_path: Path) -> None:
    lines = f'.config("spark.jars.packages", "{jars.packages()}")'
    lines += ' .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")'
    settings = f"The Spark session lacks settings of Delta Lake. {lines}"
    of_jars = f"The Spark session lacks the jars of Delta Lake. {lines}"
    config = str(write_config(tmp_path, root="lakehouse"))
    assert printed(sys.executable, "-c", LACKING, config) == [settings, settings, "3", of_jars, "True"]
    assert printed(sys.executable, "-c", STOPPED, config) == ["The Spark session is stopped."]
