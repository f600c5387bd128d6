"""`docs/chaos.md`: the article's table beside ours, the matrix, and what the tables and `tidemark order` made of it."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from bench.machine import machine
from lakehouse.machine.jars import pinned
from tests.chaos.cluster import SESSION_SECONDS
from tests.chaos.faults import TCP_EVERY_SECONDS, TCP_SECONDS
from tests.chaos.pulsar import cluster as pulsar_cluster
from tests.chaos.pulsar import program
from tests.chaos.results import NONE, OFF, told_share
from tests.chaos.senders import MOST_OPEN
from tests.chaos.setting import (
    ACKS,
    ARTICLE_FAULTS,
    DELAY_MS,
    FAULTS,
    FIRST,
    PULSAR,
    PULSAR_DELAY_MS,
    RECORDS,
    SENDERS,
    STRUCK_AT,
    matrix,
    of_article,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.chaos.results import Row

PAGE = Path(__file__).parents[2] / "docs" / "chaos.md"
CSV = PAGE.with_name("chaos") / "runs.csv"

_NAMES = {
    "leader_killed": "leader killed",
    "tcp_killed": "TCP killed",
    "leader_stopped": "leader stopped and woken",
    "leader_cut_off": "leader cut off",
    "unclean_election": "unclean election",
}
_NAMES_OF_PULSAR = {"leader_killed": "owner killed", "tcp_killed": "TCP killed"}


class Published(NamedTuple):
    """A row of the article, idempotence off, as its CSV adds up."""

    runs: int
    with_duplicates: int
    duplicates: int
    most: int
    djf: int
    djb: int
    jf: int
    jb: int
    with_jb: int


_PUBLISHED = {
    "leader_killed": Published(50, 33, 26_999, 819, 0, 33, 99, 167, 50),
    "tcp_killed": Published(50, 45, 248_896, 14_963, 0, 298, 303, 304, 45),
}
_PUBLISHED_OF_PULSAR = {
    "leader_killed": Published(50, 13, 25_610, 10_000, 0, 13, 0, 0, 0),
    "tcp_killed": Published(50, 46, 422_457, 10_000, 0, 46, 0, 0, 0),
}
_BESIDE = """\
| test | | runs | with duplicates | duplicates, sum / most | DJF / DJB / JF / JB | runs with JB | lost |
|---|---|---|---|---|---|---|---|"""


def page(rows: Sequence[Row], faults: Sequence[str]) -> str:
    """The page."""
    of_pulsar = [row for row in rows if row.Sender == PULSAR]
    rows = [row for row in rows if row.Sender != PULSAR]
    return f"""# Chaos

What producers do to a topic when its leader dies, and what Silver keeps of it. This is the experiment of "Testing Producer
Deduplication in Apache Kafka and Apache Pulsar", run again: {len(rows)} runs on Kafka, of which {_of_article(rows)} repeat the
article's own settings of Kafka{_and_pulsar(of_pulsar)}. Written by `make chaos`; a row for each run is in
[runs.csv](chaos/runs.csv).

{_verdict([*rows, *of_pulsar], faults)}

## The article's table, beside ours

Idempotence off, Java client, acks=all, five requests in flight. *Duplicates* are records whose number was read before; JF and
JB are jumps forward and backward to a number that was not, DJF and DJB to one that was.

{_BESIDE}
{_beside(rows)}

{_with_idempotence(rows)}

{_signatures(rows)}

{_pulsar(of_pulsar)}

## Conditions

{_conditions(rows)}

## The settings

{len({row.setting for row in rows})} of the lab's {len({*of_article(), *matrix()})} were run. The tables have what the topics
themselves hold, summed over a setting's runs. *On* and *off* is `enable.idempotence`, the number after it
`max.in.flight.requests.per.connection`. *Failed* records are those that the client gave up. *Lost* records were acknowledged
and are not in the topic: no reader can bring them back. The senders are the Java client, librdkafka (confluent-kafka), and
librdkafka behind the [producer kit](producers.md).

{_matrix(rows)}

## What Silver made of it

Each topic went through the pipeline twice: with `policies.late` as *quarantine* and as *accept*. In every run of every setting:

- Silver holds each number once, and no record in order goes backwards.
- Under *accept* it holds every number that the topic holds. Under *quarantine* it holds those that rise; the others wait there.
- Every copy of a number is counted as a duplicate, and nothing else was rejected.
- Gold, published under *accept*, holds what Silver does. A gate that tolerates no duplicate, late or missing
  record fails by exactly the budgets that are exceeded, and one without budgets passes.

