"""The first hour, played: a topic of a program that knows nothing of Tidemark, up to a scheduled pipeline.

`make first-hour` plays it on a fresh local broker and checks what is printed at each step. It is also the source of the
tutorial: `python -m tests.first_hour --write` puts the commands, and what they printed, into `docs/first-hour.md`, and a test
compares the two. Every command of the page is run, in this order, in one folder.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bronze.dev_broker.broker import LocalBroker, create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-hour.md"
BROKERS, TOPIC, PARTITIONS = "localhost:9092", "orders", 2
"""As the page writes them."""
_WIDTH = 128
_LATE = 524
"""The offset of order 500, which comes after 499 + 25 records of its partition."""

PRODUCER = """\
import json
import sys

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": sys.argv[1], "enable.idempotence": True})
for span in sys.argv[2:]:
    first, last = map(int, span.split("-"))
    for number in range(first, last + 1):
        order = {"order": f"o-{number}", "number": number, "amount": number % 90 + 0.5, "at": 1764000000000 + 1000 * number}
        headers = {"source": "shop"}
        producer.produce("orders", json.dumps(order), key=f"customer-{number % 7}", partition=number % 2, headers=headers)
producer.flush()
"""


@dataclass(frozen=True)
class Step:
    """A command of the tutorial.

    Attributes:
        prose: What the page says before it.
        command: The command, as the page shows it.
        says: What it has to print.
        never: What it must not print.
        code: What it ends with.
        is_shown: Whether the page shows what it printed.
    """

    prose: str
    command: str
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    code: int = 0
    is_shown: bool = True


STEPS = (
    Step(
        "The shop has sent a thousand orders so far. Order 500 is missing, and after a restart the last fifty were sent again:",
        f"python orders.py {BROKERS} 1-499 501-1000 951-1000",
        is_shown=False,
    ),
    Step(
        "## Which field is the sequence?\n\n"
        "Tidemark needs a number that rises with each record of a partition. `init` reads a sample of the topic, says what "
        "fits and why the rest does not, and writes a config. On a terminal it asks for what is left out here.",
        f"tidemark init --brokers {BROKERS} --topic {TOPIC} --root ./lakehouse",
        says=(
            "json:$.number   fits: rises",
            "json:$.at       no: it looks like a time",
            "The sequence is json:$.number: the only one that fits.",
            "Next:\n  tidemark check\n  tidemark plan\n  tidemark run\n",
        ),
    ),
    Step(
        "It wrote this, small enough to read. Every key is in [Configuration](configuration.md).",
        "cat tidemark.yml",
        says=("sequence: {json: $.number}", "pipeline: orders"),
    ),
    Step(
        "## Is everything there?\n\n"
        "`check` looks at all that a run needs: machine, brokers, rights, the sequence in a sample, the place of the tables. "
        "It ends with 1 where something is missing, and says what to do.",
        "tidemark check",
        says=("ok  sequence", "json $.number in 1,049 of 1,049 records, 1 to 1,000", "put-if-absent"),
        never=("NO  ",),
    ),
    Step(
        "## What would a run do?\n\n`plan` decides a sample by the config's rules, and writes nothing.",
        "tidemark plan",
        says=("There are no tables yet", "accepted 999, duplicate 50", "Next:\n  tidemark run"),
    ),
    Step(
        "## The first run\n\nKafka to Bronze, Bronze to Silver, the gate, Gold.",
        "tidemark run",
        says=("records 1,049", "accepted 999", "duplicate 50"),
    ),
    Step(
        "Each order is there once:",
        'tidemark sql "SELECT count(*) AS orders, count(DISTINCT sequence) AS numbers FROM gold_records"',
        says=("999",),
    ),
    Step(
        "## A record that comes late\n\nThe shop finds order 500, and sends it after all the others, with ten new ones:",
        f"python orders.py {BROKERS} 500-500 1001-1010",
        is_shown=False,
    ),
    Step(
        "Its number is below the watermark, and it never came before. It is not lost and not published: it waits for a person.",
        "tidemark run",
        says=("accepted 10", "late 1"),
    ),
    Step("What waits:", "tidemark quarantine list", says=("late", str(_LATE))),
    Step(
        "What is it, and which rule kept it out? `why` says it of any record, `quarantine show` with its bytes.",
        f"tidemark quarantine show {TOPIC} 0 {_LATE}",
        says=('"number": 500', "What its load accepted was published"),
    ),
    Step(
        "It is real, so it is let in. The reason is kept.",
        f'tidemark quarantine release {TOPIC} 0 {_LATE} --reason "the shop confirmed order 500"',
        says=("Released 1 record",),
    ),
    Step("The next run audits and publishes it:", "tidemark run", says=("last load seq 3, records 1",)),
    Step("What became of it:", f"tidemark why {TOPIC} 0 {_LATE}", says=("the shop confirmed order 500",)),
    Step(
        "Gold has it in its place:",
        'tidemark sql "SELECT sequence, arrival FROM gold_records WHERE sequence BETWEEN 499 AND 501 ORDER BY sequence"',
        says=("500,late",),
    ),
    Step(
        "## Watch it\n\nOne file for a browser: the gate's verdict, lag, classes, what waits.",
        "tidemark report -o report.html",
    ),
    Step("In a terminal:", "tidemark status --lag", says=("Lag: 0 offsets behind Kafka in 2 partitions.",)),
    Step(
        "## On a schedule\n\n"
        "A run that has nothing to do changes nothing, and two runs at a time do no harm: the second ends with 4. So any "
        "scheduler will do. This is what it has to call:",
        "tidemark run --json",
        says=('"records": 0',),
        is_shown=False,
    ),
)

CRON = "*/5 * * * * cd /srv/orders && tidemark run --json >> runs.jsonl 2>> runs.log"
SYSTEMD = """\
# /etc/systemd/system/orders.service
[Service]
Type=oneshot
WorkingDirectory=/srv/orders
ExecStart=/usr/local/bin/tidemark run --json

