"""Reads a sample of the topics of a config, or raises an error that says what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bronze.kafka import metadata, sample
from bronze.kafka.source import require_reachable
from lakehouse.errors import SourceError
from lakehouse.settings.base import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.settings.pipeline import Kafka

_SHOWN = 20


def read_sample(kafka: Kafka, most: int) -> sample.Sample:
    """Read a sample; see `bronze.kafka.sample.read`.

    Raises:
        SourceError: No broker answers, a topic is not there, or it cannot be read.
    """
    require_reachable(kafka.bootstrap_servers)
    try:
        found = sample.read(kafka, most)
        if found.missing_topics:
            raise no_topic(kafka, found.missing_topics)
    except metadata.LookError as error:
        raise SourceError(
            "The topics cannot be read from this machine.",
            where=f"topic {', '.join(kafka.topics)} at {kafka.bootstrap_servers!s}",
            observed=str(error),
            expected="the right to describe and to read each topic, and properties that librdkafka has",
            next_step="Check the topics' rights, security.protocol, sasl.* and ssl.* under kafka.properties.",
        ) from None
    return found


def no_topic(kafka: Kafka, missing: Sequence[str]) -> SourceError:
    """The error for topics that the brokers do not have, or that this login may not see."""
    names = list(missing)
    known = metadata.topic_names(kafka)
    near = [found for name in names if (found := nearest(name, known))]
    seen = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    return SourceError(
        "A topic does not exist.",
        where=f"topic {', '.join(names)} at {kafka.bootstrap_servers!s}",
        observed=f"topics that this login may see: {seen or 'none'}",
        next_step=f"Did you mean {', '.join(near)}?" if near else "Correct its name, create it, or have the right to see it.",
    )
