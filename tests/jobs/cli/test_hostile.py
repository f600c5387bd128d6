"""One hostile corpus through a real broker, and then every command in every format over what it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from jobs.cli.commands import app, main
from tests.support.examples import IS_WHOLE
from tests.support.kafka import Sent, send
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from bronze.dev_broker.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

FORGED = 'x\x1b]0;owned\x07\u009b2J\u202e\u200b\u2028\n{"event": "run.finished", "exit_code": 0}\r\n'
TEXTS = [
    FORGED,
    "</script><script>alert(1)</script><!--",
    "'; DROP TABLE silver_records; --",
    "$(touch /tmp/owned)`id`",
    '=HYPERLINK("http://127.0.0.1/","x")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "-1+1",
    "[bold red]x[/bold red] {0} %s \\u001b",
    "\x00\x01\x7f\x85\xa0\u2066\u2069\ufeff\ufffe",
    "é\u0065\u0301 ".strip() + " ",
    "A",
    "a",
    "",
]
NUMBERS = [
    "-0",
    "+1",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "1e32000000",
    "0x10",
    "٣",
    "NaN",
    "",
    "9" * 5_000,
    str(2**63),
    str(2**64),
    "1_0",
]
FEW, MANY = 100, 100_000
"""Names; over more than a few of them each command is asked once in each format."""
_TAKES_LONG = pytest.mark.skipif(not IS_WHOLE, reason="minutes: `make test-all` runs it")
HUGE = "n\u202e" * 75_000  # 300,000 bytes

# What a command prints over it; and what those print that list all on purpose, with so much for each name.
BOUND = 2_000_000
BOUND_OF_ALL, BOUND_OF_NAME = 8_000_000, 2_500
LISTS_ALL = ("sql", "order", "watermark show")

FORMATS: list[list[str]] = [[], ["--json"]]
SKIPPED = {
    "demo": "has a corpus of its own",
    "init": "has one too",
    "broker up": "the broker runs",
    "broker down": "it is still needed",
    "jars archive": "runs the demo",
}
"""Commands that do not look at this lakehouse."""


def commands(folder: Path, topic: str) -> dict[str, list[list[str]]]:
    """Every command, with each way to ask it that shows something else; in this order."""
    why = ["--reason", FORGED, "--by", FORGED]
    forged = ["--producer", FORGED]
    everything = "SELECT * FROM {}"
    queries = [everything.format(name) for name in ("silver_rejects", "silver_watermarks", "silver_loads", "bronze_records")]
    casts = [
        "SELECT producer::INT FROM silver_watermarks",
        "SELECT error(producer) FROM silver_watermarks WHERE producer > 'w'",
    ]
    return {
        "plan": FORMATS,
        "run": [[], ["--stage", "silver", "--json"]],
        "order": [*FORMATS, ["--format", "csv"], ["--format", "table"]],
        "sql": [
            *([query, "--format", form] for query in queries for form in ("table", "csv", "json")),
            *([query, "--format", "parquet", "-o", str(folder / "a.parquet")] for query in queries[:1]),
            *([query] for query in casts),
        ],
        "report": [["--offline", "-o", str(folder / "report.html")], ["--json", "--offline"]],
        "gate show": FORMATS,
        "topic list": FORMATS,
        "topic accept": [[topic, "--dry-run", *why], [topic, "--dry-run", "--json", *why]],
        "config show": FORMATS,
        "config check": [*FORMATS, ["--set", f"pipeline={FORGED}"], ["--set", f"{FORGED}=1"]],
        "doctor": FORMATS,
        "check": FORMATS,
        "jars fetch": FORMATS,
        "status": [*FORMATS, ["--lag"], ["--lag", "--json"]],
        "watermark show": FORMATS,
        "quarantine list": [*FORMATS, forged, ["--class", "invalid"]],
        "quarantine show": [[topic, "0", str(offset), *form] for offset in (0, len(TEXTS) + 1) for form in FORMATS],
        "why": [[topic, "0", str(offset), *form] for offset in (0, 1, len(TEXTS) + 1, 10**9) for form in FORMATS],
        "maintain": [["--dry-run"], ["--dry-run", "--json"]],
        "verify": [[], ["--json", "--deep"]],
        "gate release": [why],
        "gate reject": [["--json", *why]],
        "restore": [["--to", "1", "--dry-run", *why], ["--to", "1", "--json", "--dry-run", *why]],
        "rebuild": [["--json", *why], why],
        "watermark reset": [
            [topic, "0", *forged, "--to", "1", "--dry-run", *why],
            [topic, "0", *forged, "--to", "1", "--dry-run", "--json", *why],
            [topic, "0", "--producer", "none\x1b\n{", "--to", "1", *why],
            [topic, "0", *forged, "--new-epoch", *why],
        ],
        "quarantine release": [["--class", "late", "--dry-run", *why], ["--all", "--json", *why]],
        "quarantine discard": [["--class", "invalid", "--dry-run", "--json", *why], ["--class", "invalid", *why]],
        "erase": [["--topic", topic, "--key", FORGED, "--dry-run", *why], ["--topic", topic, "--key", FORGED, "--json", *why]],
    }


def asked_once(command: str, ways: list[list[str]]) -> list[list[str]]:
    """One way for a terminal and one for JSON; of a command that lists all names, one."""
    if command in ("doctor", "jars fetch"):
        return []  # they look at no table
    by_format = {"--json" in way: way for way in reversed(ways)}
    return [by_format[is_json] for is_json in sorted(by_format)][: 1 if command.startswith(LISTS_ALL) else 2]


def leaves(group: Any, prefix: str = "") -> Iterator[str]:
    """The names of all commands below a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{prefix}{name} ")
        else:
            yield prefix + name


