"""`make faults`: SIGKILLs over a long stream in a real broker, then the tables against the sequential reference.

A round sends a share of the stream, starts one or two processes that run all four stages, and kills them
(`tests.faults.kills`). At the end come a run that nobody kills, `verify --deep`, and the comparison. Before it the control arm
does the same on a small stream without lock, transaction ids and reading back of claims; it has to lose or double records.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.faults import report
from tests.faults.arm import Arm, finish, judge
from tests.faults.pool import Pool, StuckError
from tests.faults.stream import PARTITIONS, Stream
from tests.support.kafka import send_outgoing
from tidemark.extras.demo.broker import LocalBroker, create_topic

_DOUBLE_SHARE = 0.25
_PAIRS = 6
_CONTROL_KILLS, _CONTROL_RECORDS = 12, 20_000
_FRUITLESS_ROUNDS = 25
_KILLS_PER_ROUND = 0.75  # the expected share of rounds that end with a kill: the stream lasts until the last one


def fire(arm: Arm, *, kills: int, records: int, seed: int) -> None:
    create_topic(arm.servers, arm.topic, PARTITIONS)
    stream, left = Stream(seed), records
    share = max(1, int(records / (kills / _KILLS_PER_ROUND + 2 * _PAIRS + 2)))
    pairs = min(_PAIRS, kills // 3) if arm.fences else 0
    pair_after = [kills * (nth + 1) // (pairs + 1) for nth in range(pairs)]

    def portion() -> list[Any]:
        nonlocal left
        size, left = (min(share, left), max(0, left - share)) if left > 0 else (PARTITIONS, 0)
        return stream.take(size)

    send_outgoing(arm.servers, arm.topic, portion())
    with Pool(arm.config(), arm.folder, 3, () if arm.fences else ("without_fences",)) as pool:
        for _ in _rounds(arm, kills):
            send_outgoing(arm.servers, arm.topic, portion())
            before = arm.kills
            is_double = arm.source.random() < _DOUBLE_SHARE
            arm.strike(pool, is_double=is_double)
            pool.bury()
            pool.fill()
            if arm.kills > before and not is_double and pair_after and arm.kills >= pair_after[0]:
                pair_after.pop(0)
                arm.measure_pair(pool, [portion(), portion()])
        while left > 0:
            send_outgoing(arm.servers, arm.topic, portion())
        if arm.fences:
            finish(pool.take(), pool)


def _rounds(arm: Arm, kills: int) -> Iterator[None]:
    started, fruitless = time.monotonic(), 0
    while arm.kills < kills:
        before = arm.kills
        yield
        fruitless = 0 if arm.kills > before else fruitless + 1
        minutes = (time.monotonic() - started) / 60
        report.log(f"{arm.topic}: {arm.kills} of {kills} kills, {len(arm.refused)} refused, {minutes:.1f} min; {arm.last}")
        arm.last = "nobody died"
        if fruitless > _FRUITLESS_ROUNDS:
            raise StuckError(f"Nobody died in {_FRUITLESS_ROUNDS} rounds: {arm.refused[-3:]}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how many processes die (%(default)s)")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the stream (%(default)s)")
    parser.add_argument("--seed", type=int, default=5, help="of the stream and of the kills (%(default)s)")
    parser.add_argument("--out", default="docs/faults.md", help="the report; raw numbers go into a .json file (%(default)s)")
    options = parser.parse_args(argv)
    kills, records, seed = options.kills, options.records, options.seed
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as place, LocalBroker() as broker:
        folder = Path(place).resolve()
        control, ours = (
            Arm(broker.bootstrap_servers, name, folder / name, random.Random(seed), fences=name == "stream")
            for name in ("control", "stream")
        )
        for arm in (control, ours):
            arm.folder.mkdir()
        fire(control, kills=min(kills, _CONTROL_KILLS), records=min(records, _CONTROL_RECORDS), seed=seed)
        fire(ours, kills=kills, records=records, seed=seed)
        from lakehouse.spark.session import open_session

        spark = open_session("tidemark-faults")
        for arm in (control, ours):
            arm.judged = judge(spark, arm)
        result = report.result(options, control, ours, spark)
        spark.stop()
    result["minutes"] = round((time.monotonic() - started) / 60, 1)
    report.write(Path(options.out), result)
    return 0 if result["counts"] else 1


if __name__ == "__main__":
    sys.exit(main())
