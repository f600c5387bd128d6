"""The breaker: stops a load that looks wrong as a whole, before anything of it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakehouse.contracts.silver import ACCEPTED, COLLISION, LATE, QUARANTINED, STREAM
from lakehouse.errors import BreakerOpenError
from lakehouse.table import BRONZE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.run import Run
    from silver.plan import Plan

_FEWEST = 10
"""Records kept out below which nothing is stopped: a handful of bad records is not a pattern, whatever their share."""


class Trip(NamedTuple):
    """Why the breaker opens.

    Attributes:
        what: What looks wrong, in words.
        where: The load, or the stream.
        observed: What was counted.
    """

    what: str
    where: str
    observed: str


def trips(load_seq: int, ledger: Sequence[Mapping[str, object]], max_share: float) -> list[Trip]:
    """What opens the breaker on a planned load: too much quarantine in all, or a stream of which only old numbers come.

    Args:
        load_seq: The planned load.
        ledger: Its rows, see `lakehouse.contracts.silver.LOADS`.
        max_share: The largest share of quarantined records that is let through, 0 to 1.
    """
    counts = [{name: int(str(row[name])) for name in ("records", ACCEPTED, "late_accepted", *QUARANTINED)} for row in ledger]
    found = []
    records, kept_out = sum(count["records"] for count in counts), sum(map(_kept_out, counts))
    if kept_out >= _FEWEST and kept_out > max_share * records:
        what = "Too much of the load would go into quarantine."
        found.append(Trip(what, f"load {load_seq}", f"{kept_out} of {records} records: {_named(counts)}"))
    for row, count in zip(ledger, counts, strict=True):
        low = count[LATE] - count["late_accepted"] + count[COLLISION]
        if not count[ACCEPTED] and low >= _FEWEST and low > max_share * count["records"]:
            stream = ", ".join(f"{name} {row[name]}" for name in STREAM if row[name] is not None)
            observed = f"{low} of {count['records']} records below the watermark {row['high_watermark_before']}, none above"
            what = "A stream sends only numbers below its watermark that are no duplicates: its sequence started anew, or one "
            found.append(Trip(f"{what}corrupt number raised the watermark.", stream, f"{observed}: {_named([count])}"))
    return found


def require_closed(run: Run, planned: Plan, max_share: float) -> None:
    """Raise where the breaker opens on a plan.

    Raises:
        BreakerOpenError: It does. Nothing was written, and the records are in Bronze.
    """
    found = trips(planned.load_seq, planned.ledger, max_share)
    if not found:
        return
    raise BreakerOpenError(
        " ".join(dict.fromkeys(trip.what for trip in found)) + " Nothing was written.",
        where=f"{run.table(BRONZE_RECORDS)}: " + "; ".join(trip.where for trip in found),
        observed="; ".join(trip.observed for trip in found),
        expected=f"a share of at most {max_share:g} (policies.max_quarantined_share)",
        next_step="See `tidemark plan`. Mend the producer; declare a sequence that started anew with `tidemark watermark reset "
        "--new-epoch`; or let the load into quarantine with a greater "
        "policies.max_quarantined_share (1 for any). policies.max_jump keeps a corrupt number from raising a watermark.",
    )


def _kept_out(count: Mapping[str, int]) -> int:
    return sum(count[name] for name in QUARANTINED) - count["late_accepted"]


def _named(counts: list[dict[str, int]]) -> str:
    sums = {name: sum(count[name] for count in counts) for name in QUARANTINED}
    return ", ".join(f"{count} {name}" for name, count in sums.items() if count)
