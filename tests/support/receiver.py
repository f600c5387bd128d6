"""A real HTTP server that takes what a webhook is sent."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.served import Handler, listening
from tidemark.extras.demo.broker_process import HOST

SECRET = "hunter2"  # what the address holds that nobody may be shown


class Posted(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class _Receiver(Handler):
    statuses: list[int]
    got: list[Posted]

    def do_POST(self) -> None:  # noqa: N802 -- the name that http.server calls
        self.got.append(Posted(self.path, dict(self.headers), json.loads(self.body())))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        self.answer(status, Location="/elsewhere", Retry_After="86400")


@contextlib.contextmanager
def receiver(*statuses: int) -> Iterator[tuple[str, list[Posted]]]:
    """A server on a free port that answers with these statuses in turn, the last one for good; its address, and what it got."""
    got: list[Posted] = []
    with listening(_Receiver, statuses=list(statuses), got=got) as port:
        yield f"http://{HOST}:{port}/hook?key={SECRET}", got
