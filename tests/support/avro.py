"""Schemas of Avro in a line, and values written by them."""

from __future__ import annotations

import io
from typing import Any

import fastavro


def record(name: str, namespace: str = "", /, **fields: Any) -> dict[str, Any]:
    """The schema of a record with these fields, each given as its type."""
    named = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": named} | ({"namespace": namespace} if namespace else {})


def written(schema: Any, value: Any) -> bytes:
    """A value in bytes, without a header."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()
