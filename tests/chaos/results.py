"""The runs' results: a row for each in a CSV file, and what they come to together."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from tests.chaos.setting import PULSAR, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

NONE = "none"
OFF = {"reordering", "client_retries"}
"""What `tidemark order` finds where a client retries without idempotence."""
ENOUGH_RIGHT = 0.95
NEARLY_ALL = 0.9
"""Of the article's runs without idempotence that go backwards: all do where more than one request is in flight just then."""


@dataclass(frozen=True)
class Row:
    """A run: its setting; the article's columns, from the topic itself; what the tables hold.

    Attributes:
        sender: java, librdkafka, kit or pulsar.
        acks: 0, 1 or all.
        Idempotence: on or off: the article's DedupEnabled.
        InFlight: Requests in flight.
        Fault: What was done to the leader.
        Delay: Milliseconds that answers of brokers were delayed by.
        TestRun: Which of the setting's runs it is.
        SendCount: Records sent.
        PosAckCount: Of them those that were acknowledged.
        NegAckCount: Of them those that failed for good.
        Received: Records in the topic.
        NotReceived: Records that were acknowledged and are not in the topic.
        ReceivedNoAck: Records in the topic that were never acknowledged.
        MsgsWithDups: Records whose number was read before.
        DJF: Duplicate jumps forward.
        DJB: Duplicate jumps backward.
        JF: Jumps forward.
        JB: Jumps backward.
        Missing: Records that were sent, acknowledged or not, and are not in the topic.
        Gap: Of them those with a number between two that are there.
        Bronze: Records in Bronze.
        Silver: Records in Silver where late ones are held in quarantine.
        SilverDups: Of them those whose number was read before.
        SilverJB: Jumps backward among them.
        Held: Late records in quarantine.
        SilverAccept: Records in Silver where late ones are accepted.
        Late: Of them those that are late.
        Gold: Records in Gold where late ones are accepted.
        Findings: What `tidemark order` finds, with spaces between; none for nothing.
        Wrong: What the tables hold otherwise than they must; empty where nothing is.
        Seconds: From the topic's creation to the last replica in sync.
        Load: The machine's load average of the minute before.
        At: When it began, in UTC.
    """

    Sender: str
    Acks: str
    Idempotence: str
    InFlight: int
    Fault: str
    Delay: int
    TestRun: int
    SendCount: int
    PosAckCount: int
    NegAckCount: int
    Received: int
    NotReceived: int
    ReceivedNoAck: int
    MsgsWithDups: int
    DJF: int
    DJB: int
    JF: int
    JB: int
    Missing: int
    Gap: int
    Bronze: int
    Silver: int
    SilverDups: int
    SilverJB: int
    Held: int
    SilverAccept: int
    Late: int
    Gold: int
    Findings: str
    Wrong: str
    Seconds: float
    Load: float
    At: str

    @property
    def setting(self) -> Setting:
        """The setting."""
        return Setting(self.Sender, self.Acks, self.Idempotence == "on", self.InFlight, self.Fault, self.Delay)

    @property
    def topic(self) -> str:
        """The run's topic, which names it."""
        return f"{self.setting.name}-{self.TestRun}"

    @property
    def findings(self) -> set[str]:
        """What was found."""
        return set(self.Findings.split()) - {NONE}

    @property
    def shows(self) -> str:
        """What the topic shows of the run's setting, from the topic alone: none where it rises without a gap."""
        has_retries = self.MsgsWithDups > 0 or self.JB > 0
        return " and ".join(name for name, holds in (("retries", has_retries), ("loss", self.Gap)) if holds) or NONE

    @property
    def is_told(self) -> bool:
        """Whether the findings name what the setting makes of the topic: retries without idempotence, or losses, or neither."""
        shown = self.shows
        says_off, says_loss = bool(self.findings & OFF), "lost" in self.findings
        is_off_right = says_off == (self.Idempotence == "off" and "retries" in shown)
        may_lose = self.Acks != "all" or self.Fault == "unclean_election"
        return is_off_right and says_loss == (may_lose and "loss" in shown) and self.findings <= {*OFF, "lost"}


def append(file: Path, rows: Iterable[Row]) -> None:
    """Add rows to the file, which is made if need be."""
    is_new = not file.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, [each.name for each in fields(Row)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read(file: Path) -> list[Row]:
    """The rows of the file; none if it is not there."""
    if not file.exists():
        return []
    kinds = {each.name: {"int": int, "float": float, "str": str}[str(each.type)] for each in fields(Row)}
    with file.open(encoding="utf-8", newline="") as opened:
        return [Row(**{name: kinds[name](value) for name, value in found.items()}) for found in csv.DictReader(opened)]


def told_share(rows: Sequence[Row]) -> tuple[int, int]:
    """Of Kafka's runs that show anything, how many the findings tell right; and how many these are."""
    showing = [row for row in rows if row.shows != NONE and row.Sender != PULSAR]
    return sum(row.is_told for row in showing), len(showing)


def faults_of(rows: Sequence[Row]) -> list[str]:
    """What the runs show otherwise than they have to; empty if they hold all marks."""
    of_kafka = [row for row in rows if row.Sender != PULSAR]
    faults = [f"{row.topic}: {row.Wrong}" for row in rows if row.Wrong]
    for row in rows:
        if row.Fault == "unclean_election":
            continue
        if row.Idempotence == "on" and (row.MsgsWithDups or row.DJF or row.DJB or row.JF or row.JB):
            faults.append(f"{row.topic}: an idempotent client's records came twice or out of order")
        if row.Acks == "all" and row.NotReceived:
            faults.append(f"{row.topic}: {row.NotReceived} records that all replicas had acknowledged are lost")
    faults += [f"{row.topic}: {row.Findings} without a reason" for row in of_kafka if row.shows == NONE and row.findings]
    faults += _without_idempotence([row for row in of_kafka if row.setting.is_of_article and row.Idempotence == "off"])
    faults += _without_idempotence([row for row in rows if row.Sender == PULSAR and row.Idempotence == "off"])
    right, showing = told_share(rows)
    if right < ENOUGH_RIGHT * showing:
        faults.append(f"tidemark order tells the setting of {right} of {showing} runs")
    return faults


def _without_idempotence(rows: Sequence[Row]) -> Iterator[str]:
    """What the article's runs of one system show otherwise than there: all had duplicates, and Kafka's went backwards."""
    for fault in sorted({row.Fault for row in rows}):
        of_fault = [row for row in rows if row.Fault == fault]
        name = f"{fault}, {of_fault[0].Sender}"
        if not any(row.MsgsWithDups for row in of_fault):
            yield f"{name}: no duplicate in {len(of_fault)} runs without idempotence"
        turned = sum(row.JB > 0 for row in of_fault)
        if of_fault[0].Sender == PULSAR:
            if any(row.DJF or row.JF or row.JB for row in of_fault):
                yield f"{name}: jumps other than back to what was read before, in {turned} runs to what was not"
        elif turned < NEARLY_ALL * len(of_fault):
            yield f"{name}: a jump backwards in no more than {turned} of {len(of_fault)} runs without idempotence"
