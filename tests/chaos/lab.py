"""One run after another on one cluster, and their topics through the pipeline."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.machine.jars import broker_classpath
from tests.chaos import faults, log
from tests.chaos.cluster import Cluster
from tests.chaos.results import NONE, Row
from tests.chaos.senders import Sender, StuckError, Task, command_of, compile_java
from tests.chaos.started import Started
from tests.chaos.tables import BY_KIT, BY_VALUE, outcomes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.chaos.log import Log, Sent
    from tests.chaos.setting import Planned
    from tests.chaos.tables import Numbers, Outcome


@dataclass(frozen=True)
class Ran:
    """A run whose topic is still there.

    Attributes:
        planned: The run.
        sent: The sender's side.
        log: What the topic holds.
        read: What Bronze reads: the topic, or its copy in Kafka.
        seconds: How long it took.
        load: The load average before it.
        at: When it began.
    """

    planned: Planned
    sent: Sent
    log: Log
    read: Log
    seconds: float
    load: float
    at: str


class Lab(Started):
    """The cluster and a folder, as long as the `with` block."""

    def _start(self) -> None:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-chaos-"))).resolve()
        self._classpath = compile_java([Path(__file__).with_name("Sender.java")], self._made("classes"), broker_classpath())
        self._cluster = self._stack.enter_context(Cluster())

    def run(self, planned: Planned, records: int) -> Ran:
        """Send the records to a new topic, strike in the middle, and wait until the cluster is whole again.

        Raises:
            StuckError: The sender ended or stood still; or the topic holds nothing that could be compared.
            UnfitError: The cluster did not come back.
        """
        load, at, started = os.getloadavg()[0], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), time.monotonic()
        setting, topic, servers = planned.setting, planned.topic, self._cluster.bootstrap_servers
        self._cluster.create_topic(topic, faults.topic_config(setting.fault))
        target = faults.prepare(self._cluster, topic, delay_ms=setting.delay_ms)
        folder = self._made(topic)
        task = Task(setting, topic, servers, records, faults.rate(setting.fault))
        try:
            with Sender(command_of(task, self._classpath, folder), folder) as sender:
                sender.await_strike()
                faults.strike(setting.fault, target, lambda: sender.is_sending)
                fates = sender.fates()
        finally:
            faults.heal(self._cluster, topic)
        seconds = round(time.monotonic() - started, 1)
        found = log.read(servers, topic)
        if not len(found.numbers):
            raise StuckError(f"The topic holds none of {records:,} records: all were lost with the leader")
        return Ran(planned, log.compare(fates, found), found, found, seconds, round(load, 1), at)

    def through_tables(self, spark: SparkSession, runs: Sequence[Ran]) -> list[Row]:
        """Take the runs' topics through the pipeline, and remove them."""
        rows = []
        for numbers, is_kit in ((BY_VALUE, False), (BY_KIT, True)):
            chosen = [ran for ran in runs if (ran.planned.setting.sender == "kit") is is_kit]
            if chosen:
                rows += rows_of(spark, self._cluster.bootstrap_servers, chosen, self._folder, numbers)
                self._cluster.delete_topics([ran.planned.topic for ran in chosen])
        return rows

    def _made(self, name: str) -> Path:
        made = self._folder / name
        made.mkdir()
        return made


def rows_of(spark: SparkSession, servers: str, runs: Sequence[Ran], folder: Path, numbers: Numbers) -> list[Row]:
    """Take the runs' topics in Kafka through the pipeline, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tables-", dir=folder) as tables:
        found = outcomes(spark, servers, {ran.planned.topic: ran.read for ran in runs}, Path(tables), numbers)
    return [_row(ran, found[ran.planned.topic]) for ran in runs]


def _row(ran: Ran, outcome: Outcome) -> Row:
    setting, sent, jumps = ran.planned.setting, ran.sent, ran.log.jumps()
    return Row(
        Sender=setting.sender,
        Acks=setting.acks,
        Idempotence="on" if setting.is_idempotent else "off",
        InFlight=setting.in_flight,
        Fault=setting.fault,
        Delay=setting.delay_ms,
        TestRun=ran.planned.nth,
        SendCount=sent.sent,
        PosAckCount=sent.acknowledged,
        NegAckCount=sent.failed,
        Received=len(ran.log.numbers),
        NotReceived=sent.lost,
        ReceivedNoAck=sent.unacknowledged,
        MsgsWithDups=jumps.duplicates,
        DJF=jumps.djf,
        DJB=jumps.djb,
        JF=jumps.jf,
        JB=jumps.jb,
        Missing=sent.missing,
        Gap=sent.gap,
        Bronze=outcome.received,
        Silver=outcome.kept["quarantine"],
        SilverDups=outcome.silver.duplicates,
        SilverJB=outcome.silver.jb,
        Held=outcome.held,
        SilverAccept=outcome.kept["accept"],
        Late=outcome.late,
        Gold=outcome.gold,
        Findings=" ".join(outcome.findings) or NONE,
        Wrong="; ".join(outcome.wrong),
        Seconds=ran.seconds,
        Load=ran.load,
        At=ran.at,
    )
