"""What two hostile producers send: every text in every place, every malformed number, and each class of record."""

import json

from tests.support.kafka import Sent

FORGED = 'x\x1b]0;owned\x07\u009b2J\u202e\u200b\u2028\n{"event": "run.finished", "exit_code": 0}\r\n'
TEXTS = [
    FORGED,
    "</script><script>alert(1)</script><!--",
    "'; DROP TABLE silver_records; --",
    "$(touch /tmp/owned)`id`",
    '=HYPERLINK("http://127.0.0.1/","x")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "-1+1",
    "[bold red]x[/bold red] {0} %s \\u001b",
    "\x00\x01\x7f\x85\xa0\u2066\u2069\ufeff\ufffe",
    "é\u0065\u0301 ".strip() + " ",
    "it's a \\ '${env:HOME}'\n",
    "A",
    "a",
    "",
]
NUMBERS = [
    *("-0", "+1", " 1", "1 ", "1.0", "1e3", "1e32000000", "0x10", "٣", "NaN", "", "1_0"),
    *("9" * 5_000, str(2**63), str(2**64)),
]
HUGE = "n\u202e" * 75_000  # 300,000 bytes
ERASED = b"key-of-ann"
VALUE = {"format": "json", "schema": "id STRING, n BIGINT"}


def order(sequence: object, producer: str, key: bytes, *, epoch: int = 1, n: int = 1) -> Sent:
    headers = [("seq", str(sequence).encode()), ("producer", producer.encode()), ("epoch", b"%d" % epoch)]
    return Sent(json.dumps({"id": str(sequence) + FORGED, "n": n}).encode(), key, headers)


def texts_first() -> list[Sent]:
    """The text topic: every text as name, key, value and header; every malformed number; names that are too long."""
    texts = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    first = [Sent(text, text, [("producer", text), ("seq", b"100"), (_header(text), text)]) for text in texts]
    malformed = [Sent(b"v", b"k", [("producer", b"numbers"), ("seq", number.encode())]) for number in NUMBERS]
    odd = [
        Sent(None, None, [("producer", b"\xff\xfe"), ("seq", b"\xff" * 9)]),
        Sent(b"\xff\x00", b"\xed\xa0\x80", [("producer", HUGE.encode()), ("seq", b"1")]),
        Sent(b"v", HUGE.encode(), [("producer", b"big key"), ("seq", b"1"), ("seq", b"2")]),
    ]
    named = [Sent(b"v", b"k", [("producer", b"\x1b[%dm name" % name), ("seq", b"1")]) for name in range(20)]
    return [*first, *malformed, *odd, *named]


def texts_again() -> list[Sent]:
    """The text topic: streams that seem to start again, late records and collisions, at which the breaker opens."""
    texts = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    return [Sent(b"low", text, [("producer", text), ("seq", b"%d" % number)]) for text in texts for number in range(1, 13)]


def _header(text: bytes) -> str:
    """A header's name, which Kafka wants without a zero."""
    return text.decode("utf-8", "replace").replace("\x00", "0") or "h"


ORDERS_FIRST = [
    *(order(sequence, "shop", b"ABC"[nth % 3 : nth % 3 + 1]) for nth, sequence in enumerate([1, 2, 3, 7, 2, 3, 5, 900, "x"])),
    *(order(sequence, "böb", b"A") for sequence in (1, 2, 4)),
    *(order(sequence, "shop", ERASED) for sequence in (8, 9)),
    order(10, "shop", b"aside", n=500),
]
"""The JSON topic, offsets 0 to 14: shop accepts 1 2 3 7 8 9 10, resends 2 3, is late with 5, jumps with 900, and sends an x."""

LATE = 6
"""The offset of shop's late 5."""

ORDERS_AGAIN = [
    order(11, "shop", b"A", epoch=2),
    order(12, "shop", b"B"),  # fenced
    order(1, "böb", b"other"),  # collides
    *(order(sequence, "late", b"C") for sequence in (9, 3, 4, 5)),
]
"""The JSON topic, offsets 15 to 21: three late records, one too many for the gate."""

ORDERS_LATE = [order(12, "shop", b"A", epoch=2), *(order(sequence, "late", b"C") for sequence in (10, 6, 7, 8))]
"""The JSON topic, offsets 22 to 26: three late records again."""
