"""Every command that writes, over copies of the scenario: in a folder, or in sequence over cleaned logs in S3."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidemark
from lakehouse.errors import BreakerOpenError, GateFailedError, TableStateError, TopicRecreatedError, UsageError
from tests.scenario.cases import IN_S3, LET_IN, WHY, WRITES, as_json, differences
from tests.scenario.conftest import Tell, clean_logs
from tests.scenario.corpus import ERASED
from tests.scenario.lakehouse import FOLDER, ORDERS, Scenario, written
from tests.support.kafka import delete_topic, send, sequenced
from tests.support.small_config import small_config
from tidemark import answers
from tidemark.answers import from_plain
from tidemark.extras.demo.broker import LocalBroker, create_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

ANSWERS: dict[str, type[Any]] = {
    "run": answers.RunResult,
    "quarantine release": answers.Settled,
    "quarantine discard": answers.Settled,
}
"""What functions return that write: each key of the JSON has its field."""

OF_LOAD_5 = ("sql", "SELECT count(*) AS n FROM gold_records WHERE load_seq = 5", "--json")
"""The load that waits behind the gate run that failed."""


def require_work(copy: Scenario, command: str, tell: Tell) -> None:
    """Run a command; fail unless it commits, and says what its function returns."""
    before = copy.commits()
    done = tell(copy, *command.split(), *WRITES[command], "--json").json
    assert copy.commits() != before, command
    if command in ANSWERS:
        assert list(differences(done, as_json(from_plain(ANSWERS[command], done), is_whole=True))) == []


@pytest.mark.parametrize("command", [each for each in WRITES if each not in IN_S3])
def test_a_command_commits_and_says_what_it_did(command: str, scenario: Scenario, tell: Tell, tmp_path: Path) -> None:
    require_work(scenario.copy_to(tmp_path), command, tell)


def test_a_gate_run_is_decided_over_cleaned_logs(spark: SparkSession, cleaned: Scenario, tell: Tell, tmp_path: Path) -> None:
    copy = cleaned.copy_to(tmp_path)

    tell(copy, "run", "--stage", "silver", *LET_IN)
    clean_logs(spark, copy)  # so that the versions which the gate run audited are gone
    (tmp_path / "rejected").mkdir()
    rejected = copy.copy_to(tmp_path / "rejected")
    assert "is gone" in tell(rejected, "gate", "show", "--json").out
    tell(rejected, "gate", "reject", *WHY)
    tell(rejected, "run", *WRITES["run"])
    assert tell(rejected, *OF_LOAD_5).json == [{"n": 0}]
    refused = tell(copy, "gate", "release", *WHY, codes=(TableStateError.exit_code,))
    assert "run --stage gate" in refused.err
    tell(copy, "run", "--stage", "gate", codes=(GateFailedError.exit_code,))
    tell(copy, "gate", "release", *WHY)
    assert tell(copy, *OF_LOAD_5).json == [{"n": 2}]


def test_commands_that_change_files_do_their_work_in_s3_where_every_log_was_cleaned_before(
    cleaned: Scenario, copy_to_store: Callable[[Scenario], Scenario], tell: Tell
) -> None:
    copy = copy_to_store(cleaned)

    for command in IN_S3:
        require_work(copy, command, tell)
    tell(copy, "maintain", "--erase", "--key", ERASED.decode(), "--set", "maintenance.allow_short_retention=true")

    tell(copy, "verify", "--deep")
    files = copy.lakehouse.table_files
    assert files is not None
    assert not any(name.startswith("_shadow/") for name in files.sizes())


def test_an_open_breaker_writes_nothing_and_escapes_names(scenario: Scenario, tell: Tell, tmp_path: Path) -> None:
    copy = scenario.copy_to(tmp_path)
    said = tell(copy, "run", codes=(BreakerOpenError.exit_code,))
    assert "\\x1b]0;owned" in said.err
    assert copy.commits() == scenario.commits()


def test_a_topic_that_was_created_again_is_accepted(
    spark: SparkSession, broker: LocalBroker, tell: Tell, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, "scenario-again"
    create_topic(servers, topic, 1)
    kafka = {"bootstrap_servers": servers, "topics": [topic]}
    made = written(tmp_path, small_config(str(tmp_path / FOLDER), kafka=kafka))
    send(servers, topic, sequenced(1, 2))
    tell(made, "run", "--stage", "bronze")
    delete_topic(servers, topic)
    create_topic(servers, topic, 1)
    clean_logs(spark, made)
    tell(made, "run", "--stage", "bronze", codes=(TopicRecreatedError.exit_code,))
    before = made.commits()

    refused = tell(made, "topic", "accept", topic, *WHY, codes=(UsageError.exit_code,))
    assert "--same-numbering or --new-numbering" in refused.err
    tell(made, "topic", "accept", topic, "--new-numbering", *WHY, "--dry-run", "--json")
    assert made.commits() == before
    accepted = tell(made, "topic", "accept", topic, "--same-numbering", *WHY)

    assert made.commits() != before
    assert topic in accepted.out
    tell(made, "run", "--stage", "bronze")


def test_python_runs_decides_and_raises_what_says_so(
    spark: SparkSession, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the relative paths of a mapping start
    copy = scenario.copy_to(tmp_path)
    given = {"policies.max_quarantined_share": 1}

    silver = tidemark.run(copy.config, spark, "silver", overrides=given).silver
    assert silver is not None
    assert (len(silver.loads), silver.records > 100) == (1, True)
    with pytest.raises(tidemark.GateFailedError, match="budget_late"):
        tidemark.run(copy.config, spark, "gate", overrides=given)
    loose = {**given, "gate.budgets": {}}
    gate, gold = (getattr(tidemark.run(copy.config, spark, stage, overrides=loose), stage) for stage in ("gate", "gold"))
    assert (gate.passed, gold.records > 0) == (True, True)

    asked: dict[str, Any] = {"reason": "seen", "topic": ORDERS, "kind": "late", "spark": spark}
    trial = tidemark.quarantine_release(copy.config, dry_run=True, **asked)
    done = tidemark.quarantine_discard(copy.config, by="ann", **asked)
    assert (trial.is_dry_run, trial.load_seq, trial.classes) == (True, done.load_seq, done.classes)
    first = next(iter(done.streams))
    assert (done.kind, done.records, first.topic) == ("discard", sum(done.classes.values()), ORDERS)

    assert tidemark.verify(copy.config, spark=spark).ok
    for file in (copy.root / "silver_records").rglob("part-*.parquet"):
        file.unlink()
    with pytest.raises(tidemark.NotSoundError, match="files_are_there") as damage:
        tidemark.verify(copy.config, spark=spark)
    assert isinstance(damage.value, tidemark.TableStateError)
    assert "files_are_there" in [each.check for each in damage.value.verification.checks if not each.ok]
