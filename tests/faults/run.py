"""`make faults`: SIGKILLs over a long stream in a real broker, then the tables against the sequential reference.

A round sends a share of the stream, starts one or two processes that run all four stages, and has them die
(`tests.faults.kills`). At the end a run that nobody kills, `verify --deep`, and the comparison. Before it the control arm: the
same on a small stream without lock, transaction ids and reading back of claims, which has to lose or double something.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bronze.dev_broker.broker import LocalBroker, create_topic
from jobs.demo.producer import produce
from tests.faults import told
from tests.faults.arm import Arm, finish, judge
from tests.faults.kills import NEVER
from tests.faults.pool import Pool, StuckError
from tests.faults.stream import PARTITIONS, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DOUBLE_SHARE = 0.25
_STRUCK_TWICE_SHARE = 0.5
_PAIRS = 6
_CONTROL_KILLS, _CONTROL_RECORDS = 12, 20_000
_FRUITLESS_ROUNDS = 25
_KILLS_PER_ROUND = 0.75
"""How many of the rounds end with a kill, about: so that the stream lasts until the last one."""


def fire(arm: Arm, *, kills: int, records: int, seed: int) -> None:
    """Send the stream, round by round, and kill so often."""
    create_topic(arm.servers, arm.topic, PARTITIONS)
    stream, left = Stream(seed), records
    share = max(1, int(records / (kills / _KILLS_PER_ROUND + 2 * _PAIRS + 2)))
    pairs = min(_PAIRS, kills // 3) if arm.fences else 0
    pair_after = [kills * (nth + 1) // (pairs + 1) for nth in range(pairs)]

    def portion() -> list[Any]:
        nonlocal left
        size, left = (min(share, left), max(0, left - share)) if left > 0 else (PARTITIONS, 0)
        return stream.take(size)

    produce(arm.servers, arm.topic, portion())
    with Pool(arm.config(), arm.folder, 3, () if arm.fences else ("without_fences",)) as pool:
        for _ in _until(arm, kills):
            produce(arm.servers, arm.topic, portion())
            before = arm.kills
            if is_double := arm.source.random() < _DOUBLE_SHARE:
                first = arm.draw(is_double=True)
                is_struck_twice = arm.source.random() < _STRUCK_TWICE_SHARE
                second = arm.draw(is_double=True, stage=first.stage) if is_struck_twice else NEVER
                arm.strike_double(pool, [first, second])
            else:
                arm.strike(pool, arm.draw())
            pool.bury()
            pool.fill()
            if arm.kills > before and not is_double and pair_after and arm.kills >= pair_after[0]:
                pair_after.pop(0)
                arm.measure_pair(pool, [portion(), portion()])
        while left > 0:
            produce(arm.servers, arm.topic, portion())
        if arm.fences:
            finish(pool.take(), pool)


def _until(arm: Arm, kills: int) -> Iterator[None]:
    """Rounds, until so many have died; the last ones may not all go by without a death."""
    started, rounds, last_kill = time.monotonic(), 0, 0
    while arm.kills < kills:
        before = arm.kills
        yield
        rounds += 1
        last_kill = rounds if arm.kills > before else last_kill
        minutes = (time.monotonic() - started) / 60
        told.say(f"{arm.topic}: {arm.kills} of {kills} kills, {len(arm.refused)} refused, {minutes:.1f} min; {arm.last}")
        arm.last = "nobody died"
        if rounds - last_kill > _FRUITLESS_ROUNDS:
            raise StuckError(f"Nobody died in {_FRUITLESS_ROUNDS} rounds: {arm.refused[-3:]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run both arms and write the result.

    Returns:
        0; 1 where anything was lost or twice, or the control arm shows nothing.
    """
    asked = _arguments(argv)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as place, LocalBroker() as broker:
        folder = Path(place).resolve()
        control, ours = (
            Arm(broker.bootstrap_servers, name, folder / name, random.Random(asked.seed), fences=name == "stream")
            for name in ("control", "stream")
        )
        for arm in (control, ours):
            arm.folder.mkdir()
        fire(control, kills=min(asked.kills, _CONTROL_KILLS), records=min(asked.records, _CONTROL_RECORDS), seed=asked.seed)
        fire(ours, kills=asked.kills, records=asked.records, seed=asked.seed)
        from lakehouse.spark.session import open_session

        spark = open_session("tidemark-faults")
        for arm in (control, ours):
            arm.judged = judge(spark, arm)
        result = told.result(asked, control, ours, spark)
        spark.stop()
    result["minutes"] = round((time.monotonic() - started) / 60, 1)
    told.write(Path(asked.out), result)
    return 0 if result["counts"] else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how many processes die (%(default)s)")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the stream (%(default)s)")
    parser.add_argument("--seed", type=int, default=5, help="of the stream and of the kills (%(default)s)")
    parser.add_argument("--out", default="docs/faults.md", help="the report; raw numbers beside it as .json (%(default)s)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