| setting, late records under quarantine | runs with late ones | held, median / most | Silver, numbers twice | Silver, JB |
|---|---|---|---|---|
{_held(rows)}

{_wrong(rows)}

## What `tidemark order` says

From the order of arrival, and from the timestamps of what came again, `order` names what a producer does. *reordering* and
*client_retries* mean that the client sends again without idempotence, *lost* that numbers are missing in a stream without gaps.
It is right where it names one of the first two for a run without idempotence whose topic shows duplicates or jumps backward,
and *lost* where acks=0, acks=1 or an unclean election lost records in the middle. What was lost at the end of a topic nobody
can see in it.

{_confusion(rows)}
"""


def _of_article(rows: Sequence[Row]) -> int:
    return sum(row.setting.is_of_article and row.Delay == DELAY_MS for row in rows)


def _verdict(rows: Sequence[Row], faults: Sequence[str]) -> str:
    right, showing = told_share(rows)
    doubled = sum(row.MsgsWithDups for row in rows)
    good = (
        f"The topics hold {doubled:,} records twice; Silver holds none twice. `tidemark order` names the setting in {right} "
        f"of the {showing} runs that show anything."
    )
    if not faults:
        return good
    return good + "\n\nNOT AS IT HAS TO BE:\n\n" + "\n".join(f"- {fault}" for fault in faults)


def _ours(rows: Sequence[Row]) -> Published:
    return Published(
        len(rows),
        sum(row.MsgsWithDups > 0 for row in rows),
        sum(row.MsgsWithDups for row in rows),
        max((row.MsgsWithDups for row in rows), default=0),
        sum(row.DJF for row in rows),
        sum(row.DJB for row in rows),
        sum(row.JF for row in rows),
        sum(row.JB for row in rows),
        sum(row.JB > 0 for row in rows),
    )


def _beside(rows: Sequence[Row]) -> str:
    lines = []
    for fault in ARTICLE_FAULTS:
        lines.append(_compared(_NAMES[fault], "article", _PUBLISHED[fault], 0))
        for delay, name in ((DELAY_MS, "ours"), (0, "ours, answers not delayed")):
            if own := _of(rows, fault, delay):
                lines.append(_compared(_NAMES[fault], name, _ours(own), sum(row.NotReceived for row in own)))
    return "\n".join(lines)


def _of(rows: Sequence[Row], fault: str, delay: int) -> list[Row]:
    """The article's runs without idempotence."""
    of_article = [row for row in rows if row.setting.is_of_article and row.Idempotence == "off"]
    return [row for row in of_article if (row.Fault, row.Delay) == (fault, delay)]


def _compared(test: str, name: str, each: Published, lost: int) -> str:
    jumps = f"{each.djf} / {each.djb} / {each.jf} / {each.jb}"
    duplicates = f"{each.duplicates:,} / {each.most:,}"
    return _line((test, name, each.runs, each.with_duplicates, duplicates, jumps, each.with_jb, lost))


def _with_idempotence(rows: Sequence[Row]) -> str:
    on = [row for row in rows if row.setting.is_of_article and row.Idempotence == "on"]
    counted = ", ".join(f"{sum(row.Fault == fault for row in on)} with the {_NAMES[fault]}" for fault in ARTICLE_FAULTS)
    return f"With idempotence on, {len(on)} runs ({counted}): {_in_order(on)}."


def _in_order(rows: Sequence[Row]) -> str:
    sums = sum(row.MsgsWithDups + row.DJF + row.DJB + row.JF + row.JB + row.NotReceived for row in rows)
    return "no duplicate, no jump, nothing lost, as in the article's 100" if sums == 0 else f"NOT ALL IN ORDER ({sums})"


def _signatures(rows: Sequence[Row]) -> str:
    lines = ["The leader kills by (DJB, JF, JB), and the duplicates of a run:\n"]
    lines.append("- The article: (1, 2, 3) in 32, (0, 2, 4) in 17, (1, 1, 3) in one; 819 in 32 runs, 791 in one.")
    for delay, name in ((DELAY_MS, "Ours"), (0, "Ours, answers not delayed")):
        own = _of(rows, "leader_killed", delay)
        signatures = Counter((row.DJB, row.JF, row.JB) for row in own).most_common()
        told = ", ".join(f"{signature} in {count}" for signature, count in signatures)
        sizes = Counter(row.MsgsWithDups for row in own if row.MsgsWithDups).most_common()
        blocks = ", ".join(f"{size:,} in {count}" for size, count in sizes) or "none"
        if own:
            lines.append(f"- {name}: {told}; {blocks}.")
    straight = sum(row.JB == 0 for row in _of(rows, "leader_killed", DELAY_MS))
    if straight:
        lines.append(f"\nIn {straight} of our runs all other batches came in order behind the one that came twice.")
    lines.append(
        "\n819 records are one batch of the Java client. Whether it comes twice is timing: it does where the leader died "
        "between the last\nreplica's copy and the client's answer, and a delay makes that time long."
    )
    return "\n".join(lines)


