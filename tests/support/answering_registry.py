"""A server that answers as a schema registry does, with what a test gives it: also what no real one would say."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class _Answers(BaseHTTPRequestHandler):
    schemas: Mapping[int, Any]
    status: int
    login: str | None
    failures: list[int]

    def do_GET(self) -> None:
        number = self.path.rpartition("/")[2]
        found = self.schemas.get(int(number)) if number.isdigit() else ["AVRO"]
        status = self.status if found is not None else 404
        if self.login is not None and self.headers.get("Authorization") != self.login:
            status = 401
        elif self.failures:
            status = self.failures.pop()
        body = found if isinstance(found, bytes) else json.dumps(found or {"error_code": 40403}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # a client that has read enough of it goes away
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def answering(schemas: Mapping[int, Any], *, status: int = 200) -> Iterator[str]:
    """A registry with these answers by id: `{"schema": ..., "schemaType": ...}`, or bytes; yields its URL."""
    with _serving({"schemas": schemas, "status": status, "login": None, "failures": []}) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@contextlib.contextmanager
def guarded(schemas: Mapping[int, Any], folder: Path, login: str, failures: list[int]) -> Iterator[tuple[str, Path]]:
    """The same behind TLS and a login.

    Args:
        schemas: As `answering` has them.
        folder: Where the key and the certificate go.
        login: The user and the password, with a colon between.
        failures: The statuses of the next answers; each is taken out once it was given.

    Yields:
        Its URL, and the certificate that it is checked by.
    """
    certificate, key = folder / "tls.pem", folder / "tls.key"
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *made, *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    basic = "Basic " + base64.b64encode(login.encode()).decode()
    with _serving({"schemas": schemas, "status": 200, "login": basic, "failures": failures}, context) as server:
        yield f"https://localhost:{server.server_port}", certificate


@contextlib.contextmanager
def _serving(answers: dict[str, Any], context: ssl.SSLContext | None = None) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Answers,), answers))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