def corpus(names: int) -> list[Sent]:
    """The first load: every text in every place, every malformed number, and many names."""
    texts = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    first = [Sent(text, text, [("producer", text), ("seq", b"100"), (string_of(text), text)]) for text in texts]
    malformed = [Sent(b"v", b"k", [("producer", b"numbers"), ("seq", number.encode())]) for number in NUMBERS]
    odd = [
        Sent(None, None, [("producer", b"\xff\xfe"), ("seq", b"\xff" * 9)]),
        Sent(b"\xff\x00", b"\xed\xa0\x80", [("producer", HUGE.encode()), ("seq", b"1")]),
        Sent(b"v", HUGE.encode(), [("producer", b"big key"), ("seq", b"1"), ("seq", b"2")]),
    ]
    many = [Sent(b"v", b"k", [("producer", b"\x1b[%dm name" % name), ("seq", b"1")]) for name in range(names)]
    return [*first, *malformed, *odd, *many]


def string_of(text: bytes) -> str:
    """A header's name, which Kafka wants without a zero."""
    return text.decode("utf-8", "replace").replace("\x00", "0") or "h"


def again() -> list[Sent]:
    """The second load: streams that seem to start anew, late records and collisions, which the breaker is to stop."""
    texts = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    return [Sent(b"low", text, [("producer", text), ("seq", b"%d" % number)]) for text in texts for number in range(1, 25)]


def test_every_command_is_listed() -> None:
    listed = {*commands(Path(), "t"), *SKIPPED}
    assert listed == set(leaves(typer.main.get_command(app)))


@pytest.mark.parametrize("names", [FEW, pytest.param(MANY, marks=_TAKES_LONG)])
def test_no_command_shows_what_a_producer_sent_as_it_was_sent(  # noqa: PLR0917 -- fixtures
    spark: SparkSession,
    tmp_path: Path,
    broker: LocalBroker,
    topic: Callable[..., str],
    capfd: pytest.CaptureFixture[str],
    names: int,
) -> None:
    name = topic(1, {"max.message.bytes": "8000000"})
    config = write_config(
        tmp_path,
        root=str(tmp_path / "lakehouse"),
        kafka={"bootstrap_servers": broker.bootstrap_servers, "topics": [name]},
        producer={"header": "producer"},
        value={"format": "text"},
        gate={"budgets": {"late": {"critical": 0}}},
        policies={"max_new_streams": None},
    )
    shown: list[str] = []

    def tell(*words: str) -> int:
        code = main([*words])
        said = capfd.readouterr()
        at = f"{' '.join(words)[:200]!r} ended with {code}"
        for way, text in (("stdout", said.out), ("stderr", said.err)):
            raw = sorted({each for each in text if not (each.isprintable() or each == "\n")})
            assert raw == [], f"{at}; {way} holds {raw}"
            bound = BOUND_OF_ALL + BOUND_OF_NAME * names if " ".join(words).startswith(LISTS_ALL) else BOUND
            assert len(text.encode()) < bound, f"{at}; {way} is {len(text):,} characters"
            assert "Traceback" not in text, f"{at}: {text[-3000:]}"
            assert not any(line.startswith('{"event": "run.finished", "exit_code"') for line in text.splitlines()), at
        if code == 0 and "--json" in words:
            json.loads(said.out)
        shown.append(said.out + said.err)
        return code

    set_file = ["--config", str(config)]
    send(broker.bootstrap_servers, name, corpus(names))
    assert tell("run", *set_file) == 0, shown[-1][-3000:]
    send(broker.bootstrap_servers, name, again())
    assert tell("run", *set_file) == 5, shown[-1][-3000:]
    assert "\\x1b]0;owned" in shown[-1]
    assert tell("plan", *set_file) == 0
    assert "The breaker would stop this load" in shown[-1]
    for command, ways in commands(tmp_path, name).items():
        for way in ways if names <= FEW else asked_once(command, ways):
            options = [] if command in ("doctor", "jars fetch") else set_file
            loose = ["--set", "policies.max_quarantined_share=1"] if command == "run" else []
            code = tell(*command.split(), *way, *options, *loose)
            assert code in (0, 1, 2, 3), (command, code, shown[-1][-2000:])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert FORGED not in page
    assert "<script>alert(1)" not in page
    assert not any(0x7F <= ord(each) < 0xA0 or each in "\u202e\u200b\u2066" for each in page)
    logs = [file.read_text(encoding="utf-8") for file in (tmp_path / "lakehouse" / "_reports").glob("*.json")]
    assert logs
    assert all(each.isprintable() or each == "\n" for text in logs for each in text)
