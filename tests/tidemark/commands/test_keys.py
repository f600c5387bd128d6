"""The key of an erasure, from where it is named; and the ledger's hash of it."""

import hashlib
import io
import json
from pathlib import Path

import pytest

from lakehouse.table import statistics
from silver.state.request import Erase, Request
from tests.support import kept
from tidemark.commands.requests import named_key


def test_a_key_comes_from_a_file_or_stdin_without_its_last_newline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = ((b"ann", b"ann"), (b"ann\n", b"ann"), (b"ann\r\n", b"ann"))
    for content, key in (*ann, (b"a\nb\n\n", b"a\nb\n"), (b"\xff\r", b"\xff\r")):
        (tmp_path / "key").write_bytes(content)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert named_key("erase", None, None, str(tmp_path / "key")) == key
        assert named_key("erase", None, None, "-") == key


def test_each_request_for_a_key_has_its_own_hash_and_one_of_0_1_is_still_read() -> None:
    one, two = (Request("erase", "why", "ann", erase=Erase.of("t@2", b"k")) for _ in range(2))
    assert one.erase is not None
    assert two.erase is not None

    assert (one.erase.topic, one.erase.key_sha256 == two.erase.key_sha256) == ("t", False)
    assert one.erase.key_sha256 == hashlib.sha256(bytes.fromhex(one.erase.salt) + b"k").hexdigest()
    assert Request.from_json(one.to_json()) == one
    of_0_1 = {"topic": "t", "key_sha256": "00", "load_seq": None}
    kept = {"kind": "erase", "reason": "why", "requested_by": "ann", "erase": of_0_1}
    assert Request.from_json(json.dumps(kept)).erase == Erase("t", "00", salt="", is_of_all_incarnations=False)


def test_no_table_keeps_statistics_of_what_a_producer_may_have_chosen() -> None:
    # The table of topics holds what brokers and operators say, and has no rule.
    for contract in (each for each in kept.contracts() if each.name != "bronze_topics"):
        types = {column.name: column.type for column in contract.columns}
        listed = set(statistics(contract.name)["delta.dataSkippingStatsColumns"].split(","))
        others = {
            name for name in listed if types[name] not in ("int", "bigint", "timestamp")
        }  # neither key, value nor payload
        assert others <= {"topic", "kind", "rules_fingerprint"}, contract.name
        assert {*contract.clustered_by} <= listed, contract.name
    # What our own readers prune by, see `lakehouse.delta.small_tables`.
    assert {"load_seq", "kind"} <= set(statistics("silver_loads")["delta.dataSkippingStatsColumns"].split(","))
    assert "evaluated_at" in statistics("gate_results")["delta.dataSkippingStatsColumns"]
