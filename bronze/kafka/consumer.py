"""A consumer that reads records on this machine, by offset and without a group: no JVM, no Spark."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, cast

from confluent_kafka import Consumer, KafkaError

from bronze.kafka.metadata import client_config, connect

if TYPE_CHECKING:
    from confluent_kafka import Message

    from lakehouse.settings.pipeline import Kafka

END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001 -- its public name for it
TIMESTAMP_TYPES = {1: 0, 2: 1}
"""librdkafka's timestamp types, as Kafka numbers them."""
_GROUP = "spark-kafka-source-tidemark"
"""librdkafka requires a group name, but the consumer joins no group. The name has the prefix of Spark's groups."""

_headers = methodcaller("headers")
"""For a header name that is not UTF-8, the client's C code returns a result and sets an error. Called from C, that raises
SystemError. A plain call, which the interpreter optimises, has ended in a segmentation fault.
"""


class HeadersUnreadableError(Exception):
    """A record has a header whose name is not UTF-8: this client returns all headers or none."""


def consumer(kafka: Kafka, **more: str | int) -> Consumer:
    """Create a consumer of committed records without a group, with `more` properties (`_` for `.`). Raises a `LoginError`."""
    properties = kafka.client_properties()
    config: dict[str, str | int | bool] = {
        **client_config(properties),
        "group.id": properties.get("group.id", _GROUP),
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "check.crcs": True,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return connect(Consumer, config)


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """Return a record's headers in order; raise a `HeadersUnreadableError` if a name is not UTF-8."""
    try:
        return cast("list[tuple[str, bytes | None]] | None", _headers(message)) or []
    except SystemError:
        raise HeadersUnreadableError from None
