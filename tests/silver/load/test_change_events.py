"""Change events of Debezium in loads: a restarted connector sends its last transactions again, with other times."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import BreakerOpenError
from lakehouse.run.context import Run
from lakehouse.table import SILVER_REJECTS
from tests.support.bronze import Record
from tests.support.change_events import as_avro, as_bytes, event, of_snapshot, unwrapped, with_schema
from tests.support.small_config import settings_of
from tests.support.stages import loaded, published, require_sound


@pytest.mark.parametrize(("shapes", "is_avro"), [((dict, with_schema, unwrapped), False), ((dict,), True)])
def test_events_that_a_restarted_connector_sends_again_are_duplicates(
    spark: SparkSession, new_run: Callable[[], Run], shapes: Sequence[Callable[..., dict[str, Any]]], *, is_avro: bool
) -> None:
    run = new_run()
    commits = [f'[null,"{100}"]', '["200","120"]', '["300","130"]', '["400","410"]']
    changes = [(commit, order, "d" if order == 3 else "c") for commit in commits[:3] for order in (1, 2, 3)]

    def values(at_ms: int, *, version: str) -> list[dict[str, Any]]:
        return [event("postgres", op=op, order=order, at_ms=at_ms, sequence=seq, version=version) for seq, order, op in changes]

    first = [of_snapshot("postgres", sequence='[null,"96"]') for _ in range(3)] + values(1, version="2.7")
    again = values(2, version="3.0")[4:]
    new = [event("postgres", order=order, sequence=commits[3]) for order in (1, 2)]
    events, value = [*first, *again, *new], None
    encoded = [[as_bytes(shape(each)) for each in events] for shape in shapes]
    if is_avro:
        schema, in_avro = as_avro(events)
        encoded = [in_avro]
        value = {"format": "avro", "schema": "op STRING, after STRUCT<id: BIGINT>", "avro_schema": json.dumps(schema)}
    settings = settings_of(run, sequence={"debezium": "postgres"}, value=value)
    records = [
        Record(offset, each, partition=partition) for partition, sent in enumerate(encoded) for offset, each in enumerate(sent)
    ]
    loaded(spark, new_run(), settings, [each for each in records if each.offset < len(first)])
    last = loaded(spark, new_run(), settings, [each for each in records if each.offset >= len(first)])

    counted = {name: count for name, count in last.counts.items() if count}
    assert counted == {"accepted": 2 * len(shapes), "duplicate": 5 * len(shapes)}
    require_sound(spark, new_run(), is_deep=True)


def test_tombstones_wait_for_nobody_and_open_no_breaker(spark: SparkSession, new_run: Callable[[], Run]) -> None:
    run = new_run()
    given: dict[str, Any] = {"sequence": {"debezium": "mysql"}, "policies": {"max_quarantined_share": 0.1}}
    values = [
        value
        for row in range(12)
        for value in (as_bytes(event("mysql", row=2 * row)), as_bytes(event("mysql", op="d", row=2 * row + 1)), None)
    ]
    records = [Record(offset, value) for offset, value in enumerate(values)]
    with pytest.raises(BreakerOpenError, match="12 of 36 records: 12 invalid"):
        loaded(spark, new_run(), settings_of(run, **given, value={"format": "text", "tombstones": "keep"}), records)

    skipping = settings_of(run, **given, value={"format": "text"}, gate={"budgets": {"quarantined": {"critical": 1}}})
    done = loaded(spark, new_run(), skipping, [Record(36, b"{}")])

    assert {name: count for name, count in done.counts.items() if count} == {"accepted": 24, "invalid": 13}
    rows = spark.read.table(run.table(SILVER_REJECTS).sql).select("first_offset", "reason", "state").collect()
    skipped = [(offset, "value_tombstone", "discarded") for offset in range(2, 36, 3)]
    assert sorted(map(tuple, rows)) == [*skipped, (36, "sequence_no_position", "held")]
    published(spark, new_run(), skipping)  # the budget counts the other record alone
    require_sound(spark, new_run(), is_deep=True)
