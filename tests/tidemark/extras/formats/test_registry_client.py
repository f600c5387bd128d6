"""A schema registry: how often it is asked and what is said where it refuses; and what its schemas of Protobuf become."""

import base64
import importlib.util
import json
from pathlib import Path

import pytest

from lakehouse.errors import RegistryError, ToolError
from lakehouse.settings.pipeline import Registry
from tests.support.answering_registry import guarded
from tests.support.avro import record
from tidemark.extras.formats import protobuf_schema
from tidemark.extras.formats.protobuf_schema import as_file, assembled, read
from tidemark.extras.formats.registry_client import SchemaRegistry

WHO = 'syntax = "proto3"; package shop; import "google/protobuf/any.proto"; message Who { google.protobuf.Any a = 1; }'
ORDER = 'syntax = "proto3"; package shop; import "a/who.proto"; message Order { Who by = 1; message In {} }'


def test_a_registry_behind_tls_and_a_password_is_asked_once_for_each_id(tmp_path: Path) -> None:
    failures = [503]
    with guarded({7: {"schema": json.dumps(record("Order", seq="long"))}}, tmp_path, "ann:s3cret", failures) as (url, ca):
        given = {"url": url, "username": "ann", "password": "s3cret", "ca": str(ca)}
        asked = SchemaRegistry(Registry.model_validate(given))
        assert json.loads(asked.of_format("avro", 7, met_at="here"))["name"] == "Order"

        failures += [503] * 100
        assert json.loads(asked.of_format("avro", 7, met_at="here"))["name"] == "Order"
        for message, other in {"refuses": {**given, "password": "wrong"}, "cannot be reached": {**given, "ca": None}}.items():
            with pytest.raises(RegistryError, match=message) as refused:
                SchemaRegistry(Registry.model_validate(other)).of_format("avro", 7, met_at="here")
            assert "s3cret" not in str(refused.value)


def compiled(text: str, others: dict[str, str], name: str) -> str:
    [found] = [each for each in read(assembled(text, others)).files if each.name == name]
    return base64.b64encode(found.SerializeToString()).decode()


def test_texts_and_compiled_files_become_the_same_set_with_the_schema_last() -> None:
    of_text = read(assembled(ORDER, {"a/who.proto": WHO}))
    main = compiled(ORDER, {"a/who.proto": WHO}, "tidemark/value.proto")
    who = compiled(WHO, {}, "tidemark/value.proto")  # under another name than its import has

    of_files = read(assembled(main, {"a/who.proto": who}))

    assert [each.name for each in of_text.files] == ["google/protobuf/any.proto", "a/who.proto", "tidemark/value.proto"]
    assert of_files.messages.keys() == of_text.messages.keys()
    assert of_files.text == of_text.text
    assert [(path, name) for path, name, _ in of_files.own] == [("0", ".shop.Order"), ("0.0", ".shop.Order.In")]


@pytest.mark.parametrize(
    ("text", "others", "why"),
    [
        ("message {", {}, "protoc refuses it: .*value.proto:1:"),
        (ORDER, {}, "protoc refuses it: a/who.proto: File not found"),
        (ORDER, {"../who.proto": WHO}, "a name that none can have: '../who.proto'"),
        (ORDER, {"/etc/who.proto": WHO}, "a name that none can have"),
        (ORDER, {"a/../../who.proto": WHO}, "a name that none can have"),
        (ORDER, {"a": WHO, "a/who.proto": WHO}, "cannot be written"),
        (ORDER, {"a/who.proto": "\ud800"}, "cannot be written"),
        (compiled(ORDER, {"a/who.proto": WHO}, "tidemark/value.proto"), {}, "it lacks the file a/who.proto"),
        (ORDER, {"a/who.proto": compiled(WHO, {}, "tidemark/value.proto")}, "some of its files as text and others compiled"),
        (f'syntax = "proto3"; {"message M {" * 60}{"}" * 60}', {}, "protoc refuses it|no descriptor set"),
    ],
)
def test_what_no_set_can_be_made_of_says_why(text: str, others: dict[str, str], why: str) -> None:
    found = assembled(text, others)
    assert found.startswith(protobuf_schema.REFUSED)
    with pytest.raises(protobuf_schema.ProtobufSchemaError, match=why):
        read(found)


def test_a_registry_names_no_module_that_is_run_here_and_a_text_is_no_compiled_file() -> None:
    others = {"grpc_tools/protoc.py": "raise SystemExit('run')", "a/who.proto": WHO}
    assert read(assembled(ORDER, others)).messages
    assert as_file("") is as_file(ORDER) is as_file("AAAA") is as_file("message") is None


def test_without_protoc_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolError, match="tidemark-lakehouse\\[protobuf\\]"):
        assembled(ORDER, {"a/who.proto": WHO})
