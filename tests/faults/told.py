"""What the long run comes to, as numbers and as a page."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.machine import conditions

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.faults.arm import Arm

RECOVERY_SECONDS = 5.0
"""What recovery may add to the next run (issue 5)."""


def say(line: str) -> None:
    """Tell whoever watches."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def result(asked: argparse.Namespace, control: Arm, ours: Arm, spark: SparkSession) -> dict[str, Any]:
    """Everything that the page says, as it is kept beside it."""
    extra = [after - clean for after, clean in ours.pairs]
    return {
        "date": subprocess.run(["date", "--utc"], capture_output=True, text=True, check=True).stdout.strip(),
        "conditions": conditions(spark),
        "asked": {"kills": asked.kills, "records": asked.records, "seed": asked.seed},
        "ours": _of(ours),
        "recovery_extra_seconds": {
            "pairs": [[round(each, 1) for each in pair] for pair in ours.pairs],
            "median": round(statistics.median(extra), 1) if extra else None,
            "most": round(max(extra), 1) if extra else None,
        },
        "control": _of(control),
        "is_exact": is_exact(ours),
        "counts": is_exact(ours) and control.judged["tables"]["silver_records"]["twice"] > 0,
    }


def is_exact(arm: Arm) -> bool:
    """Whether the tables hold what the reference does, each record once, and `verify --deep` finds nothing."""
    tables = arm.judged["tables"].values()
    return bool(arm.judged["verify_deep"]["ok"]) and not any(each["lost"] + each["twice"] + each["wrong"] for each in tables)


def _of(arm: Arm) -> dict[str, Any]:
    return {
        "kills": arm.kills,
        "kills_of_doubles": arm.doubles,
        "struck": dict(sorted(arm.struck.items())),
        "refused": arm.refused,
        **arm.judged,
    }


def write(page: Path, found: dict[str, Any]) -> None:
    """Write the page, and the numbers beside it."""
    page.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    page.write_text(_page(found), encoding="utf-8")
    say(f"{'It counts' if found['counts'] else 'IT DOES NOT COUNT'}: see {page}")


def _page(found: dict[str, Any]) -> str:
    ours, asked = found["ours"], found["asked"]
    known = "; ".join(f"{name} {value}" for name, value in found["conditions"].items())
    verdict = "Nothing was lost, nothing is twice." if found["is_exact"] else "THE TABLES ARE NOT THOSE OF THE REFERENCE."
    sound = "all hold" if ours["verify_deep"]["ok"] else "NOT ALL HOLD"
    return f"""# Faults

{verdict} {ours["kills"]} processes were killed (SIGKILL) while {ours["classes"]["records"]:,} records, resent ones among them,
went from a real Kafka broker through Bronze, Silver, the gate and Gold. Written by `make faults`; the raw numbers are in
[faults.json](faults.json).

- When and where: {found["date"]}, {found["minutes"]} minutes; {known}; seed {asked["seed"]}.
- Each round sends a share of the stream and kills one process: a run of all four stages, or one stage as a job of its own after
  the ones before it; or it starts two processes at once on one root, of which the second takes over when the first is dead
  ({ours["kills_of_doubles"]} of the kills).
- The processes run with Spark's code generation and adaptive planning off and Java's compiler at its first tier: they do not
  live to see these pay.
- A process and its JVM get SIGKILL at once, but where "Python alone" stands: there the JVM has to find out by itself.
- "at" is a crash point of the code; "before" and "after the commit" are the system call that links a Delta commit's file to its
  version, and the first one about its checksum after it: strace strikes as they begin.
- At the end the broker's log is read by a plain consumer and decided by the sequential reference
  (`tests/support/reference.py`), record after record.

## What the tables hold against the reference

| table | rows or records expected | lost | twice | otherwise |
|---|---|---|---|---|
{_tables(ours)}

`tidemark verify --deep`: {ours["verify_deep"]["checks"]} checks, {sound}. The stream came to: {_classes(ours)}.

## Where they died

| where | times |
|---|---|
{_places(ours)}

{_recovery(found["recovery_extra_seconds"])}
{_control(found)}"""


def _recovery(extra: dict[str, Any]) -> str:
    pairs = "; ".join(f"{after} and {clean}" for after, clean in extra["pairs"])
    median, most = extra["median"], extra["most"]
    return f"""## Recovery

The next run after a kill took {median} s longer than the run after it: the median of {len(extra["pairs"])} pairs, at most
{most} s; the mark is {RECOVERY_SECONDS:g} s. Both runs of a pair are in fresh processes, with as many new records. Their
seconds: {pairs}.
"""


def _control(found: dict[str, Any]) -> str:
    control = found["control"]
    harm = control["tables"]["silver_records"]
    verdict = "So the run counts." if found["counts"] else "THE RUN DOES NOT COUNT."
    return f"""## The control arm

The same without lock, transaction ids and the reading back of the claim, and without the checks that refuse to build on the
result: {control["kills"]} kills in Bronze and Silver. Of the {harm["held"]:,} rows in Silver at the end,
{harm["twice"]:,} are there a second time. {len(control["refused"])} runs failed (the gate sees it too). {verdict}
"""


def _tables(arm: dict[str, Any]) -> str:
    return "\n".join(
        f"| `{name}` | {each['expected']:,} | {each['lost']:,} | {each['twice']:,} | {each['wrong']:,} |"
        for name, each in arm["tables"].items()
    )


def _classes(arm: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in arm["classes"].items())


def _places(arm: dict[str, Any]) -> str:
    return "\n".join(f"| {place} | {count} |" for place, count in arm["struck"].items())
