"""Where a sequence, producer or epoch is read from: one of a fixed set of forms, never SQL text."""

import re
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from lakehouse.settings.base import Model, Text, refusal
from lakehouse.settings.secrets import KEEP_SECRET, MASK_SECRET, mask

Encoding = Literal["utf8", "int32", "int64"]
Form = Literal["header", "value", "json", "field", "bytes", "offset", "custom"]

_FIELDS: dict[Form, str] = {
    "header": "header",
    "value": "value",
    "json": "json_path",
    "field": "field_path",
    "bytes": "bytes_range",
    "offset": "offset",
    "custom": "custom",
}
_WIDTHS: dict[Encoding, int] = {"int32": 4, "int64": 8}
_JSON_PATH = re.compile(r"\$(\.[A-Za-z0-9_-]+|\[[0-9]+\]|\['(?!\*')[^'\[\]?]+'\])+")
_FIELD_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,9}")
_BYTES = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def _json_path(text: str) -> str:
    if not _JSON_PATH.fullmatch(text):
        raise refusal(
            "this is no JSON path",
            expected="$ and then .name, ['name'] or [0] for each step",
            next_step="Write it like $.seq, $.meta.seq or $.items[0].seq; for a value that is only the number: {value: utf8}.",
        )
    return text


def _field_path(text: str) -> str:
    if not _FIELD_PATH.fullmatch(text):
        raise refusal(
            "this names no field",
            expected="the field's name; points between those of records within records, ten at most",
            next_step="Write it like seq or meta.seq.",
        )
    return text


def _bytes_range(text: str) -> str:
    found = _BYTES.fullmatch(text)
    if not found or int(found[1]) >= int(found[2]):
        raise refusal(
            "this is no byte range",
            expected='"start:end" with 0 <= start < end, the end not included',
            next_step='Write it like bytes: "0:8" for the first eight bytes of the value.',
        )
    return f"{int(found[1])}:{int(found[2])}"


def _function(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise refusal(
            "this does not name a function",
            expected='"module:function"',
            next_step="Write it like custom: mypackage.sequences:from_payload; it is imported when it is used.",
        )
    return text


JsonPath = Annotated[str, AfterValidator(_json_path), KEEP_SECRET, MASK_SECRET]
FieldPath = Annotated[str, AfterValidator(_field_path), KEEP_SECRET, MASK_SECRET]
BytesRange = Annotated[str, AfterValidator(_bytes_range), KEEP_SECRET, MASK_SECRET]
Function = Annotated[str, AfterValidator(_function), KEEP_SECRET, MASK_SECRET]


ROLES = ("sequence", "producer", "epoch")
"""What extractors read of a record."""


class Extractor(Model):
    """Exactly one form, and the encoding of its bytes.

    Sequences and epochs are whole numbers from 0 to 2^63-1: ASCII digits (utf8), or 4 or 8 big-endian bytes (int32, int64).
    """

    header: Text | None = Field(default=None, description="the name of a record header", examples=["seq"])
    value: Encoding | None = Field(default=None, description="the whole value, read as utf8, int32 or int64", examples=["utf8"])
    json_path: JsonPath | None = Field(default=None, alias="json", description="a path into the JSON value", examples=["$.seq"])
    field_path: FieldPath | None = Field(
        default=None, alias="field", description="a field of the Avro or Protobuf value", examples=["meta.seq"]
    )
    bytes_range: BytesRange | None = Field(
        default=None,
        alias="bytes",
        description="the value's bytes from start up to, not including, end",
        examples=['"0:8"'],
    )
    offset: Literal[True] | None = Field(
        default=None, description="true: the Kafka offset, as sequence only", examples=["true"]
    )
    custom: Function | None = Field(
        default=None, description="a function of installed code, module:function", examples=["mypackage.sequences:from_payload"]
    )
    given_encoding: Encoding | None = Field(
        default=None, alias="encoding", description="utf8, int32 or int64; only beside header or bytes", examples=["utf8"]
    )

    @field_validator("given_encoding")
    @classmethod
    def _encoding_fits(cls, encoding: Encoding | None, info: ValidationInfo) -> Encoding | None:
        given = [form for form, field in _FIELDS.items() if info.data.get(field) is not None]
        if encoding is None or len(given) != 1:
            return encoding  # no form, or several: `_has_one_form` reports it
        if given[0] not in {"header", "bytes"}:
            raise refusal(
                f"encoding does not go with {given[0]}",
                expected="encoding only beside header or bytes",
                next_step="For value, write the encoding itself ({value: int64}); json, field, offset and custom take none.",
            )
        if given[0] == "bytes" and encoding in _WIDTHS and _width(info.data["bytes_range"]) != _WIDTHS[encoding]:
            raise refusal(
                f"{encoding} does not fit the byte range",
                expected=f"a range of {_WIDTHS[encoding]} bytes",
                next_step=f'Widen or narrow bytes, for example "0:{_WIDTHS[encoding]}", or read it as digits with utf8.',
            )
        return encoding

    @model_validator(mode="after")
    def _has_one_form(self) -> "Extractor":
        given = self._given()
        if len(given) != 1:
            raise refusal(
                f"{' and '.join(given)} are given together" if given else "no form is given",
                expected=f"exactly one of {', '.join(_FIELDS)}",
                next_step="Keep one, for example {header: seq}.",
            )
        return self

    def _given(self) -> list[Form]:
        return [form for form, field in _FIELDS.items() if getattr(self, field) is not None]

    @property
    def form(self) -> Form:
        """Which of the seven forms this is."""
        return self._given()[0]

    @property
    def argument(self) -> str:
        """The form's argument: the header's name, the path, `start:end`, `module:function`; empty for value and offset."""
        return "" if self.form in {"value", "offset"} else cast(str, getattr(self, _FIELDS[self.form]))

    @property
    def encoding(self) -> Encoding:
        """The encoding of the bytes: as given, or else by form.

        `value` names its own. A range of 8 bytes is an int64, one of 4 an int32. Everything else is digits (utf8).
        """
        if self.given_encoding or self.value:
            return self.given_encoding or cast(Encoding, self.value)
        if self.bytes_range:
            width = _width(self.bytes_range)
            return next((encoding for encoding, fits in _WIDTHS.items() if width == fits), "utf8")
        return "utf8"

    def describe(self) -> str:
        """Describe the extractor in one readable line.

        >>> Extractor(header="seq").describe()
        'header "seq" (utf8)'
        >>> Extractor(bytes="0:8").describe()
        'bytes 0:8 (int64)'
        """
        return describe(self.form, self.argument, self.encoding)


def describe(form: str, argument: str, encoding: str) -> str:
    """Describe a form with its argument and encoding, as in `Extractor` or in `lakehouse.extract.sources.Source`.

    >>> describe("prefixed_json", "$.seq", "utf8")
    'json $.seq (utf8), behind the prefix of a schema registry'
    """
    argument = str(mask(argument))
    match form:
        case "header":
            return f'header "{argument}" ({encoding})'
        case "offset":
            return "Kafka offset"
        case "custom":
            return f"custom {argument}"
        case "value":
            return f"value ({encoding})"
        case "prefixed_json":
            return f"json {argument} ({encoding}), behind the prefix of a schema registry"
        case other:
            return f"{other} {argument} ({encoding})"


def _width(bytes_range: str) -> int:
    start, end = bytes_range.split(":")
    return int(end) - int(start)
