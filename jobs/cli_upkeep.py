"""The commands that keep the tables in order."""

from __future__ import annotations

from typing import Any

from jobs.cli_decisions import DryRun
from jobs.cli_tools import AsJson
from jobs.common import DEFAULT_CONFIG, ConfigFile, Overrides, load_settings, maintain_once, open_session, reporting

_MIB = 2**20


def maintain(
    *, dry_run: DryRun = False, config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False
) -> None:
    """Put small files together, remove those of old versions; beside a running pipeline too."""
    from jobs.show import write_json

    settings = load_settings(config, overrides)
    with reporting() as report:
        done = maintain_once(open_session(settings, report), settings, report, is_dry_run=dry_run)
    write_json(done) if as_json else _write_maintained(done)


def _write_maintained(done: dict[str, Any]) -> None:
    from jobs import show

    rows = [
        (
            each["table"],
            each["files_before"],
            f"{each['small_files']} small" if done["is_dry_run"] else each["files_after"],
            f"{(each['bytes_before'] if done['is_dry_run'] else each['bytes_after']) / _MIB:,.1f}",
            each["removed_files"],
            f"{each['seconds']:.1f}",
            "; ".join([*(f"set {name}" for name in each["properties"]), *each["skipped"]]),
        )
        for each in done["tables"]
    ]
    after = "to be put together" if done["is_dry_run"] else "files after"
    removed = "to be removed" if done["is_dry_run"] else "removed"
    show.write_table(["table", "files", after, "MiB", removed, "seconds", ""], rows)
