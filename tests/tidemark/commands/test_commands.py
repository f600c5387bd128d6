"""The command line in this process: what it prints, and what it ends with."""

import gc
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from bronze.progress.topic_breaks import Break
from bronze.progress.topic_registry import Topic
from lakehouse import __version__, errors
from lakehouse.contracts.bronze import RECREATED
from lakehouse.errors import AnotherWriterError, GateFailedError, SourceError, TidemarkError, TopicsSkippedError
from lakehouse.run.lock import locked
from lakehouse.table import Lakehouse
from pipelines import medallion
from pipelines.job import Job
from tests.conftest import Events
from tests.docs.reference import leaves
from tests.support.small_config import write_config
from tests.support.watched import Medallion
from tests.tidemark.conftest import RunCommand
from tidemark.commands import main, requests
from tidemark.commands.commands import SECTIONS, app
from tidemark.commands.tools import group
from tidemark.process import context
from tidemark.process.context import load_settings, reporting
from tidemark.process.exit_codes import exit_code_of, invoke
from tidemark.runner import loop, minutes, once
from tidemark.runner.minutes import Minutes
from tidemark.runner.summary import write_minute

NOTHING: Any = None


def fail_with(error: BaseException) -> Callable[..., int]:
    def action(**_: object) -> int:
        raise error

    return action


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2")
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ada"}
    kafka = {"bootstrap_servers": "localhost:9092", "topics": ["t"], "properties": properties}
    properties["sasl.password"] = "${env:BROKER_PASSWORD}"
    return write_config(tmp_path, root=str(tmp_path / "lakehouse"), kafka=kafka)


