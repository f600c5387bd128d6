"""A schema registry with Confluent's protocol, which maps ids to schemas. The driver requests each id once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakehouse.errors import RegistryError
from lakehouse.settings import formats
from tidemark.extras.formats import avro_schema, protobuf_schema

if TYPE_CHECKING:
    import requests

    from lakehouse.settings.pipeline import Registry

_SECONDS = (5, 30)
"""Seconds to connect, and between two pieces of an answer."""
_RETRIES, _PAUSE_SECONDS = 4, 0.5
_MOST_BYTES = 1_000_000
_NOT_FOUND, _OK = 404, 200
_REFUSED = (401, 403)
_MOST_REFERRED = 100
"""Limit on the schemas that a schema refers to, directly and indirectly."""
_BUSY = (429, 500, 502, 503, 504)
_UNREACHABLE = (
    "Nothing is lost: the next run goes on with these records. Start the registry, or correct value.registry and its url."
)

_Others = dict[tuple[str, int], tuple[str, str]]
"""By subject and version: the name by which a schema refers to another, a type or a file, and the other's text."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry with a cache of its answers: the schema of an id never changes."""

    settings: Registry
    _known: dict[int, tuple[str, str]] = field(default_factory=dict, repr=False, compare=False)

    def of_format(self, given: str, number: int, *, met_at: str) -> str:
        """Return the schema of an id for values of a format; empty if the schema is of another kind. Raises as `schema`."""
        kind, text = self.schema(number, met_at=met_at)
        return text if kind == given.upper() else ""

    def schema(self, number: int, *, met_at: str) -> tuple[str, str]:
        """Return an id's kind, AVRO, JSON or PROTOBUF, and its schema: for PROTOBUF the text of a descriptor set.

        Raises:
            RegistryError: The registry cannot be reached, refuses, or lacks the id or a schema that its schema refers to.
            ToolError: The schema is Protobuf, and its library is not installed, or no compiler for a text.
        """
        if number not in self._known:
            self._known[number] = self._ask(number, met_at)
        return self._known[number]

    def require_answer(self) -> None:
        """Raise a `RegistryError` if the registry cannot be reached, or refuses."""
        where, status, body = self._get("/schemas/types", "an answer")
        if status in _REFUSED or status in _BUSY:
            raise _refusal(where, status, body)

    def _ask(self, number: int, met_at: str) -> tuple[str, str]:
        path = f"/schemas/ids/{number}"
        where, status, body = self._get(path, "the schema of an id that a record has")
        found = _parsed_json(body)
        if status == _NOT_FOUND and "error_code" in found:  # and no other server's 404
            raise RegistryError(
                f"The schema registry does not know the schema {number}.",
                where=where,
                observed=f"404, for the record at {met_at}",
                expected="the schema that the record was written with",
                next_step="Nothing is lost. If the registry is the wrong one or was restored, correct that and run again. If "
                f"no schema ever had the id, list {number} in value.registry.undecodable_ids: its values are undecodable then.",
            )
        if status != _OK or not isinstance(found.get("schema"), str):
            raise _refusal(where, status, body)
        kind, others = str(found.get("schemaType", "AVRO")), _Others()
        if kind not in ("AVRO", "PROTOBUF"):
            return kind, found["schema"]
        if kind == "PROTOBUF":
            formats.schemas("protobuf")  # raises if its library is not installed
        text = self._text(kind, path, found["schema"])
        self._add_others(kind, found, where, others)
        if kind == "PROTOBUF":
            return kind, protobuf_schema.assembled(text, dict(others.values()))
        try:
            return kind, avro_schema.joined(text, [other for _, other in others.values()])
        except avro_schema.AvroSchemaError:
            return kind, text  # the decoder reports what is wrong with it

    def _text(self, kind: str, path: str, text: str) -> str:
        """Return a schema's text; of Protobuf a compiled file if the registry has one."""
        if kind != "PROTOBUF" or protobuf_schema.as_file(text) is not None:
            return text
        _, _, body = self._get(f"{path}?format=serialized", "a schema of Protobuf")
        found = _parsed_json(body).get("schema")
        return found if isinstance(found, str) and protobuf_schema.as_file(found) is not None else text

    def _add_others(self, kind: str, found: dict[str, Any], where: str, others: _Others) -> None:
        """Add the schemas that a schema refers to, each after its own references."""
        for each in found.get("references") or ():
            subject, version = (each.get("subject"), each.get("version")) if isinstance(each, dict) else (None, None)
            if not isinstance(subject, str) or not isinstance(version, int) or (subject, version) in others:
                continue
            if len(others) >= _MOST_REFERRED:
                raise RegistryError(
                    f"A schema refers to more than {_MOST_REFERRED} others.",
                    where=where,
                    expected=f"at most {_MOST_REFERRED}",
                    next_step="Nothing is lost. Have the producer register a schema with fewer.",
                )
            name = str(each.get("name"))
            others[subject, version] = name, ""  # a circle ends here
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            there, status, body = self._get(path, "a schema that another one refers to")
            other = _parsed_json(body)
            if status != _OK or not isinstance(other.get("schema"), str):
                raise _refusal(there, status, body)
            self._add_others(kind, other, there, others)
            del others[subject, version]
            others[subject, version] = name, self._text(kind, path, other["schema"])

    def _get(self, path: str, expected: str) -> tuple[str, int, bytes]:
        import requests

        where, verified = f"{self.settings.url}{path}", self.settings.ca or True
        try:
            with (
                self._session() as session,
                session.get(where, timeout=_SECONDS, verify=verified, stream=True, allow_redirects=False) as answer,
            ):
                status, body = answer.status_code, b""
                for piece in answer.iter_content(65_536):
                    body += piece
                    if len(body) > _MOST_BYTES:  # never read all of an endless answer
                        break
        except (requests.RequestException, OSError) as error:
            raise RegistryError(
                "The schema registry cannot be reached.",
                where=where,
                observed=f"{type(error).__name__}: {error}",
                expected=expected,
                next_step=_UNREACHABLE,
            ) from None
        return where, status, body

    def _session(self) -> requests.Session:
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        session, given = requests.Session(), self.settings
        # Without an own login, `requests` would send the login for the host from ~/.netrc.
        session.auth = (str(given.username), str(given.password or "")) if given.username is not None else _nobody
        if given.cert is not None:
            session.cert = (given.cert, given.key) if given.key else given.cert
        session.headers["Accept"] = "application/vnd.schemaregistry.v1+json"
        retry = Retry(
            _RETRIES,
            backoff_factor=_PAUSE_SECONDS,
            status_forcelist=_BUSY,
            raise_on_status=False,
            respect_retry_after_header=False,  # it may name tomorrow
        )
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        return session


def _refusal(where: str, status: int, body: bytes) -> RegistryError:
    return RegistryError(
        "The schema registry refuses." if status != _OK else "The schema registry's answer holds no schema.",
        where=where,
        observed=f"status {status}, {len(body):,} bytes",
        expected=f"status 200, and JSON with a schema, of at most {_MOST_BYTES:,} bytes",
        next_step=_UNREACHABLE,
    )


def _nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _parsed_json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body) if len(body) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