# /etc/systemd/system/orders.timer
[Timer]
OnCalendar=*:0/5
[Install]
WantedBy=timers.target
"""


def play(folder: Path, brokers: str) -> Iterator[tuple[Step, str]]:
    """Run every step in a folder, and check what it prints.

    Yields:
        Each step, with what it printed on stdout.

    Raises:
        AssertionError: A step printed something else, or ended otherwise.
    """
    (folder / "orders.py").write_text(PRODUCER, encoding="utf-8")
    for step in STEPS:
        done = run(step.command.replace(BROKERS, brokers), folder)
        told = f"{step.command}\nended with {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
        assert done.returncode == step.code, told
        assert all(text.replace(BROKERS, brokers) in done.stdout for text in step.says), f"expected {step.says}\n{told}"
        assert not any(text in done.stdout for text in step.never), f"unexpected {step.never}\n{told}"
        yield step, done.stdout
    assert (folder / "report.html").stat().st_size > 0
    scheduled = CRON.partition("&& ")[2].replace("tidemark", _tidemark())
    # As cron calls it: with nothing of this shell's environment.
    bare = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "TIDEMARK_JARS") if name in os.environ}
    called = subprocess.run(scheduled, cwd=folder, env={**bare, **_ours()}, shell=True, check=False)  # noqa: S602 -- our own text
    assert called.returncode == 0, (folder / "runs.log").read_text(encoding="utf-8")
    assert '"accepted": 0' in (folder / "runs.jsonl").read_text(encoding="utf-8")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page as a shell would."""
    program, *arguments = shlex.split(command)
    programs = {"tidemark": [sys.executable, "-m", "jobs.cli"], "python": [sys.executable]}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_") or name == "TIDEMARK_JARS"}
    return subprocess.run(
        [*programs.get(program, [program]), *arguments],
        cwd=folder,
        env={**environ, **_ours()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _ours() -> Mapping[str, str]:
    return {"PYTHONPATH": str(ROOT)}


def _tidemark() -> str:
    return f"{shlex.quote(sys.executable)} -m jobs.cli"


def commands() -> list[str]:
    """The commands of the page, in their order."""
    return [step.command for step in STEPS]


def page(played: list[tuple[Step, str]], folder: Path, brokers: str) -> str:
    """The tutorial, with what the commands printed."""
    parts = [_HEAD.format(producer=PRODUCER.rstrip())]
    for step, printed in played:
        parts.append("".join(f"{textwrap.fill(each, _WIDTH)}\n\n" for each in step.prose.split("\n\n") if each))
        parts.append(f"```sh\n{step.command}\n```\n\n")
        if step.is_shown and (shown := _neutral(printed, folder, brokers)):
            parts.append(f"```text\n{shown}\n```\n\n")
    parts.append(_TAIL.format(cron=CRON, systemd=SYSTEMD.rstrip()))
    return "".join(parts)


def _neutral(printed: str, folder: Path, brokers: str) -> str:
    """What was printed, without what differs from machine to machine."""
    text = printed.replace(brokers, BROKERS).replace(str(folder.resolve()), "/srv/orders").replace(str(Path.home()), "~")
    text = re.sub(r",? *seconds [0-9.]+(?=[,\n]|$)|, [0-9.]+ s$", "", text, flags=re.MULTILINE)
    text = text.replace(f"by {getpass.getuser()} in", "by ann in")
    text = re.sub(r"(~|/\S+)/\.cache/tidemark/[0-9a-f]{12}", "~/.cache/tidemark", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


_HEAD = """\
# The first hour

From a topic of your own to a pipeline on a schedule. Every command on this page is run, in this order, by `make first-hour`,
which also checks what they print.

Needed: Tidemark and Java 17 (see the [README](../README.md)), and a Kafka broker. This page has one at `localhost:9092`, with a
topic `orders` of two partitions. A shop fills it, with a program `orders.py` that knows nothing of Tidemark:

```python
{producer}
```

"""

_TAIL = """\
With cron:

```text
{cron}
```

With systemd:

```text
{systemd}
```

Exit code 3 says that the gate failed and Gold stayed as it was, 5 that the breaker stopped a load that looks wrong as a whole.
Metrics, alerts and dashboards are in [Watching a pipeline](watching.md), what to do when something fails in the
[Runbook](runbook.md).
"""


def main(argv: list[str] | None = None) -> None:
    """Play it, print each step as it is done, and with --write keep it as the tutorial."""
    parser = argparse.ArgumentParser(description="Play the newcomer's first hour, and check what is printed.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    is_written = parser.parse_args(argv).write
    with LocalBroker() as broker, tempfile.TemporaryDirectory(prefix="tidemark-first-hour-") as name:
        folder, played = Path(name), []
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS)
        for step, printed in play(folder, broker.bootstrap_servers):
            played.append((step, printed))
            sys.stdout.write(f"$ {step.command}\n{printed}\n")
            sys.stdout.flush()
        if is_written:
            PAGE.write_text(page(played, folder, broker.bootstrap_servers), encoding="utf-8")
    sys.stdout.write(f"{len(played)} steps, each as expected.\n")


if __name__ == "__main__":
    main()
