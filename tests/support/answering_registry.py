"""A server that answers as a schema registry does, with what a test gives it: also what no real one would say."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class _Answers(BaseHTTPRequestHandler):
    schemas: Mapping[int, Any]
    status: int

    def do_GET(self) -> None:
        number = self.path.rpartition("/")[2]
        found = self.schemas.get(int(number)) if number.isdigit() else ["AVRO"]
        status = self.status if found is not None else 404
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
    handler = type("Handler", (_Answers,), {"schemas": schemas, "status": status})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
