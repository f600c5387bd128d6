"""Print what `tidemark verify` checked, and raise the first check that failed."""

from __future__ import annotations

from typing import Any

from jobs.process import output
from lakehouse.run.findings import Finding, require_sound


def write_verified(found: dict[str, Any], *, as_json: bool) -> None:
    """Print every check on stdout, as a table or JSON; then raise if one failed.

    Raises:
        TableStateError: A check failed; the error names the first.
    """
    if as_json:
        output.write_json(found)
    else:
        _write_text(found)
    require_sound(Finding(**check) for check in found["checks"])


def _write_text(found: dict[str, Any]) -> None:
    rows = [("ok" if each["ok"] else "NO", each["check"], each["observed"], each["where"]) for each in found["checks"]]
    output.write_table(["", "check", "observed", "where"], rows)
    if found["last_load_seq"] is None:
        output.write("The rest was not looked at: with these files it would be read wrong.")
        return
    output.write(
        f"Last finished load {found['last_load_seq']}, published {found['published_load_seq']}; {found['seconds']:.1f} s."
    )
    if found["open_claim"] is not None:
        output.write(f"Load {found['open_claim']} is claimed and not finished: the next run finishes it.")
