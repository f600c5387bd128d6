"""Schemas of Protobuf: which descriptor sets values are decoded by, and which fields hold what was written."""

import base64
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from pydantic import ValidationError

from lakehouse.extract.written import Written, at_path
from lakehouse.settings.payload_schema import Type, parse
from lakehouse.settings.pipeline import ValueFormat
from tests.support.protobuf import described, field
from tidemark.extras.formats import protobuf_schema
from tidemark.extras.formats.protobuf_schema import ProtobufSchemaError, misfit, misfits

ALL = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
enum State { OPEN = 0; }
message Who { string id = 1; repeated Who friends = 2; }
message All {
  int32 i32 = 1; sint64 s64 = 2; uint32 u32 = 3; fixed64 f64 = 4; float f = 5; double d = 6;
  bool b = 7; string s = 8; bytes raw = 9; State state = 10;
  google.protobuf.Timestamp at = 11; google.protobuf.Int64Value maybe = 12; google.protobuf.Struct any = 16;
  Who by = 13; repeated int32 many = 14; map<int64, Who> more = 15;
}
"""
SCHEMA = described(ALL)


@pytest.mark.parametrize(
    "wanted",
    [
        "i32 INT, s64 BIGINT, u32 BIGINT, f64 BIGINT, f FLOAT, d DOUBLE, b BOOLEAN, s STRING, raw BINARY, state STRING",
        "i32 DOUBLE, u32 DOUBLE, f DOUBLE, s64 DECIMAL(19,0), f64 DECIMAL(22,2), maybe DECIMAL(38,19)",
        "at TIMESTAMP, maybe BIGINT, many ARRAY<BIGINT>, more MAP<STRING, STRUCT<id: STRING>>",
        "at STRUCT<seconds: BIGINT, nanos: INT>, maybe STRUCT<value: BIGINT>",
        "by STRUCT<id: STRING, friends: ARRAY<STRUCT<id: STRING, friends: ARRAY<STRUCT<friends: ARRAY<STRUCT<id: STRING>>>>>>>",
        "any STRUCT<fields: MAP<STRING, STRUCT<number_value: DOUBLE, list_value: STRUCT<values: ARRAY<STRUCT<a: INT>>>>>>",
        "nothing DATE, by STRUCT<nothing: TINYINT>",
    ],
)
def test_a_field_takes_what_it_holds_without_loss(wanted: str) -> None:
    assert misfit(SCHEMA, "shop.All", parse(wanted)) is None


# The type of a field as its file has it, and fields of the payload that do not hold it.
UNFIT = {
    "sint64": ["s64 INT", "s64 DOUBLE", "s64 DECIMAL(20,2)", "s64 TIMESTAMP"],
    "uint32": ["u32 INT"],
    "int32": ["i32 SMALLINT", "i32 STRING", "i32 ARRAY<INT>"],
    "double": ["d FLOAT"],
    "fixed64": ["f64 DECIMAL(19,0)"],
    "string": ["s STRUCT<`a`: INT>"],
    "enum shop.State": ["state INT"],
    "message google.protobuf.Timestamp": ["at TIMESTAMP_NTZ", "at BIGINT"],
    "message google.protobuf.Int64Value": ["maybe INT"],
    "message shop.Who": ["by STRING"],
    "repeated int32": ["many INT", "many MAP<STRING, INT>"],
    "a map": ["more ARRAY<STRUCT<`key`: BIGINT>>"],
}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        *(
            (each, f"{each.replace(' ', f' is {kind}, and ', 1)} is wanted")
            for kind, fields in UNFIT.items()
            for each in fields
        ),
        ("by STRUCT<friends: ARRAY<STRUCT<id: INT>>>", "by.friends[].id is string, and INT is wanted"),
        ("more MAP<STRING, STRING>", "more{} is message shop.Who, and STRING is wanted"),
    ],
)
def test_a_field_that_does_not_hold_what_was_written_is_named(wanted: str, why: str) -> None:
    assert misfit(SCHEMA, "shop.All", parse(wanted)) == why


def test_a_sequence_is_a_whole_number_or_text() -> None:
    for path in ("i32", "s64", "u32", "f64", "s", "state", "maybe", "by.id", "nothing", "at.seconds"):
        assert misfit(SCHEMA, "shop.All", at_path(path)) is None, path
    others = {"d": "double", "b": "bool", "raw": "bytes", "at": "message google.protobuf.Timestamp", "many": "repeated int32"}
    for path, kind in others.items():
        why = misfit(SCHEMA, "shop.All", at_path(path))
        assert why == f"{path} is {kind}, and a whole number or text is wanted"
    assert misfit(SCHEMA, "shop.All", at_path("i32.x")) == "i32 is int32, and STRUCT<`x`: KEY> is wanted"


def test_the_messages_of_a_file_are_named_by_their_indexes() -> None:
    a = "message A { int32 n = 1; message In { string n = 1; } map<string, In> m = 2; }"
    text = described(f'syntax = "proto3"; {a} message B {{ In n = 1; message In {{}} }}')

    assert misfits(text, parse("n INT")) == {
        "0.0": "A.In: n is string, and INT is wanted",
        "1": "B: n is message B.In, and INT is wanted",
    }
    assert protobuf_schema.misfit_at(text, "0", parse("n INT")) is None
    assert protobuf_schema.misfit_at(text, "0.0", parse("n INT")) == "A.In: n is string, and INT is wanted"
    assert protobuf_schema.misfit_at(text, "7", parse("n INT")) == "it has no message with the indexes 7"
    assert protobuf_schema.misfit_at("!protoc refuses it", "7", parse("n INT")) == "protoc refuses it"


def test_a_message_keeps_the_files_that_it_needs_and_no_others() -> None:
    a, c = (FileDescriptorProto(name=f"{name.lower()}.proto", message_type=[DescriptorProto(name=name)]) for name in "AC")
    b = FileDescriptorProto(name="b.proto", message_type=[DescriptorProto(name="B")], dependency=["a.proto"])

    found = protobuf_schema.of_files([b, c, a])  # as given, in no order

    assert [each.name for each in found.of("B").files] == ["a.proto", "b.proto"]
    assert [each.name for each in found.of("A").files] == ["a.proto"]
    assert set(found.of("B").messages) == {".A", ".B"}
    with pytest.raises(ProtobufSchemaError, match="has no message D, but C, B, A"):
        found.of("D")


def file(*messages: DescriptorProto, name: str = "a.proto", **more: object) -> FileDescriptorProto:
    return FileDescriptorProto(name=name, message_type=messages, **more)


def files(*given: FileDescriptorProto) -> bytes:
    return bytes(FileDescriptorSet(file=given).SerializeToString())


def named(name: str, *, of_type: str = "") -> DescriptorProto:
    kind = {"label": FieldDescriptorProto.LABEL_OPTIONAL, "type": FieldDescriptorProto.TYPE_MESSAGE, "type_name": of_type}
    return DescriptorProto(name=name, field=[FieldDescriptorProto(name="a", number=1, **kind)] if of_type else [])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (files(), "there is no file in it"),
        (files(file(dependency=["b.proto"])), "it lacks the file b.proto, which a.proto imports"),
        (files(file(dependency=["a.proto"])), "its file a.proto imports itself"),
        (files(*(file(name=name, dependency=[after]) for name, after in ("ab", "bc", "ca"))), "imports itself"),
        (files(file(named("A"), named("A"))), "its file a.proto is refused"),
        (files(file(named("A", of_type=".B"))), "its file a.proto is refused"),
        (files(file(named("not a name"))), "its file a.proto is refused"),
        (files(file(syntax="proto9")), "its file a.proto is refused"),
        (files(file(*(named(f"M{nth}") for nth in range(10_001)))), "more than 10,000 messages"),
        (files(file(*(named("M" * 100 + str(nth)) for nth in range(9_999)))), "more than 1,000,000 bytes"),
        *((each, "it is no descriptor set") for each in (b"\xff\xfe", b'syntax = "proto3";', b"\x0a\xff\xff\xff\xff\x07")),
    ],
)
def test_what_nothing_is_decoded_by_says_why(content: bytes, why: str) -> None:
    with pytest.raises(ProtobufSchemaError, match=why):
        protobuf_schema.described(content)


def test_a_deep_descriptor_is_refused_and_a_wide_one_is_quick() -> None:
    deep = b""
    for _ in range(120):
        deep = field(3, deep)  # nested_type
    with pytest.raises(ProtobufSchemaError, match="it is no descriptor set"):
        protobuf_schema.described(field(1, field(4, deep)))
    # A few lines that stand for 2^40 fields: only those that are wanted are looked at.
    lines = "".join(f"message R{level} {{ R{level - 1} a = 1; R{level - 1} b = 2; }}" for level in range(1, 40))
    text = described(f'syntax = "proto3"; message R0 {{ int32 a = 1; }} {lines}')
    assert misfit(text, "R39", parse("a STRUCT<b: STRUCT<a: STRUCT<b: INT>>>")) == "a.b.a.b is message R35, and INT is wanted"


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto2"; message A { optional string s = 1; }',
        'edition = "2023"; message A { string s = 1 [features.utf8_validation = NONE]; }',
        'edition = "2023"; option features.utf8_validation = NONE; message A { string s = 1; }',
    ],
)
def test_every_text_is_checked_to_be_utf8_whatever_the_file_says(text: str) -> None:
    [found] = protobuf_schema.read(described(text)).files
    options = found.options
    assert options.java_string_check_utf8 or options.features.utf8_validation == options.features.VERIFY
    assert not found.message_type[0].field[0].options.features.HasField("utf8_validation")


def test_the_plan_has_each_descriptor_set_once() -> None:
    one = protobuf_schema.plan([(1, SCHEMA)], parse("s STRING"))
    two = protobuf_schema.plan([(nth, SCHEMA) for nth in (1, 2)], parse("s STRING"))
    assert len(two) < len(one) + 100


def config(folder: Path, **more: str) -> ValueFormat:
    (folder / "shop.desc").write_bytes(base64.b64decode(SCHEMA))
    given = {"format": "protobuf", "schema": "s STRING", "descriptor": "shop.desc", "message": "shop.All", **more}
    return ValueFormat.model_validate(given, context={"folder": folder})


def test_a_descriptor_set_is_read_with_the_config(tmp_path: Path) -> None:
    value = config(tmp_path)

    assert value.descriptor is not None
    assert value.descriptor.startswith("base64:")
    assert config(tmp_path, descriptor=value.descriptor) == value  # what is shown can be loaded again
    written = Written.of(value)
    assert written is not None
    assert (written.format, written.message, written.has_prefix) == ("protobuf", "shop.All", False)
    assert misfit(written.schema, "shop.All", Type("struct")) is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"descriptor": "none.desc"}, "its file cannot be read: No such file.*like incident.desc"),
        ({"descriptor": "shop.proto"}, "it is no descriptor set.*protoc --include_imports"),
        ({"descriptor": "large.desc"}, "it has more than 16,000,000 bytes"),
        ({"descriptor": "base64:%%"}, "it is no descriptor set"),
        ({"descriptor": "base64:"}, "no descriptor set of Protobuf"),
        ({"message": "All"}, "has no message All, but shop.Who, shop.All; expected"),
        ({"schema": "s INT"}, "s is string, and INT is wanted"),
        ({"schema": "`a-b` INT"}, "no name of a field in Protobuf"),
        ({"avro_schema": '{"type": "int"}'}, "protobuf with avro_schema and descriptor and message"),
    ],
)
def test_what_cannot_be_decoded_is_refused_with_the_config(tmp_path: Path, more: dict[str, str], why: str) -> None:
    (tmp_path / "shop.proto").write_text(ALL)
    (tmp_path / "large.desc").write_bytes(bytes(16_000_001))
    with pytest.raises(ValidationError, match=why):
        config(tmp_path, **more)