def _conditions(rows: Sequence[Row]) -> str:
    known = "; ".join(f"{name} {value}" for name, value in machine().items())
    loads = [row.Load for row in rows]
    dates = sorted(row.At for row in rows)
    kafka = next(name for name in pinned("broker") if name.startswith("kafka-clients-"))[len("kafka-clients-") : -len(".jar")]
    return f"""- When and where: {dates[0]} to {dates[-1]}; {known}.
- Other work ran on the machine beside it: its load average of a minute, this experiment's share included, was
  {median(loads):.1f} in the median and {max(loads):.1f} at most.
- Kafka {kafka} from the locked jars: a controller and three brokers on one machine, a topic of one partition and three replicas
  for each run. A broker is taken for dead after {SESSION_SECONDS} s.
- {RECORDS:,} records a run, numbered from {FIRST:,}, key and value the number: the article sent 1,000,000. At most
  {MOST_OPEN:,} are open, linger 1 s, retries without an end, as there. The fault comes at record {STRUCK_AT:,}.
- Answers of brokers, to clients and to each other, are {DELAY_MS} ms under way, in proxies of the tests; the
  article delayed the brokers' packets by as much.
- *Leader killed*: SIGKILL. *TCP killed*: every client's connection to the leader is killed by `ss -K` every
  {TCP_EVERY_SECONDS} s, for {TCP_SECONDS:.0f} s; the article did so by tcpkill, for 10 s. *Stopped and woken*: SIGSTOP for
  {2 * SESSION_SECONDS} s. *Cut off*: for {2 * SESSION_SECONDS} s nothing passes between the leader, its peers and the
  controller, but clients reach it. *Unclean election*: both followers are killed, the leader goes on alone and is killed, and a
  follower that lacks its last records leads.
- For *cut off* a sender sends 12,000 records a second, for *unclean election* 20,000, else as many as it can."""


def _and_pulsar(rows: Sequence[Row]) -> str:
    return f", and {len(rows)} those of Pulsar" if rows else ""


def _pulsar(rows: Sequence[Row]) -> str:
    """The article's rows of Pulsar, and what Silver makes of their copies in Kafka."""
    if not rows:
        return "The article's rows of Pulsar were not run again."
    lines = []
    for fault in ARTICLE_FAULTS:
        if own := [row for row in rows if row.Fault == fault and row.Idempotence == "off"]:
            lines.append(_compared(_NAMES_OF_PULSAR[fault], "article", _PUBLISHED_OF_PULSAR[fault], 0))
            lines.append(_compared(_NAMES_OF_PULSAR[fault], "ours", _ours(own), sum(row.NotReceived for row in own)))
    on, beside = [row for row in rows if row.Idempotence == "on"], "\n".join(lines)
    again = sum(row.Bronze - row.Received for row in rows)
    load = f"{median(row.Load for row in rows):.1f} in the median and {max(row.Load for row in rows):.1f} at most"
    dates = sorted(row.At for row in rows)
    return f"""## Pulsar

Deduplication off, Pulsar's client in Java, which sends again until it is answered.

{_BESIDE}
{beside}

With deduplication on, {len(on)} runs: {_in_order(on)}.

Each topic was then copied to Kafka by a consumer that acknowledges to Pulsar what Kafka has, with the message's sequence id as
the header `seq` and its producer's name as `producer`. It was killed halfway and started again, which brought {again:,} records
into Kafka once more than Pulsar has them. Silver holds each number once:
{_copies(rows)}

- Pulsar {program.VERSION}, from {dates[0]} to {dates[-1]}: ZooKeeper and two bookies in one JVM, and two brokers. A
  broker is taken for dead after {pulsar_cluster.SESSION_SECONDS} s. The load average was {load}.
- {RECORDS:,} records a run, at most {MOST_OPEN:,} open, the fault at record {STRUCK_AT:,}. Answers are {PULSAR_DELAY_MS} ms
  under way, as in the article; those that are under way when the owner is killed or a connection is cut are lost with it.
- *TCP killed*: every connection to the owner is cut, and for {TCP_SECONDS:.0f} s none comes about."""


