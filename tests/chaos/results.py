"""The runs of the chaos lab: which there are, one row of a CSV file for each, and the marks that all rows have to meet."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

SENDERS = ("java", "librdkafka", "kit")
ARTICLE_FAULTS = ("leader_killed", "tcp_killed")
FAULTS = (*ARTICLE_FAULTS, "leader_stopped", "leader_cut_off", "unclean_election")

FIRST, RECORDS, STRUCK_AT = 100_000, 150_000, 50_000
"""Numbers of six digits: a record of them takes 20 bytes, and a batch of the Java client holds 819, as in the article."""
MOST_OPEN = 10_000  # the most records that are sent and not yet acknowledged: the article's limit
FLUSHED = 1_000
"""Records that are acknowledged before the rest is sent: under acks=1 followers may have none else when the leader dies."""
DELAY_MS = 20  # the delay of the article's brokers

NONE = "none"
RETRIES = {"reordering", "client_retries"}  # the findings of `tidemark order` where a client retries without idempotence
ENOUGH_RIGHT = 0.95
NEARLY_ALL = 0.9
"""The share of the article's runs without idempotence that go backwards, if more than one request is in flight just then."""


@dataclass(frozen=True)
class Planned:
    """A run of a sitting: a sender's settings and what happens to the leader, by the names of its row's columns."""

    Sender: str  # java, librdkafka or kit (librdkafka behind the producer kit)
    Acks: str  # 0, 1 or all
    Idempotence: str  # on or off: `enable.idempotence`; the article's DedupEnabled
    InFlight: int  # `max.in.flight.requests.per.connection`
    Fault: str
    Delay: int = DELAY_MS  # of the brokers' answers, to clients and to each other, in milliseconds
    TestRun: int = 1  # the run's number among those of its setting

    @property
    def topic(self) -> str:
        delay = "" if self.Delay == DELAY_MS else f"-{self.Delay}ms"
        return f"{self.Sender}-{self.Acks}-{self.Idempotence}-{self.InFlight}-{self.Fault}{delay}-{self.TestRun}"

    @property
    def is_of_article(self) -> bool:
        """Whether the article has it: the Java client that waits for all replicas, with five requests in flight."""
        return (self.Sender, self.Acks, self.InFlight) == ("java", "all", 5) and self.Fault in ARTICLE_FAULTS


def of_article() -> Iterator[Planned]:
    for fault, idempotence in product(ARTICLE_FAULTS, ("off", "on")):
        yield Planned("java", "all", idempotence, 5, fault)


def matrix() -> Iterator[Planned]:
    """The first run of every other setting that the clients accept; the kit refuses those that do not keep order."""
    yield Planned("java", "all", "off", 5, "leader_killed", 0)
    clients = [("all", "off", 5), ("all", "on", 5), ("all", "off", 1), ("1", "off", 5), ("0", "off", 5)]
    clients += [("all", "on", 1), ("1", "off", 1), ("0", "off", 1)]
    for client, fault, sender in product(clients, FAULTS, SENDERS):
        planned = Planned(sender, *client, fault)
        is_refused = sender == "kit" and planned.Idempotence == "off" and client != ("all", "off", 1)
        if not is_refused and not planned.is_of_article:
            yield planned


def plan(article_runs: int, other_runs: int) -> list[Planned]:
    """All runs, the article's first. Settings take turns, so an interrupted sitting has as many runs of each."""
    parts = ((article_runs, [*of_article()]), (other_runs, [*matrix()]))
    return [replace(each, TestRun=nth) for runs, first in parts for nth in range(1, runs + 1) for each in first]


