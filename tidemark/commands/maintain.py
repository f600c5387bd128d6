"""The command that maintains the tables."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakehouse.errors import UsageError
from tidemark.commands.requests import named_key
from tidemark.commands.tools import Call
from tidemark.process.options import DryRun, KeyFileOption, KeyHexOption, KeyOption

_MIB = 2**20


EraseOption = Annotated[
    bool,
    typer.Option("--erase", help="Bring an erasure to its end: remove every old version, and prove that the key is gone."),
]


def maintain(
    *,
    erase: EraseOption = False,
    key: KeyOption = None,
    key_hex: KeyHexOption = None,
    key_file: KeyFileOption = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Put small files together, and remove those of old versions. Beside a running pipeline too."""
    from pipelines import medallion

    if not erase and (key, key_hex, key_file) != (None, None, None):
        raise UsageError("A key is named, and nothing to do with it.", where="maintain", expected="--erase beside it")
    sought = named_key("maintain --erase", key, key_hex, key_file) if erase else None
    if sought is not None:
        with call.job() as job:
            ended = medallion.forget(job, sought, is_dry_run=dry_run)
        call.show(ended, _write_ended)
        if not ended["is_proven"]:
            raise typer.Exit(1)
        return
    with call.job() as job:
        done = medallion.maintain(job, is_dry_run=dry_run)
    call.show(done, _write_maintained)


def _write_ended(done: dict[str, Any]) -> None:
    from tidemark.process import output
    from tidemark.runner.summary import write_left_shadows

    columns = ["table", "removed_files", "removed_log_files", "key_rows", "old_files"]
    output.write_table(columns, [[each[name] for name in columns] for each in done["tables"]])
    if done["is_proven"]:
        output.write("No record has the key, and of these tables only the current version is left.")
    if any(each["key_rows"] for each in done["tables"]):
        output.write("Records have the key. `tidemark erase` takes it out of them; then run this again.")
    if any(each["old_files"] is None for each in done["tables"]):
        output.write(
            "It is not proven which files are left: the tables are a catalog's, which keeps their files, or a log is damaged "
            "(`tidemark verify`). Delta cleans a catalog's logs by whole days."
        )
    for each in done["tables"]:
        if each["old_files"]:
            first = output.shown(each["old_file"])
            output.write(f"{each['table']} has files of earlier versions, or foreign ones. The first: {first}")
    write_left_shadows(done["left_shadows"])


def _write_maintained(done: dict[str, Any]) -> None:
    from tidemark.process import output

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
    output.write_table(["table", "files", after, "MiB", removed, "seconds", ""], rows)
