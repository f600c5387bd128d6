"""Servers from the jars that Spark brings, on free loopback ports: Connect, Thrift, a standalone cluster, a Hive Metastore."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakehouse.machine import jars
from lakehouse.machine.java import java_executable
from lakehouse.spark import session
from lakehouse.storage import Storage
from tests.support.quick import QUICK
from tests.support.served import served
from tidemark.extras.demo.broker_process import HOST, free_port

HOME = Path(pyspark.__file__).parent


def settings() -> dict[str, str]:
    """What docs/clusters.md tells to set on a cluster or server."""
    return {**session._OWN, **session._RUNTIME}


def options(conf: Mapping[str, str]) -> list[str]:
    return [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]


def environment(**more: str) -> dict[str, str]:
    own = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **own, **more}


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    port = free_port()
    own = {"spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": str(port)}
    with _submitted("org.apache.spark.sql.connect.service.SparkConnectServer", own, folder, port):
        yield f"sc://{HOST}:{port}"


@contextlib.contextmanager
def thrift_server(folder: Path) -> Iterator[str]:
    port = free_port()
    own = {
        "spark.hadoop.hive.server2.thrift.bind.host": HOST,
        "spark.hadoop.hive.server2.thrift.port": str(port),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    }
    with _submitted("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", own, folder, port):
        yield f"jdbc:hive2://{HOST}:{port}"


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and a worker that has room for two executors of one core and 512 MB."""
    port, worker_port, spark_class = free_port(), free_port(), [str(HOME / "bin" / "spark-class")]
    master = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(free_port())]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", HOST, "--port", str(worker_port)]
    worker += ["--webui-port", str(free_port()), "--cores", "2", "--memory", "2g", "--work-dir", str(folder / "worker")]
    with (
        _running([*spark_class, *master], folder / "master", port),
        _running([*spark_class, *worker, f"spark://{HOST}:{port}"], folder / "worker", worker_port),
    ):
        yield f"spark://{HOST}:{port}"


def submit(application: Path, *arguments: str, master: str, packages: Path, conf: Mapping[str, str]) -> None:
    """spark-submit of a job in client mode, as docs/clusters.md has it, to its end; the wheel is installed in `packages`."""
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--driver-memory", "1g"]
    command += ["--jars", ",".join(map(str, jars.spark_jars())), *options(conf), str(application), *arguments]
    _said(command, packages, environment(PYTHONPATH=str(packages)))


def beeline(url: str, *statements: str) -> list[list[str]]:
    """The rows that statements answer with over JDBC, one after another."""
    command = [str(HOME / "bin" / "beeline"), "-u", url, "--silent=true", "--showHeader=false", "--outputformat=tsv2"]
    command += [part for each in statements for part in ("-e", each)]
    # It writes its prompt, silent or not.
    lines = _said(command, HOME, environment()).replace(f"0: {url}> ", "").splitlines()
    return [line.split("\t") for line in lines if line]


def _said(command: list[str], folder: Path, env: Mapping[str, str]) -> str:
    found = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=1_200)
    assert found.returncode == 0, found.stderr[-4000:]
    return found.stdout


def _submitted(main: str, own: Mapping[str, str], folder: Path, port: int) -> contextlib.AbstractContextManager[None]:
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
    return _running(command, folder / "server", port)


def _running(command: list[str], folder: Path, port: int) -> contextlib.AbstractContextManager[None]:
    own = environment(SPARK_LOCAL_DIRS=str(folder))
    return served(command, folder, lambda: socket.create_connection((HOST, port), timeout=1).close(), env=own)


@contextlib.contextmanager
def metastore(folder: Path, storage: Storage | None = None) -> Iterator[str]:
    """A metastore with a database in memory; its address. Its `main` listens on every address, so its handler is served here.
    It makes a folder for each schema, so it must reach the store where a schema lies."""
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j2.properties"
    logging.write_text("rootLogger.level = off\n", encoding="utf-8")
    libraries = (jars.pyspark_folder() or folder) / "jars"
    port, token, process = launch_gateway(
        jarpath=str(next(libraries.glob("py4j-*.jar"))),
        classpath=os.pathsep.join([str(libraries / "*"), *map(str, jars.spark_jars(storage.jars) if storage else [])]),
        javaopts=[f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Dlog4j2.configurationFile={logging.as_uri()}"],
        java_path=str(java_executable()),
        enable_auth=True,
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        address = free_port()
        hive = gateway.jvm.org.apache.hadoop.hive
        conf = hive.conf.HiveConf()
        own = {
            "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": folder.as_uri(),
            "hive.async.log.enabled": "false",
        }
        for name, value in {**own, **(storage.for_spark() if storage else {})}.items():
            conf.set(name.removeprefix("spark.hadoop."), value)
        handler = hive.metastore.HiveMetaStore.HMSHandler("tests", conf, False)
        handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler(handler, conf, True)
        thrift = gateway.jvm.org.apache.thrift
        bound = thrift.transport.TServerSocket(gateway.jvm.java.net.InetSocketAddress(HOST, address))
        processor = hive.metastore.TSetIpAddressProcessor(handler)
        # At its end it would wait a minute for sessions, which keep their connection.
        arguments = thrift.server.TThreadPoolServer.Args(bound).processor(processor).stopTimeoutVal(1)
        server = thrift.server.TThreadPoolServer(arguments)
        serving = threading.Thread(target=server.serve, daemon=True)
        serving.start()
        yield f"thrift://{HOST}:{address}"
        server.stop()
        serving.join()
    finally:
        gateway.shutdown()
        process.kill()
        process.stdin.close()
        process.wait()
