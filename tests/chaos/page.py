"""`docs/chaos.md`: the template `page.md`, filled from the rows of all runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.machine import machine
from lakehouse.machine.jars import pinned
from tests.chaos import setting
from tests.chaos.cluster import SESSION_SECONDS
from tests.chaos.faults import TCP_EVERY_SECONDS, TCP_SECONDS
from tests.chaos.pulsar import program
from tests.chaos.results import NONE, named_share
from tests.chaos.senders import MOST_OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.chaos.results import Row

PAGE = Path(__file__).parents[2] / "docs" / "chaos.md"
CSV = PAGE.with_name("chaos") / "runs.csv"

_ARTICLE = {  # (runs, with duplicates, duplicates, most, jumps, runs with JB, lost), idempotence off, summed over its CSV
    ("java", "leader_killed"): (50, 33, "26,999", "819", "0 / 33 / 99 / 167", 50, 0),
    ("java", "tcp_killed"): (50, 45, "248,896", "14,963", "0 / 298 / 303 / 304", 45, 0),
    (setting.PULSAR, "leader_killed"): (50, 13, "25,610", "10,000", "0 / 13 / 0 / 0", 0, 0),
    (setting.PULSAR, "tcp_killed"): (50, 46, "422,457", "10,000", "0 / 46 / 0 / 0", 0, 0),
}
_JUMPS = "DJF / DJB / JF / JB"
_SUMMED = ("runs", "with duplicates", "duplicates", "most in a run", _JUMPS, "runs with JB", "lost")
_MATRIX = ("sender", "acks", "idempotence", *_SUMMED[:3], _JUMPS, "failed", "lost", "held", "order says")


def page(rows: Sequence[Row], missed: Sequence[str]) -> str:
    """The page. `missed` are the marks that the rows miss."""
    kafka = [row for row in rows if row.Sender != setting.PULSAR]
    pulsar = [row for row in rows if row.Sender == setting.PULSAR]
    of_article = [*(row for row in kafka if row.setting.is_of_article), *pulsar]
    idempotent = [row for row in of_article if row.Idempotence == "on"]
    deviate = sum(any((row.MsgsWithDups, row.DJF, row.DJB, row.JF, row.JB, row.NotReceived)) for row in idempotent)
    wrong = [f"- {row.topic}: {row.Wrong}" for row in rows if row.Wrong]
    right, showing = named_share(rows)
    jar = next(name for name in pinned("broker") if name.startswith("kafka-clients-"))
    template = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    return template.format(
        kafka_runs=len(kafka),
        article_runs=sum(row.setting.is_of_article and row.Delay == setting.DELAY_MS for row in kafka),
        pulsar_runs=len(pulsar),
        duplicates=f"{sum(row.MsgsWithDups for row in rows):,}",
        silver_duplicates=sum(row.SilverDups for row in rows) or "none",
        right=right,
        showing=showing,
        marks="\n\nMISSED MARKS:\n\n" + "\n".join(f"- {each}" for each in missed) if missed else "All marks are met.",
        article=_article(rows),
        idempotent_runs=len(idempotent),
        idempotent_deviate=deviate or "none",
        kafka_version=jar.removeprefix("kafka-clients-").removesuffix(".jar"),
        kafka_when=_when(kafka),
        kafka_load=_load(kafka),
        machine="; ".join(f"{name} {value}" for name, value in machine().items()),
        session=SESSION_SECONDS,
        stopped=2 * SESSION_SECONDS,
        records=f"{setting.RECORDS:,}",
        first=f"{setting.FIRST:,}",
        most_open=f"{MOST_OPEN:,}",
        struck_at=f"{setting.STRUCK_AT:,}",
        delay=setting.DELAY_MS,
        tcp=f"{TCP_SECONDS:.0f}",
        tcp_every=TCP_EVERY_SECONDS,
        pulsar_version=program.VERSION,
        pulsar_when=_when(pulsar),
        pulsar_load=_load(pulsar),
        pulsar_delay=setting.PULSAR_DELAY_MS,
        settings=len({*setting.of_article(), *setting.matrix()}),
        matrix="\n\n".join(_of_fault(kafka, fault) for fault in setting.FAULTS),
        copied_again=f"{sum(row.Bronze - row.Received for row in pulsar):,}",
        wrong="IT DOES NOT HOLD IN:\n\n" + "\n".join(wrong) if wrong else f"It holds in all {len(rows)} runs.",
        order=_order(kafka),
    )


def _article(rows: Sequence[Row]) -> str:
    """The article's rows and ours, without idempotence."""
    lines: list[tuple[object, ...]] = []
    for (sender, fault), published in _ARTICLE.items():
        name = f"Pulsar, {_name(fault).replace('leader', 'owner')}" if sender == setting.PULSAR else f"Kafka, {_name(fault)}"
        lines.append((name, "article", *published))
        own = [row for row in rows if (row.Sender, row.Fault, row.Idempotence) == (sender, fault, "off")]
        own = [row for row in own if row.setting.is_of_article or sender == setting.PULSAR]
        for delay, whose in ((setting.DELAY_MS, "ours"), (setting.PULSAR_DELAY_MS, "ours"), (0, "ours, answers not delayed")):
            if found := [row for row in own if row.Delay == delay]:
                lines.append((name, whose, *_sums(found)))
    return _table(("test", "", *_SUMMED), lines)


