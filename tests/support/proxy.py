"""A TCP proxy that cuts and delays connections."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    Connection = tuple[StreamWriter, StreamWriter]

_HOST = "127.0.0.1"
_CHUNK = 65_536


class Proxy:
    """Hands on what comes to its port, both ways. Use it as a `with` block.

    Args:
        port: Where it listens.
        to_port: Where it hands on to.

    Attributes:
        delay_seconds: How long each piece of an answer is held back.
        cuts_left: How often every connection is still to be cut. A bound, or an answer longer than the bytes would never come.
        cut_after_bytes: After how many bytes of answers, of all connections together, that happens.
    """

    def __init__(self, port: int, to_port: int) -> None:
        self._port, self._to_port = port, to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._serving: dict[asyncio.Task[None], Connection] = {}
        self._answered = 0
        self.delay_seconds = 0.0
        self.cuts_left = 0
        self.cut_after_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, _HOST, self._port)

    async def _end(self) -> None:
        self._server.close()
        self._abort_all()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(_HOST, self._to_port)
        except OSError:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = (writer, to_broker)
        await asyncio.gather(self._hand_on(reader, to_broker), self._answer(from_broker, writer))
        del self._serving[task]

    async def _hand_on(self, reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await asyncio.sleep(self.delay_seconds)
                writer.write(data)
                await writer.drain()
                self._answered += len(data)
                if self.cuts_left and self._answered > self.cut_after_bytes:
                    self._cut()
        writer.close()

    def _cut(self) -> None:
        self._answered = 0
        self.cuts_left -= 1
        self._abort_all()

    def _abort_all(self) -> None:
        for connection in self._serving.values():
            for each in connection:
                each.transport.abort()
