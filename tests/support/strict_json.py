"""JSON texts, drawn at random, and what a strict reader in Python takes from them: the reference for the decoding of JSON."""

import json
import random
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from struct import pack, unpack
from typing import Any

WRONG = "value_not_of_schema"
NOT_UTF8 = "value_not_utf8"
_MOST_DIGITS = 1_000
_RANGES = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})")


class Number(str):
    __slots__ = ()


class _Object(dict[str, Any]):
    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.is_repeated = [key for key, _ in pairs].count("v") > 1


def read(value: bytes, kind: str) -> set[Any]:
    """The values that field `v` may become under the schema `v KIND`, or the reason why it is undecodable. More than one for a
    DECIMAL with an exponent or of more than 38 digits, a key that occurs twice, and a STRING in a text with -0."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {NOT_UTF8}
    try:
        found = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refuse, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        return {WRONG}
    if not isinstance(found, _Object) or _HALF_PAIR.search(json.dumps(found, ensure_ascii=False)):
        return {WRONG}
    try:
        read = {None} if found.get("v") is None else _OF_KIND[kind.partition("(")[0]](found["v"], kind)
    except (ValueError, ArithmeticError):
        read = {WRONG}
    return read | {WRONG} if found.is_repeated or (kind == "STRING" and "-0" in text) else read


def _number(text: str) -> Number:
    if sum(map(str.isdigit, text)) > _MOST_DIGITS:
        raise ValueError(text)
    return Number(text)


def _refuse(text: str) -> None:
    raise ValueError(text)


def _whole(found: Any, kind: str) -> set[Any]:
    is_held = isinstance(found, Number) and found.removeprefix("-").isdigit()
    return {int(found)} if is_held and -_RANGES[kind] <= int(found) < _RANGES[kind] else {WRONG}


def _float(found: Any, kind: str) -> set[Any]:
    if not isinstance(found, Number):
        return {WRONG}
    held = float(found) if kind == "DOUBLE" else unpack("f", pack("f", float(found)))[0]
    return {held} if abs(held) != float("inf") else {WRONG}


def _decimal(found: Any, kind: str) -> set[Any]:
    precision, scale = map(int, re.findall("[0-9]+", kind))
    if not isinstance(found, Number) and not (isinstance(found, str) and _DECIMAL_TEXT.fullmatch(found)):
        return {WRONG}
    with localcontext(prec=3 * _MOST_DIGITS):
        number = Decimal(found)
        is_held = abs(number) < 10 ** (precision - scale) and number == round(number, scale)
    may_be_refused = "e" in found.lower() or len(found) > 38
    return ({number} if is_held else set()) | ({WRONG} if may_be_refused or not is_held else set())


def _text(found: Any, _: str) -> set[Any]:
    if isinstance(found, Number):
        return {str(found)} if found.removeprefix("-").isdigit() and found != "-0" else {WRONG}
    if isinstance(found, bool):
        return {str(found).lower()}
    if isinstance(found, str):
        return {found}
    return {WRONG} if any(_is_rewritten(each) for each in _leaves(found)) else {compact(found)}


def _is_rewritten(found: Any) -> bool:
    return isinstance(found, Number) and (not found.removeprefix("-").isdigit() or found == "-0")


def _leaves(found: Any) -> list[Any]:
    if isinstance(found, dict | list):
        return [leaf for each in (found.values() if isinstance(found, dict) else found) for leaf in _leaves(each)]
    return [found]


def compact(found: Any) -> str:
    if isinstance(found, dict):
        return "{" + ",".join(f"{compact(key)}:{compact(each)}" for key, each in found.items()) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(compact, found)) + "]"
    return str(found) if isinstance(found, Number) else json.dumps(found, ensure_ascii=False)


def _date(found: Any, _: str) -> set[Any]:
    is_day = not isinstance(found, Number) and isinstance(found, str) and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", found)
    return {date.fromisoformat(found)} if is_day else {WRONG}


def _moment(found: Any, _: str) -> set[Any]:
    if isinstance(found, Number):
        return {datetime.fromtimestamp(int(found), UTC)} if re.fullmatch("-?[0-9]{1,10}", found) else {WRONG}
    if not isinstance(found, str) or not (_ISO.fullmatch(found) or _DAY.fullmatch(found)):
        return {WRONG}
    if _DAY.fullmatch(found):
        year, month, day = map(int, found.split("-"))
        return {datetime(year, month, day, tzinfo=UTC)}
    return {datetime.fromisoformat(found).astimezone(UTC)}


def _boolean(found: Any, _: str) -> set[Any]:
    return {found} if isinstance(found, bool) else {WRONG}


_OF_KIND: dict[str, Callable[[Any, str], set[Any]]] = {
    **dict.fromkeys(_RANGES, _whole),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _float),
    "DECIMAL": _decimal,
    "STRING": _text,
    "DATE": _date,
    "TIMESTAMP": _moment,
    "BOOLEAN": _boolean,
}
KINDS = [*(kind for kind in _OF_KIND if kind != "DECIMAL"), "DECIMAL(10,2)", "DECIMAL(38,18)", "DECIMAL(38,0)"]

_LITERALS = [
    *("0", "-0", "7", "-7", "127", "128", "32768", "2147483648", "9223372036854775807", "9223372036854775808", "007", "+1"),
    *("1.5", "10.50", "10.005", "1.", ".5", "1e2", "1E-2", "1e400", "-1e400", "1e39", "1e-400", "NaN", "-Infinity", "1_0"),
    *("9" * 39, "1." + "0" * 40, "9" * 999, "9" * 1_001, "true", "false", "null", "nul", "True"),
    *('"12.50"', '"12,50"', '"1e2"', '" 1"', '"7"', '"NaN"', '""', '"a"', "'a'", '"it\'s"', '"\\u00e9"', '"\u00e9\u20ac"'),
    *('"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00\\ud83d"', '"\\\\ud83d"', '"\\x"', '"\x01"', '"\\"', '"\\u12"'),
    *('"1.5"', '"[1.5]"'),
    *('"2026-03-01"', '"2026-02-30"', '"2026-3-1"', '"0"', '"2026-03-01 x"', '"0000-01-01"', "20260301", "1700000000"),
    *('"2026-03-01T10:20:30Z"', '"2026-03-01T10:20:30.123456+02:00"', '"2026-13-01T00:00:00Z"', '"T12"', '"12:30"'),
    *("{}", "[]", '{"x": 1}', '{"x": 1.10}', '{"x": "1.5", "y": [true, null]}', "[[-0]]", "[1, 2]", '{"x": {}}', '["a", -1]'),
]
_PARTS = ["", "\ufeff", "\x00", "//", "\u2028", *"{}[],:\"'\\ \n\t-01.ev"]
_KEYS = ['"w"', '"v"', '"\\u0076"']


def drawn(chance: random.Random) -> bytes:
    """A text around a field `v`: valid, almost valid, or hostile."""
    literal = chance.choice(_LITERALS)
    if chance.random() < 0.2:
        literal = f"{chance.choice(['', '-'])}{chance.randrange(10 ** chance.randrange(1, 40))}"
        literal += chance.choice(["", f".{chance.randrange(10 ** chance.randrange(1, 20))}", f"e{chance.randrange(-40, 40)}"])
    fields = [f'"v"{chance.choice([":", " : "])}{literal}']
    if chance.random() < 0.3:
        fields.insert(chance.randrange(2), f"{chance.choice(_KEYS)}: {chance.choice(_LITERALS)}")
    text = "{" + ", ".join(fields) + "}"
    text = chance.choice([text, text, text, f" {text}\n", f"{text} {text}", f"{text}x", f"[{text}]", literal, text[:-1]])
    if chance.random() < 0.3:
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(_PARTS) + text[at + chance.randrange(2) :]
    value = text.encode("utf-8", "surrogatepass")
    if chance.random() < 0.05:
        at = chance.randrange(len(value) + 1)
        value = value[:at] + bytes([chance.randrange(128, 256)]) + value[at:]
    return value
