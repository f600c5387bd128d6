"""Gold's part of the settings: your own SQL models."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from lakehouse.settings.base import Model, from_config_folder, refusal
from lakehouse.settings.model_sql import problem
from lakehouse.settings.secrets import KEEP_SECRET, MASK_SECRET, Secret

OWN_TABLES = frozenset(
    {
        "bronze_records",
        "bronze_topics",
        "silver_records",
        "silver_watermarks",
        "silver_rejects",
        "silver_loads",
        "gate_results",
        "gate_decisions",
        "gold_records",
        "gold_rejects",
        "gold_latest",
        "gold_latest_by_stream",
        "gold_stream_health",
        "watermark_status",
        "duplicates_by_partition",
        "quarantine_open",
        "gate_history",
        "lag",
        "silver_last_accepted",
        "silver_missing",
    }
)
"""The names of the tables and views that Tidemark creates."""


def _model_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
        raise refusal(
            "this is no table name", expected="letters, digits and underscores", next_step="For example incidents_by_day."
        )
    if name.startswith("_"):
        raise refusal(
            "Tidemark keeps what is no table under such names: _checkpoints, _reports, _shadow, _watch",
            expected="a name that starts with a letter",
            next_step="For example incidents_by_day.",
        )
    if name.lower() in OWN_TABLES:
        raise refusal(
            "Tidemark keeps a table or view of this name itself",
            expected="another name",
            next_step="For example incidents_by_day.",
        )
    return name


def _sql_file(given: Any, info: ValidationInfo) -> Path:
    if not isinstance(given, (str, Path)) or isinstance(given, Secret) or not given:
        raise refusal("this is no path", expected="a path, written out", next_step="For example sql: sql/incidents_by_day.sql")
    path = Path(from_config_folder(str(given), info))
    if not path.is_file():
        raise refusal(
            "there is no such file",
            expected="an existing file; a relative path starts at the config file's folder",
            next_step="Create the file, or correct the path.",
        )
    try:
        found = problem(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise refusal(
            "this file cannot be read", expected="a text in UTF-8", next_step="Correct the file, or its rights."
        ) from None
    if found:
        raise refusal(
            f"the query holds {found}",
            expected="SQL over gold_records, gold_latest and gold_stream_health",
            next_step="Do that outside of the model: SECURITY.md says what a model may do.",
        )
    return path


class GoldModel(Model):
    """A table of your own in Gold, built by a SQL query over Gold's tables."""

    name: Annotated[str, AfterValidator(_model_name), KEEP_SECRET, MASK_SECRET] = Field(
        description="the table's name", examples=["incidents_by_day"]
    )
    sql: Annotated[Path, BeforeValidator(_sql_file)] = Field(
        description="the file with its query", examples=["sql/incidents_by_day.sql"]
    )


class Gold(Model):
    """What is published in addition to the built-in tables."""

    models: tuple[GoldModel, ...] = Field(
        default=(),
        description="your own SQL models, a list",
        examples=["[{name: by_day, sql: sql/by_day.sql}]"],
    )

    @field_validator("models")
    @classmethod
    def _names_differ(cls, models: tuple[GoldModel, ...]) -> tuple[GoldModel, ...]:
        seen: set[str] = set()
        for place, model in enumerate(models):
            if model.name.lower() in seen:
                raise refusal(
                    "two models have this name", expected="each name once", next_step="Rename one.", at=(place, "name")
                )
            seen.add(model.name.lower())
        return models
