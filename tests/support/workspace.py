"""A stand-in for a Databricks workspace, on loopback: empty, and asked only what validating and planning a bundle ask."""

from __future__ import annotations

import contextlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = "ann@example.com"
WAREHOUSE = {"id": "warehouse-1", "name": "Serverless Starter Warehouse", "state": "STOPPED"}
_ANSWERS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/api/2.0/preview/scim/v2/Me"): {"id": "1", "userName": USER},
    ("GET", "/api/2.0/sql/warehouses"): {"warehouses": [WAREHOUSE]},
    ("GET", "/api/2.0/workspace/get-status"): {"object_type": "DIRECTORY", "object_id": 1},
    ("POST", "/api/2.0/workspace/mkdirs"): {},
    ("GET", "/api/2.0/permissions/directories/1"): {"object_id": "/directories/1", "object_type": "directory"},
}
_NOTHING = (404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "The stand-in is empty."})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = urlsplit(self.path)
        # Folders are there, which mkdirs made; there is no file, and so nothing was deployed before.
        known = None if "/state/" in unquote(asked.query) else _ANSWERS.get((self.command, asked.path))
        status, answer = _NOTHING if known is None else (200, known)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815 -- the names that the standard library calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def stand_in() -> Iterator[str]:
    """Serve on a free port; the address of the workspace."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
