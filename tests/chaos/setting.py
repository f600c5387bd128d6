"""The settings of the chaos lab, and the runs of a sitting."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SENDERS = ("java", "librdkafka", "kit")
PULSAR = "pulsar"
"""The sender to Pulsar: its own client in Java."""
ACKS = ("all", "1", "0")
ARTICLE_FAULTS = ("leader_killed", "tcp_killed")
FAULTS = (*ARTICLE_FAULTS, "leader_stopped", "leader_cut_off", "unclean_election")

FIRST, RECORDS, STRUCK_AT = 100_000, 150_000, 50_000
"""Numbers of six digits: a record of them takes 20 bytes, and a batch of the Java client holds 819, as in the article."""
FLUSHED = 1_000
"""Records that are acknowledged before the rest is sent: under acks=1 followers may have none else when the leader dies."""
DELAY_MS, PULSAR_DELAY_MS = 20, 100
"""Delays of the article's brokers."""


@dataclass(frozen=True)
class Setting:
    """A sender's settings, and what happens to the leader."""

    sender: str  # java, librdkafka, kit (librdkafka behind the producer kit) or pulsar
    acks: str
    is_idempotent: bool  # `enable.idempotence`; in Pulsar the namespace's deduplication
    in_flight: int  # `max.in.flight.requests.per.connection`; 0 in Pulsar, which has no such bound
    fault: str
    delay_ms: int = DELAY_MS  # of the brokers' answers, to clients and to each other

    @property
    def name(self) -> str:
        """The start of a topic's name.

        >>> Setting("java", "all", False, 5, "leader_killed").name
        'java-all-off-5-leader_killed'
        """
        delay = "" if self.delay_ms == DELAY_MS else f"-{self.delay_ms}ms"
        return f"{self.sender}-{self.acks}-{'on' if self.is_idempotent else 'off'}-{self.in_flight}-{self.fault}{delay}"

    @property
    def is_of_article(self) -> bool:
        """Whether the article has it: the Java client that waits for all replicas, with five requests in flight."""
        return (self.sender, self.acks, self.in_flight) == ("java", "all", 5) and self.fault in ARTICLE_FAULTS


def of_article(sender: str = "java") -> Iterator[Setting]:
    """The article's four settings of Kafka or of Pulsar."""
    in_flight, delay_ms = (0, PULSAR_DELAY_MS) if sender == PULSAR else (5, DELAY_MS)
    for fault, is_idempotent in product(ARTICLE_FAULTS, (False, True)):
        yield Setting(sender, "all", is_idempotent, in_flight, fault, delay_ms)


def matrix() -> Iterator[Setting]:
    """Every other setting that the clients accept. The first one is the article's leader kill without delays.

    An idempotent producer waits for all replicas, and the kit refuses settings that do not keep order.
    """
    yield Setting("java", "all", False, 5, "leader_killed", 0)
    clients = [("all", False, 5), ("all", True, 5), ("all", False, 1), ("1", False, 5), ("0", False, 5)]
    clients += [("all", True, 1), ("1", False, 1), ("0", False, 1)]
    for (acks, is_idempotent, in_flight), fault, sender in product(clients, FAULTS, SENDERS):
        is_refused = sender == "kit" and not (is_idempotent or (acks == "all" and in_flight == 1))
        setting = Setting(sender, acks, is_idempotent, in_flight, fault)
        if not is_refused and not setting.is_of_article:
            yield setting


class Planned(NamedTuple):
    """A run of a sitting: its setting, and its number among the setting's runs, from 1."""

    setting: Setting
    nth: int

    @property
    def topic(self) -> str:
        """Its topic."""
        return f"{self.setting.name}-{self.nth}"


def plan(article_runs: int, other_runs: int, pulsar_runs: int = 0) -> list[Planned]:
    """All runs, the article's first. Settings take turns, so an interrupted sitting has as many runs of each."""
    parts = ((article_runs, [*of_article()]), (other_runs, [*matrix()]), (pulsar_runs, [*of_article(PULSAR)]))
    return [Planned(setting, nth) for runs, settings in parts for nth in range(1, runs + 1) for setting in settings]
