"""Maintenance: how long old versions of the tables stay readable, and how their files are compacted."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from lakehouse.settings.base import Flag, Model, SettingError, Whole, setting

_SAFE_HOURS = 168  # Delta's minimum: below it, an active reader or writer may lose files that it uses


class Maintenance(Model):
    """What `tidemark maintain` does to every table, and how long it keeps old files and logs."""

    allow_short_retention: Flag = setting(False, "whether retain_hours may be below 168", "true")
    retain_hours: Annotated[int, Field(strict=True, ge=0)] = setting(_SAFE_HOURS, "how long an outdated file stays", "336")
    log_retain_days: Whole = setting(30, "how long a table's log, its history, stays", "60", validate_default=True)
    file_mib: Whole = setting(128, "the size that small files are put together to, in MiB", "256")
    retire_streams_days: Whole | None = setting(None, "the silence after which a watermark is removed; null for never", "30")

    @field_validator("retain_hours")
    @classmethod
    def _require_safe_hours(cls, hours: int, info: ValidationInfo) -> int:
        if hours < _SAFE_HOURS and not info.data.get("allow_short_retention"):
            next_step = "If nothing else reads or writes the tables, also set allow_short_retention: true."
            raise SettingError("a run may still read the removed files", f"{_SAFE_HOURS} hours or more", next_step)
        return hours

    @field_validator("log_retain_days")
    @classmethod
    def _require_longer_log(cls, days: int, info: ValidationInfo) -> int:
        if days * 24 < info.data.get("retain_hours", 0):
            what = "the log would lose versions whose files are kept, so that they cannot be read"
            raise SettingError(what, "at least as long as retain_hours", "Raise log_retain_days.")
        return days

    @property
    def table_properties(self) -> dict[str, str]:
        """The Delta properties of every table."""
        return {
            "delta.deletedFileRetentionDuration": f"interval {self.retain_hours} hours",
            "delta.logRetentionDuration": f"interval {self.log_retain_days} days",
            # A platform may enable them by default, and not every engine reads them.
            "delta.enableDeletionVectors": "false",
            # Delta's default of 10 makes every tenth run write a checkpoint of every table, a second each.
            "delta.checkpointInterval": "100",
        }