def _sums(rows: Sequence[Row]) -> tuple[object, ...]:
    """The cells of `_SUMMED`."""
    duplicates = [row.MsgsWithDups for row in rows]
    with_duplicates, backwards = sum(map(bool, duplicates)), sum(row.JB > 0 for row in rows)
    lost = sum(row.NotReceived for row in rows)
    return len(rows), with_duplicates, f"{sum(duplicates):,}", f"{max(duplicates):,}", _jumps(rows), backwards, f"{lost:,}"


def _jumps(rows: Sequence[Row]) -> str:
    return " / ".join(str(sum(getattr(row, name) for row in rows)) for name in ("DJF", "DJB", "JF", "JB"))


def _of_fault(rows: Sequence[Row], fault: str) -> str:
    """The table of one fault: a line for each setting."""

    def key(row: Row) -> tuple[int, int, str, int, int]:
        return setting.SENDERS.index(row.Sender), setting.ACKS.index(row.Acks), row.Idempotence, -row.InFlight, -row.Delay

    lines = []
    for own in _groups([row for row in rows if row.Fault == fault], key):
        row, said = own[0], Counter(row.Findings.replace(NONE, "nothing").replace(" ", " and ") for row in own)
        idempotence = f"{row.Idempotence}, {row.InFlight}" + ("" if row.Delay == setting.DELAY_MS else f", {row.Delay} ms")
        totals = (f"{sum(each.NegAckCount for each in own):,}", _sums(own)[-1], f"{max(each.Held for each in own):,}")
        findings = ", ".join(f"{name} in {count}" for name, count in said.most_common())
        lines.append((row.Sender, row.Acks, idempotence, *_sums(own)[:3], _jumps(own), *totals, findings))
    return f"### {_name(fault)[0].upper()}{_name(fault)[1:]}\n\n{_table(_MATRIX, lines)}"


def _order(rows: Sequence[Row]) -> str:
    """A line for each idempotence, trace in the topic, and answer of `tidemark order`."""
    head = ("idempotence", "topic shows", "order says", "runs", "right")
    groups = _groups(rows, lambda row: (row.Idempotence, row.shows, row.Findings))
    found = [(own[0].Idempotence, own[0].shows, own[0].Findings, len(own), sum(row.is_named for row in own)) for own in groups]
    return _table(head, found)


def _groups(rows: Iterable[Row], key: Callable[[Row], tuple[object, ...]]) -> list[list[Row]]:
    """The rows by a key, in the key's order."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in sorted(rows, key=key):
        found.setdefault(key(row), []).append(row)
    return list(found.values())


def _name(fault: str) -> str:
    return fault.replace("_", " ").replace("tcp", "TCP")


def _when(rows: Sequence[Row]) -> str:
    dates = sorted(row.At for row in rows)
    return f"{dates[0]} to {dates[-1]}" if dates else "not run yet"


def _load(rows: Sequence[Row]) -> str:
    loads = [row.Load for row in rows] or [0.0]
    return f"{median(loads):.1f} in the median and {max(loads):.1f} at most"


def _table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in (head, ["---"] * len(head), *lines))
