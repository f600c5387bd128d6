"""A TCP proxy that cuts, delays and holds up connections."""

import asyncio
import threading
from asyncio import Queue, StreamReader, StreamWriter
from typing import Self

Connection = tuple[StreamWriter, StreamWriter]

_HOST = "127.0.0.1"
_CHUNK = 65_536
_MOST_CHUNKS = 256


class Proxy:
    """Hands on what comes to its port to another, both ways. Use it as a `with` block."""

    def __init__(self, port: int, to_port: int) -> None:
        self._port, self._to_port = port, to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._serving: dict[asyncio.Task[None], Connection] = {}
        self._passable = asyncio.Event()
        self._passable.set()
        self.delay_seconds = 0.0  # how long each piece of an answer is under way; more pieces may be so at once

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def hold_up(self) -> None:
        """From now on nothing passes, either way, and nobody is told: a network that is cut."""
        self._loop.call_soon_threadsafe(self._passable.clear)

    def let_pass(self) -> None:
        self._loop.call_soon_threadsafe(self._passable.set)

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._abort_all)

    def refuse(self) -> None:
        """Refuse connections from now on, as the port of a process that is gone."""
        self._loop.call_soon_threadsafe(self._server.close)

    def accept(self) -> None:
        if not self._server.is_serving():
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, _HOST, self._port)

    async def _end(self) -> None:
        self._server.close()
        self._passable.set()
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
        await asyncio.gather(
            self._hand_on(reader, to_broker, is_answer=False), self._hand_on(from_broker, writer, is_answer=True)
        )
        del self._serving[task]

    async def _hand_on(self, reader: StreamReader, writer: StreamWriter, *, is_answer: bool) -> None:
        under_way: Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_CHUNKS)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._take(reader, under_way, is_answer=is_answer))
                both.create_task(self._deliver(under_way, writer))
        except* OSError:
            pass
        writer.close()

    async def _take(self, reader: StreamReader, under_way: Queue[tuple[float, bytes]], *, is_answer: bool) -> None:
        data = b"."
        while data:
            data = await reader.read(_CHUNK)
            await under_way.put((self._loop.time() + self.delay_seconds * is_answer, data))

    async def _deliver(self, under_way: Queue[tuple[float, bytes]], writer: StreamWriter) -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(due - self._loop.time())
            await self._passable.wait()
            if not data:
                return
            writer.write(data)
            await writer.drain()

    def _abort_all(self) -> None:
        for connection in self._serving.values():
            for each in connection:
                each.transport.abort()
