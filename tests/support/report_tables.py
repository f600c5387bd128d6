"""Tables for reports, written with delta-rs: many streams over many loads, no pipeline. The counts are made up, and add up."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from lakehouse.contracts.bronze import BRONZE
from lakehouse.contracts.gate import RESULTS
from lakehouse.contracts.gold import STREAM_HEALTH
from lakehouse.contracts.silver import CLASSES, LOADS, REJECTS, WATERMARKS, silver_records
from lakehouse.spark.frames import arrow_schema
from tests.support.small_tables import write_rows

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOSTILE = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>\u2028</script><!--"
"""What a producer may send to break a page, or to run in it."""


@dataclass(frozen=True)
class Shape:
    topics: tuple[str, ...] = ("incidents", "payments")
    partitions: int = 2  # of each topic
    producers: tuple[str, ...] | None = ("ann", HOSTILE)  # in each partition; None for streams without one
    loads: int = 8  # each has something for every stream

    @property
    def streams(self) -> list[dict[str, Any]]:
        found = product(self.topics, range(self.partitions), self.producers or (None,))
        return [{"topic": topic, "partition": partition, "producer": producer} for topic, partition, producer in found]


def write_lake(root: Path, shape: Shape) -> None:
    _write_loads(root, shape)
    last = 100 * shape.loads - 1
    marks = {"epoch": 0, "high_watermark": last, "last_offset": last, "load_seq": shape.loads, "updated_at": NOON}
    write_rows(root, WATERMARKS, [{**stream, **marks} for stream in shape.streams])
    places = [{"topic": topic, "partition": partition} for topic in shape.topics for partition in range(shape.partitions)]
    hostile = {"key": HOSTILE.encode(), "value": HOSTILE.encode(), "headers": [{"key": HOSTILE, "value": HOSTILE.encode()}]}
    write_rows(root, BRONZE, [{**place, **hostile, "offset": last + 10 * at} for at, place in enumerate(places)])
    write_rows(root, silver_records(), [{**shape.streams[0], **hostile, "epoch": 0, "sequence": 3, "offset": 0}])
    held = {"epoch": 0, "class": "late", "state": "held", "records": 2, "first_offset": 5, "last_offset": 6, "load_seq": 1}
    write_rows(root, REJECTS, [{**stream, **held} for stream in shape.streams])
    _write_gate(root, shape)
    _write_runs(root, shape)


def _write_loads(root: Path, shape: Shape) -> None:
    """The ledger: a row per stream and load, by columns, for there may be half a million."""
    streams, count = shape.streams, len(shape.streams) * shape.loads
    stream, load = np.tile(np.arange(len(streams)), shape.loads), np.repeat(np.arange(shape.loads), len(streams))
    counts = {name: np.zeros(count, np.int64) for name in CLASSES}
    counts["duplicate"], counts["late"] = (stream * 7 + load) % 11, (stream + load) % 5 // 4
    counts["invalid"] = (stream + load) % 17 // 16
    counts["accepted"] = 100 - counts["duplicate"] - counts["late"] - counts["invalid"]
    zero = np.zeros(count, np.int64)
    columns: dict[str, Any] = {
        "load_seq": load + 1,
        **{name: [streams[each][name] for each in stream] for name in ("topic", "partition", "producer")},
        "kind": ["records"] * count,
        "pipeline": ["tests"] * count,
        "records": zero + 100,
        **counts,
        **dict.fromkeys(("late_accepted", "released", "discarded", "erased"), zero),
        "jumps_forward": counts["late"] + 1,
        "jumps_backward": counts["late"],
        "missing": counts["late"],
        "last_offset": 100 * (load + 1) - 1,
        "run_id": [f"run-{each + 1}" for each in load],
        "claimed_at": [NOON + timedelta(minutes=int(each)) for each in load],
    }
    gap = [{"epoch": 0, "first_sequence": 2, "last_sequence": 4}]
    columns["missing_ranges"] = [gap if each == 0 else None for each in load]
    schema = arrow_schema(LOADS)
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in schema]
    write_deltalake(str(root / LOADS.name), pa.Table.from_arrays(arrays, schema=schema))


def _write_gate(root: Path, shape: Shape) -> None:
    results = []
    for load_seq in range(1, shape.loads + 1):
        audited = {"gate_run_id": f"gate-{load_seq:06}", "first_load_seq": load_seq, "last_load_seq": load_seq}
        audited["evaluated_at"] = NOON + timedelta(minutes=load_seq)
        for name, severity in (("records_are_conserved", "critical"), ("budget_late", "warn")):
            is_met = (load_seq + (severity == "warn")) % 3 > 0
            outcome = {"outcome": "passed" if is_met else "failed", "success": is_met}
            seen = {"observed": f"{load_seq} {HOSTILE}", "expected": "0", "column": None}
            results.append({**audited, **outcome, **seen, "expectation": name, "severity": severity})
    write_rows(root, RESULTS, results)
    published = {"load_seq": shape.loads - 1, "gate_run_id": "gate-000001", "published_at": NOON}
    write_rows(root, STREAM_HEALTH, [{**stream, **published} for stream in shape.streams])


def _write_runs(root: Path, shape: Shape) -> None:
    (root / "_reports").mkdir()
    for load_seq in range(1, shape.loads + 1):
        stages = {name: {"seconds": 1.5, "records": 7} for name in ("bronze", "silver", "gate", "gold")}
        run_id = f"{NOON + timedelta(minutes=load_seq):%Y%m%dT%H%M%S}-{load_seq:06}"
        told = {"pipeline": "tests", "run_id": run_id, **stages, "seconds": 6.25}
        failed = {"pipeline": "tests", "run_id": run_id, "error": "GateFailedError", "exit_code": 3, "message": HOSTILE}
        (root / "_reports" / f"{run_id}.json").write_text(json.dumps(failed if load_seq % 4 == 0 else told), encoding="utf-8")
