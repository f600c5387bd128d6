"""The Databricks bundle, as far as its files tell: without a workspace, and without the platform's command line."""

from __future__ import annotations

import tomllib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume

from jobs.process.context import load_settings
from tests.support.bundle import BUNDLE, ROOT, of_kind, resources

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
JOBS = of_kind("jobs")
TASKS = [(job, task) for job, content in JOBS.items() for task in content["tasks"]]
WHEEL_TASKS = [(job, task) for job, task in TASKS if "python_wheel_task" in task]
MEDALLION: dict[str, dict[str, Any]] = {task["task_key"]: task for task in JOBS["medallion"]["tasks"]}
STAGES = {
    "bronze": "tidemark-ingest-bronze",
    "silver": "tidemark-load-silver",
    "gate": "tidemark-audit-silver",
    "gold": "tidemark-publish-gold",
}
MODELS: dict[str, Any] = {"jobs": Job, "schemas": Schema, "volumes": Volume}


def outcomes(failing: str) -> dict[str, str]:
    """What becomes of each task where one fails, by the platform's rules for `run_if`."""
    ended: dict[str, str] = {}
    while len(ended) < len(MEDALLION):
        for key, task in MEDALLION.items():
            needed = [each["task_key"] for each in task.get("depends_on", [])]
            if key not in ended and all(each in ended for each in needed):
                is_run = task.get("run_if") == "ALL_DONE" or all(ended[each] == "success" for each in needed)
                ended[key] = "upstream failed" if not is_run else "failed" if key == failing else "success"
    return ended


def flags_of(task: dict[str, Any]) -> list[str]:
    """A task's parameters, with everything that the platform puts in."""
    known = {
        "${workspace.file_path}": str(ROOT),
        "${var.catalog}": "main",
        "${resources.schemas.lakehouse.name}": "tidemark",
        "${var.kafka_bootstrap_servers}": "broker:9092",
        "${var.kafka_topics}": "[incidents, payments]",
        "${secret:${var.secret_scope}/kafka-username}": "ada",
        "${secret:${var.secret_scope}/kafka-password}": "hunter2",
    }
    flags: list[str] = task["python_wheel_task"]["parameters"]
    for reference, value in known.items():
        flags = [flag.replace(reference, value) for flag in flags]
    return flags


def settings_of(task: dict[str, Any]) -> Settings:
    """What a wheel task's flags come to."""
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in flags_of(task) if flag.startswith("--config="))
    sets = [flag.removeprefix("--set=") for flag in flags_of(task) if flag.startswith("--set=")]
    assert len(flags) + len(sets) == len(flags_of(task))
    return load_settings(ROOT / flags["config"], sets)


def test_a_resource_has_a_key_of_its_own_across_all_kinds() -> None:
    assert [key for key, count in Counter(key for _, key, _ in resources()).items() if count > 1] == []


def test_the_platforms_models_take_each_resource_and_no_unknown_field() -> None:
    for kind, model in MODELS.items():
        for key, content in of_kind(kind).items():
            assert model.from_dict(content).as_dict().keys() == content.keys(), key
    for field in ("retries", "run_as_user"):
        with pytest.raises(ValueError, match=field):
            MODELS["jobs"].from_dict({**JOBS["medallion"], field: 1})


def test_every_wheel_task_names_an_entry_point_of_the_wheel_and_its_environment() -> None:
    named = {task["task_key"]: task["python_wheel_task"]["entry_point"] for _, task in WHEEL_TASKS}
    assert named == {**STAGES, "maintain": "tidemark-maintain-tables"}
    assert {task["python_wheel_task"]["package_name"] for _, task in WHEEL_TASKS} == {"tidemark-lakehouse"}
    assert [each for each in named.values() if each not in SCRIPTS] == []
    environments = {(job, each["environment_key"]) for job, content in JOBS.items() for each in content.get("environments", [])}
    assert {(job, task["environment_key"]) for job, task in WHEEL_TASKS} == environments


