"""Real object stores on this machine, and a proxy that interferes with single requests."""

import contextlib
import http.client
import json
import os
import secrets
import socket
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.sidecar_files import Files
from lakehouse.storage import AzureStorage, GoogleStorage, S3Storage
from tests.support.served import PATIENCE_SECONDS, Handler, kept_program, listening, served
from tidemark.extras.demo.broker_process import HOST, free_port

BUCKET = "lake"
AZURITE, FAKE_GCS = "3.35.0", "v1.56.1"

_ACCOUNT = "devstoreaccount1.dfs.core.windows.net"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, in its documentation: nothing is behind it."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    status: int = 0

    @property
    def is_commit(self) -> bool:
        name = self.path.partition("?")[0].rpartition("/")[2]
        return self.method == "PUT" and "/_delta_log/" in self.path and name.removesuffix(".json").isdigit()


@dataclass
class Interference:
    """What the proxy does to requests, and all that it has seen, in the order of their answers."""

    before: Callable[[Request], None] = lambda _: None  # called before a request is handed on
    is_lost: Callable[[Request], bool] = lambda _: False  # whether an answer is kept back and the connection cut
    hides_refusals: bool = False  # whether the answer that an object is there already is turned into that of a success
    seen: list[Request] = field(default_factory=list)


def storage(port: int) -> S3Storage:
    return S3Storage(f"http://{HOST}:{port}", "us-east-1", "tests", "of-the-tests")


def section(key: str, place: str, given: S3Storage) -> dict[str, Any]:
    """The section `lakehouse` of a config with its root or volume in the store, and credentials as references."""
    os.environ |= {"TESTS_KEY_ID": given.access_key_id or "", "TESTS_SECRET": given.secret_access_key or ""}
    keys = {"access_key_id": "${env:TESTS_KEY_ID}", "secret_access_key": "${env:TESTS_SECRET}"}
    return {key: place, "storage": {"endpoint": given.endpoint, "region": given.region, **keys}}


@contextlib.contextmanager
def object_store(folder: Path) -> Iterator[int]:
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    s3, s3_grpc, *ports = (free_port() for _ in range(len(names) + 2))
    folder.mkdir(parents=True, exist_ok=True)
    keys = {"accessKey": storage(0).access_key_id, "secretKey": storage(0).secret_access_key}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [{"name": "tests", "credentials": [keys], "actions": ["Admin"]}]}))
    command = [
        *(
            f"{sysconfig.get_path('scripts')}/weed",
            "server",
            "-s3",
            "-filer",
            f"-dir={folder}",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
        ),
        *("-master.telemetry=false", "-volume.max=1000", "-master.volumeSizeLimitMB=256", f"-s3.config={config}"),
        *(f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
    ]
    with served(command, folder, lambda: make_bucket(s3, BUCKET)):
        yield s3


def make_bucket(port: int, bucket: str) -> None:
    from pyarrow.fs import S3FileSystem

    given = storage(port)
    S3FileSystem(
        access_key=given.access_key_id,
        secret_key=given.secret_access_key,
        region=given.region,
        scheme="http",
        endpoint_override=f"{HOST}:{port}",
        allow_bucket_creation=True,
        connect_timeout=1,
        request_timeout=PATIENCE_SECONDS,
    ).create_dir(bucket)


@contextlib.contextmanager
def before_store(port: int) -> Iterator[tuple[int, Interference]]:
    interference = Interference()
    with listening(_Proxy, store=port, interference=interference) as own:
        yield own, interference


class _Proxy(Handler):
    """Hands on a request as it is: its signature covers the host that the client named, and that header is handed on too."""

    protocol_version = "HTTP/1.1"
    store: int
    interference: Interference

    def _hand_on(self) -> None:
        body, interference = self.body(), self.interference
        interference.before(Request(self.command, self.path))
        connection = http.client.HTTPConnection(HOST, self.store, timeout=PATIENCE_SECONDS)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("expect", "connection")}
        connection.request(self.command, self.path, body or None, headers)
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

    def body(self) -> bytes:
        """What came with the request, as it came: Arrow sends pieces, each with its size before it."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return super().body()
        came = [self.rfile.readline()]
        while size := int(came[-1].partition(b";")[0], 16):
            came += [self.rfile.read(size + len(b"\r\n")), self.rfile.readline()]
        while came[-1] not in (b"\r\n", b""):
            came.append(self.rfile.readline())
        return b"".join(came)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _hand_on  # noqa: N815 -- the names that http.server calls


def new_root(bucket: str = BUCKET) -> str:
    return f"s3://{bucket}/{os.getpid()}-{secrets.token_hex(4)}"


def reached_by(bucket: str, given: S3Storage) -> dict[str, str]:
    conf = given.for_spark()
    common, own = "spark.hadoop.fs.s3a.", f"fs.s3a.bucket.{bucket}."
    found = {name.replace(common, own): value for name, value in conf.items() if name.startswith(common)}
    checkpoints = "spark.sql.streaming.checkpointFileManagerClass"
    return {**found, checkpoints: conf[checkpoints]}


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[tuple[AzureStorage, str]]:
    """Azurite with an empty container: its options and URI. It has no hierarchical namespace and no TLS, hence `abfs`."""

    def fetch(work: Path) -> Path:
        command = ["npm", "install", "--prefix", str(work / "azurite"), "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([*command, f"azurite@{AZURITE}"], check=True, capture_output=True, timeout=600)
        return work / "azurite"

    program = kept_program(f"azurite-{AZURITE}", fetch) / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    port = free_port()
    command = [
        *("node", str(program), "--blobHost", HOST, "--blobPort", str(port), "--location", str(folder)),
        *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
    ]
    given = AzureStorage(_ACCOUNT, _ACCOUNT_KEY, endpoint=f"http://{HOST}:{port}")
    with served(command, folder, lambda: _make_container(f"{HOST}:{port}")):
        yield given, f"abfs://{BUCKET}@{_ACCOUNT}"


def _make_container(address: str) -> None:
    from pyarrow.fs import AzureFileSystem

    place = {
        f"{each}_storage_{part}": value
        for each in ("blob", "dfs")
        for part, value in (("authority", address), ("scheme", "http"))
    }
    AzureFileSystem(_ACCOUNT.partition(".")[0], account_key=_ACCOUNT_KEY, **place).create_dir(BUCKET)


@contextlib.contextmanager
def fake_gcs(folder: Path) -> Iterator[tuple[GoogleStorage, str]]:
    """fake-gcs-server with an empty bucket: its options and URI. It keeps the conditions that Google's store keeps."""

    def build(work: Path) -> Path:
        environ = {**os.environ, "GOBIN": str(work), "GOFLAGS": "-modcacherw", "GOPATH": str(work / "go")}
        command = ["go", "install", f"github.com/fsouza/fake-gcs-server@{FAKE_GCS}"]
        subprocess.run(command, check=True, capture_output=True, timeout=900, env=environ, cwd=work)
        return work / "fake-gcs-server"

    port, objects = free_port(), folder / "objects"
    (objects / BUCKET).mkdir(parents=True)
    command = [
        *(str(kept_program(f"fake-gcs-server-{FAKE_GCS}", build)), "-scheme", "http", "-host", HOST, "-port", str(port)),
        *("-log-level", "error", "-filesystem-root", str(objects), "-public-host", f"{HOST}:{port}"),
    ]
    given = GoogleStorage(f"http://{HOST}:{port}")
    with served(command, folder, Files(f"gs://{BUCKET}", given).sizes):
        yield given, f"gs://{BUCKET}"
