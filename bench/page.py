"""The page docs/benchmarks.md, written from the raw numbers in the same folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from bench import parts
from bench.machine import QUIET_CORES
from bench.markdown import disturbed
from bench.peers.figures import Outcome, peers_table
from bench.truth import Counts

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers.rounds import Found
    from bench.sitting import Sitting

PAGE, RAW = "benchmarks.md", "benchmarks.json"

_INTRODUCTION = """\
# Benchmarks

`make bench`, `make bench-scale` and `make bench-endless` measure; `python -m bench.run --page` writes this page from the
saved numbers. Every round is in the files that the tables name.

## What Tidemark costs

*Bare* commits write the same rows to the same tables and decide nothing: no load can be faster. Where no aim is given, the
figure is for comparison.
"""

_PEERS = """\
## What other ways cost

Each peer takes in {records:,} records of 200 bytes. From Bronze means from a Delta table that holds the topic; from Kafka means
from the topic to a Delta table. Peers that write a topic are followed by a copy of it to Delta, and both times count. MERGE
writes into an empty table, which is its best case. State and memory are those of 1 % resent.
"""

_READING = """\
## How it is measured

- A local broker has topics of 8 partitions with numbered records. Their values do not compress.
- What is sent again is planned, so the right result is known. *Resent* are blocks of up to 10,000 records.
- *Reordered*: a tenth of each partition comes after the records that follow it, and 1 % is resent.
- Each peer has its own process and the settings that its documents advise. Peers take turns, round by round.
- A figure is the median of the rounds. What is compared was measured in one sitting.
- If other processes use more than {quiet} cores, the page warns that figures do not count.
- *Memory* is the most that the peer's processes held. *State* is what the peer needs to continue.
- One counter reads every result by the number in each record's header, on small editions of four inputs.
- *Lost*: sent, and neither in the result nor held. *Doubled*: rows with a number that the result has already.
- *Out of order*: rows behind a higher number of their partition. *Held*: kept out and listed, for an operator to decide.
"""


def save(folder: Path, sitting: Sitting, found: Found, conditions: Mapping[str, object]) -> None:
    """Keep the raw numbers of the peers, and write the page."""
    raw = {
        "conditions": conditions,
        "is_valid": not sitting.disturbances(),
        "disturbances": sitting.disturbances(),
        "rounds": [asdict(start) for start in sitting.starts],
        "outcomes": [asdict(each) for each in found.outcomes],
        "failures": found.failures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RAW).write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    write(folder)


def write(folder: Path) -> None:
    """Write the page from the raw numbers in the folder; a part without numbers says so."""
    pieces = [_INTRODUCTION, parts.costs(folder), peers(folder), _READING.format(quiet=QUIET_CORES)]
    (folder / PAGE).write_text("\n".join(pieces), encoding="utf-8")


def peers(folder: Path) -> str:
    """The peers' section of the page."""
    if not (folder / RAW).exists():
        return "## What other ways cost\n\npeers: no saved numbers; `make bench` measures them\n"
    raw = json.loads((folder / RAW).read_text(encoding="utf-8"))
    outcomes = [Outcome(**{**each, "counts": Counts(**each["counts"])}) for each in raw["outcomes"]]
    records = max((each.records for each in outcomes), default=0)
    pieces = [
        _PEERS.format(records=records),
        disturbed(raw["disturbances"]),
        peers_table(outcomes, raw["failures"]),
        f"- [{RAW}]({RAW}), `make bench`, {parts.in_words(raw['conditions'])}.\n",
    ]
    return "\n".join(filter(None, pieces))
