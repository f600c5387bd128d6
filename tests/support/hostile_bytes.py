"""Strategies over bytes: what a producer may put into a header or a value, mostly near to what is right."""

from hypothesis import strategies as st

SCHEMA = (
    "seq BIGINT, a STRING, d DECIMAL(10,2), t TIMESTAMP, m MAP<STRING, DECIMAL(5,1)>, l ARRAY<STRUCT<d: DATE NOT NULL>>, "
    "b BINARY, o STRUCT<seq: INT NOT NULL, d: DOUBLE, a: BOOLEAN, t: TIMESTAMP_NTZ, l: ARRAY<TINYINT>, b: FLOAT, m: SMALLINT>"
)  # a payload of every kind of type, under the keys that `VALUES` has

_NUMBERS = st.integers(-3, 40) | st.sampled_from([2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30])
_TEXTS = st.sampled_from(
    [
        *(b"", b"0", b"-0", b"007", b"+1", b" 1", b"1\n", b"1.0", b"1e3", b"1e32000000", b"NaN", b"null", b"true"),
        *(b"\xd9\xa3", b"9" * 1_100),
    ]
)
NUMBERS = st.one_of(
    _NUMBERS.map(lambda number: str(number).encode()),
    _NUMBERS.map(lambda number: (number % 2**64).to_bytes(8)),
    _NUMBERS.map(lambda number: (number % 2**32).to_bytes(4)),
    _TEXTS,
    st.binary(max_size=12),
)  # a number as digits or big-endian, or something else

NAMES = st.sampled_from(
    [b"a", b"A", b"a ", b"", b"\xff", b"e\xcc\x81", b"\xc3\xa9", b"\x1b]0;x\x07", b"x" * 1_025]
) | st.binary(max_size=4)  # a producer's name, or something else

_TOKENS = st.sampled_from(
    [
        *(b"{", b"}", b"[", b"]", b":", b",", b" ", b"\n", b"//", b"\xef\xbb\xbf", b"\x00", b"null", b"true"),
        *(b'"seq"', b"'seq'", b'"s\\u0065q"', b'"a"', b'"d"', b'"t"', b'"it\'s"', b'"\xff"', b'"\t"', b'"\\ud800"'),
        *(b'"12:30"', b'"T12"', b'"\x7f12:30"', b'"\\tT1"', b'"2026-01-02"', b'"1e3,2000000"', b'"1e,+32000000"', b'"-0"'),
    ]
)
_SCALARS = st.one_of(
    _NUMBERS.map(lambda number: str(number).encode()), _TEXTS, _TOKENS, NUMBERS.map(lambda text: b'"' + text + b'"')
)
_PAIRS = st.tuples(st.sampled_from([b'"seq"', b'"a"', b'"d"', b'"t"', b'"m"', b'"l"', b'"b"', b'"o"']), _SCALARS)
_OBJECTS = st.lists(_PAIRS, max_size=4).map(lambda pairs: b"{" + b", ".join(key + b": " + value for key, value in pairs) + b"}")
_NESTED = st.tuples(_OBJECTS, _OBJECTS, st.sampled_from([b"m", b"l", b"o", b"seq"])).map(
    lambda parts: parts[0][:-1] + (b", " if len(parts[0]) > 2 else b"") + b'"' + parts[2] + b'": ' + parts[1] + b"}"
)


def _spoiled(parts: tuple[bytes, int, bytes]) -> bytes:
    text, at, more = parts
    place = at % (len(text) + 1)
    return text[:place] + more + text[place + (at % 3) :]


_JSON = _OBJECTS | _NESTED
VALUES = st.one_of(
    _JSON,
    st.tuples(_JSON, st.integers(0, 200), _TOKENS | st.binary(max_size=2)).map(_spoiled),
    st.lists(_TOKENS, max_size=12).map(b"".join),
    NUMBERS,
    st.binary(max_size=24),
    st.none(),
)  # a record's value: JSON, JSON that was spoiled, tokens in any order, bytes
