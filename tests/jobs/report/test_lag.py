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


def test_lag_is_counted_up_to_kafkas_end_for_partitions_that_no_table_knows_too(
    broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic(3)
    send(broker.bootstrap_servers, name, [Sent(b"v", partition=partition) for partition in (0, 0, 0, 0, 0, 1, 1)])
    kafka = Kafka.model_validate({"bootstrap_servers": broker.bootstrap_servers, "topics": [name]})

    told = ends(kafka, [at(name, 0, decided=1, bronze=3)], [])

    assert told["kafka"] == {"asked": True, "why": None}
    columns = ("partition", "decided_offset", "bronze_offset", "end_offset", "lag")
    assert [tuple(row[column] for column in columns) for row in told["partitions"]] == [
        (0, 1, 3, 5, 3),
        (1, None, None, 2, 2),
        (2, None, None, 0, 0),
    ]


def test_a_topic_that_was_created_anew_is_told_under_the_name_that_it_goes_on_as(
    broker: LocalBroker, topic: Callable[..., str]
) -> None:
    name = topic()
    send(broker.bootstrap_servers, name, [Sent(b"v")] * 5)
    kafka = Kafka.model_validate({"bootstrap_servers": broker.bootstrap_servers, "topics": [name]})
    stored = [{"topic": name, "stored_as": f"{name}@2", "incarnation": 2}, {"topic": name, "stored_as": name, "incarnation": 1}]

    told = ends(kafka, [at(name, 0, decided=99, bronze=99), at(f"{name}@2", 0, decided=2, bronze=2)], stored)

    assert [(row["topic"], row["end_offset"], row["lag"]) for row in told["partitions"]] == [
        (name, None, 0),
        (f"{name}@2", 5, 2),
    ]
