"""Every command over the scenario: how it is called, what it may end with, and why a state is left out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tidemark
from lakehouse.escape import brief
from tests.scenario.corpus import ERASED, FORGED, LATE
from tests.scenario.corpus import TEXTS as NAMES
from tests.scenario.lakehouse import ORDERS, TEXTS
from tidemark.process.output import plain

TEXT, JSON, CSV, TABLE, PARQUET = "text", "json", "csv", "table", "parquet"
BOTH = (TEXT, JSON)
WHY = ("--reason", FORGED, "--by", FORGED)
DRY = ("--dry-run", *WHY)

NO_TABLE = "it reads no table"
NO_LOG = "it reads Bronze's newest commits and Kafka, as plan does"
ANOTHER = "only the record or filter differs from a case that has every state"
APPLIED = "tests/pipelines/test_cleaned_log.py applies it over cleaned logs"
NO_STORE = "it is Spark's work: tests/scenario/test_writes.py applies it in S3, or test_place.py"

NOT_HERE = {
    "demo": "it makes its own lakehouse: tests/docs/test_quickstart.py",
    "init": "it reads a topic and no table: tests/tidemark/extras/onboarding/test_init.py",
    "broker up": "a process of its own: tests/tidemark/extras/demo/test_broker.py",
    "broker topic": "as broker up",
    "broker down": "as broker up",
}
"""Commands that have no case, and why."""


@dataclass(frozen=True)
class Look:
    """A command that only looks."""

    command: str
    words: tuple[str, ...] = ()  # what follows its name
    forms: tuple[str, ...] = BOTH  # of its output
    codes: tuple[int, ...] = (0,)  # what it may end with
    answer: Callable[..., Any] | None = None  # the function of Python that returns the same
    is_whole: bool = False  # its JSON holds long texts whole
    is_long: bool = False  # only `make test-all` runs it
    is_reader: bool = False  # it reads without Spark where it can, and then says the same in every state
    cleaned: str = ""  # why it is not run over cleaned logs
    s3: str = ""  # why it is not run in S3

    def __str__(self) -> str:
        return " ".join([self.command, *(word for word in self.words if word.isascii() and word.isprintable())])[:60]

    def argv(self, form: str, folder: Path) -> list[str]:
        """The words of the command line; files go into the folder."""
        more = {
            TEXT: ["-o", str(folder / "report.html")] if self.command == "report" else [],
            JSON: ["--json"],
            CSV: ["--format", "csv"],
            TABLE: ["--format", "table"],
            PARQUET: ["--format", "parquet", "-o", str(folder / "rows.parquet")],
        }
        return [*self.command.split(), *self.words, *more[form]]


def _only_plain(reason: str) -> dict[str, Any]:
    return {"cleaned": reason, "s3": reason}


def _reader(command: str, *words: str, **more: Any) -> Look:
    return Look(command, words, is_reader=True, **more)


def _of_spark(command: str, *words: str, **more: Any) -> Look:
    defaults: dict[str, Any] = {"s3": NO_STORE, "is_long": True}
    return Look(command, words, **{**defaults, **more})


def _other(command: str, *words: str, **more: Any) -> Look:
    return Look(command, words, **_only_plain(ANOTHER), **more)


def _no_table(command: str, *words: str, **more: Any) -> Look:
    return Look(command, words, **_only_plain(NO_TABLE), **more)


def _rows_of(table: str) -> Look:
    query, is_other = f"SELECT * FROM {table} ORDER BY ALL", table != "silver_rejects"

    def answer(config: Any, spark: Any) -> Any:
        return tidemark.sql(config, query, spark=spark).to_pylist()

    states = _only_plain(ANOTHER) if is_other else {}
    return _reader("sql", query, forms=(JSON, CSV, TABLE, PARQUET), answer=answer, is_whole=True, **states)


def _record(topic: str, offset: int, **states: str) -> Look:
    def answer(config: Any, spark: Any) -> Any:
        return tidemark.why(config, topic, 0, offset, spark=spark)

    return _reader("quarantine show", topic, "0", str(offset), answer=answer, is_whole=True, **states)


def _decision(kind: str, decide: Callable[..., Any]) -> Look:
    def answer(config: Any, spark: Any) -> Any:
        return decide(config, reason="seen", everything=True, dry_run=True, spark=spark)

    return _of_spark(f"quarantine {kind}", "--all", *DRY, answer=answer)


LOOKS = [
    _of_spark("plan", answer=tidemark.plan, is_long=False, s3=""),
    _of_spark("order", forms=(TEXT, JSON, CSV, TABLE)),
    *(_rows_of(table) for table in ("silver_rejects", "silver_watermarks", "silver_loads", "bronze_records")),
    _other("sql", "SELECT producer::INT FROM silver_watermarks", forms=(CSV,), codes=(1, 2)),
    _other("sql", "SELECT error(producer) FROM silver_watermarks WHERE producer > 'w'", forms=(CSV,), codes=(1, 2)),
    _other("sql", "DELETE FROM silver_records", forms=(CSV,), codes=(2,)),
    _reader("report", "--offline"),
    _other("report", forms=(JSON,)),
    _of_spark("gate show", is_long=False),
    _reader("topic list"),
    _no_table("config show"),
    _no_table("config check"),
    _no_table("config check", "--set", f"pipeline={FORGED}", codes=(2,)),
    _no_table("config check", "--set", f"{FORGED}=1", codes=(2,)),
    _no_table("doctor", codes=(0, 1)),
    _no_table("jars fetch"),
    Look("check", codes=(0, 1), **_only_plain(NO_LOG)),
    _reader("status", answer=tidemark.status),
    _other("status", "--lag", answer=lambda config, spark: tidemark.status(config, spark, lag=True)),
    _reader("watermark show"),
    _reader("quarantine list", answer=lambda config, spark: [*tidemark.quarantine(config, spark=spark).records]),
    _other("quarantine list", "--producer", FORGED, "--older-than", "0", is_reader=True),
    _other("quarantine list", "--class", "invalid", "--limit", "1", is_reader=True),
    _other("quarantine list", "--class", "unmet", is_reader=True),
    _other("quarantine list", "--topic", "it's ${another}\\", is_reader=True),
    _record(TEXTS, 0),
    _record(TEXTS, len(NAMES) + 1, **_only_plain(ANOTHER)),
    _record(ORDERS, LATE, **_only_plain(ANOTHER)),
    _record(ORDERS, 4, **_only_plain(ANOTHER)),
    _reader("why", TEXTS, "0", "0"),
    _other("why", ORDERS, "0", "14", is_reader=True),
    _other("why", TEXTS, "0", str(10**9), codes=(1,)),
    _of_spark("maintain", "--dry-run"),
    _of_spark("maintain", "--erase", "--key", ERASED.decode(), "--dry-run", codes=(0, 1)),
    _of_spark("verify", answer=lambda config, spark: tidemark.verify(config, spark=spark)),
    _of_spark("verify", "--deep", forms=(JSON,)),
    _of_spark("gate release", *DRY, codes=(0, 1)),
    _of_spark("gate reject", *DRY),
    _of_spark("restore", "--to", "1", *DRY),
    _of_spark("rebuild", *WHY, forms=(TEXT,), cleaned=APPLIED),
    _of_spark("watermark reset", TEXTS, "0", "--producer", FORGED, "--to", "1000", *DRY),
    _other("watermark reset", TEXTS, "0", "--producer", FORGED, "--new-epoch", *DRY, forms=(JSON,), is_long=True),
    _other("watermark reset", TEXTS, "0", "--producer", "none\x1b\n{", "--to", "1", *DRY, codes=(1, 2), is_long=True),
    _decision("release", tidemark.quarantine_release),
    _decision("discard", tidemark.quarantine_discard),
    _of_spark("erase", "--topic", TEXTS, "--key", FORGED, *DRY),
    _of_spark("topic accept", ORDERS, *DRY, cleaned=NO_LOG),
]

LET_IN = ("--set", "policies.max_quarantined_share=1", "--set", "gate.budgets={}")
"""A breaker and a gate that let the waiting records pass."""

WRITES: dict[str, tuple[str, ...]] = {
    "run": LET_IN,
    "gate release": WHY,
    "gate reject": WHY,
    "quarantine release": ("--class", "late", *WHY),
    "quarantine discard": ("--class", "invalid", *WHY),
    "watermark reset": (TEXTS, "0", "--producer", FORGED, "--new-epoch", *WHY),
    "restore": ("--to", "2", *WHY),
    "rebuild": ("--apply", *WHY),
    "erase": ("--topic", TEXTS, "--key", FORGED, *LET_IN, *WHY),
    "maintain": (),
}
"""Every command that commits to tables of the scenario, each with something to do in it."""

IN_S3 = ("restore", "rebuild", "run", "erase")
"""Those that take tables back or rewrite files, and a run. A rebuild repeats each load, so a restore leaves it few."""

WRITES_ELSEWHERE = {"topic accept": "a topic that was created again: test_writes.py has a lakehouse for it"}

VARYING = {"seconds", "run_id", "made_at", "lakehouse"}
"""Keys that differ from call to call, or from place to place."""

NO_FIELD = {
    "": {"stream_count", "erased", "retired"},
    "kept_out": {"settled_load_seq"},
    "record": {"topic", "partition", "offset", "timestamp", "timestamp_ms", "producer", "epoch", "sequence"}
    | {"erased", "rules_fingerprint"},
}
"""Keys of the JSON that are no field in Python: counts, what is nothing yet, fields of `Fate`, or what only Silver reads."""


def as_json(answer: Any, *, is_whole: bool) -> Any:
    found = plain(answer)
    return found if is_whole else brief(found)


def differences(printed: Any, answer: Any, at: str = "") -> Iterator[str]:
    """Where the JSON of a command is not what a function answers."""
    if isinstance(printed, dict) and isinstance(answer, dict):
        parent = at.rpartition(".")[2].partition("[")[0]
        yield from (f"{at}.{key} has no field" for key in printed.keys() - answer.keys() - NO_FIELD.get(parent, set()))
        yield from (f"{at}.{key} is not printed" for key in answer.keys() - printed.keys() if answer[key] not in (None, []))
        for key in printed.keys() & answer.keys() - VARYING:
            yield from differences(printed[key], answer[key], f"{at}.{key}")
    elif isinstance(printed, list) and isinstance(answer, list) and len(printed) == len(answer):
        for nth, (one, other) in enumerate(zip(printed, answer, strict=True)):
            yield from differences(one, other, f"{at}[{nth}]")
    elif printed != answer:
        yield f"{at}: {printed!r:.200} is printed, {answer!r:.200} is answered"


def without_varying(printed: Any) -> Any:
    """The JSON of a command without what differs from call to call."""
    if isinstance(printed, dict):
        return {key: without_varying(value) for key, value in printed.items() if key not in VARYING}
    return [without_varying(each) for each in printed] if isinstance(printed, list) else printed
