"""What a run of the chaos lab may be set to, and which runs a sitting has."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SENDERS = ("java", "librdkafka", "kit")
ACKS = ("all", "1", "0")
PULSAR = "pulsar"
"""The sender to Pulsar: its own client in Java."""
ARTICLE_FAULTS = ("leader_killed", "tcp_killed")
FAULTS = (*ARTICLE_FAULTS, "leader_stopped", "leader_cut_off", "unclean_election")

FIRST, RECORDS, STRUCK_AT = 100_000, 150_000, 50_000
"""Numbers of six digits: a record of them takes 20 bytes, and a batch of the Java client holds 819, as in the article."""

FLUSHED = 1_000
"""Records that are acknowledged before the rest is sent: under acks=1 followers may else have none when the leader dies."""

DELAY_MS, PULSAR_DELAY_MS = 20, 100
"""What the article slowed its brokers by."""


@dataclass(frozen=True, order=True)
class Setting:
    """A sender's settings, and what is done to the leader.

    Attributes:
        sender: java, librdkafka, kit (librdkafka behind the producer kit), or pulsar.
        acks: 0, 1 or all.
        is_idempotent: `enable.idempotence`; in Pulsar the namespace's deduplication.
        in_flight: `max.in.flight.requests.per.connection`; 0 in Pulsar, which has no such bound.
        fault: One of `FAULTS`.
        delay_ms: What answers of brokers are delayed by, to clients and to each other; in the article 20.
    """

    sender: str
    acks: str
    is_idempotent: bool
    in_flight: int
    fault: str
    delay_ms: int = DELAY_MS

    @property
    def name(self) -> str:
        """The setting, as the start of a topic's name.

        >>> Setting("java", "all", False, 5, "leader_killed").name
        'java-all-off-5-leader_killed'
        """
        delay = "" if self.delay_ms == DELAY_MS else f"-{self.delay_ms}ms"
        return f"{self.sender}-{self.acks}-{'on' if self.is_idempotent else 'off'}-{self.in_flight}-{self.fault}{delay}"

    @property
    def is_of_article(self) -> bool:
        """Whether the article has it: the Java client that waits for all replicas, with five requests in flight."""
        return (self.sender, self.acks, self.in_flight) == ("java", "all", 5) and self.fault in ARTICLE_FAULTS


def of_article() -> Iterator[Setting]:
    """The article's four settings of Kafka."""
    for fault, is_idempotent in product(ARTICLE_FAULTS, (False, True)):
        yield Setting("java", "all", is_idempotent, 5, fault)


def matrix() -> Iterator[Setting]:
    """Every other setting that the clients take.

    An idempotent producer waits for all replicas, and the kit refuses what does not keep order. The settings that differ most
    come first. One of them is the article's leader kill without the delay: what comes twice depends on it.
    """
    yield Setting("java", "all", False, 5, "leader_killed", 0)
    clients = [("all", False, 5), ("all", True, 5), ("all", False, 1), ("1", False, 5), ("0", False, 5)]
    clients += [("all", True, 1), ("1", False, 1), ("0", False, 1)]
    for (acks, is_idempotent, in_flight), fault, sender in product(clients, FAULTS, SENDERS):
        is_refused = sender == "kit" and not (is_idempotent or (acks == "all" and in_flight == 1))
        setting = Setting(sender, acks, is_idempotent, in_flight, fault)
        if not is_refused and not setting.is_of_article:
            yield setting


def of_pulsar() -> Iterator[Setting]:
    """The article's four settings of Pulsar."""
    for fault, is_idempotent in product(ARTICLE_FAULTS, (False, True)):
        yield Setting(PULSAR, "all", is_idempotent, 0, fault, PULSAR_DELAY_MS)


@dataclass(frozen=True)
class Planned:
    """A run that a sitting has.

    Attributes:
        setting: Its setting.
        nth: Which of the setting's runs it is, from 1.
    """

    setting: Setting
    nth: int

    @property
    def topic(self) -> str:
        """Its topic."""
        return f"{self.setting.name}-{self.nth}"


def plan(article_runs: int, other_runs: int, pulsar_runs: int = 0) -> list[Planned]:
    """All runs: the article's first, its settings in turns, so that a sitting that is cut short has as many of each."""
    parts = ((article_runs, of_article), (other_runs, matrix), (pulsar_runs, of_pulsar))
    return [Planned(setting, nth) for runs, settings in parts for nth in range(1, runs + 1) for setting in settings()]
