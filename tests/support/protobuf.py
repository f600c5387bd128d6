"""Schemas of Protobuf from their text, and values of them by Google's own library."""

import base64
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from tidemark.extras.formats import protobuf_schema


def described(text: str, **others: str) -> str:
    """The descriptor set of a .proto text, as base64; the others are what it imports, by name without `.proto`."""
    found = protobuf_schema.assembled(text, {f"{name}.proto": other for name, other in others.items()})
    assert not found.startswith(protobuf_schema.REFUSED), found
    return found


def message_of(schema: str, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(schema)).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def written(schema: str, name: str, value: dict[str, Any]) -> bytes:
    return bytes(json_format.ParseDict(value, message_of(schema, name)()).SerializeToString(deterministic=True))


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])
