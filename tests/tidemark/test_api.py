"""The functions as a caller meets them, as far as no Spark is needed; what they return is in `tests/scenario`."""

import json
import logging
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import tidemark
from bronze.ingest import Ingested
from gold.publish import Published
from lakehouse import errors
from lakehouse.contracts.silver import CLASSES
from tests.support.small_config import small_config
from tidemark import answers
from tidemark.process import exit_codes
from tidemark.process.context import called_from_python, reporting

NOTHING = small_config("lakehouse")


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_config_is_a_file_or_a_mapping_and_overrides_are_values_or_texts(tmp_path: Path) -> None:
    file = tmp_path / "own.yml"
    file.write_text(json.dumps(NOTHING), encoding="utf-8")
    configs = (file, str(file), NOTHING, {**NOTHING, "lakehouse": {"root": Path("lakehouse")}})
    found = [tidemark.status(config) for config in configs]
    assert found == [found[0]] * 4
    assert (found[0].pipeline, found[0].streams, found[0].last_load, found[0].lag) == ("tests", (), None, None)
    assert found[0].lakehouse == str(tmp_path / "lakehouse")
    overrides = {"pipeline": "mine", "kafka.topics": ["a", "b"], "policies.max_jump": "5", "lakehouse.root": tmp_path / "other"}
    assert tidemark.status(NOTHING, overrides=overrides).lakehouse == str(tmp_path / "other")
    with pytest.raises(tidemark.ConfigError, match=r"policies\.max_jmp"):
        tidemark.status(NOTHING, overrides={"policies.max_jmp": 5})


CIRCLE: dict[str, Any] = {}
CIRCLE["kafka"] = CIRCLE


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "holds no settings"),
        ({**NOTHING, "pipeline": object()}, "a value that YAML lacks"),
        ({**NOTHING, "pipeline": b"tests"}, "a value of the type bytes"),
        (CIRCLE, "a value that YAML lacks"),
        ("none.yml", "no config file"),
        ({**NOTHING, "pipeline": "\x1b[31m"}, "pipeline"),
    ],
)
def test_a_wrong_config_is_a_config_error(config: Any, said: str) -> None:
    with pytest.raises(tidemark.ConfigError) as raised:
        tidemark.status(config)
    assert said in str(raised.value)
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tidemark.why(NOTHING, "t", "0", 1),  # type: ignore[arg-type]  # as somebody gets it wrong
        lambda: tidemark.why(NOTHING, "t", 0, -1),
        lambda: tidemark.why(NOTHING, b"t", 0, 1),  # type: ignore[arg-type]  # as above
        lambda: tidemark.quarantine(NOTHING, kind="lost"),
        lambda: tidemark.quarantine(NOTHING, partition=True),
        lambda: tidemark.quarantine(NOTHING, older_than_days=float("nan")),
        lambda: tidemark.status(NOTHING, limit=2**63),
        lambda: tidemark.sql(NOTHING, None),  # type: ignore[arg-type]  # as above
        lambda: tidemark.sql(NOTHING, "select 1; select 2"),
        lambda: tidemark.quarantine_release(NOTHING, reason="checked"),
        lambda: tidemark.quarantine_release(NOTHING, reason="checked", kind="late", everything=True),
        lambda: tidemark.quarantine_release(NOTHING, reason="checked", topic="t", offset=5),
        lambda: tidemark.quarantine_discard(NOTHING, reason=" ", everything=True),
        lambda: tidemark.plan(NOTHING, spark="local[*]"),  # type: ignore[arg-type]  # as above
        lambda: tidemark.run(NOTHING, stage="platinum"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(call: Callable[[], object]) -> None:
    with pytest.raises(tidemark.UsageError):
        call()


def test_where_nothing_was_read_yet_answers_are_empty_and_a_record_is_an_error() -> None:
    with pytest.raises(tidemark.TidemarkError, match="Nothing was read yet"):
        tidemark.why(NOTHING, "t", 0, 1)
    assert tidemark.quarantine(NOTHING) == tidemark.Quarantine(records=(), count=0)
    assert tidemark.sql(NOTHING, "select 1 as one").to_pylist() == [{"one": 1}]


def names_of(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def test_every_error_has_its_name_and_answers_have_the_fields_of_the_classes() -> None:
    ours = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.TidemarkError)}
    assert ours - set(tidemark.__all__) == set()
    assert all(hasattr(tidemark, name) for name in tidemark.__all__)
    assert names_of(answers.Counts) == ["records", *CLASSES]
    assert {*names_of(answers.BronzeResult)} == {*names_of(Ingested)}
    assert {*names_of(answers.GoldResult)} == {*names_of(Published), "seconds"}


def test_what_is_returned_is_frozen() -> None:
    kinds = [each for each in vars(answers).values() if isinstance(each, type) and is_dataclass(each)]
    assert len(kinds) > 30
    found = tidemark.quarantine(NOTHING)
    with pytest.raises(FrozenInstanceError):
        found.count = 1  # type: ignore[misc]  # which is what is tried
    for kind in kinds:
        assert kind.__dataclass_params__.frozen, kind  # type: ignore[attr-defined]  # which every data class has
        described = {line.strip().partition(":")[0] for line in str(kind.__doc__).splitlines()}
        assert {*names_of(kind)} - described == set(), kind


def test_an_error_and_an_answer_go_through_a_pickle_whole() -> None:
    for error in (
        tidemark.GateFailedError("The gate failed.", where="load 3", observed=2, expected=0, next_step="Look."),
        tidemark.ContractError("bronze_records", missing=["key"], unexpected=[], wrong_type=[("offset", "string", "bigint")]),
        tidemark.UndoneError.of("silver_records"),
    ):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    status = tidemark.status(NOTHING)
    assert pickle.loads(pickle.dumps(status)) == status  # noqa: S301 -- as above


def test_no_secret_is_in_what_is_raised_or_in_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exit_codes, "known_secrets", {"hunter2"})
    cause = ValueError("password=hunter2")
    with pytest.raises(tidemark.SourceError) as ours, called_from_python(None):
        raise tidemark.SourceError("It did not take hunter2.", observed="hunter2") from cause
    assert (str(ours.value), ours.value.observed) == ("It did not take ********.\n  observed: ********", "********")
    assert ours.value.__cause__ is None
    assert ours.value.__suppress_context__
    with pytest.raises(tidemark.TidemarkError, match=r"Unexpected KeyError.*\n.*\*{8}"), called_from_python(None):
        raise KeyError("hunter2")
    with pytest.raises(KeyError, match="other"), called_from_python(None):
        raise KeyError("other")


def test_progress_goes_to_the_log_of_python_without_secrets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exit_codes, "known_secrets", {"hunter2"})
    with caplog.at_level(logging.INFO, logger="tidemark"), called_from_python(None), reporting() as report:
        report.event("silver.finished", records=3, why="hunter2\x1b[31m")
        report.event("watch.metrics_failed", error="OSError")
        report.event("run.failed", exit_code=1)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", 'silver.finished {"records": 3, "why": "********\\u001b[31m"}'),
        ("WARNING", 'watch.metrics_failed {"error": "OSError"}'),
        ("ERROR", 'run.failed {"exit_code": 1}'),
    ]
    assert capsys.readouterr() == ("", "")
