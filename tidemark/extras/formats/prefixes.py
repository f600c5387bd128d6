"""Which bytes serializers put before a value: the prefix of a schema registry, and headers of other formats."""

from lakehouse.extract.written import PREFIX_BYTES, without_prefix

_MOST_INDEXES = 100
_HEADERS = (
    ((b"\x00",), PREFIX_BYTES, "the prefix of a schema registry"),
    ((b"\x03\x00", b"\x03\x05"), 18, "the header of AWS Glue's registry"),
    ((b"\xc3\x01",), 10, "the header of Avro's single-object encoding"),
)
"""A header's first bytes, its length in bytes, and its name."""


def schema_id(value: bytes) -> int | None:
    r"""Return the id of the schema that the prefix names; None if there is no prefix.

    >>> schema_id(b"\x00\x00\x00\x01\x07{}"), schema_id(b"{}")
    (263, None)
    """
    return None if without_prefix(value) is None else int.from_bytes(value[1:PREFIX_BYTES])


def framing(value: bytes) -> str | None:
    r"""Return the name of the header that a serializer puts before a value; None if the header is unknown.

    >>> framing(b"\x00\x00\x00\x00\x07{}"), framing(b"\x03\x05" + bytes(16)), framing(b"{}")
    ('the prefix of a schema registry', "the header of AWS Glue's registry", None)
    >>> framing(b"\xc3\x01" + bytes(8))
    "the header of Avro's single-object encoding"
    """
    return next((name for begins, size, name in _HEADERS if len(value) >= size and value.startswith(begins)), None)


def message_path(value: bytes) -> str | None:
    r"""Return the message indexes of a Protobuf value after the prefix, joined by points; None if there are none.

    >>> message_path(b"\x00\x00\x00\x00\x07\x00"), message_path(b"\x00\x00\x00\x00\x07\x04\x02\x00..."), message_path(b"\x00")
    ('0', '1.0', None)
    """
    body = without_prefix(value) or b""
    numbers: list[int] = []
    found = shift = 0
    for byte in body:
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 -- the last byte of a number
            numbers.append(found >> 1 ^ -(found & 1))
            found = shift = 0
            if not 0 <= numbers[0] <= _MOST_INDEXES:
                return None
            if len(numbers) > numbers[0]:
                return ".".join(map(str, numbers[1:] or [0]))
    return None
