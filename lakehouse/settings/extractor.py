"""Where a sequence, producer or epoch is read from: one of a fixed set of forms, without SQL."""

import re
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import AfterValidator, StringConstraints, model_validator

from lakehouse.settings.base import Model, SettingError, Text, setting
from lakehouse.settings.secrets import HIDES_SECRETS, mask

Encoding = Literal["utf8", "int32", "int64"]
Form = Literal["header", "value", "json", "field", "bytes", "offset", "custom", "debezium"]
SourceForm = Literal[Form, "prefixed_json", "debezium_epoch"]
"""The forms of `lakehouse.extract.sources.Source`: those of the config, and what follows from another setting."""
Database = Literal["postgres", "mysql", "sqlserver", "mongodb"]

ROLES = ("sequence", "producer", "epoch")
IN_VALUE = ("value", "json", "prefixed_json", "field", "bytes", "debezium", "debezium_epoch")
"""The forms that read the value. A tombstone has none."""
ENCODED = ("header", "bytes")
WIDTHS: dict[Encoding, int] = {"int32": 4, "int64": 8}
_SEQUENCE_ONLY = {
    "debezium": (
        "the position of a change event is no producer, and it gives the epoch as well as the sequence",
        "Leave the key out; for a topic of its own write null.",
    ),
    "offset": (
        "the Kafka offset is no producer and no epoch: it differs in every record",
        "Remove the key if records have none; offset works as sequence only.",
    ),
}
_DESCRIPTIONS = {
    "header": 'header "{argument}" ({encoding})',
    "value": "value ({encoding})",
    "offset": "Kafka offset",
    "custom": "custom {argument}",
    **dict.fromkeys(("debezium", "debezium_epoch"), "Debezium's position ({argument})"),
    "prefixed_json": "json {argument} ({encoding}), behind the prefix of a schema registry",
}


def _check_range(text: str) -> str:
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
    if not found or int(found[1]) >= int(found[2]):
        raise SettingError("this is no byte range", '"start:end" with start < end', 'For example bytes: "0:8", eight bytes.')
    return f"{int(found[1])}:{int(found[2])}"


_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_BRACKETS = r"\['([^'\[\]?*][^'\[\]?]*|\*[^'\[\]?]+)'\]"
JsonPath = Annotated[str, StringConstraints(pattern=rf"^\$(\.[A-Za-z0-9_-]+|\[[0-9]+\]|{_BRACKETS})+$"), HIDES_SECRETS]
FieldPath = Annotated[str, StringConstraints(pattern=rf"^{_NAME}(\.{_NAME}){{0,9}}$"), HIDES_SECRETS]
BytesRange = Annotated[str, AfterValidator(_check_range), HIDES_SECRETS]
Function = Annotated[str, StringConstraints(pattern=rf"^{_NAME}(\.{_NAME})*:{_NAME}$"), HIDES_SECRETS]


class Extractor(Model):
    """Exactly one form, and the encoding of its bytes.

    Sequences and epochs are whole numbers from 0 to 2^63-1: ASCII digits (utf8), or 4 or 8 big-endian bytes (int32, int64).
    """

    header: Text | None = setting(None, "the name of a record header", "seq")
    value: Encoding | None = setting(None, "the whole value, read as utf8, int32 or int64", "utf8")
    json_path: JsonPath | None = setting(None, "a JSON path: $, then .name, ['name'] or [0] each", "$.meta.seq", alias="json")
    field_path: FieldPath | None = setting(None, "a field of the Avro or Protobuf value, or a.b", "meta.seq", alias="field")
    bytes_range: BytesRange | None = setting(None, "the value's bytes from start to end, exclusive", '"0:8"', alias="bytes")
    offset: Literal[True] | None = setting(None, "true: the Kafka offset, as sequence only", "true")
    custom: Function | None = setting(None, "a function of installed code, module:function", "mypackage.sequences:from_payload")
    debezium: Database | None = setting(None, "the database of Debezium's connector, as sequence only", "postgres")
    given_encoding: Encoding | None = setting(None, "utf8, int32 or int64; only with header or bytes", "utf8", alias="encoding")

    @model_validator(mode="after")
    def _require_one_form(self) -> Self:
        given, encoding = [*self._given()], self.given_encoding
        if len(given) != 1:
            what = f"{' and '.join(given) or 'no form'} given"
            raise SettingError(what, f"exactly one of {', '.join(get_args(Form))}", "Keep one, for example {header: seq}.")
        if encoding is not None and given[0] not in ENCODED:
            what, next_step = f"{given[0]} with encoding", "For value, write the encoding itself: {value: int64}."
            raise SettingError(what, "encoding only with header or bytes", next_step, at=("encoding",))
        width = WIDTHS.get(encoding) if encoding else None
        if width and self.bytes_range and _width(self.bytes_range) != width:
            what, next_step = f"{encoding} does not fit the byte range", f'Write "0:{width}", or read digits with utf8.'
            raise SettingError(what, f"a range of {width} bytes", next_step, at=("encoding",))
        return self

    def _given(self) -> dict[Form, Any]:
        by_key = {self.key_of(name): getattr(self, name) for name in type(self).model_fields}
        return {form: by_key[form] for form in get_args(Form) if by_key[form] is not None}

    @property
    def form(self) -> Form:
        """The form that is set."""
        return next(iter(self._given()))

    @property
    def argument(self) -> str:
        """A header's name, a path, `start:end`, `module:function` or a database; empty for value and offset."""
        return "" if self.form in {"value", "offset"} else cast("str", self._given()[self.form])

    @property
    def encoding(self) -> Encoding:
        """The given encoding, else that of the byte range: int64 for 8 bytes, int32 for 4; else digits (utf8)."""
        width = _width(self.bytes_range) if self.bytes_range else None
        by_width = next((encoding for encoding, fits in WIDTHS.items() if width == fits), None)
        return self.given_encoding or self.value or by_width or "utf8"


def describe(form: str, argument: str, encoding: str) -> str:
    """Describe a `lakehouse.extract.sources.Source` in a line.

    >>> describe("prefixed_json", "$.seq", "utf8")
    'json $.seq (utf8), behind the prefix of a schema registry'
    """
    description = _DESCRIPTIONS.get(form, "{form} {argument} ({encoding})")
    return description.format(form=form, argument=mask(argument), encoding=encoding)


def _refuse_sequence_only(extractor: Extractor) -> Extractor:
    if extractor.form in _SEQUENCE_ONLY:
        what, next_step = _SEQUENCE_ONLY[extractor.form]
        *others, last = (form for form in get_args(Form) if form not in _SEQUENCE_ONLY)
        raise SettingError(what, f"{', '.join(others)} or {last}", next_step, at=(extractor.form,))
    return extractor


NoSequence = Annotated[Extractor, AfterValidator(_refuse_sequence_only)]


def _width(bytes_range: str) -> int:
    start, end = bytes_range.split(":")
    return int(end) - int(start)
