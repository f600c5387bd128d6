"""Whose tables a root holds, and whether a second commit of one version is refused there: tried, in a folder and in a store."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.contracts.bronze import OWNER
from lakehouse.delta.root_check import ERRORS, Found, is_exclusive, look
from lakehouse.table import Lakehouse
from tests.support.object_store import before_store, new_root, storage


def table(lakehouse: Lakehouse, name: str, **properties: str) -> None:
    column = {"name": "a", "type": "string", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    meta = {"id": name, "format": {"provider": "parquet", "options": {}}, "schemaString": schema, "partitionColumns": []}
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": {**meta, "configuration": properties}}]
    folder = lakehouse.sidecar_files(f"{name}/_delta_log")
    assert folder is not None
    folder.write(f"{0:020}.json", "\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize("is_in_store", [False, True], ids=["folder", "store"])
def test_a_root_says_whose_it_is_and_is_exclusive(tmp_path: Path, *, is_in_store: bool, request: pytest.FixtureRequest) -> None:
    lakehouse = Lakehouse(root=str(tmp_path / "lake"))
    if is_in_store:
        lakehouse = Lakehouse(root=new_root(), storage=storage(request.getfixturevalue("s3")))
    nothing = Found(is_there=False, ours=[], others=[], owner=None)
    assert look(lakehouse, []) == nothing
    assert is_exclusive(lakehouse) is True
    assert look(lakehouse, []).others == []
    assert list(tmp_path.iterdir()) == []  # neither the folder nor anything of the probe

    table(lakehouse, "bronze_records", **{OWNER: "orders"})
    for name in ("silver_records", "by_day", "somebody_elses"):
        table(lakehouse, name)
    there = Found(is_there=True, ours=["bronze_records", "silver_records"], others=["somebody_elses"], owner="orders")
    assert look(lakehouse, ["by_day"]) == there
    before = sorted(tmp_path.rglob("*"))
    assert is_exclusive(lakehouse) is True
    assert sorted(tmp_path.rglob("*")) == before


def test_a_root_that_cannot_be_reached_is_an_error_and_a_store_that_overwrites_found(tmp_path: Path, s3: int) -> None:
    (tmp_path / "file").touch()
    refused = Lakehouse(root=new_root(), storage=replace(storage(s3), secret_access_key="of-somebody-else"))
    for lakehouse in (Lakehouse(root=str(tmp_path / "file" / "lake")), refused):
        with pytest.raises(ERRORS):
            is_exclusive(lakehouse)
    with pytest.raises(ERRORS):
        look(refused, [])
    with before_store(s3) as (port, interference):
        interference.hides_refusals = True
        assert is_exclusive(Lakehouse(root=new_root(), storage=storage(port))) is False
