"""Values of Debezium's connectors, as their documentation shows them; a test changes what it is about."""

import json
from collections.abc import Sequence
from typing import Any

from tests.support.avro import written

_SOURCES: dict[str, dict[str, Any]] = {
    "postgres": {"connector": "postgresql", "txId": 571, "sequence": '["24023100","24023128"]', "lsn": 24023128, "xmin": None},
    "mysql": {"connector": "mysql", "server_id": 223344, "gtid": None, "file": "mysql-bin.000003", "pos": 484, "row": 0},
    "sqlserver": {
        "connector": "sqlserver",
        "change_lsn": "00000027:00000758:0003",
        "commit_lsn": "00000027:00000758:0005",
        "event_serial_no": 1,
    },
    "mongodb": {"connector": "mongodb", "ts_ms": 1558965508000, "rs": "rs0", "ord": 31, "lsid": None, "txnNumber": None},
}
_SNAPSHOT: dict[str, dict[str, Any]] = {
    "postgres": {"sequence": '[null,"24023128"]'},
    "mysql": {},
    "sqlserver": {"change_lsn": None, "event_serial_no": None},
    "mongodb": {},
}


def event(database: str, *, op: str = "c", order: int | None = None, at_ms: int = 1, **source: Any) -> dict[str, Any]:
    """An envelope; `order` is its total_order, and None leaves the transaction out."""
    common = {"version": "3.0.0.Final", "name": "shop", "ts_ms": 1559033904000, "snapshot": "false", "db": "inventory"}
    row = {"id": 1004, "note": 'a "b" {c}', "ratio": 1.5}
    return {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "source": common | _SOURCES[database] | source,
        "op": op,
        "ts_ms": at_ms,
        "transaction": order and {"id": "571:24023128", "total_order": order, "data_collection_order": 1},
    }


def of_snapshot(database: str, **source: Any) -> dict[str, Any]:
    return event(database, op="r", **{"snapshot": "true", **_SNAPSHOT[database], **source})


def unwrapped(found: dict[str, Any], *, bare: bool = False) -> dict[str, Any]:
    """A row after ExtractNewRecordState, with `add.fields`; `bare` names the source's fields without `source`."""
    source, transaction = found["source"], found["transaction"] or {}
    added = {f"__{name}" if bare and name != "ts_ms" else f"__source_{name}": value for name, value in source.items()}
    row = found["after"] or found["before"]
    return {**row, **added, "__op": found["op"], "__transaction_total_order": transaction.get("total_order")}


def with_schema(found: dict[str, Any]) -> dict[str, Any]:
    """The value as JsonConverter writes it with `schemas.enable`."""
    field = {"type": "string", "optional": True, "field": "source"}
    return {"schema": {"type": "struct", "fields": [field], "name": "shop.inventory.Envelope"}, "payload": found}


def as_bytes(found: dict[str, Any]) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode()


def as_avro(found: Sequence[dict[str, Any]]) -> tuple[Any, list[bytes]]:
    """Return the values in Avro: a schema of all their fields, each nullable, and the bytes."""
    _, schema = _schema_of("Envelope", found)
    return schema, [written(schema, each) for each in found]


def _schema_of(name: str, values: Sequence[Any]) -> list[Any]:
    there = [each for each in values if each is not None]
    if there and isinstance(there[0], dict):
        names = dict.fromkeys(field for each in there for field, value in each.items() if value is not None)
        fields = [
            {"name": field, "type": _schema_of(f"{name}_{field}", [each.get(field) for each in there]), "default": None}
            for field in names
        ]
        return ["null", {"type": "record", "name": name, "fields": fields}]
    kinds = {str: "string", int: "long", float: "double", bool: "boolean"}
    return ["null", *dict.fromkeys(kinds[type(each)] for each in there)]
