"""Print what the last gate run found, and what was decided about it."""

from __future__ import annotations

from typing import Any

from lakehouse.contracts.gate import REJECTED, RELEASED
from lakehouse.escape import printable
from tidemark.process import output

_WAITS = 'It waits for you: `tidemark gate release --reason "..."` or `tidemark gate reject --reason "..."`.'
_WOULD = {RELEASED: "Would release", REJECTED: "Would reject"}


def write_gate_run(found: dict[str, Any] | None) -> None:
    """Print a gate run on stdout: its verdict and decision, its expectations, and the rows behind those not met."""
    if found is None:
        output.write("The gate has not run yet: `tidemark run` does that.")
        return
    loads = f"loads {found['first_load_seq']} to {found['last_load_seq']}, Silver version {found['silver_version']}"
    verdict = "passed" if found["passed"] else "FAILED"
    output.write(f"Gate run {found['gate_run_id']} on {loads}, {output.moment(found['evaluated_at'])}: {verdict}.")
    if found["decision"]:
        output.write(f"It was {decided(found['decision'])}.")
    elif found["waits"] and not found["passed"]:
        output.write(_WAITS)
    output.write_rows(found["expectations"], ("severity", "outcome", "expectation", "column", "observed", "expected"))
    for result in found["expectations"]:
        name = " ".join(part for part in (result["expectation"], result["column"]) if part)
        for each in result["behind"]:
            output.write_rows(each["rows"], title=printable(f"{name}: {each['what']}"))
        if result["note"]:
            output.write(printable(f"\n{name}: {result['note']}"))


def write_gate_decision(done: dict[str, Any]) -> None:
    """Print on stdout what a release or rejection did, or would do."""
    verb = _WOULD[done["decision"]] if done["is_dry_run"] else done["decision"].capitalize()
    loads = f"loads {done['first_load_seq']} to {done['last_load_seq']} of gate run {done['gate_run_id']}"
    output.write(f"{verb} {loads}, with {done['records']:,} records, although not met: {', '.join(done['expectations'])}.")
    if done["published"]:
        output.write(f"Published: {done['published']['records']:,} records are in gold_records.")
    if done["decision"] == REJECTED:
        output.write("Gold does not get them. Silver keeps them, and the next gate run audits what comes after them.")


def decided(decision: dict[str, Any]) -> str:
    """Return a decision in words.

    >>> decided({"decision": "released", "decided_by": "ann", "decided_at": None, "reason": "looked at"})
    'released by ann: looked at'
    """
    when = f", {output.moment(decision['decided_at'])}" if decision["decided_at"] else ""
    return f"{decision['decision']} by {printable(decision['decided_by'])}{when}: {printable(decision['reason'])}"
