"""A stand-in for a Databricks workspace, on loopback: empty, and asked only what validating and planning a bundle ask."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.served import Handler, listening
from tidemark.extras.demo.broker_process import HOST

_WAREHOUSE = {"id": "warehouse-1", "name": "Serverless Starter Warehouse", "state": "STOPPED"}
_ANSWERS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/api/2.0/preview/scim/v2/Me"): {"id": "1", "userName": "ann@example.com"},
    ("GET", "/api/2.0/sql/warehouses"): {"warehouses": [_WAREHOUSE]},
    ("GET", "/api/2.0/workspace/get-status"): {"object_type": "DIRECTORY", "object_id": 1},
    ("POST", "/api/2.0/workspace/mkdirs"): {},
    ("GET", "/api/2.0/permissions/directories/1"): {"object_id": "/directories/1", "object_type": "directory"},
}
_NOTHING = (404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "The stand-in is empty."})


class _Workspace(Handler):
    protocol_version = "HTTP/1.1"

    def _say(self) -> None:
        self.body()
        asked = urlsplit(self.path)
        # Folders are there, which mkdirs made; there is no file, and so nothing was deployed before.
        known = None if "/state/" in unquote(asked.query) else _ANSWERS.get((self.command, asked.path))
        status, answer = _NOTHING if known is None else (200, known)
        self.answer(status, json.dumps(answer).encode(), Content_Type="application/json")

    do_GET = do_HEAD = do_POST = do_PUT = _say  # noqa: N815 -- the names that the standard library calls


@contextlib.contextmanager
def stand_in() -> Iterator[str]:
    with listening(_Workspace) as port:
        yield f"http://{HOST}:{port}"
