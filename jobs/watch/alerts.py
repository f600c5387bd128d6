"""When somebody is alerted: as something begins, again where it goes on for long, and once it is over. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobs.watch.state import Told
from lakehouse.errors import BreakerOpenError, GateFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from lakehouse.errors import TidemarkError
    from lakehouse.settings.pipeline import Alerts

FIRING = "firing"
RESOLVED = "resolved"

_PLACES = 10


@dataclass(frozen=True)
class Finding:
    """What a run says of one thing that may be alerted.

    Attributes:
        name: gate_failed, breaker_open or lag.
        is_on: Whether it is so; None where the run did not come to see it.
        text: One sentence, in words of ours alone: a receiver may take it for markup.
        details: All that is known, line by line; may hold what a producer sent.
        cause: What it is about, where the same alert may have another cause; empty where this run cannot tell.
    """

    name: str
    is_on: bool | None
    text: str = ""
    details: str = ""
    cause: str = ""


@dataclass(frozen=True)
class Alert:
    """What somebody is told.

    Attributes:
        pipeline: The pipeline's name.
        alert: gate_failed, breaker_open or lag.
        state: firing, or resolved.
        text: One sentence, in words of ours alone.
        details: All that is known, line by line; may hold what a producer sent.
        since: When it began.
        at: When this was written.
        run_id: The run that saw it.
    """

    pipeline: str
    alert: str
    state: str
    text: str
    details: str
    since: datetime
    at: datetime
    run_id: str


def of_gate(audited: Mapping[str, Any] | None, error: TidemarkError | None, *, is_finished: bool) -> Finding:
    """Whether the gate holds loads back.

    Args:
        audited: The event gate.audited of the run; None where nothing was audited.
        error: What the run failed with.
        is_finished: Whether the gate's stage came to its end: everything that Silver has is let out.
    """
    if not isinstance(error, GateFailedError):
        return Finding("gate_failed", is_on=False if is_finished else None, text="the gate has let out all that Silver holds.")
    failed, loads = "", ""
    if audited:
        failed = ", ".join(sorted(audited["failed"]))
        loads = f" for loads {audited['first_load_seq']} to {audited['last_load_seq']}"
    text = f"the gate failed{loads}, and Gold stays as it was." + (f" Not met: {failed}." if failed else "")
    return Finding("gate_failed", is_on=True, text=text, details=str(error), cause=failed)


def of_breaker(error: TidemarkError | None, *, is_finished: bool) -> Finding:
    """Whether the breaker stopped Silver.

    Args:
        error: What the run failed with.
        is_finished: Whether Silver's stage came to its end.
    """
    if not isinstance(error, BreakerOpenError):
        return Finding("breaker_open", is_on=False if is_finished else None, text="the breaker is closed; Silver loads again.")
    text = "the breaker opened, and Silver stands still. `tidemark plan` shows the load that it stopped."
    return Finding("breaker_open", is_on=True, text=text, details=str(error))


def of_lag(lags: list[dict[str, Any]] | None, max_lag: int | None) -> Finding:
    """Whether Silver is further behind Kafka than it may be, in any partition.

    Args:
        lags: See `jobs.readers.lag.lags`; None where nobody could be asked.
        max_lag: The most offsets; None for any number.
    """
    if lags is None or max_lag is None:
        return Finding("lag", is_on=None)
    behind = sorted((row for row in lags if row["lag"] > max_lag), key=lambda row: -row["lag"])
    if not behind:
        return Finding("lag", is_on=False, text=f"no partition is more than {max_lag:,} offsets behind Kafka any more.")
    text = f"Silver is more than {max_lag:,} offsets behind Kafka in {len(behind):,} of {len(lags):,} partitions."
    lines = [f"{row['topic']}/{row['partition']}: {row['lag']:,} offsets" for row in behind[:_PLACES]]
    return Finding("lag", is_on=True, text=text, details="\n".join(lines))


def due(
    findings: Iterable[Finding], told: Mapping[str, Told], alerts: Alerts, now: datetime
) -> list[tuple[Finding, Told, str]]:
    """What somebody has to be told now: what began, what changed its cause, what was told long ago, and what is over.

    Args:
        findings: What a run found.
        told: The alerts that went on until now.
        alerts: After how long they are told again.
        now: The moment.

    Returns:
        The finding, since when and for which cause it goes on or went on, and firing or resolved.
    """
    again = timedelta(hours=alerts.repeat_hours)
    found = []
    for finding in findings:
        known = told.get(finding.name)
        if finding.is_on is False and known is not None:
            found.append((finding, known, RESOLVED))
        elif finding.is_on:
            cause = finding.cause or (known.cause if known else "")
            if known is None:
                found.append((finding, Told(cause=cause, since=now), FIRING))
            elif known.told_at is None or cause != known.cause or now - known.told_at >= again:
                found.append((finding, Told(cause=cause, since=known.since), FIRING))
    return found
