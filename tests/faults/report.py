"""The result of the long run: raw numbers as JSON, and `docs/faults.md` from them and the template `page.md`."""

import argparse
import json
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.machine import conditions
from tests.faults.arm import Arm

RECOVERY_SECONDS = 5.0  # the most that recovery may add to the next run


def log(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def result(options: argparse.Namespace, control: Arm, ours: Arm, spark: SparkSession) -> dict[str, Any]:
    extra = [after - clean for after, clean in ours.pairs]
    return {
        "date": datetime.now(UTC).strftime("%a %b %e %H:%M:%S UTC %Y"),
        "conditions": conditions(spark),
        "asked": {"kills": options.kills, "records": options.records, "seed": options.seed},
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
    tables = arm.judged["tables"].values()
    return bool(arm.judged["verify_deep"]["ok"]) and not any(each["lost"] + each["twice"] + each["wrong"] for each in tables)


def _of(arm: Arm) -> dict[str, Any]:
    struck = dict(sorted(arm.struck.items()))
    return {"kills": arm.kills, "kills_of_doubles": arm.doubles, "struck": struck, "refused": arm.refused, **arm.judged}


def write(page: Path, found: dict[str, Any]) -> None:
    page.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    page.write_text(page_of(found), encoding="utf-8")
    log(f"{'It counts' if found['counts'] else 'IT DOES NOT COUNT'}: see {page}")


def page_of(found: dict[str, Any]) -> str:
    ours, control, extra = found["ours"], found["control"], found["recovery_extra_seconds"]
    harm = control["tables"]["silver_records"]
    tables = [
        f"| `{name}` | {each['expected']:,} | {each['lost']:,} | {each['twice']:,} | {each['wrong']:,} |"
        for name, each in ours["tables"].items()
    ]
    template = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    return template.format(
        verdict="Nothing was lost, nothing is twice." if found["is_exact"] else "THE TABLES ARE NOT THOSE OF THE REFERENCE.",
        kills=ours["kills"],
        records=f"{ours['classes']['records']:,}",
        date=found["date"],
        minutes=found["minutes"],
        conditions="; ".join(f"{name} {value}" for name, value in found["conditions"].items()),
        seed=found["asked"]["seed"],
        doubles=ours["kills_of_doubles"],
        tables="\n".join(tables),
        checks=ours["verify_deep"]["checks"],
        sound="all hold" if ours["verify_deep"]["ok"] else "NOT ALL HOLD",
        classes=", ".join(f"{name} {count:,}" for name, count in ours["classes"].items()),
        median=extra["median"],
        pairs=len(extra["pairs"]),
        most=extra["most"],
        mark=f"{RECOVERY_SECONDS:g}",
        seconds="; ".join(f"{after} and {clean}" for after, clean in extra["pairs"]),
        control_kills=control["kills"],
        control_held=f"{harm['held']:,}",
        control_twice=f"{harm['twice']:,}",
        control_failed=len(control["refused"]),
        counts="So the run counts." if found["counts"] else "THE RUN DOES NOT COUNT.",
    )
