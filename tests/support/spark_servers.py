"""Servers of Spark as processes of their own, on free loopback ports: Connect, Thrift, a standalone cluster."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from bronze.dev_broker.process import HOST, end, free_port
from lakehouse.machine import jars
from lakehouse.spark import session
from tests.support.quick import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOME = Path(pyspark.__file__).parent
_PATIENCE_SECONDS = 600


def settings() -> dict[str, str]:
    """What docs/clusters.md tells to set on a cluster or server."""
    return {**session._OWN, **session._RUNTIME}


def options(conf: Mapping[str, str]) -> list[str]:
    """Settings as spark-submit takes them."""
    return [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]


def environment(**more: str) -> dict[str, str]:
    """That of a process of Spark's own scripts, with this interpreter."""
    own = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **own, **more}


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server with Delta and the Kafka source; its URL."""
    port = free_port()
    own = {"spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": str(port)}
    with _submitted("org.apache.spark.sql.connect.service.SparkConnectServer", own, folder, port):
        yield f"sc://{HOST}:{port}"


@contextlib.contextmanager
def thrift_server(folder: Path) -> Iterator[str]:
    """A Thrift server with Delta and a catalog of its own; its JDBC URL."""
    port = free_port()
    own = {
        "spark.hadoop.hive.server2.thrift.bind.host": HOST,
        "spark.hadoop.hive.server2.thrift.port": str(port),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    }
    with _submitted("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", own, folder, port):
        yield f"jdbc:hive2://{HOST}:{port}"


@contextlib.contextmanager
def standalone_cluster(folder: Path, *, workers: int) -> Iterator[str]:
    """A master and workers of one core each; the master's URL."""
    port, ui = free_port(), ["--webui-port", str(free_port())]
    master = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), *ui]
    with contextlib.ExitStack() as stack:
        spark_class = str(HOME / "bin" / "spark-class")
        stack.enter_context(_running([spark_class, *master], folder / "master.log", port))
        for nth in range(workers):
            own = ["--host", HOST, "--port", str(worker_port := free_port()), "--webui-port", str(free_port())]
            worker = ["org.apache.spark.deploy.worker.Worker", *own, "--cores", "1", "--memory", "1g"]
            worker += ["--work-dir", str(folder / f"worker-{nth}"), f"spark://{HOST}:{port}"]
            log = folder / f"worker-{nth}.log"
            stack.enter_context(_running([spark_class, *worker], log, worker_port))
        yield f"spark://{HOST}:{port}"


def submit(application: Path, *arguments: str, master: str, packages: Path, conf: Mapping[str, str]) -> None:
    """spark-submit of a job in client mode, as docs/clusters.md has it, to its end.

    Args:
        application: The job's file.
        arguments: The job's own.
        master: Where it is to run.
        packages: The folder that the wheel was installed into.
        conf: Further settings.
    """
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--driver-memory", "1g"]
    command += ["--jars", ",".join(map(str, jars.spark_jars())), *options(conf), str(application), *arguments]
    found = subprocess.run(
        command,
        env=environment(PYTHONPATH=str(packages)),
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_SECONDS * 2,
    )
    assert found.returncode == 0, found.stderr[-4000:]


def beeline(url: str, *statements: str) -> list[list[str]]:
    """The rows that statements answer with over JDBC, one after another."""
    command = [str(HOME / "bin" / "beeline"), "-u", url, "--silent=true", "--showHeader=false", "--outputformat=tsv2"]
    command += [part for each in statements for part in ("-e", each)]
    found = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS)
    assert found.returncode == 0, found.stderr[-4000:]
    # It writes its prompt, silent or not.
    lines = found.stdout.replace(f"0: {url}> ", "").splitlines()
    return [line.split("\t") for line in lines if line]


@contextlib.contextmanager
def _submitted(main: str, own: Mapping[str, str], folder: Path, port: int) -> Iterator[None]:
    conf = {
        **QUICK,
        **settings(),
        "spark.master": "local[2]",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars.spark_jars())),
        "spark.driver.host": HOST,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        **own,
    }
    command = [str(HOME / "bin" / "spark-submit"), "--class", main, "--driver-memory", "1g", *options(conf)]
    with _running(command, folder / "server.log", port):
        yield


@contextlib.contextmanager
def _running(command: list[str], log: Path, port: int) -> Iterator[None]:
    """A process that listens on the port; ended with the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(), cwd=log.parent, start_new_session=True
        )
    try:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not _listens(port):
            assert process.poll() is None, log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < until, log.read_text(errors="replace")[-4000:]
            time.sleep(0.2)
        yield
    finally:
        end(process)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False
