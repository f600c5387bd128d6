"""A consumer group's offsets, moved for those who look at the lag of groups. Nothing of ours is ever read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from bronze.admin import LookError, client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.settings import Kafka

_SECONDS = 10


class CommitError(Exception):
    """The offsets were not moved, or not all of them; the text says why, without any value of the configuration."""


def commit(kafka: Kafka, group: str, next_offsets: Mapping[tuple[str, int], int]) -> None:
    """Set where a group stands, as if it had read up to there. One that is not there is made by it.

    Args:
        kafka: Where the group is.
        group: The group; nobody may be consuming in it.
        next_offsets: The offset of each (topic, partition) that would be read next.

    Raises:
        CommitError: Somebody consumes in the group, the brokers refuse, or none can be asked.
    """
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in next_offsets.items()]
    try:
        admin = client(kafka)
        asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)], request_timeout=_SECONDS)
        done = asked[group].result(2 * _SECONDS)
    except LookError as error:
        raise CommitError(str(error)) from None
    except KafkaException as error:
        raise CommitError(_why(error.args[0])) from None
    except TimeoutError:
        raise CommitError("no answer") from None
    refused = [f"{place.topic}/{place.partition}: {_why(place.error)}" for place in done.topic_partitions if place.error]
    if refused:
        raise CommitError("; ".join(refused))


def _why(error: KafkaError) -> str:
    # What a broker answers to a commit by nobody in particular while the group has members.
    if error.code() == KafkaError.UNKNOWN_MEMBER_ID:
        return "the group has active members: another consumer uses it, so it needs another name"
    return str(error.name())
