"""Print what a restore or a rebuild did, or would do."""

from __future__ import annotations

from typing import Any

from jobs.process import output
from lakehouse.escape import printable


def write_restored(done: dict[str, Any], *, as_json: bool) -> None:
    """Print on stdout what a restore rolled back, or would roll back; or JSON."""
    if as_json:
        output.write_json(done)
        return
    verb = "Would take" if done["is_dry_run"] else "Took"
    number = f", as load {done['load_seq']}" if done["load_seq"] else ""
    output.write(f"{verb} all tables back to load {done['to']}{number}.")
    if done["undone"] is None:
        output.write("No later load was there.")
    else:
        first, last = done["undone"]
        gone = f"{done['records']:,} rows of silver_records and {done['rejects']:,} of silver_rejects"
        output.write(f"Loads {first} to {last} go, with {gone}. The next `tidemark run` decides their Bronze records again.")


def write_rebuilt(done: dict[str, Any], *, as_json: bool) -> None:
    """Print on stdout which decisions a rebuild changed, or would change; or JSON."""
    if as_json:
        output.write_json(done)
        return
    changed = sum(row["records"] for row in done["changes"])
    output.write(f"{done['records']:,} records of Bronze decided again: {changed:,} otherwise than before.")
    if done["changes"]:
        output.write_table(["before", "after", "records"], [list(row.values()) for row in done["changes"]])
        columns = [name for name in done["samples"][0] if any(row[name] is not None for row in done["samples"])]
        rows = [[row[name] for name in columns] for row in done["samples"]]
        output.write_table(columns, rows, title="The first of them")
    if done["repeated"]:
        output.write(f"Decisions of people that were done again: {done['repeated']}.")
    for each in done["not_repeated"]:
        output.write(f"Not done again: {printable(each)}")
    if done["is_applied"]:
        output.write(
            f"Put in place, as load {done['load_seq']}. The next `tidemark run` audits all of it and publishes it anew."
        )
    else:
        output.write(f"Nothing was put in place; --apply does. All changes are in {done['shadow']}.")
