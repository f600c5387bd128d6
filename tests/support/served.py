"""Servers that a test process starts for itself, and stops; and the programs of servers that no Python package brings."""

import contextlib
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lakehouse.machine import jars
from tidemark.extras.demo.broker_process import HOST

PATIENCE_SECONDS = 60
_START_SECONDS = 600  # on a machine that other tests fill, a registry in Java takes more than one minute


class Handler(BaseHTTPRequestHandler):
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content_Length": str(len(content))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        with contextlib.suppress(OSError):  # a client that has read enough of it goes away
            self.wfile.write(b"" if self.command == "HEAD" else content)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def listening(handler: type[Handler], context: ssl.SSLContext | None = None, **attributes: Any) -> Iterator[int]:
    """Serve HTTP by a handler with these attributes, behind TLS where a context is given; yields the port."""
    server = ThreadingHTTPServer((HOST, 0), type("Handler", (handler,), attributes))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def served(
    command: Sequence[str], folder: Path, first: Callable[[], object], *, env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server in a folder that goes with it, and call `first` until it raises no OSError; too long is a TimeoutError."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=env)
    try:
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                first()
                break
            except OSError as error:
                if time.monotonic() > until or process.poll() is not None:
                    raise TimeoutError((folder / "log").read_text(errors="replace")[-4000:]) from error
                time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def kept_program(name: str, make: Callable[[Path], Path]) -> Path:
    """A program in the cache folder; where it is not there, `make` puts it into a temporary folder and answers its place."""
    place = jars.cache_dir().parent / name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as work:
            make(Path(work)).rename(place)  # whole or not at all
    return place
