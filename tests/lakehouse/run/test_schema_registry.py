"""A schema registry behind TLS and a login: how often it is asked, and what is said where it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakehouse.errors import RegistryError
from lakehouse.run.schema_registry import SchemaRegistry
from lakehouse.settings.registry import Registry
from tests.support.answering_registry import guarded
from tests.support.avro import record

if TYPE_CHECKING:
    from pathlib import Path


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
