"""Sets a consumer group's offsets, for tools that show the lag of groups. Tidemark never reads them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from bronze.kafka.metadata import LookError, client

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Kafka

_SECONDS = 10
_WAITS_SECONDS = (0.2, 0.5, 1.0, 2.0)

_MOVING = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors while the brokers agree on a group's coordinator: the group is new, or a broker has left."""


class CommitError(Exception):
    """Some or all offsets were not set. The text holds no value of the configuration; a retry may succeed if `is_passing`."""

    def __init__(self, why: str, *, is_passing: bool = False) -> None:
        super().__init__(why)
        self.is_passing = is_passing


def commit(kafka: Kafka, group: str, next_offsets: Mapping[tuple[str, int], int]) -> None:
    """Set the next offsets of a new or existing group; raise a `CommitError` if the brokers do not accept them."""
    for wait_seconds in _WAITS_SECONDS:
        try:
            return _commit(kafka, group, next_offsets)
        except CommitError as error:
            if not error.is_passing:
                raise
        time.sleep(wait_seconds)
    return _commit(kafka, group, next_offsets)


def _commit(kafka: Kafka, group: str, next_offsets: Mapping[tuple[str, int], int]) -> None:
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in next_offsets.items()]
    try:
        admin = client(kafka)
        asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)], request_timeout=_SECONDS)
        done = asked[group].result(2 * _SECONDS)
    except LookError as error:
        raise CommitError(str(error)) from None
    except KafkaException as error:
        raise CommitError(_why(error.args[0]), is_passing=error.args[0].code() in _MOVING) from None
    except TimeoutError:
        raise CommitError("no answer") from None
    refused = [place for place in done.topic_partitions if place.error]
    if refused:
        why = "; ".join(f"{place.topic}/{place.partition}: {_why(place.error)}" for place in refused)
        raise CommitError(why, is_passing=all(place.error.code() in _MOVING for place in refused))


def _why(error: KafkaError) -> str:
    # A broker's answer to a commit from outside the group while the group has members.
    if error.code() == KafkaError.UNKNOWN_MEMBER_ID:
        return "the group has active members: another consumer uses it, so it needs another name"
    return str(error.name())
