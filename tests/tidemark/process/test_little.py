"""Whether tables are small, and which sessions go without the second compiler then."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.settings.pipeline import Settings
from lakehouse.table import BRONZE_RECORDS
from tests.support.small_config import small_config, write_config
from tidemark.process import context, little
from tidemark.process.context import called_from_python, open_job


def settings(root: str) -> Settings:
    return Settings.model_validate(small_config(root), context={"folder": Path()})


def test_tables_are_small_until_bronze_has_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert little.is_small(settings(str(tmp_path)))
    write_deltalake(tmp_path / BRONZE_RECORDS, pa.table({"value": ["x" * 5_000]}))
    assert little.is_small(settings(str(tmp_path)))
    monkeypatch.setattr(little, "_MOST_BYTES", 100)
    assert not little.is_small(settings(str(tmp_path)))


def test_of_tables_that_are_in_no_folder_it_is_not_known() -> None:
    assert not little.is_small(settings("s3://bucket/lake"))


@pytest.mark.parametrize(("is_from_python", "is_short"), [(False, True), (True, False)])
def test_a_session_is_short_for_little_unless_a_callers_process_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_from_python: bool, is_short: bool
) -> None:
    opened: list[bool] = []
    monkeypatch.setattr(context, "open_session", lambda *_, is_short: opened.append(is_short))
    config = write_config(tmp_path, root=str(tmp_path / "lake"))

    def open_one() -> None:
        with open_job(config, None, is_little=lambda _: True) as job:
            _ = job.spark

    if is_from_python:
        with called_from_python(None):
            open_one()
    else:
        open_one()
    assert opened == [is_short]