def test_environments_install_locked_versions_and_pinned_tools_build_the_wheel() -> None:
    environments = [each["spec"]["dependencies"] for content in JOBS.values() for each in content.get("environments", [])]
    assert environments == [["-r ./files/requirements.txt", "../dist/*.whl"]] * len({job for job, _ in WHEEL_TASKS})
    pins = (ROOT / "resources" / "files" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in pins if not line.startswith("#") and "==" not in line] == []
    assert "--build-constraints requirements-build.lock --require-hashes" in BUNDLE["artifacts"]["wheel"]["build"]


def test_a_failed_gate_keeps_gold_back_refreshes_the_dashboard_and_fails_the_run() -> None:
    ended = outcomes("gate")

    assert ended == {
        "bronze": "success",
        "silver": "success",
        "gate": "failed",
        "gold": "upstream failed",
        "dashboard": "success",
        "published": "upstream failed",
    }
    needed = {each["task_key"] for task in MEDALLION.values() for each in task.get("depends_on", [])}
    # The platform calls a run failed where one of its last tasks did not succeed.
    assert {ended[task] for task in MEDALLION.keys() - needed} == {"success", "upstream failed"}
    assert set(outcomes("none").values()) == {"success"}
    kept_back = {task: [each for each in STAGES if outcomes(task)[each] == "upstream failed"] for task in STAGES}
    stages = list(STAGES)
    assert kept_back == {task: stages[nth + 1 :] for nth, task in enumerate(stages)}, "the stages run one after another"


def test_one_run_at_a_time_with_a_queue_limits_and_somebody_who_hears_of_it() -> None:
    for content in JOBS.values():
        assert (content["max_concurrent_runs"], content["queue"]) == (1, {"enabled": True})
        assert content["timeout_seconds"] > 0
        assert content["email_notifications"]["on_failure"] == ["${var.notify}"]
    for job in ("medallion", "maintenance"):
        (rule,) = JOBS[job]["health"]["rules"]
        assert rule["value"] < JOBS[job]["timeout_seconds"]


def test_all_but_the_gate_are_retried() -> None:
    retries = {task["task_key"]: task.get("max_retries", 0) for _, task in TASKS if "condition_task" not in task}
    assert {task for task, count in retries.items() if count == 0} == {"gate"}
    assert MEDALLION["gate"]["disable_auto_optimization"] is True


def test_the_flags_of_every_task_are_settings_in_order() -> None:
    for _, task in WHEEL_TASKS:
        settings = settings_of(task)
        assert (settings.lakehouse.catalog, settings.lakehouse.schema_) == ("main", "tidemark")
        assert settings.lakehouse.volume == f"/Volumes/main/tidemark/{of_kind('volumes')['files']['name']}"
        assert settings.kafka.topics == ("incidents", "payments")


def test_only_the_ingest_reads_the_secrets() -> None:
    assert [task["task_key"] for _, task in WHEEL_TASKS if "${secret:" in str(task)] == ["bronze"]
    login = settings_of(MEDALLION["bronze"]).kafka.client_properties()["sasl.jaas.config"]
    assert login == (
        'kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="hunter2";'
    )
    (permission,) = of_kind("secret_scopes")["kafka"]["permissions"]
    assert permission == {"level": "READ", "service_principal_name": "${var.ingest_principal}"}


def test_three_principals_own_what_they_make_and_nobody_may_change_the_others_tables() -> None:
    grants = {each["principal"]: each["privileges"] for each in of_kind("schemas")["lakehouse"]["grants"]}
    assert grants == {
        "${var.ingest_principal}": ["USE_SCHEMA", "CREATE_TABLE"],
        "${var.refine_principal}": ["USE_SCHEMA", "CREATE_TABLE", "SELECT"],
        "${var.publish_principal}": ["USE_SCHEMA", "CREATE_TABLE", "SELECT"],
    }


def test_every_variable_that_is_named_is_declared_and_every_other_one_is_not_there() -> None:
    files = [ROOT / "databricks.yml", *(ROOT / "resources").glob("*.yml")]
    texts = "".join(file.read_text(encoding="utf-8") for file in files)
    named = {part.split("}")[0] for part in texts.split("${var.")[1:]}
    assert named == set(BUNDLE["variables"])
    assert BUNDLE["targets"].keys() == {"dev", "prod"}
