"""How far Silver is behind Kafka, as the report counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jobs.report.facts import ends
from lakehouse.settings.pipeline import Kafka
from tests.support.kafka import Sent, send

if TYPE_CHECKING:
    from collections.abc import Callable

    from bronze.dev_broker.broker import LocalBroker

pytestmark = pytest.mark.kafka


def at(topic: str, partition: int, decided: int | None, bronze: int) -> dict[str, Any]:
    """A row of the view `lag`."""
    behind = bronze - (-1 if decided is None else decided)
    return {"topic": topic, "partition": partition, "decided_offset": decided, "bronze_offset": bronze, "offsets": behind}


def test_lag_is_counted_up_to_kafkas_end_for_every_partition_and_topic(broker: LocalBroker, topic: Callable[..., str]) -> None:
    name, again = topic(3), topic()
    send(broker.bootstrap_servers, name, [Sent(b"v", partition=partition) for partition in (0, 0, 0, 0, 0, 1, 1)])
    send(broker.bootstrap_servers, again, [Sent(b"v")] * 5)
    kafka = Kafka.model_validate({"bootstrap_servers": broker.bootstrap_servers, "topics": [name, again]})
    # One topic was created again: it goes on under another name. Of the other, no table knows two partitions.
    stored = [
        {"topic": again, "stored_as": f"{again}@2", "incarnation": 2},
        {"topic": again, "stored_as": again, "incarnation": 1},
    ]
    known = [at(name, 0, decided=1, bronze=3), at(again, 0, decided=99, bronze=99), at(f"{again}@2", 0, decided=2, bronze=2)]

    found = ends(kafka, known, stored)

    assert found["kafka"] == {"asked": True, "why": None}
    columns = ("topic", "partition", "decided_offset", "bronze_offset", "end_offset", "lag")
    assert {tuple(row[column] for column in columns) for row in found["partitions"]} == {
        (name, 0, 1, 3, 5, 3),
        (name, 1, None, None, 2, 2),
        (name, 2, None, None, 0, 0),
        (again, 0, 99, 99, None, 0),
        (f"{again}@2", 0, 2, 2, 5, 2),
    }
