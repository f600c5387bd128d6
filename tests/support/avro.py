"""Schemas of Avro in a line, and values written and read by them."""

import io
from typing import Any

import fastavro


def record(name: str, namespace: str = "", /, **fields: Any) -> dict[str, Any]:
    named = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": named} | ({"namespace": namespace} if namespace else {})


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema: Any, value: bytes) -> Any:
    """The value as fastavro reads it; a `ValueError` if it cannot, or the value does not end where its bytes end."""
    stream = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    except (EOFError, IndexError, OverflowError, MemoryError) as error:
        raise ValueError(value) from error
    if stream.read(1):
        raise ValueError(value)
    return found