@dataclass(frozen=True, kw_only=True)
class Row(Planned):
    SendCount: int
    PosAckCount: int  # acknowledged
    NegAckCount: int  # failed for good
    Received: int  # records in the topic
    NotReceived: int  # acknowledged, and not in the topic
    ReceivedNoAck: int  # in the topic, and never acknowledged
    MsgsWithDups: int  # records whose number came before
    DJF: int  # jumps forward to a number that came before
    DJB: int  # jumps backward to a number that came before
    JF: int  # jumps forward to a new number
    JB: int  # jumps backward to a new number
    Missing: int  # sent, acknowledged or not, and not in the topic
    Gap: int  # missing, with a number between two that are in the topic
    Bronze: int  # records in Bronze
    Silver: int  # records in Silver that quarantines late ones
    SilverDups: int  # of these, records whose number came before
    SilverJB: int  # jumps backward among these
    Held: int  # late records in quarantine
    SilverAccept: int  # records in Silver that accepts late ones
    Late: int  # of these, late ones
    Gold: int  # records in Gold that accepts late ones
    Findings: str  # of `tidemark order`, separated by spaces; none for nothing
    Wrong: str  # differences between tables and topic; empty if there are none
    Seconds: float  # from the topic's creation to the last replica in sync
    Load: float  # the machine's load average of the minute before
    At: str  # when it began, in UTC

    @property
    def findings(self) -> set[str]:
        return set(self.Findings.split()) - {NONE}

    @property
    def shows(self) -> str:
        """The traces of the setting in the topic: retries, loss, both, or none if it rises without a gap."""
        has_retries = self.MsgsWithDups > 0 or self.JB > 0
        return " and ".join(name for name, holds in (("retries", has_retries), ("loss", self.Gap)) if holds) or NONE

    @property
    def is_named(self) -> bool:
        has_retries = "retries" in self.shows and self.Idempotence == "off"
        has_loss = "loss" in self.shows and (self.Acks != "all" or self.Fault == "unclean_election")
        found = (bool(self.findings & RETRIES), "lost" in self.findings)
        return found == (has_retries, has_loss) and self.findings <= {*RETRIES, "lost"}


def append(file: Path, rows: Iterable[Row]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, [each.name for each in fields(Row)], lineterminator="\n")
        if not opened.tell():
            writer.writeheader()
        writer.writerows(map(asdict, rows))


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    kinds: dict[str, Any] = {each.name: each.type for each in fields(Row)}
    with file.open(encoding="utf-8", newline="") as opened:
        return [Row(**{name: kinds[name](value) for name, value in found.items()}) for found in csv.DictReader(opened)]


def named_share(rows: Sequence[Row]) -> tuple[int, int]:
    showing = [row for row in rows if row.shows != NONE]
    return sum(row.is_named for row in showing), len(showing)


def missed_marks(rows: Sequence[Row]) -> list[str]:
    missed = [f"{row.topic}: {each}" for row in rows for each in _missed_by(row)]
    without = [row for row in rows if row.Idempotence == "off" and row.is_of_article]
    for fault in sorted({row.Fault for row in without}):
        own = [row for row in without if row.Fault == fault]
        missed += [f"{fault}: {each}" for each in _missed_without_idempotence(own)]
    right, showing = named_share(rows)
    if right < ENOUGH_RIGHT * showing:
        missed.append(f"tidemark order names the cause in {right} of {showing} runs")
    return missed


def _missed_by(row: Row) -> Iterator[str]:
    if row.Wrong:
        yield row.Wrong
    if row.Fault != "unclean_election":
        if row.Idempotence == "on" and (row.MsgsWithDups or row.DJF or row.DJB or row.JF or row.JB):
            yield "an idempotent client's records came twice or out of order"
        if row.Acks == "all" and row.NotReceived:
            yield f"{row.NotReceived} records that all replicas had acknowledged are lost"
    if row.shows == NONE and row.findings:
        yield f"{row.Findings} without a reason"


def _missed_without_idempotence(rows: Sequence[Row]) -> Iterator[str]:
    turned = sum(row.JB > 0 for row in rows)
    if not any(row.MsgsWithDups for row in rows):
        yield f"no duplicate in {len(rows)} runs without idempotence"
    if turned < NEARLY_ALL * len(rows):
        yield f"only {turned} of {len(rows)} runs without idempotence jump backwards"
