"""The current table of docs/cdc.md: the row of each key after its latest event, by the page's own model."""

import random
import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.conftest import RunAt
from tests.support.bronze import Record
from tests.support.change_events import as_bytes, event, of_snapshot
from tests.support.small_config import settings_of
from tests.support.stages import loaded, published

PAGE = (Path(__file__).parents[2] / "docs" / "cdc.md").read_text(encoding="utf-8")
TOPIC, SCHEMA = "shop.inventory.customers", "op STRING, after STRUCT<id: BIGINT, note: STRING>"

Row = dict[str, Any]


class _Connector:
    """Writes changes of rows as MySQL's connector does, and resends its last ones after a restart."""

    def __init__(self) -> None:
        self.table: dict[int, Row] = {}
        self.sent: list[tuple[int, bytes | None]] = []
        self._position = 0

    def change(self, before: Row | None, after: Row | None, *, is_more: bool = False) -> None:
        """Send one event, and after a delete a tombstone. The next one has the same position if `is_more`."""
        number = int((after or before or {})["id"])
        op = "d" if after is None else "c" if before is None else "u"
        value = event("mysql", op=op, pos=1_000 + self._position) | {"before": before, "after": after}
        self.sent += [(number, as_bytes(value)), *([(number, None)] if after is None else [])]
        self._position += not is_more
        self.table.pop(number, None)
        self.table |= {number: after} if after else {}

    def change_key(self, before: Row, after: Row) -> None:
        self.change(before, None, is_more=True)
        self.change(None, after)

    def snapshot(self) -> None:
        self.sent += [(number, as_bytes(of_snapshot("mysql") | {"after": row})) for number, row in self.table.items()]

    def records(self) -> list[Record]:
        """All that was sent, each key in a partition of its own."""
        offsets: dict[int, int] = {}
        found = []
        for number, value in self.sent:
            offsets[number % 2] = offset = offsets.get(number % 2, -1) + 1
            found.append(Record(offset, value, b'{"id":%d}' % number, partition=number % 2, topic=TOPIC))
        return found


def _drawn(chance: random.Random) -> _Connector:
    """Inserts, updates, deletes and inserts again of a few rows; changed keys; resends of the last events."""
    connector = _Connector()
    connector.table = {number: {"id": number, "note": "before"} for number in (1, 2)}
    connector.snapshot()
    first_change = len(connector.sent)
    for step in range(40):
        number, other = chance.sample(range(6), 2)
        row, new = connector.table.get(number), {"id": number, "note": f"n{step}"}
        kind = chance.choice(["write", "write", "delete", "key", "resend"])
        if kind == "resend":
            connector.sent += connector.sent[first_change:][-chance.randrange(1, 6) :]
        elif row and kind == "delete":
            connector.change(row, None)
        elif row and kind == "key" and other not in connector.table:
            connector.change_key(row, new | {"id": other})
        else:
            connector.change(row, new)
    return connector


def test_the_current_table_is_the_same_however_events_are_cut(spark: SparkSession, run_at: RunAt, tmp_path: Path) -> None:
    [(name, sql)] = re.findall(r'^```sql title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert f'schema: "{SCHEMA}"' in PAGE
    assert f"models: [{{name: customers, sql: {name}}}]" in PAGE
    (tmp_path / name).write_text(sql, encoding="utf-8")
    connector = _drawn(random.Random(1))
    records = connector.records()
    for cuts, publishes in ((1, 1), (3, 3), (8, 1)):
        place = tmp_path / f"in_{cuts}"
        run = run_at(place)
        settings = settings_of(
            run,
            topics=[TOPIC],
            sequence={"debezium": "mysql"},
            value={"format": "json", "schema": SCHEMA},
            gold={"models": [{"name": "customers", "sql": str(tmp_path / name)}]},
        )
        for cut in range(cuts):
            part = records[cut * len(records) // cuts : (cut + 1) * len(records) // cuts]
            done = loaded(spark, run_at(place), settings, part)
            assert not {"late", "collision", "fenced"} & {each for each, count in done.counts.items() if count}
            if (cut + 1) * publishes % cuts == 0:
                published(spark, run_at(place), settings)
        rows = spark.read.table(run.table("customers").sql).orderBy("id").toArrow().to_pylist()
        assert rows == [connector.table[number] for number in sorted(connector.table)], cuts
