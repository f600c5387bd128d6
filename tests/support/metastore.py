"""A real Hive Metastore on this machine, from the jars that Spark brings, with a database in memory."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from bronze.dev_broker.process import free_port
from lakehouse.machine import jars
from lakehouse.machine.java import java_executable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakehouse.storage.store import Storage

_HOST = "127.0.0.1"
_CONF = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "HikariCP",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
}


@contextlib.contextmanager
def metastore(folder: Path, storage: Storage | None = None) -> Iterator[str]:
    """Start a metastore whose schemas lie in a folder unless they say otherwise; yields its address.

    Its own `main` listens on every address of the machine. So its handler is served from here, on one. It makes a folder
    for each schema, so where those lie in a store, it has to reach that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    libraries = (jars.pyspark_folder() or folder) / "jars"
    port, token, process = launch_gateway(
        jarpath=str(next(libraries.glob("py4j-*.jar"))),
        classpath=os.pathsep.join([str(libraries / "*"), *map(str, jars.spark_jars(storage.jars) if storage else [])]),
        javaopts=[f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Dlog4j2.configurationFile={_silent(folder)}"],
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
        for name, value in _settings(folder, storage).items():
            conf.set(name, value)
        handler = hive.metastore.HiveMetaStore.HMSHandler("tests", conf, False)
        handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler(handler, conf, True)
        thrift = gateway.jvm.org.apache.thrift
        socket = thrift.transport.TServerSocket(gateway.jvm.java.net.InetSocketAddress(_HOST, address))
        processor = hive.metastore.TSetIpAddressProcessor(handler)
        # At its end it would wait a minute for sessions, which keep their connection.
        arguments = thrift.server.TThreadPoolServer.Args(socket).processor(processor).stopTimeoutVal(1)
        server = thrift.server.TThreadPoolServer(arguments)
        serving = threading.Thread(target=server.serve, daemon=True)
        serving.start()
        yield f"thrift://{_HOST}:{address}"
        server.stop()
        serving.join()
    finally:
        gateway.shutdown()
        process.kill()
        process.stdin.close()
        process.wait()


def _settings(folder: Path, storage: Storage | None) -> dict[str, str]:
    reached = storage.for_spark() if storage else {}
    own = {name.removeprefix("spark.hadoop."): value for name, value in reached.items() if name.startswith("spark.hadoop.")}
    return {**_CONF, "hive.metastore.warehouse.dir": folder.as_uri(), **own}


def _silent(folder: Path) -> str:
    file = folder / "log4j2.properties"
    file.write_text("rootLogger.level = off\n", encoding="utf-8")
    return file.as_uri()
