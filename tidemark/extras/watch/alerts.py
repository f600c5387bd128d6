"""The conditions of a run that are worth an alert, and which of them are new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.errors import BreakerOpenError, GateFailedError

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.errors import TidemarkError

_PLACES = 10


@dataclass(frozen=True)
class Finding:
    """A run's finding about one condition: gate_failed, breaker_open, lag or topics_skipped.

    Attributes:
        is_on: Whether the condition holds; None if the run could not tell.
        text: One sentence in our own words only: a receiver may render it as markup.
        details: All that is known, line by line; may hold text from a producer.
        cause: Another cause is another condition. Empty if this run cannot tell.
    """

    name: str
    is_on: bool | None
    text: str = ""
    details: str = ""
    cause: str = ""


@dataclass(frozen=True)
class Alert:
    """An alert as it is sent; `alert`, `text` and `details` are a finding's."""

    pipeline: str
    alert: str
    text: str
    details: str
    at: datetime
    run_id: str


def of_gate(audited: Mapping[str, Any] | None, error: TidemarkError | None, *, is_finished: bool) -> Finding:
    """Whether the gate holds loads back, by its event gate.audited and the run's error."""
    if not isinstance(error, GateFailedError):
        return Finding("gate_failed", is_on=False if is_finished else None)
    failed, loads = "", ""
    if audited:
        failed = ", ".join(sorted(audited["failed"]))
        loads = f" for loads {audited['first_load_seq']} to {audited['last_load_seq']}"
    text = f"the gate failed{loads}, and Gold does not change." + (f" Not met: {failed}." if failed else "")
    return Finding("gate_failed", is_on=True, text=text, details=str(error), cause=failed)


def of_breaker(error: TidemarkError | None, *, is_finished: bool) -> Finding:
    """Whether the breaker stopped Silver, by the run's error."""
    if not isinstance(error, BreakerOpenError):
        return Finding("breaker_open", is_on=False if is_finished else None)
    text = "the breaker opened, and Silver loads nothing. `tidemark plan` shows the load that it stopped."
    return Finding("breaker_open", is_on=True, text=text, details=str(error))


def of_lag(lags: list[dict[str, Any]] | None, max_lag: int | None) -> Finding:
    """Whether Silver is more than `max_lag` offsets behind Kafka in any partition, by `tidemark.readers.lag.lags`."""
    if lags is None or max_lag is None:
        return Finding("lag", is_on=None)
    behind = sorted((row for row in lags if row["lag"] > max_lag), key=lambda row: -row["lag"])
    if not behind:
        return Finding("lag", is_on=False)
    text = f"Silver is more than {max_lag:,} offsets behind Kafka in {len(behind):,} of {len(lags):,} partitions."
    lines = [f"{row['topic']}/{row['partition']}: {row['lag']:,} offsets" for row in behind[:_PLACES]]
    return Finding("lag", is_on=True, text=text, details="\n".join(lines))


def of_topics(bronze: Mapping[str, Any] | None) -> Finding:
    """Whether topics were skipped because they cannot be read, by the result of Bronze's stage."""
    if bronze is None:
        return Finding("topics_skipped", is_on=None)
    skipped = bronze.get("skipped", ())
    names = ", ".join(each["topic"] for each in skipped)
    details = "\n".join(f"{each['topic']}: {each['reason']}" for each in skipped)
    text = f"topics that cannot be read were skipped: {names}."
    return Finding("topics_skipped", is_on=bool(skipped), text=text, details=details, cause=names)


def due(findings: Iterable[Finding], alerted: Mapping[str, str]) -> list[Finding]:
    """Return the conditions that hold and are not in `alerted`, or there with another cause.

    >>> due([Finding("lag", is_on=True), Finding("breaker_open", is_on=True)], {"lag": ""})[0].name
    'breaker_open'
    """
    new = [each for each in findings if each.name not in alerted or each.cause not in ("", alerted[each.name])]
    return [each for each in new if each.is_on]
