"""The results of runs: one row of a CSV file for each, and the marks that all rows have to meet."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from tests.chaos.setting import PULSAR, Planned, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

NONE = "none"
RETRIES = {"reordering", "client_retries"}
"""The findings of `tidemark order` where a client retries without idempotence."""
ENOUGH_RIGHT = 0.95
NEARLY_ALL = 0.9
"""The share of the article's runs without idempotence that go backwards, if more than one request is in flight just then."""


@dataclass(frozen=True)
class Row:
    """A run: its setting, the article's columns, which describe the topic, and what the tables hold."""

    Sender: str  # java, librdkafka, kit or pulsar
    Acks: str  # 0, 1 or all
    Idempotence: str  # on or off: the article's DedupEnabled
    InFlight: int  # requests in flight
    Fault: str
    Delay: int  # of the brokers' answers, in milliseconds
    TestRun: int  # the run's number among those of its setting
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
    def setting(self) -> Setting:
        """The setting."""
        return Setting(self.Sender, self.Acks, self.Idempotence == "on", self.InFlight, self.Fault, self.Delay)

    @property
    def topic(self) -> str:
        """The run's topic, which names it."""
        return Planned(self.setting, self.TestRun).topic

    @property
    def findings(self) -> set[str]:
        """The findings of `tidemark order`."""
        return set(self.Findings.split()) - {NONE}

    @property
    def shows(self) -> str:
        """The traces of the setting in the topic: retries, loss, both, or none if it rises without a gap."""
        has_retries = self.MsgsWithDups > 0 or self.JB > 0
        return " and ".join(name for name, holds in (("retries", has_retries), ("loss", self.Gap)) if holds) or NONE

    @property
    def is_named(self) -> bool:
        """Whether the findings name the cause of the traces: retries without idempotence, losses, both or neither."""
        has_retries = "retries" in self.shows and self.Idempotence == "off"
        has_loss = "loss" in self.shows and (self.Acks != "all" or self.Fault == "unclean_election")
        found = (bool(self.findings & RETRIES), "lost" in self.findings)
        return found == (has_retries, has_loss) and self.findings <= {*RETRIES, "lost"}


def append(file: Path, rows: Iterable[Row]) -> None:
    """Add rows to the file, and create it first if needed."""
    is_new = not file.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, [each.name for each in fields(Row)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read(file: Path) -> list[Row]:
    """The rows of the file; none if it does not exist."""
    if not file.exists():
        return []
    kinds = {each.name: {"int": int, "float": float, "str": str}[str(each.type)] for each in fields(Row)}
    with file.open(encoding="utf-8", newline="") as opened:
        return [Row(**{name: kinds[name](value) for name, value in found.items()}) for found in csv.DictReader(opened)]


def named_share(rows: Sequence[Row]) -> tuple[int, int]:
    """The number of Kafka's runs with traces whose cause the findings name, and the number of runs with traces."""
    showing = [row for row in rows if row.shows != NONE and row.Sender != PULSAR]
    return sum(row.is_named for row in showing), len(showing)


def missed_marks(rows: Sequence[Row]) -> list[str]:
    """The marks that the runs miss, each as a sentence; empty if they meet all."""
    missed = [f"{row.topic}: {row.Wrong}" for row in rows if row.Wrong]
    for row in rows:
        if row.Fault != "unclean_election":
            if row.Idempotence == "on" and (row.MsgsWithDups or row.DJF or row.DJB or row.JF or row.JB):
                missed.append(f"{row.topic}: an idempotent client's records came twice or out of order")
            if row.Acks == "all" and row.NotReceived:
                missed.append(f"{row.topic}: {row.NotReceived} records that all replicas had acknowledged are lost")
        if row.Sender != PULSAR and row.shows == NONE and row.findings:
            missed.append(f"{row.topic}: {row.Findings} without a reason")
    missed += _without_idempotence([row for row in rows if row.setting.is_of_article and row.Idempotence == "off"])
    missed += _without_idempotence([row for row in rows if row.Sender == PULSAR and row.Idempotence == "off"])
    right, showing = named_share(rows)
    if right < ENOUGH_RIGHT * showing:
        missed.append(f"tidemark order names the cause in {right} of {showing} runs")
    return missed


def _without_idempotence(rows: Sequence[Row]) -> Iterator[str]:
    """Compare one system's runs with the article's: all had duplicates, and Kafka's went backwards."""
    for fault in sorted({row.Fault for row in rows}):
        of_fault = [row for row in rows if row.Fault == fault]
        name = f"{fault}, {of_fault[0].Sender}"
        if not any(row.MsgsWithDups for row in of_fault):
            yield f"{name}: no duplicate in {len(of_fault)} runs without idempotence"
        turned = sum(row.JB > 0 for row in of_fault)
        if of_fault[0].Sender == PULSAR:
            if any(row.DJF or row.JF or row.JB for row in of_fault):
                yield f"{name}: jumps other than back to a number that came before"
        elif turned < NEARLY_ALL * len(of_fault):
            yield f"{name}: only {turned} of {len(of_fault)} runs without idempotence jump backwards"
