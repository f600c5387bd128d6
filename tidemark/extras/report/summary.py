"""The top of a report: the gate's verdict, and the totals of the pipeline."""

from __future__ import annotations

from typing import Any

from lakehouse.contracts.gate import CRITICAL
from lakehouse.contracts.silver import HELD
from tidemark.extras.report.text import count, moment, share, text
from tidemark.process.output import decided
from tidemark.readers.status import added

Facts = dict[str, Any]


def verdict(found: Facts) -> dict[str, Any]:
    """Return the gate's verdict: state (passed, failed or none), headline, `said` (sentences) and `unmet`, critical first."""
    gate, published = found["gate"], found["published"]
    gold = f"Gold is published up to load {published['load_seq']:,}." if published else "Gold: nothing is published."
    said = [gold]
    if found["unfinished_load"]:
        said.append(f"Load {found['unfinished_load']:,} was claimed and is not finished: the next run finishes it.")
    said += [added(row) for row in found["grown"]]
    if waiting := sum(row["records"] for row in found["kept_aside"] if row["state"] == HELD):
        said.append(f"{waiting:,} records are kept out of Gold by expectations, and wait.")
    if gate is None:
        return {"state": "none", "headline": "The gate has not run", "said": said, "unmet": []}
    first, last = gate["first_load_seq"], gate["last_load_seq"]
    loads = f"loads {first:,} to {last:,}" if last > first else f"load {last:,}"
    met = gate["expectations"] - len(gate["unmet"])
    said.insert(0, f"{met:,} of {gate['expectations']:,} expectations met for {loads}, {moment(gate['evaluated_at'])} UTC.")
    state = "passed" if gate["passed"] else "failed"
    if decision := gate["decision"]:
        said.append(f"The loads were {decided(decision)}.")
    elif not gate["passed"]:
        said.append("Next: tidemark gate show lists the rows behind it; then tidemark gate release or reject, with a reason.")
    unmet = sorted(gate["unmet"], key=lambda each: each["severity"] != CRITICAL)
    listed = []
    for each in unmet:
        what = " ".join(text(part) for part in (each["expectation"], each["column"]) if part)
        sentence = f"{what} {each['outcome']}: observed {text(each['observed'])}, expected {text(each['expected'])}"
        listed.append({"severity": each["severity"], "sentence": sentence})
    return {"state": state, "headline": f"The gate {state}", "said": said, "unmet": listed}


def tiles(found: Facts) -> list[dict[str, str]]:
    """Return the numbers at the top, each with a label and a detail."""
    totals, last = found["totals"], found["last_load"]
    if not totals:
        return []
    records = totals["records"]

    def of_all(name: str) -> str:
        return f"{share(totals[name] / records)} of all" if records else ""

    return [
        _tile("Records decided", count(records), f"last load {count(last['load_seq'])}, {moment(last['claimed_at'])}"),
        _tile("Accepted", count(totals["accepted"]), of_all("accepted")),
        _tile("Duplicates", count(totals["duplicate"]), of_all("duplicate")),
        _tile("Late", count(totals["late"]), of_all("late")),
        _waiting(found["quarantine_total"]),
        _gaps(found),
        _lag(found),
    ]


def _tile(label: str, number: str, detail: str) -> dict[str, str]:
    return {"label": label, "number": number, "detail": detail}


def _waiting(total: dict[str, Any] | None) -> dict[str, str]:
    held = total or {"records": 0, "oldest": None}
    since = f"the oldest since {moment(held['oldest'])}" if held["records"] else "nothing waits"
    return _tile("In quarantine", count(held["records"]), since)


def _gaps(found: Facts) -> dict[str, str]:
    """Count the sequences that accepted records skipped, and those that contiguous streams lack."""
    stepped_over = min(sum(row["missing"] for row in found["history"]), 2**63 - 1)
    total = found["missing_total"]
    if not total or not total["ranges"]:
        return _tile("Gaps", count(stepped_over), "sequences that a stream stepped over")
    lacking = f"{count(total['sequences'])} missing in {count(total['ranges'])} ranges of contiguous streams"
    return _tile("Gaps", count(stepped_over), f"sequences that a stream stepped over; {lacking}")


def _lag(found: Facts) -> dict[str, str]:
    lags = [row["lag"] for row in found["partitions"] if row["lag"] is not None]
    behind = "Kafka" if found["kafka"]["asked"] else "Bronze"
    worst = f"at most {count(max(lags))} in a partition" if lags else "unknown"
    return _tile(f"Behind {behind}", count(sum(lags)) if lags else count(None), worst)
