"""The formats that are extras: what each has to have, and what a config says that names one whose library is missing."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.config.load import load
from lakehouse.errors import ToolError
from lakehouse.extract.written import Decoder
from lakehouse.run.reporting import PythonLog
from lakehouse.settings import formats
from lakehouse.settings.formats import Schemas
from tests.support.small_config import small_config
from tidemark.extras.formats import avro, avro_schema, protobuf, protobuf_schema
from tidemark.extras.watch.after_run import listening

SCHEMAS: dict[str, Schemas] = {"avro": avro_schema, "protobuf": protobuf_schema}
DECODERS: dict[str, Decoder] = {"avro": avro, "protobuf": protobuf}


def test_every_format_has_the_functions_that_the_core_calls() -> None:
    assert {name: formats.schemas(name) for name in formats.EXTRAS} == SCHEMAS
    assert {name: formats.load(name) for name in formats.EXTRAS} == DECODERS


@pytest.mark.parametrize("name", formats.EXTRAS)
def test_a_config_says_what_to_install_for_its_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    value = {"format": name, "schema": "id STRING", "registry": {"url": "http://localhost:8081"}}
    assert load(small_config(str(tmp_path), value=value), environ={}).registry is not None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    formats.load.cache_clear()
    with pytest.raises(ToolError, match=rf"tidemark-lakehouse\[{name}\]"):
        load(small_config(str(tmp_path), value=value), environ={})
    assert load(small_config(str(tmp_path), value={**value, "format": "json"}), environ={}).registry is not None


def test_a_report_and_metrics_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    formats.load.cache_clear()
    settings = load(small_config(str(tmp_path), watch={"metrics_port": 9464}), environ={})
    with pytest.raises(ToolError, match=r"tidemark-lakehouse\[watch\]"), listening(settings, PythonLog()):
        pass
    with pytest.raises(ToolError, match=r"tidemark-lakehouse\[report\]"):
        formats.load("report")


def test_a_config_of_json_imports_no_extra_and_one_of_avro_no_spark() -> None:
    avro_value = "s.ValueFormat(format='avro', schema='a INT', registry={'url': 'http://r'})"
    found = "[each for each in sys.modules if each in ('tidemark', 'pyspark')]"
    program = f"import sys, lakehouse.settings.pipeline as s; print({found}); {avro_value}; print({found})"
    root = Path(__file__).parents[3]
    printed = subprocess.check_output([sys.executable, "-c", program], cwd=root, text=True)
    assert printed == "[]\n['tidemark']\n"
