"""Tables whose logs were cleaned, as Delta does it after 30 days, wherever a stage had stood still before."""

from __future__ import annotations

import hashlib
import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from expectations import gate
from jobs.cli import main
from jobs.cli.commands import app
from jobs.process.context import load_settings
from lakehouse.contracts.gate import REJECTED, RELEASED, Decision
from lakehouse.errors import GateFailedError, TableStateError, TopicRecreatedError
from pipelines import arrival_order, bronze_to_silver, medallion, silver_to_gold
from pipelines.job import Job
from pipelines.operate import gate_decision, requests
from silver.load import steps
from silver.state.request import Erase, Request, Wanted
from tests.bronze.progress.test_topic_breaks import anew
from tests.jobs.cli.test_hostile import leaves
from tests.support.bronze import Record, put
from tests.support.cleaned import clean
from tests.support.kafka import Sent, send
from tests.support.silver import copy_of
from tests.support.small_config import settings_of, write_config
from tests.support.stages import Stopped, published, ran, require_sound, stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from bronze.dev_broker.broker import LocalBroker
    from lakehouse.run.context import Run

pytestmark = pytest.mark.spark

NO_LATE = {"budgets": {"late": {"critical": 0}}}
RELEASE = Decision(RELEASED, "looked at", "ann")
REJECT = Decision(REJECTED, "a test of the sender", "ann")


def offsets(spark: SparkSession, run: Run, name: str = "gold_records") -> list[int]:
    rows = spark.read.table(run.table(name).sql).orderBy("partition", "offset").collect()
    return [row["offset"] for row in rows]


def three_commits(spark: SparkSession, run: Run, start: int = 0) -> None:
    """1 2, then 2 read again and 3, then 4, then a resent 1: five offsets, one of which Bronze holds twice."""
    for at in ([start, start + 1], [start + 1, start + 2], [start + 3]):
        put(spark, run, [Record.of(offset, offset + 1) for offset in at])
    put(spark, run, [Record.of(start + 4, start + 1)])


def test_a_first_load_of_silver_that_had_stood_still_reads_by_offset(spark: SparkSession, run: Run) -> None:
    three_commits(spark, run)
    assert clean(spark, run) == {"bronze_records": 4}

    planned: Any = bronze_to_silver.preview(spark, run, settings_of(run))
    done = ran(spark, run, settings_of(run))

    streams: Any = planned["streams"]
    assert [row["accepted"] for row in streams] == [4]
    assert (done["accepted"], done["duplicate"]) == (4, 1)
    assert offsets(spark, run) == [0, 1, 2, 3]
    require_sound(spark, run, is_deep=True)


def test_silver_the_gate_and_gold_go_on_wherever_each_had_stood_still(spark: SparkSession, run: Run) -> None:
    settings = settings_of(run)
    three_commits(spark, run)
    ran(spark, run, settings)
    three_commits(spark, run, start=5)
    bronze_to_silver.run(spark, run, settings)
    three_commits(spark, run, start=10)
    clean(spark, run)

    done = ran(spark, run, settings)

    assert (done["accepted"], done["duplicate"]) == (4, 1)
    assert offsets(spark, run) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13]
    require_sound(spark, run, is_deep=True)


