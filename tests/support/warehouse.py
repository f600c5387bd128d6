"""The server's side of a SQL warehouse: its protocol over TLS, its queries run by our Spark session.

No warehouse runs here. What is real: the platform's connector, its requests and answers in Arrow, and Spark's SQL. What is not:
the platform's own dialect, its rights and its ways to log in.
"""

from __future__ import annotations

import contextlib
import secrets
import ssl
import subprocess
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.support.served import kept_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

VERSION = "4.9.0"
TOKEN = "a-token-of-the-tests"

_HOST = "127.0.0.1"


def connector() -> Path:
    """The folder with the connector and what it needs. It is not among our own packages, as it limits their versions."""

    def fetch(work: Path) -> Path:
        place = work / "connector"
        wanted = [f"databricks-sql-connector=={VERSION}", "thrift", "lz4", "oauthlib", "pybreaker", "pyjwt", "trustme"]
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place)]
        subprocess.run([*install, *wanted], check=True)
        return place

    return kept_program(f"databricks-sql-connector-{VERSION}", fetch)


@contextlib.contextmanager
def warehouse(spark: SparkSession, folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve a session; yields the host with its port, and the file of the authority that vouches for it."""
    import trustme
    from databricks.sql.thrift_api.TCLIService import TCLIService

    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(_HOST).configure_cert(context)
    with _Server((_HOST, 0), _Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.processor = TCLIService.Processor(_Service(spark))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{_HOST}:{server.server_address[1]}", folder / "authority.pem"
        server.shutdown()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    processor: Any


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        """Answer one call."""
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TTransport import TMemoryBuffer

        called = TMemoryBuffer(self.rfile.read(int(self.headers["Content-Length"])))
        answered = TMemoryBuffer()
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if is_known:
            self.server.processor.process(TBinaryProtocol(called), TBinaryProtocol(answered))
        self.send_response_only(HTTPStatus.OK if is_known else HTTPStatus.FORBIDDEN)
        self.send_header("Content-Length", str(len(answered.getvalue())))
        self.end_headers()
        self.wfile.write(answered.getvalue())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as it is inherited
        """Say nothing."""


class _Service:
    """The calls of a client that takes its results with the answer. The names are the protocol's."""

    def __init__(self, spark: SparkSession) -> None:
        from databricks.sql.thrift_api.TCLIService import ttypes

        self.types = ttypes
        self.done = ttypes.TStatus(ttypes.TStatusCode.SUCCESS_STATUS)
        self.spark = spark
        self.sessions: dict[bytes, SparkSession] = {}

    def _identifier(self) -> Any:
        return self.types.THandleIdentifier(secrets.token_bytes(16), secrets.token_bytes(16))

    def OpenSession(self, asked: Any) -> Any:  # noqa: N802, ARG002 -- the protocol's
        identifier = self._identifier()
        session = self.sessions[identifier.guid] = self.spark.newSession()
        session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")  # one's own default may be any
        version = self.types.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V7
        return self.types.TOpenSessionResp(self.done, version, self.types.TSessionHandle(identifier))

    def CloseSession(self, asked: Any) -> Any:  # noqa: N802 -- the protocol's
        del self.sessions[asked.sessionHandle.sessionId.guid]
        return self.types.TCloseSessionResp(self.done)

    def CloseOperation(self, asked: Any) -> Any:  # noqa: N802, ARG002 -- the protocol's
        return self.types.TCloseOperationResp(self.done)

    def ExecuteStatement(self, asked: Any) -> Any:  # noqa: N802 -- the protocol's
        types = self.types
        handle = types.TOperationHandle(self._identifier(), types.TOperationType.EXECUTE_STATEMENT, hasResultSet=True)
        try:
            found = self.sessions[asked.sessionHandle.sessionId.guid].sql(asked.statement).toArrow()
        except Exception as error:  # noqa: BLE001 -- the client is told, as by any server
            state = types.TGetOperationStatusResp(
                self.done, operationState=types.TOperationState.ERROR_STATE, errorMessage=str(error), displayMessage=str(error)
            )
            return types.TExecuteStatementResp(self.done, handle, types.TSparkDirectResults(state))
        state = types.TGetOperationStatusResp(self.done, operationState=types.TOperationState.FINISHED_STATE)
        text = types.TTypeDesc([types.TTypeEntry(types.TPrimitiveTypeEntry(types.TTypeId.STRING_TYPE))])
        columns = [types.TColumnDesc(name, text, nth + 1) for nth, name in enumerate(found.column_names)]
        described = types.TGetResultSetMetadataResp(
            self.done,
            types.TTableSchema(columns),
            resultFormat=types.TSparkRowSetType.ARROW_BASED_SET,
            arrowSchema=found.schema.serialize().to_pybytes(),
        )
        batches = [types.TSparkArrowBatch(batch.serialize().to_pybytes(), batch.num_rows) for batch in found.to_batches()]
        rows = types.TFetchResultsResp(self.done, hasMoreRows=False, results=types.TRowSet(0, [], arrowBatches=batches))
        closed = types.TCloseOperationResp(self.done)
        return types.TExecuteStatementResp(self.done, handle, types.TSparkDirectResults(state, described, rows, closed))
