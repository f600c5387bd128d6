"""A real S3 store on this machine (SeaweedFS), and a proxy before it that interferes with single requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import sysconfig
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bronze.dev_broker.process import free_port
from lakehouse.storage.s3 import S3Storage
from tests.support.served import PATIENCE_SECONDS, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUCKET = "lake"

_HOST = "127.0.0.1"
_KEY_ID, _SECRET = "TESTS_KEY_ID", "TESTS_SECRET"


@dataclass(frozen=True)
class Request:
    """A request as it came, with the answer's status once there is one."""

    method: str
    path: str
    status: int = 0

    @property
    def is_commit(self) -> bool:
        """Whether it writes a commit of a Delta table."""
        name = self.path.partition("?")[0].rpartition("/")[2]
        return self.method == "PUT" and "/_delta_log/" in self.path and name.removesuffix(".json").isdigit()


@dataclass
class Interference:
    """What the proxy does beside handing on.

    Attributes:
        before: Called before a request is handed on.
        is_lost: Whether an answer is kept back and the connection cut.
        hides_refusals: Whether the answer that an object is there already is turned into that of a success.
        seen: All requests, in the order of their answers.
    """

    before: Callable[[Request], None] = lambda _: None
    is_lost: Callable[[Request], bool] = lambda _: False
    hides_refusals: bool = False
    seen: list[Request] = field(default_factory=list)


def storage(port: int) -> S3Storage:
    """How the store, or a proxy before it, is reached."""
    return S3Storage(f"http://{_HOST}:{port}", "us-east-1", "tests", "of-the-tests")


def section(key: str, place: str, given: S3Storage) -> dict[str, Any]:
    """The section `lakehouse` of a config with its root or volume in the store, and credentials as references."""
    os.environ |= {_KEY_ID: given.access_key_id or "", _SECRET: given.secret_access_key or ""}
    keys = {"access_key_id": f"${{env:{_KEY_ID}}}", "secret_access_key": f"${{env:{_SECRET}}}"}
    return {key: place, "storage": {"endpoint": given.endpoint, "region": given.region, **keys}}


@contextlib.contextmanager
def object_store(folder: Path) -> Iterator[int]:
    """Start a store with an empty bucket; yields its port.

    Raises:
        TimeoutError: It did not start.
    """
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    s3, s3_grpc, *ports = (free_port() for _ in range(len(names) + 2))
    folder.mkdir(parents=True, exist_ok=True)
    keys = {"accessKey": storage(0).access_key_id, "secretKey": storage(0).secret_access_key}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [{"name": "tests", "credentials": [keys], "actions": ["Admin"]}]}))
    command = [
        *(str(_program()), "server", "-s3", "-filer", f"-dir={folder}", f"-ip={_HOST}", f"-ip.bind={_HOST}"),
        *("-master.telemetry=false", "-volume.max=1000", "-master.volumeSizeLimitMB=256", f"-s3.config={config}"),
        *(f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
    ]
    with served(command, folder, lambda: make_bucket(s3, BUCKET)):
        yield s3


def _program() -> Path:
    return Path(sysconfig.get_path("scripts")) / "weed"


def make_bucket(port: int, bucket: str) -> None:
    """Make a bucket."""
    from pyarrow.fs import S3FileSystem

    given = storage(port)
    S3FileSystem(
        access_key=given.access_key_id,
        secret_key=given.secret_access_key,
        region=given.region,
        scheme="http",
        endpoint_override=f"{_HOST}:{port}",
        allow_bucket_creation=True,
        connect_timeout=1,
        request_timeout=PATIENCE_SECONDS,
    ).create_dir(bucket)


@contextlib.contextmanager
def before_store(port: int) -> Iterator[tuple[int, Interference]]:
    """Start a proxy before a store; yields its port and what it does."""
    interference = Interference()
    with _Proxy((_HOST, 0), _Handler) as server:
        server.store, server.interference = port, interference
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], interference
        server.shutdown()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    store: int
    interference: Interference


class _Handler(BaseHTTPRequestHandler):
    """Hands on a request as it is: its signature covers the host that the client named, and that header is handed on too."""

    protocol_version = "HTTP/1.1"
    server: _Proxy

    def _hand_on(self) -> None:
        body = self._body()
        asked, interference = Request(self.command, self.path), self.server.interference
        interference.before(asked)
        connection = http.client.HTTPConnection(_HOST, self.server.store, timeout=PATIENCE_SECONDS)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "connection"):
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        answered = Request(self.command, self.path, answer.status)
        interference.seen.append(answered)
        if interference.is_lost(answered):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        is_hidden = interference.hides_refusals and answer.status == http.HTTPStatus.PRECONDITION_FAILED
        if is_hidden:
            content = b""
        self.send_response_only(http.HTTPStatus.OK if is_hidden else answer.status)
        length = answer.getheader("Content-Length") or "0" if self.command == "HEAD" else str(len(content))
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        if is_hidden:
            self.send_header("ETag", '"hidden"')
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        """What came with the request, as it came: Arrow sends pieces, each with its size before it."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        came = [self.rfile.readline()]
        while size := int(came[-1].partition(b";")[0], 16):
            came += [self.rfile.read(size + len(b"\r\n")), self.rfile.readline()]
        while came[-1] not in (b"\r\n", b""):
            came.append(self.rfile.readline())
        return b"".join(came)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _hand_on  # noqa: N815 -- the names that http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as it is inherited
        """Say nothing."""


def new_root(bucket: str = BUCKET) -> str:
    """A folder in a bucket that no other test has."""
    return f"s3://{bucket}/{os.getpid()}-{secrets.token_hex(4)}"


def reached_by(bucket: str, given: S3Storage) -> dict[str, str]:
    """The settings by which a running session reaches a bucket, and keeps checkpoints there."""
    conf = given.for_spark()
    common, own = "spark.hadoop.fs.s3a.", f"fs.s3a.bucket.{bucket}."
    found = {name.replace(common, own): value for name, value in conf.items() if name.startswith(common)}
    checkpoints = "spark.sql.streaming.checkpointFileManagerClass"
    return {**found, checkpoints: conf[checkpoints]}
