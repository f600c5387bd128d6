"""Gold's part of the settings: your own SQL models."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, StringConstraints, ValidationInfo, field_validator

from lakehouse.settings.base import Model, SettingError, from_config_folder, setting
from lakehouse.settings.model_sql import problem
from lakehouse.settings.secrets import HIDES_SECRETS, Secret

OWN_TABLES = frozenset(
    {
        *("bronze_records", "bronze_topics", "silver_records", "silver_watermarks", "silver_rejects", "silver_loads"),
        *("silver_last_accepted", "silver_missing", "gate_results", "gate_decisions", "gate_history"),
        *("gold_records", "gold_rejects", "gold_latest", "gold_latest_by_stream", "gold_stream_health"),
        *("watermark_status", "duplicates_by_partition", "quarantine_open", "lag"),
    }
)


def _check_name(name: str) -> str:
    if name.lower() in OWN_TABLES:
        raise SettingError("Tidemark has a table or view of this name", "another name", "For example name: incidents_by_day")
    return name


def _check_file(given: Any, info: ValidationInfo) -> Path:
    if not isinstance(given, (str, Path)) or isinstance(given, Secret) or not given:
        raise SettingError("this is no path", "a path, not a reference", "For example sql: sql/incidents_by_day.sql")
    path = Path(from_config_folder(str(given), info))
    if not path.is_file():
        expected = "an existing file; a relative path starts at the config file's folder"
        raise SettingError("there is no such file", expected, "Create the file, or correct the path.")
    try:
        found = problem(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise SettingError("this file cannot be read", "text in UTF-8", "Correct the file, or its rights.") from None
    if found:
        raise SettingError(f"the query holds {found}", "SQL over Gold's tables", "SECURITY.md says what a model may do.")
    return path


# Tidemark's other folders begin with an underscore.
_IS_NAME = StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,127}$")
ModelName = Annotated[str, _IS_NAME, AfterValidator(_check_name), HIDES_SECRETS]


class GoldModel(Model):
    """An additional table in Gold, built by a SQL query over Gold's tables."""

    name: ModelName = setting(..., "the table's name: a letter, then letters, digits and _", "incidents_by_day")
    sql: Annotated[Path, BeforeValidator(_check_file)] = setting(..., "the file with its query", "sql/incidents_by_day.sql")


class Gold(Model):
    """What is published in addition to the built-in tables."""

    models: tuple[GoldModel, ...] = setting((), "your own SQL models, a list", "[{name: by_day, sql: sql/by_day.sql}]")

    @field_validator("models")
    @classmethod
    def _require_different_names(cls, models: tuple[GoldModel, ...]) -> tuple[GoldModel, ...]:
        names = [model.name.lower() for model in models]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise SettingError("two models have this name", "each name once", "Rename one.", at=(place, "name"))
        return models
