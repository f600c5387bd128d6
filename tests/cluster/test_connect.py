"""A smoke test over a real Spark Connect server: its commands leave tables that equal those of a classic session."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse.table import TABLE_NAMES, Lakehouse
from tests.support.kafka import Sent, send
from tests.support.small_config import write_config
from tests.support.spark_servers import connect_server
from tidemark.commands import main
from tidemark.extras.demo.broker import LocalBroker, create_topic
from tidemark.readers import files as query

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.e2e]

_REPOSITORY = Path(__file__).parents[2]
_VARYING = {"run_id", "ingested_at", "updated_at", "claimed_at", "evaluated_at", "published_at", "gate_run_id"}
# Topic ids cannot be asked for over Spark Connect.
_VARYING |= {"known_since", "checkpoint", "topic_id"}
# The first load is `tidemark.run` with the caller's session; these follow.
_COMMANDS = [["quarantine", "release", "t", "0", "6", "--reason", "it is real"], ["verify", "--deep"]]
_NAMES = ("silver_records", "silver_watermarks", "gold_records")
_ZONE = "Europe/Berlin"
_PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import tidemark
from tidemark.commands import main
from lakehouse.spark.query_sandbox import beyond_tables
from lakehouse.spark.session import open_session
commands, names, config, root, zone = *map(json.loads, sys.argv[1:3]), *sys.argv[3:]
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.session.timeZone", zone)
spark.range(1).createOrReplaceTempView("gold_records")
done = tidemark.run(config, spark=spark)
first = [type(spark).__module__, done.silver.accepted, spark.conf.get("spark.sql.session.timeZone")]
first += [len(done.gold.models), spark.table("gold_records").columns]
functions = ("table_changes", "range", "explode", "stack")
first += [each for each in functions if not beyond_tables(spark, f"SELECT * FROM {each}(1)", is_in_catalog=True)]
spark.catalog.dropTempView("gold_records")
codes = [main([*command, "--config", config, "--json"]) for command in commands]
spark, counts = open_session("a client"), {}
for name in names:
    spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{root}/{name}'")
    counts[name] = spark.sql(f"SELECT count(*) FROM {name}").collect()[0][0]
print(json.dumps([first, codes, counts]))
"""


def run_all(config: Path, root: Path, url: str) -> dict[str, int]:
    arguments = [json.dumps(_COMMANDS), json.dumps(_NAMES), str(config), str(root), _ZONE]
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    environment = {**os.environ, "SPARK_REMOTE": url}
    done = subprocess.run(command, cwd=_REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=1_500)
    assert done.returncode == 0, done.stderr[-4000:]
    first, codes, counts = json.loads(done.stdout.splitlines()[-1])
    kept = [_ZONE, 1, ["id"]]
    assert first == ["pyspark.sql.connect.session", 7, *kept], "the caller's session is used and keeps its settings and views"
    assert codes == [0] * len(_COMMANDS), done.stderr[-6000:]
    found: dict[str, int] = counts
    return found


def tables(root: Path) -> dict[str, list[Any]]:
    """The rows of every table, but for what says who wrote them, and when."""
    lakehouse, found = Lakehouse(root=str(root)), {}
    with query.connect(lakehouse) as opened:
        for name in sorted(set(TABLE_NAMES) & query.tables(lakehouse).keys()):
            opened.open([name])
            described = opened.connection.execute(f"DESCRIBE {name}").fetchall()
            columns = ", ".join(f'"{column[0]}"' for column in described if column[0] not in _VARYING)
            found[name] = opened.connection.execute(f"SELECT {columns} FROM {name} ORDER BY ALL").fetchall()
    return found


@pytest.mark.usefixtures("spark")  # the commands' classic session
def test_commands_over_spark_connect_leave_the_tables_of_a_classic_session(tmp_path: Path, broker: LocalBroker) -> None:
    create_topic(broker.bootstrap_servers, "t", 2)
    sequences = [(0, 1), (0, 2), (1, 1), (0, 2), (0, 5), (0, 1), (0, 7), (0, 6), (1, 2), (1, None), (0, 100)]
    for nth, (partition, sequence) in enumerate(sequences):
        headers = [] if sequence is None else [("seq", str(sequence).encode())]
        send(broker.bootstrap_servers, "t", [Sent(b"%d" % nth, key=b"k%d" % (nth % 3), partition=partition, headers=headers)])
    kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": ["t"]}
    (tmp_path / "by_key.sql").write_text("SELECT key, count(*) AS records FROM gold_records GROUP BY key", encoding="utf-8")
    gold, configs = {"models": [{"name": "by_key", "sql": str(tmp_path / "by_key.sql")}]}, {}
    for kind in ("classic", "connect"):
        (tmp_path / kind).mkdir()
        configs[kind] = write_config(tmp_path / kind, root=str(tmp_path / kind / "lakehouse"), kafka=kafka, gold=gold)

    for command in (["run"], _COMMANDS[0]):  # the other one leaves tables as they are
        assert main([*command, "--config", str(configs["classic"]), "--json"]) == 0, command
    with connect_server(tmp_path) as url:
        counted = run_all(configs["connect"], tmp_path / "connect" / "lakehouse", url)

    classic, connect = (tables(tmp_path / kind / "lakehouse") for kind in configs)
    assert connect == classic
    assert counted == {name: len(connect[name]) for name in counted}
    assert min(counted.values()) > 0