def _copies(rows: Sequence[Row]) -> str:
    wrong = [row for row in rows if row.Wrong or row.SilverDups or row.SilverJB]
    if wrong:
        return "NOT SO IN " + "; ".join(f"{row.topic}: {row.Wrong}" for row in wrong)
    return f"so it is in all {len(rows)} runs, and nothing that Pulsar holds is missing in it."


_MATRIX = (
    *("sender", "acks", "idempotence", "runs", "with duplicates", "duplicates", "DJF / DJB / JF / JB"),
    *("failed", "lost", "order says"),
)


def _matrix(rows: Sequence[Row]) -> str:
    parts = []
    for fault in FAULTS:
        of_fault = [row for row in rows if row.Fault == fault]
        if not of_fault:
            continue
        ordered = sorted(of_fault, key=_order)
        lines = [
            f"### {_NAMES[fault][0].upper()}{_NAMES[fault][1:]}\n",
            _line(_MATRIX),
            "|---" * len(_MATRIX) + "|",
        ]
        for _, group in groupby(ordered, key=_order):
            own = list(group)
            row, total = own[0], _ours(own)
            said = ", ".join(f"{name} in {count}" for name, count in Counter(map(_named, own)).most_common())
            cells = (
                row.Sender,
                row.Acks,
                f"{row.Idempotence}, {row.InFlight}" + ("" if row.Delay == DELAY_MS else f", {row.Delay} ms"),
                total.runs,
                total.with_duplicates,
                f"{total.duplicates:,}",
                f"{total.djf} / {total.djb} / {total.jf} / {total.jb}",
                f"{sum(each.NegAckCount for each in own):,}",
                f"{sum(each.NotReceived for each in own):,}",
                said,
            )
            lines.append(_line(cells))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _named(row: Row) -> str:
    return "nothing" if row.Findings == NONE else row.Findings.replace(" ", " and ")


def _order(row: Row) -> tuple[int, int, str, int, int]:
    return SENDERS.index(row.Sender), ACKS.index(row.Acks), row.Idempotence, -row.InFlight, -row.Delay


def _held(rows: Sequence[Row]) -> str:
    def kind(row: Row) -> tuple[int, str, str]:
        return FAULTS.index(row.Fault), row.Sender, row.Idempotence

    lines = []
    for (_, sender, idempotence), group in groupby(sorted(rows, key=kind), key=kind):
        own = list(group)
        held = [row.Held for row in own if row.Held]
        amount = f"{median(held):,.0f} / {max(held):,}" if held else "0 / 0"
        name = f"{_NAMES[own[0].Fault]}, {sender}, idempotence {idempotence}"
        twice, back = sum(row.SilverDups for row in own), sum(row.SilverJB for row in own)
        lines.append(_line((name, f"{len(held)} of {len(own)}", amount, twice, back)))
    return "\n".join(lines)


def _wrong(rows: Sequence[Row]) -> str:
    wrong = [row for row in rows if row.Wrong]
    if not wrong:
        return f"So it is in all {len(rows)} runs: what the tables hold was compared with the topics record by record."
    return "NOT SO IN:\n\n" + "\n".join(f"- {row.topic}: {row.Wrong}" for row in wrong)


def _confusion(rows: Sequence[Row]) -> str:
    truths = [
        f"{idempotence}, {shows}" for shows in ("retries", "loss", "retries and loss", NONE) for idempotence in ("off", "on")
    ]
    said = ("off", "off and lost", "lost", "something else", NONE)
    counts = Counter((f"{row.Idempotence}, {row.shows}", _said(row)) for row in rows)
    right: dict[str, tuple[int, int]] = {}
    for truth in truths:
        own = [row for row in rows if f"{row.Idempotence}, {row.shows}" == truth]
        right[truth] = sum(row.is_told for row in own), len(own)
    header = ("idempotence, what the topic shows", "runs", *(_SAID[name] for name in said), "right")
    lines = [_line(header), "|---" * len(header) + "|"]
    lines += [
        _line((truth, right[truth][1], *(counts[truth, name] for name in said), right[truth][0]))
        for truth in truths
        if right[truth][1]
    ]
    return "\n".join(lines)


_SAID = {
    "off": "reordering or client_retries",
    "off and lost": "the same, and lost",
    "lost": "lost",
    "something else": "another finding",
    NONE: "nothing",
}


def _said(row: Row) -> str:
    if row.findings - {*OFF, "lost"}:
        return "something else"
    return (
        " and ".join(name for name, holds in (("off", row.findings & OFF), ("lost", "lost" in row.findings)) if holds) or NONE
    )


def _line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
