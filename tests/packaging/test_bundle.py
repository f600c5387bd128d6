"""The files of the Databricks bundle and its dashboard, without a workspace; its queries are in `test_dashboard_queries.py`."""

import json
import re
import tomllib
from collections import Counter
from typing import Any

import pytest
import sqlglot
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume
from sqlglot import exp

from lakehouse.contracts import views
from lakehouse.settings.pipeline import Settings
from lakehouse.table import TABLE_NAMES
from tests.support.bundle import BUNDLE, DASHBOARD, ROOT, columns_used, dataset_queries, of_kind, resources, widgets
from tidemark.process.context import load_settings

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
QUERIES = {name: sqlglot.parse_one(query, read="databricks", into=exp.Select) for name, query in dataset_queries().items()}
PLOTTED = [widget for widget in widgets() if "spec" in widget]
GRID = 12


def outcome(key: str, failing: str) -> str:
    """The end of a task where one fails, by the platform's rules for `run_if`."""
    task = MEDALLION[key]
    needed = {outcome(each["task_key"], failing) for each in task.get("depends_on", [])}
    if task.get("run_if") != "ALL_DONE" and needed - {"success"}:
        return "upstream failed"
    return "failed" if key == failing else "success"


def outcomes(failing: str) -> dict[str, str]:
    return {key: outcome(key, failing) for key in MEDALLION}


def settings_of(task: dict[str, Any]) -> Settings:
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
    config, *sets = flags
    assert config.startswith("--config=")
    assert [flag for flag in sets if not flag.startswith("--set=")] == []
    return load_settings(ROOT / config.removeprefix("--config="), [flag.removeprefix("--set=") for flag in sets])


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


def test_one_run_at_a_time_with_a_queue_limits_retries_and_somebody_who_hears_of_it() -> None:
    for content in JOBS.values():
        assert (content["max_concurrent_runs"], content["queue"]) == (1, {"enabled": True})
        assert content["timeout_seconds"] > 0
        assert content["email_notifications"]["on_failure"] == ["${var.notify}"]
    for job in ("medallion", "maintenance"):
        (rule,) = JOBS[job]["health"]["rules"]
        assert rule["value"] < JOBS[job]["timeout_seconds"]
    retries = {task["task_key"]: task.get("max_retries", 0) for _, task in TASKS if "condition_task" not in task}
    assert {task for task, count in retries.items() if count == 0} == {"gate"}
    assert MEDALLION["gate"]["disable_auto_optimization"] is True


def test_the_flags_of_every_task_are_settings_and_only_the_ingest_reads_the_secrets() -> None:
    for _, task in WHEEL_TASKS:
        settings = settings_of(task)
        assert (settings.lakehouse.catalog, settings.lakehouse.schema_) == ("main", "tidemark")
        assert settings.lakehouse.volume == f"/Volumes/main/tidemark/{of_kind('volumes')['files']['name']}"
        assert settings.kafka.topics == ("incidents", "payments")
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


def test_a_resource_has_its_own_key_and_every_variable_that_is_named_is_declared() -> None:
    assert [key for key, count in Counter(key for _, key, _ in resources()).items() if count > 1] == []
    files = [ROOT / "databricks.yml", *(ROOT / "resources").glob("*.yml")]
    named = {part.split("}")[0] for file in files for part in file.read_text(encoding="utf-8").split("${var.")[1:]}
    assert named == set(BUNDLE["variables"])
    assert BUNDLE["targets"].keys() == {"dev", "prod"}
    (dashboard,) = of_kind("dashboards").values()
    tables_of = (dashboard["dataset_catalog"], dashboard["dataset_schema"])
    assert tables_of == ("${var.catalog}", "${resources.schemas.lakehouse.name}")


@pytest.mark.parametrize("name", QUERIES)
def test_a_dataset_reads_our_tables_by_bare_names_and_its_columns_are_shown(name: str) -> None:
    assert columns_used()[name] == set(QUERIES[name].named_selects)
    inner = {each.alias for each in QUERIES[name].find_all(exp.CTE)}
    read = [table for table in QUERIES[name].find_all(exp.Table) if table.name not in inner]
    assert {table.name for table in read} <= {*TABLE_NAMES, views.MISSING}
    assert [table.sql() for table in read if table.db or table.catalog] == []


@pytest.mark.parametrize("widget", PLOTTED, ids=[widget["name"] for widget in PLOTTED])
def test_a_widget_shows_what_it_asks_for_as_text(widget: dict[str, Any]) -> None:
    asked = {field["name"] for each in widget["queries"] for field in each["query"]["fields"]}
    assert set(re.findall(r'"fieldName": "([^"]+)"', json.dumps(widget["spec"]["encodings"]))) == asked
    assert {each["query"]["datasetName"] for each in widget["queries"]} <= QUERIES.keys()
    assert widget["spec"]["frame"]["title"]
    for column in widget["spec"]["encodings"].get("columns", []):
        assert column.keys() == {"fieldName", "displayName"}  # no html, link or image of what a producer sent


def test_the_verdict_comes_first_and_widgets_fill_the_grid_without_overlap() -> None:
    first = sorted(DASHBOARD["pages"][0]["layout"], key=lambda each: (each["position"]["y"], each["position"]["x"]))
    assert [placed["widget"]["name"] for placed in first][:2] == ["gate-title", "verdict"]
    names = [widget["name"] for widget in widgets()]
    assert [name for name in names if names.count(name) > 1 or not re.fullmatch("[a-z-]{1,60}", name)] == []
    for page in (page for page in DASHBOARD["pages"] if page["pageType"] == "PAGE_TYPE_CANVAS"):
        cells = [
            (x, y)
            for at in (placed["position"] for placed in page["layout"])
            for x in range(at["x"], at["x"] + at["width"])
            for y in range(at["y"], at["y"] + at["height"])
        ]
        assert sorted(cells) == [(x, y) for x in range(GRID) for y in range(len(cells) // GRID)]
