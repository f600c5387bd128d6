"""Keys that Kafka's own partitioner sends where the benchmark wants them: copies of a topic then keep every stream whole."""

from __future__ import annotations

from functools import cache
from itertools import count, islice

_SEED, _MIX, _SHIFT = 0x9747B28C, 0x5BD1E995, 24
_WORD, _MASK = 4, 0xFFFFFFFF


@cache
def keys_of(partition: int, partitions: int, number: int) -> tuple[bytes, ...]:
    """The first keys of their kind that a Java producer sends to a partition.

    >>> keys_of(0, 8, 3)
    (b'key-00002', b'key-00007', b'key-00010')
    """
    names = (b"key-%05d" % nth for nth in count())
    return tuple(islice((name for name in names if partition_of(name, partitions) == partition), number))


def partition_of(key: bytes, partitions: int) -> int:
    """Where a Java producer sends a record of this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, as 32 bits without a sign.

    >>> murmur2(b"21") == -973932308 % 2**32  # one of the values that Kafka's own tests hold
    True
    """
    hashed = (_SEED ^ len(data)) & _MASK
    whole = len(data) // _WORD * _WORD
    for start in range(0, whole, _WORD):
        word = int.from_bytes(data[start : start + _WORD], "little") * _MIX & _MASK
        hashed = (hashed * _MIX & _MASK) ^ ((word ^ word >> _SHIFT) * _MIX & _MASK)
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    return hashed ^ hashed >> 15