def test_neither_tidemark_nor_its_help_loads_anything_heavy() -> None:
    program = (
        "import sys, tidemark.api\n"
        "heavy = {'pyspark', 'pandas', 'duckdb', 'deltalake', 'great_expectations', 'confluent_kafka', 'pydantic'}\n"
        "heavy |= {'requests', 'altair', 'prometheus_client', 'pyarrow'}\n"
        "of_python = ', '.join({*heavy, 'typer'} & set(sys.modules))\n"
        "import tidemark.commands\n"
        "code = tidemark.commands.main(['--help'])\n"
        "sys.exit(of_python or code or ', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for names in SECTIONS.values() for name in names if f"\n  {name} " not in done.stdout] == []


def test_every_command_is_in_one_section_and_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    root: Any = typer.main.get_command(app)
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(root.commands)
    assert main(["-h"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Begin:")[2]
    for path, _ in [*leaves(root), *((name, None) for name in root.commands)]:
        assert main([*path.split(), "--help"]) == 0
        assert f"Usage: tidemark {path}" in capsys.readouterr().out


@pytest.mark.usefixtures("config")
def test_a_plan_before_bronze_is_written_names_the_next_step_and_makes_nothing(tmp_path: Path, run_command: RunCommand) -> None:
    _, said = run_command("plan", code=1)
    assert "Bronze has no records yet" in said
    assert "tidemark run --stage bronze" in said
    assert not (tmp_path / "lakehouse").exists()


def test_a_quiet_command_reports_only_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    commands = group("all", "")

    @commands.command()
    def work() -> None:
        with reporting() as report:
            report.event("a.started")
            report.event("b_failed")

    for flags, events in (([], ["a.started", "b_failed"]), (["-v"], ["a.started", "b_failed"]), (["-q"], ["b_failed"])):
        assert invoke(commands, ["work", *flags], program="tidemark") == 0
        assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == events


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "Usage: tidemark"),
        ("config", "Usage: tidemark"),
        ("rum", "Did you mean 'run'?"),
        ("run --colour", "No such option"),
        ("run --stage platinum", "Invalid value for '--stage'"),
        ("run --every soon", "Invalid value for '--every'"),
        ("sql SELECT --format xml", "Invalid value for '--format'"),
        ("config shout", "Did you mean 'show'?"),
        ("jars fetch nothing", "no such set of jars"),
        ("gate show --rows 201", "Invalid value for '--rows'"),
        ("quarantine release --reason x", "No records are named."),
        ("quarantine release t 0 --reason x", "not clear which"),
        ("quarantine discard t 0 1 --class late --reason x", "not clear which"),
        ("quarantine discard --all --class late --reason x", "not clear which"),
        ("quarantine release --all --reason ' '", "The reason is empty."),
        ("quarantine release --all", "--reason"),
        ("watermark reset t 0 --reason x", "nothing to reset"),
        ("gate release", "--reason"),
        ("gate reject --reason ' '", "The reason is empty."),
        ("status --config none.yml", "none.yml"),
        ("config check --set hunter3", "KEY=VALUE"),
        ("config check --set =hunter3", "KEY=VALUE"),
        ("erase --topic t --reason x", "not clear which key"),
        ("erase --topic t --reason x --key hunter3 --key-file f", "not clear which key"),
        ("erase --topic t --reason x --key-hex hunter3", "not in hexadecimal"),
        ("erase --topic t --reason x --key-file no-such-file", "cannot be read"),
        ("erase --topic t --reason x --key ''", "empty"),
        ("maintain --erase", "not clear which key"),
        ("maintain --key hunter3", "A key is given without --erase"),
        ("demo --into .", "The demo starts with an empty folder"),
        *((name, "Did you mean policies?") for name in ("run", "plan", "status", "sql query", "verify")),
        *((name, "Did you mean policies?") for name in ("config show", "config check")),
    ],
)
def test_a_wrong_command_line_or_config_ends_with_2_says_why_and_repeats_no_value(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The config has a mistake: what is wrong in the line is said before the config is read, and nothing starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMARK_CONFIG", str(write_config(tmp_path, root="lakehouse", polices={"late": "drop"})))
    assert main(shlex.split(line)) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err
    assert "hunter3" not in captured.err
    assert captured.out == ""
    assert [file.name for file in tmp_path.iterdir()] == ["tidemark.yml"]


def test_the_environment_names_the_config_and_set_overrides_it(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_CONFIG", str(config))
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tidemark {__version__}\n"
    assert main(["config", "check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"config": str(config), "pipeline": "tests", "ok": True}
    monkeypatch.setenv("TIDEMARK_POLICIES__LATE", "drop")
    assert main(["config", "show", "--json", "--set", "kafka.topics=[a, b]", "--set", "policies.max_jump=5"]) == 0
    shown = json.loads(capsys.readouterr().out)
    policies = shown["policies"]
    assert (shown["kafka"]["topics"], policies["max_jump"], policies["late"]) == (["a", "b"], 5, "drop")


def test_every_error_has_its_code_and_an_unexpected_one_a_traceback(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_settings(config, None)  # which names its secret
    expected = {"ConfigError": 2, "UsageError": 2, "GateFailedError": 3, "BreakerOpenError": 5}
    expected |= {"AnotherWriterError": 4, "UndoneError": 4}
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, TidemarkError)]
    for kind in kinds:
        more: dict[str, Any] = {"missing": ["x"], "unexpected": [], "wrong_type": []} if kind is errors.ContractError else {}
        assert exit_code_of(fail_with(kind("[bold]a table[/bold]", **more))) == expected.get(kind.__name__, 1)
        said = capsys.readouterr().err
        assert "[bold]a table[/bold]" in said
        assert "Traceback" not in said
    assert exit_code_of(fail_with(RuntimeError("jaas password=hunter2"))) == 1
    said = capsys.readouterr().err
    assert [each in said for each in ("Traceback", "RuntimeError", "hunter2")] == [True, True, False]


def test_ctrl_c_and_exits_have_their_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(fail_with(SystemExit(7))) == 7
    assert exit_code_of(fail_with(SystemExit("text"))) == 1
    monkeypatch.setattr("lakehouse.machine.doctor.diagnose", fail_with(KeyboardInterrupt()))
    assert main(["doctor"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")])
@pytest.mark.parametrize("arrives_in", ["the work", "a finalizer"])
def test_a_signal_ends_a_command_with_its_code_also_in_a_finalizer(
    number: signal.Signals, code: int, word: str, arrives_in: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)
            time.sleep(0.1)  # the handler raises here, and Python ignores it

    def work() -> int:
        if arrives_in == "a finalizer":
            Finalized()
        else:
            os.kill(os.getpid(), number)
        time.sleep(10)
        return 0

    former = sys.unraisablehook, signal.getsignal(number)
    assert exit_code_of(work) == code
    assert (sys.unraisablehook, signal.getsignal(number)) == former
    assert capsys.readouterr().err == f"tidemark: {word}; the next run finishes what was begun.\n"


def test_a_closed_pipe_is_no_traceback() -> None:
    command = [sys.executable, "-m", "tidemark", "sql", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(60) in (1, 141)


def ending(
    outcomes: list[Exception | None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    stop_during: int,
    ask: Callable[[], object] = lambda: None,
) -> list[str]:
    """Replaces a run by given outcomes; SIGTERM arrives in the one of that number. Returns what each run reached.

    `ask` replaces the question to Kafka where the partitions end.
    """
    reached: list[str] = []

    def fake_run(job: Job, **_: object) -> dict[str, Any]:
        told = job.report
        number = len(reached)
        reached.append("bronze")
        told.event("bronze.started")
        if number == stop_during:
            os.kill(os.getpid(), signal.SIGTERM)
        told.event("bronze.read", records=1)
        told.event("silver.claimed", load_seq=1)
        reached[-1] = "silver"
        outcome = outcomes[number]
        if outcome is not None:
            raise outcome
        return {"run_id": str(number)}

    monkeypatch.setattr(loop, "run_once", fake_run)
    monkeypatch.setattr(loop, "_ask_for_ends", lambda _: ask)
    return reached


def test_the_loop_goes_on_after_a_failed_gate_and_ends_with_the_code_of_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    failed, locked, skipped = GateFailedError("no"), AnotherWriterError("locked"), TopicsSkippedError("t")
    histories: list[list[Exception | None]] = [[None, None], [failed], [locked], [skipped], [failed, None], [None, failed]]
    for outcomes in histories:
        report, finished = Events(), list[dict[str, Any]]()
        reached = ending([*outcomes, None], monkeypatch, stop_during=len(outcomes))
        assert loop.run_every(Job.on(NOTHING, NOTHING, report), seconds=0, on_result=finished.append) == 143
        # The run during which the signal came was left between its first stage and the next.
        assert reached == ["silver"] * len(outcomes) + ["bronze"]
        assert len(finished) == outcomes.count(None)
        assert report.seen[-1] == ("run.stopped", {"exit_code": 143})
    ending([SourceError("gone")], monkeypatch, stop_during=-1)
    with pytest.raises(SourceError):  # any other error ends it
        loop.run_every(Job.on(NOTHING, NOTHING, Events()), seconds=0)


def test_the_loop_listens_for_signals_after_spark_does_and_its_pause_ends_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ending([None], monkeypatch, stop_during=-1)
    handlers = list[object]()
    before = signal.getsignal(signal.SIGINT)
    job = Job(NOTHING, Events(), lambda: handlers.append(signal.getsignal(signal.SIGINT)))  # type: ignore[arg-type, return-value] # no session is needed
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    assert loop.run_every(job, seconds=60) == 130
    assert time.monotonic() - started < 30
    assert handlers == [before]


@pytest.mark.parametrize(("first", "runs"), [(None, 3), (GateFailedError("no"), 1)])
def test_the_loop_runs_again_when_kafka_has_more_but_not_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, first: Exception | None, runs: int
) -> None:
    # The ends change during the first run, and then while the loop waits.
    ends = iter([1, 2, 2, 2, 3, 3])
    reached = ending([first, None, None, None], monkeypatch, stop_during=-1, ask=lambda: next(ends, 3))
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert loop.run_every(Job.on(NOTHING, NOTHING, Events()), seconds=60) == 143
    assert len(reached) == runs


def test_a_minute_has_a_line_with_its_sums_and_a_warning_if_runs_take_longer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now, report = [0.0], Events()
    monkeypatch.setattr(minutes, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 1_000.0 + now[0]))
    monkeypatch.setattr(Minutes, "_freshness", lambda _: {"p50": 2.0, "p99": 5.0})
    monkeypatch.setattr(Minutes, "_lag", lambda _: 7)
    kept = Minutes(Job.on(NOTHING, NOTHING, report), partial(write_minute, every=1))
    for ended in (5.0, 30.0, 66.0, 67.0):
        kept.event("silver.finished", loads=[3, 4])
        kept.event("gold.finished", records=9, first_load_seq=3, last_load_seq=4)
        now[0] = ended
        kept.end_run(ended / 10)
    first, second = capsys.readouterr().out.splitlines()
    fresh = "freshness seconds (p50 2.0, p99 5.0), lag 7"
    assert first[6:] == f"records 9, {fresh}, loads 2, runs 1, longest run seconds 0.5"
    slow = "; warning: runs take longer than --every 1"
    assert second[6:] == f"records 18, {fresh}, loads 4, runs 2, longest run seconds 6.6{slow}"
    assert report.names == ["silver.finished", "gold.finished"] * 4


def test_a_run_of_one_stage_is_finished_before_the_loop_ends() -> None:
    stop, report = threading.Event(), Events()
    stoppable = loop.StoppableReport(report, stop)
    stoppable.event("gate.started")
    stop.set()
    stoppable.event("gate.finished")
    stoppable.event("run.finished")
    with pytest.raises(loop.StopRequestedError):
        stoppable.event("gold.started")
    assert report.names == ["gate.started", "gate.finished", "run.finished"]


@pytest.mark.parametrize("command", ["run", "plan"])
def test_while_a_run_writes_another_one_ends_before_a_jvm_starts(
    config: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(context, "open_session", fail_with(AssertionError("a JVM is started")))
    with locked(Lakehouse(root=str(config.parent / "lakehouse"))):
        _, err = run_command(command, code=4)
    assert "Another run is writing to this lakehouse" in err


def test_a_failed_run_prints_json_and_its_error(config: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    audited = {"gate_run_id": "g", "passed": False, "failed": ["budget_late"]}
    failing = Medallion({"bronze": {"records": 3}}, audited, GateFailedError("Late records: hunter2.", where="t"))
    monkeypatch.setattr(medallion, "run", failing.run)

    out, err = run_command("run", "--json", code=3)

    done = json.loads(out)
    assert (done["pipeline"], done["bronze"], done["silver"], done["gate"]) == ("tests", {"records": 3}, None, audited)
    assert (done["error"], done["exit_code"]) == ("GateFailedError", 3)
    assert (done["message"], done["seconds"] >= 0) == ("Late records: ********.\n  where: t", True)
    assert json.loads((config.parent / "lakehouse" / "_reports" / "r7.json").read_text()) == done
    assert [json.loads(line)["event"] for line in err.splitlines() if "Late records" in line] == ["run.failed"]


def test_a_run_first_frees_what_the_one_before_left_in_cycles(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Frame:
        def __init__(self) -> None:
            self.itself = self

    left = list[weakref.ref[Frame]]()

    def fake_run(_job: Job, _stage: object) -> Any:
        freed = [each() is None for each in left]
        left[:] = [weakref.ref(Frame())]
        return {"run_id": "r1", "freed": freed}

    monkeypatch.setattr(medallion, "run", fake_run)
    job = Job.on(NOTHING, load_settings(config, None), Events())
    gc.disable()
    try:
        assert [once.run_once(job)["freed"] for _ in range(3)] == [[], [True], [True]]
    finally:
        gc.enable()


def test_a_result_is_kept_on_the_volume_of_a_catalog_where_there_is_one(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    place = {"catalog": "main", "schema": "tidemark", "volume": str(volume)}
    settings = load_settings(write_config(tmp_path, root="", lakehouse=place), None)
    once._keep(settings, {"run_id": "r1"})
    assert not volume.exists()
    volume.mkdir()
    once._keep(settings, {"run_id": "r1"})
    assert (volume / "_reports" / "r1.json").exists()


@pytest.mark.parametrize(
    ("typed", "new_id", "chosen"), [("y", "b", "same"), ("n", "b", "new"), ("\nn", "b", "new"), ("", "a", "same")]
)
def test_a_terminal_is_asked_whether_a_moved_topic_has_its_old_numbers(
    typed: str, new_id: str, chosen: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same topic id the log was cut: Enter means the same numbering then, and is no answer else."""
    ours, terminal = pty.openpty()
    found = Break(Topic("t", 1, "a", 1, {}), RECREATED, new_id)
    with os.fdopen(terminal, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(ours, f"{typed}\n".encode())
        assert requests._ask_numbering(found, as_json=False) == chosen
        assert requests._ask_numbering(found, as_json=True) is None
    os.close(ours)
    asked = capsys.readouterr().err
    assert f"{found.what} With --same-numbering, a record whose number was accepted before" in asked
    assert ("Same numbering? [Y/n]" if new_id == "a" else "Same numbering? [y/n]") in asked
