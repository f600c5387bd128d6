"""The Java admin client in a session's JVM. It has every login that Spark's Kafka source has; librdkafka lacks some."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from bronze.kafka.metadata import EARLIEST, LATEST, NO_ID, LookError, Seen
from bronze.kafka.source import java_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings.pipeline import Kafka

_UNSEEN = ("UnknownTopicOrPartitionException", "TopicAuthorizationException")


class JavaClient:
    """Same interface as `bronze.kafka.metadata.Client`. `lacks` says why that client cannot be used.

    Raises:
        LookError: The session is one of Spark Connect, which shows no JVM; its JVM has no Kafka client; or no broker answers.
    """

    def __init__(self, kafka: Kafka, spark: SparkSession, lacks: str) -> None:
        self._properties = java_properties(kafka)
        self._jvm: Any = getattr(spark, "_jvm", None)
        if self._jvm is None:
            raise LookError(f"{lacks}, and over Spark Connect the Java client cannot be asked: take a classic session")

    def describe(self, topics: list[str]) -> dict[str, Seen]:
        """Describe the topics that exist and that this login may see."""
        found: dict[str, Seen] = {}
        with self._admin() as admin:
            for topic, asked in admin.describeTopics(topics).topicNameValues().items():
                try:
                    description = asked.get()
                except Py4JJavaError as error:
                    if _cause(error) in _UNSEEN:
                        continue
                    raise
                # librdkafka writes an id in the other alphabet of base 64, and so does `bronze_topics`.
                topic_id = description.topicId().toString().replace("-", "+").replace("_", "/")
                partitions = tuple(sorted(each.partition() for each in description.partitions()))
                found[topic] = Seen(None if topic_id == NO_ID else topic_id, partitions)
        return found

    def offsets(self, topic: str, partitions: list[int], at: int, *, is_committed: bool) -> dict[int, int]:
        """Return each partition's offset at `EARLIEST`, `LATEST`, or a time in milliseconds; -1 if all records are earlier."""
        kafka = self._jvm.org.apache.kafka
        spec, isolation = kafka.clients.admin.OffsetSpec, kafka.common.IsolationLevel
        with self._admin() as admin:
            wanted = {EARLIEST: spec.earliest, LATEST: spec.latest}.get(at, lambda: spec.forTimestamp(at))()
            level = isolation.READ_COMMITTED if is_committed else isolation.READ_UNCOMMITTED
            asked = dict.fromkeys((kafka.common.TopicPartition(topic, each) for each in partitions), wanted)
            listed = admin.listOffsets(asked, kafka.clients.admin.ListOffsetsOptions(level)).all().get()
            return {place.partition(): answer.offset() for place, answer in listed.items()}

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Any]:
        try:
            admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(self._properties)
        except TypeError:  # py4j treats a missing class as a package
            raise LookError("the session's JVM has no class org.apache.kafka.clients.admin.AdminClient") from None
        except Py4JJavaError as error:
            raise LookError(_cause(error)) from None  # its text may repeat a value
        try:
            yield admin
        except Py4JJavaError as error:
            raise LookError(_cause(error)) from None
        finally:
            admin.close()


def _cause(error: Py4JJavaError) -> str:
    """Return the class of an error's innermost cause, without its package."""
    cause = error.java_exception
    while (inner := cause.getCause()) is not None:
        cause = inner
    return str(cause.getClass().getSimpleName())
