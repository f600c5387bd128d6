"""Two processes at once over one bucket, one or both killed in each round, then the tables against the sequential reference.

There is no lock on a bucket: what keeps the two apart is that of two commits of one version one is refused. Runs as
`python -m tests.faults.two_drivers`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bronze.dev_broker.broker import LocalBroker, create_topic
from jobs.demo.producer import produce
from tests.faults import told
from tests.faults.arm import Arm, finish, judge
from tests.faults.kills import NEVER
from tests.faults.pool import Pool
from tests.faults.stream import PARTITIONS, Stream
from tests.support.object_store import BUCKET, object_store, section, storage

if TYPE_CHECKING:
    from collections.abc import Sequence


def fire(arm: Arm, *, kills: int, records: int, seed: int) -> None:
    """Send the stream, round by round, and kill so often; then let one run end."""
    create_topic(arm.servers, arm.topic, PARTITIONS)
    stream = Stream(seed)
    share = max(PARTITIONS, records // kills)
    with Pool(arm.config(), arm.folder, 3) as pool:
        while arm.kills < kills:
            produce(arm.servers, arm.topic, stream.take(share))
            first = arm.draw(is_double=True)
            second = arm.draw(is_double=True, stage=first.stage) if arm.source.random() < 0.5 else NEVER
            arm.strike_double(pool, [first, second])
            pool.bury()
            pool.fill()
            told.say(f"{arm.kills} of {kills} kills; {arm.last}")
        finish(pool.take(), pool)


def main(argv: Sequence[str] | None = None) -> int:
    """Fire, and compare.

    Returns:
        0; 1 where anything was lost, twice or otherwise than in the reference.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.faults.two_drivers", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many processes die (%(default)s)")
    parser.add_argument("--records", type=int, default=20_000, help="records of the stream (%(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of the stream and of the kills (%(default)s)")
    asked = parser.parse_args(argv)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidemark-drivers-") as place, LocalBroker() as broker:
        folder = Path(place).resolve()
        with object_store(folder / "store") as port:
            lakehouse = section("root", f"s3://{BUCKET}/drivers", storage(port))
            arm = Arm(broker.bootstrap_servers, "stream", folder, random.Random(asked.seed), lakehouse=lakehouse)
            fire(arm, kills=asked.kills, records=asked.records, seed=asked.seed)
            arm.judged = judge(None, arm)
    told.say(f"{arm.kills} kills in {(time.monotonic() - started) / 60:.0f} minutes: {dict(sorted(arm.struck.items()))}")
    for name, found in arm.judged["tables"].items():
        told.say(f"{name}: {found}")
    told.say(f"classes {arm.judged['classes']}, verify --deep {arm.judged['verify_deep']}")
    return int(not told.is_exact(arm))


if __name__ == "__main__":
    sys.exit(main())
