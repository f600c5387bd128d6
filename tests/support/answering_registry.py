"""A server that answers as a schema registry does, with what a test gives it: also what no real one would say."""

import base64
import contextlib
import json
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.served import Handler, listening
from tidemark.extras.demo.broker_process import HOST


class _Registry(Handler):
    schemas: Mapping[int, Any]
    status: int = 200
    login: str | None = None
    failures: list[int]

    def do_GET(self) -> None:  # noqa: N802 -- the name that http.server calls
        number = self.path.rpartition("/")[2]
        found = self.schemas.get(int(number)) if number.isdigit() else ["AVRO"]
        status = self.status if found is not None else 404
        if self.login is not None and self.headers.get("Authorization") != self.login:
            status = 401
        elif self.failures:
            status = self.failures.pop()
        self.answer(status, found if isinstance(found, bytes) else json.dumps(found or {"error_code": 40403}).encode())


@contextlib.contextmanager
def answering(schemas: Mapping[int, Any], *, status: int = 200) -> Iterator[str]:
    """A registry with these answers by id: `{"schema": ..., "schemaType": ...}`, or bytes; yields its URL."""
    with listening(_Registry, schemas=schemas, status=status, failures=[]) as port:
        yield f"http://{HOST}:{port}"


@contextlib.contextmanager
def guarded(schemas: Mapping[int, Any], folder: Path, login: str, failures: list[int]) -> Iterator[tuple[str, Path]]:
    """The same behind TLS and a login: its URL and certificate. It first gives, and takes out, the statuses of `failures`."""
    certificate, key = folder / "tls.pem", folder / "tls.key"
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *made, *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    basic = "Basic " + base64.b64encode(login.encode()).decode()
    with listening(_Registry, context, schemas=schemas, login=basic, failures=failures) as port:
        yield f"https://localhost:{port}", certificate