@pytest.mark.parametrize("grows", [True, False], ids=["its version is gone", "its version is the last one"])
def test_a_claimed_load_whose_versions_left_the_log_is_finished_with_what_it_had_claimed(
    spark: SparkSession, new_run: Callable[[], Run], monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    run, settings = new_run(), settings_of(new_run())
    three_commits(spark, run)
    with monkeypatch.context() as patched:
        patched.setattr(steps, "append_silver", stop)
        with pytest.raises(Stopped):
            bronze_to_silver.run(spark, run, settings)
    if grows:
        three_commits(spark, run, start=5)
    clean(spark, run)

    done = ran(spark, new_run(), settings)

    assert done["repeated"] == [1]
    assert offsets(spark, run) == ([0, 1, 2, 3, 5, 6, 7, 8] if grows else [0, 1, 2, 3])
    claimed = spark.read.table(run.table("silver_loads").sql).where("load_seq = 1").collect()[0]
    assert (claimed["records"], claimed["replay"]) == (6, 1)
    require_sound(spark, run, is_deep=True)


@pytest.fixture(scope="module")
def waits(spark: SparkSession, run_at: Callable[[Path], Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Load 1 is published: 1 and 3. Load 2 failed the gate: 2, late and accepted, and 4."""
    run = run_at(tmp_path_factory.mktemp("waits") / "lakehouse")
    put(spark, run, [Record.of(0, 1), Record.of(1, 3)])
    ran(spark, run, strict(run))
    put(spark, run, [Record.of(2, 2), Record.of(3, 4)])
    with pytest.raises(GateFailedError):
        ran(spark, run, strict(run))
    return run


@pytest.fixture
def waiting(waits: Run, tmp_path: Path) -> Run:
    """A run over a copy of those tables."""
    return copy_of(waits, tmp_path / "copy", waits.report)


def strict(run: Run, **more: Any) -> Any:
    return settings_of(run, gate=NO_LATE, policies={"late": "accept"}, **more)


def later(spark: SparkSession, run: Run) -> None:
    """Load 3, so that the versions which the gate run audited are not the last ones."""
    put(spark, run, [Record.of(4, 5)])
    bronze_to_silver.run(spark, run, strict(run))


def test_a_range_that_was_released_and_not_published_is_published_from_what_its_loads_hold_now(
    spark: SparkSession, waiting: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(silver_to_gold, "publish", stop)
        with pytest.raises(Stopped):
            gate_decision.decide(spark, waiting, strict(waiting), RELEASE, is_dry_run=False)
    later(spark, waiting)
    clean(spark, waiting)

    again = gate_decision.decide(spark, waiting, strict(waiting), RELEASE, is_dry_run=True)
    published(spark, waiting, strict(waiting))
    assert (again["records"], offsets(spark, waiting)) == (2, [0, 1, 2, 3])
    published(spark, waiting, strict(waiting))

    assert offsets(spark, waiting) == [0, 1, 2, 3, 4]
    require_sound(spark, waiting, is_deep=True)


def test_what_passed_and_was_not_published_is_published_by_the_stage_of_gold_alone(spark: SparkSession, waiting: Run) -> None:
    assert gate.audit(spark, waiting, settings_of(waiting).gate) is not None
    later(spark, waiting)
    clean(spark, waiting)

    silver_to_gold.run_gold(spark, waiting, settings_of(waiting))

    assert offsets(spark, waiting) == [0, 1, 2, 3]


def test_a_gate_run_that_waits_is_shown_and_rejected_or_audited_anew_and_released(
    spark: SparkSession, waiting: Run, tmp_path: Path
) -> None:
    later(spark, waiting)
    clean(spark, waiting)
    rejected = copy_of(waiting, tmp_path / "rejected", waiting.report)

    shown: Any = medallion.show_gate(Job.on(spark, strict(waiting), waiting.report), rows=5)
    with pytest.raises(TableStateError, match="run --stage gate"):
        gate_decision.decide(spark, waiting, strict(waiting), RELEASE, is_dry_run=False)
    with pytest.raises(GateFailedError):
        silver_to_gold.run_gate(spark, waiting, strict(waiting))
    gate_decision.decide(spark, waiting, strict(waiting), RELEASE, is_dry_run=False)
    gate_decision.decide(spark, rejected, strict(rejected), REJECT, is_dry_run=False)
    published(spark, rejected, strict(rejected))

    assert shown is not None
    assert "is gone" in str([each["note"] for each in shown["expectations"]])
    assert (offsets(spark, waiting), offsets(spark, rejected)) == ([0, 1, 2, 3, 4], [0, 1, 4])


def test_every_command_does_its_work_where_every_log_was_cleaned(
    spark: SparkSession, new_run: Callable[[], Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = new_run()
    settings = settings_of(run)
    for start in (0, 5):
        three_commits(spark, run, start)
        put(spark, run, [Record.of(start, start, partition=1), Record.of(start + 1, start + 1, partition=1)])
        ran(spark, run, settings)
    put(spark, run, [Record.of(10, 4, partition=1), Record.of(11, 3, partition=1), Record.of(12, "x", partition=1)])
    ran(spark, run, settings)
    config = write_config(tmp_path, root=str(run.lakehouse.root), kafka=settings_of(run).kafka.model_dump(mode="json"))
    clean(spark, run)

    def ordered(what: Any, **parts: Any) -> dict[str, Any]:
        request = Request(what, "why", "ann", **parts)
        return requests.carry_out(spark, new_run(), settings, request, is_dry_run=False)

    def rebuilt(*, is_applied: bool) -> dict[str, Any]:
        return medallion.rebuild(Job.on(spark, settings, run.report), is_applied=is_applied, reason="why", by="ann")

    def told(*command: str) -> str:
        assert main([*command, "--config", str(config)]) == 0
        return capsys.readouterr().out

    def read_all(*, waiting: int) -> None:
        assert json.loads(told("status", "--json"))["published"]["load_seq"]
        assert "accepted" in told("why", "t", "0", "0")
        assert len(json.loads(told("quarantine", "list", "--json"))) == waiting
        assert told("sql", "SELECT count(*) AS n FROM gold_records", "--json")
        told("report", "--output", str(tmp_path / "report.html"))
        medallion.show_gate(Job.on(spark, settings, run.report), rows=3)
        assert arrival_order.orders(spark, run, settings)["bronze"]
        medallion.plan(Job.on(spark, settings, run.report))
        require_sound(spark, run, is_deep=True)

    read_all(waiting=3)
    medallion.maintain(Job.on(spark, settings, run.report), is_dry_run=True)
    assert [row["records"] for row in rebuilt(is_applied=False)["changes"]] == []
    assert ordered("release", wanted=Wanted(kind="late"))["records"] == 2
    ran(spark, run, settings)
    clean(spark, run)
    medallion.restore(Job.on(spark, settings, run.report), to=2, reason="why", by="ann", is_dry_run=False)
    ran(spark, run, settings)
    clean(spark, run)
    erased = ordered("erase", erase=Erase("t", hashlib.sha256(b"k").hexdigest()))
    assert erased["erased"] > 0
    ran(spark, run, settings)
    clean(spark, run)
    assert [row["records"] for row in rebuilt(is_applied=True)["changes"]] == []
    clean(spark, run)
    ran(spark, run, settings)
    clean(spark, run)
    medallion.maintain(Job.on(spark, settings, run.report), is_dry_run=False)
    read_all(waiting=0)  # what waited was erased


WHY = ["--reason", "why", "--by", "ann"]
NO_TABLE = {
    *("demo", "init", "check", "broker up", "broker down"),
    *("config show", "config check", "doctor", "jars fetch", "jars archive"),
}
"""Commands that read no table of this lakehouse."""
OF_A_WAITING_GATE_RUN = {"gate release", "gate reject"}
"""See `test_a_gate_run_that_waits_is_shown_and_rejected_or_audited_anew_and_released`."""


def looks(topic: str, folder: Path) -> list[tuple[str, list[str]]]:
    """Every command that only looks."""
    return [
        ("plan", []),
        ("order", []),
        ("sql", ["SELECT count(*) AS n FROM gold_records"]),
        ("report", ["--output", str(folder / "report.html")]),
        ("gate show", []),
        ("topic list", []),
        ("status", ["--lag"]),
        ("watermark show", []),
        ("quarantine list", []),
        ("quarantine show", [topic, "0", "3"]),
        ("why", [topic, "0", "0"]),
        ("maintain", ["--dry-run"]),
        ("verify", ["--deep"]),
    ]


def writes(topic: str) -> list[tuple[str, list[str]]]:
    """Every command that writes, in an order in which each has something to do."""
    return [
        ("run", []),
        ("quarantine release", ["--class", "late", *WHY]),
        ("quarantine discard", ["--class", "invalid", *WHY]),
        ("watermark reset", [topic, "0", "--producer", "a", "--new-epoch", *WHY]),
        ("restore", ["--to", "2", *WHY]),
        ("rebuild", ["--apply", *WHY]),
        ("erase", ["--topic", topic, "--key", "key-of-ann", *WHY]),
        ("maintain", []),
        ("maintain", ["--erase", "--key", "key-of-ann"]),
        ("topic accept", [topic, *WHY]),
    ]


def test_every_command_is_run_over_cleaned_logs_or_reads_none() -> None:
    run = {command for command, _ in (*looks("t", Path()), *writes("t"))}
    assert run | NO_TABLE | OF_A_WAITING_GATE_RUN == set(leaves(typer.main.get_command(app)))


def test_every_command_is_carried_out_on_a_broker_where_every_log_was_cleaned_before(  # noqa: PLR0917 -- fixtures
    spark: SparkSession,
    new_run: Callable[[], Run],
    tmp_path: Path,
    broker: LocalBroker,
    topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, run, servers = topic(), new_run(), broker.bootstrap_servers
    kafka = {"bootstrap_servers": servers, "topics": [name]}
    more = {"producer": {"header": "who"}, "policies": {"max_quarantined_share": 1}}
    file = write_config(tmp_path, root=str(run.lakehouse.root), kafka=kafka, **more)
    sequence = count(30)

    def sent(*sequences: object) -> None:
        headers = [[("seq", str(each).encode()), ("who", b"a")] for each in sequences]
        send(servers, name, [Sent(b"v", b"key-of-ann" if nth % 2 else b"k", each) for nth, each in enumerate(headers)])

    def told(command: str, options: list[str], *, code: int = 0) -> str:
        ended = main([*command.split(), *options, "--config", str(file)])
        said = capsys.readouterr()
        assert ended == code, (command, options, said.out[-2_000:], said.err[-2_000:])
        return said.out

    for sequences in ((1, 2, 4, 3), (5, 5, "x", 6), (8, 7, 9)):
        sent(*sequences)
        told("run", [])
    clean(spark, run)
    for command, options in looks(name, tmp_path):
        told(command, options)
    done: dict[str, Any] = {}
    for command, options in writes(name):
        sent(next(sequence))
        if command == "topic accept":
            anew(servers, name)
            told("run", [], code=TopicRecreatedError.exit_code)
        done[command] = json.loads(told(command, [*options, "--json"]))
        clean(spark, run)
        told("run", [])
    assert (done["quarantine release"]["records"], done["rebuild"]["changes"]) == (2, [])
    assert done["erase"]["erased"] > 0
    clean(spark, run)
    sent(next(sequence))
    settings = load_settings(file, [])
    quiet = Request("retire", "quiet", "ann", wanted=Wanted(days=0))
    retired: Any = requests.carry_out(spark, new_run(), settings, quiet, is_dry_run=False)
    assert retired["retired"] > 0
    clean(spark, run)
    told("run", [])
    told("verify", ["--deep"])
