"""A real HTTP server that takes what a webhook is sent."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2"
"""What the address holds that nobody may be shown."""


class Posted(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class _Receiver(BaseHTTPRequestHandler):
    statuses: list[int]
    got: list[Posted]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append(Posted(self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0])
        for name, value in (("Location", "/elsewhere"), ("Retry-After", "86400"), ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def receiver(*statuses: int) -> Iterator[tuple[str, list[Posted]]]:
    """A server on a free port that answers with these statuses in turn, the last one for good; its address, and what it got."""
    got: list[Posted] = []
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (_Receiver,), {"statuses": list(statuses), "got": got}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook?key={SECRET}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
