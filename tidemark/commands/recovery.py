"""The commands that keep the tables: verify, restore, rebuild, maintain."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from lakehouse.errors import UsageError
from lakehouse.escape import printable
from lakehouse.run.findings import Check, require_sound
from tidemark.commands.requests import named_key
from tidemark.commands.tools import Call
from tidemark.process import output
from tidemark.process.options import By, DryRun, Key, KeyFile, KeyHex, Reason
from tidemark.process.requests import person
from tidemark.runner.summary import write_left_shadows

_MIB = 2**20


def verify(
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file whole, and decide everything again.")] = False,
    call: Call,
) -> None:
    """Prove the tables against each other, and name what is damaged."""
    from pipelines import medallion

    with call.job() as job:
        found = medallion.verify(job, is_deep=deep)
    write_verified(found, as_json=call.as_json)


def restore(
    *,
    to: Annotated[int, typer.Option("--to", metavar="LOAD", min=1, help="The last load that stays.")],
    reason: Reason = "",
    by: By = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Take Silver and Gold back to a load.

    With watermarks, rejects and the ledger, together. Bronze stays: the next run decides again what came after that load.
    """
    from pipelines.recover import restore as restoring

    done = call.run_alone(partial(restoring.restore, to=to, reason=reason, by=person(by), is_dry_run=dry_run))
    call.show(done, write_restored)


def rebuild(
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Put the result in place; else only show what changes.")] = False,
    reason: Reason = "",
    by: By = None,
    call: Call,
) -> None:
    """Rebuild Silver from Bronze with the current config.

    Shows each decision that changes. For a changed extractor or policy, or a damaged table.
    Gold follows with the next run.
    """
    from pipelines.recover import rebuild as rebuilding

    done = call.run_alone(partial(rebuilding.rebuild, apply=apply, reason=reason, by=person(by)))
    call.show(done, write_rebuilt)


def write_restored(done: dict[str, Any]) -> None:
    """Print on stdout what a restore took back, or would take back."""
    verb = "Would take" if done["is_dry_run"] else "Took"
    number = f", as load {done['load_seq']}" if done["load_seq"] else ""
    output.write(f"{verb} all tables back to load {done['to']}{number}.")
    if done["undone"] is None:
        output.write("There was no later load.")
    else:
        first, last = done["undone"]
        gone = f"{done['records']:,} rows of silver_records and {done['rejects']:,} of silver_rejects"
        output.write(f"Loads {first} to {last} go, with {gone}. The next `tidemark run` decides their Bronze records again.")


def write_rebuilt(done: dict[str, Any]) -> None:
    """Print on stdout which decisions a rebuild changed, or would change."""
    changed = sum(row["records"] for row in done["changes"])
    output.write(f"{done['records']:,} records of Bronze decided again: {changed:,} changed.")
    if done["changes"]:
        output.write_rows(done["changes"], ("before", "after", "records"))
        output.write_rows(done["samples"], title="The first of them", hidden=(None,))
    if done["payload_fields"]:
        fields = [{name: value or "none" for name, value in row.items()} for row in done["payload_fields"]]
        output.write_rows(fields, ("field", "before", "after"), title="All values are decoded again, into other fields")
    if done["repeated"]:
        output.write(f"Decisions of people that were done again: {done['repeated']}.")
    for each in done["not_repeated"]:
        output.write(f"Not done again: {printable(each)}")
    if done["is_applied"]:
        output.write(f"Put in place, as load {done['load_seq']}. The next `tidemark run` audits and publishes all of it again.")
    else:
        output.write(f"Nothing was put in place; --apply does. All changes are in {done['shadow']}.")


def write_verified(found: dict[str, Any], *, as_json: bool) -> None:
    """Print every check on stdout, as a table or JSON; then raise a TableStateError for the first that failed."""
    if as_json:
        output.write_json(found)
    else:
        _write_checks(found)
    require_sound(Check(**check) for check in found["checks"])


def _write_checks(found: dict[str, Any]) -> None:
    rows = [("ok" if each["ok"] else "NO", each["check"], each["observed"], each["where"]) for each in found["checks"]]
    output.write_table(["", "check", "observed", "where"], rows)
    if found["last_load_seq"] is None:
        output.write("The rest was not looked at: with these files it would be read wrong.")
        return
    loads = f"Last finished load {found['last_load_seq']}, published {found['published_load_seq']}"
    output.write(f"{loads}; {found['seconds']:.1f} s.")
    if found["open_claim"] is not None:
        output.write(f"Load {found['open_claim']} is claimed and not finished: the next run finishes it.")


def maintain(
    *,
    erase: Annotated[bool, typer.Option("--erase", help="Finish an erasure, and prove that the key is gone.")] = False,
    key: Key = None,
    key_hex: KeyHex = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Merge small files, and remove those of old versions. A pipeline may run meanwhile."""
    from pipelines import medallion

    if not erase and (key, key_hex, key_file) != (None, None, None):
        raise UsageError("A key is given without --erase.", where="maintain", expected="--erase with the key")
    sought = named_key("maintain --erase", key, key_hex, key_file) if erase else None
    do: Any = medallion.maintain if sought is None else partial(medallion.forget, key=sought)
    with call.job() as job:
        done = do(job, is_dry_run=dry_run)
    call.show(done, _write_maintained if sought is None else _write_erased)
    if sought is not None and not done["is_proven"]:
        raise typer.Exit(1)


def _write_erased(done: dict[str, Any]) -> None:
    output.write_rows(done["tables"], ("table", "removed_files", "removed_log_files", "key_rows", "old_files"))
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
    is_dry_run = done["is_dry_run"]
    rows = [
        (
            each["table"],
            each["files_before"],
            f"{each['small_files']} small" if is_dry_run else each["files_after"],
            f"{each['bytes_before' if is_dry_run else 'bytes_after'] / _MIB:,.1f}",
            each["removed_files"],
            f"{each['seconds']:.1f}",
            "; ".join([*(f"set {name}" for name in each["properties"]), *each["skipped"]]),
        )
        for each in done["tables"]
    ]
    after, removed = ("to be put together", "to be removed") if is_dry_run else ("files after", "removed")
    output.write_table(["table", "files", after, "MiB", removed, "seconds", ""], rows)
