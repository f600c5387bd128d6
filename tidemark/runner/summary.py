"""Print what a run, the gate or a request did, and what a plan would do."""

from datetime import UTC, datetime
from typing import Any, Literal, get_args

from lakehouse.contracts.gate import REJECTED, RESTART_QUESTION, RESTART_SUSPECTED
from lakehouse.escape import json_text, printable
from tidemark.process import output

Stage = Literal["bronze", "silver", "gate", "gold"]
STAGES: tuple[str, ...] = get_args(Stage)


def write_result(result: dict[str, Any], *, as_json: bool) -> None:
    """Print a run's result on stdout: a line per stage, or all as one line of JSON."""
    if as_json:
        output.write(json_text(output.plain(result)))
        return
    output.write(f"{result['pipeline']} {result['run_id']}, {result['seconds']:.1f} s")
    for stage in STAGES:
        if result.get(stage) is not None:
            output.write(f"  {stage:<7} {summary(_brought(result[stage]) if stage == 'bronze' else result[stage])}")
    if f"budget_{RESTART_SUSPECTED}" in (result.get("gate") or {}).get("warned", ()):
        output.write(f"Warning: {RESTART_QUESTION} `tidemark status` names the streams.")


def write_minute(minute: dict[str, Any], *, every: float | None) -> None:
    """Print the sums of a minute on stdout as one line; warn if runs take longer than `--every`."""
    slow = f"; warning: runs take longer than --every {every:g}" if every and every < minute["longest_run_seconds"] else ""
    output.write(f"{datetime.now(UTC):%H:%M} {summary(minute)}{slow}")


def _brought(bronze: dict[str, Any]) -> dict[str, Any]:
    result = {name: value for name, value in bronze.items() if name not in ("from_version", "to_version")}
    first, last = bronze["from_version"] + 1, bronze["to_version"]
    return result if last < first else {**result, "versions" if first < last else "version": _range(first, last)}


def _range(first: int, last: int) -> str:
    return f"{first} to {last}" if first < last else str(first)


def with_first_streams(found: dict[str, Any], most: int = output.MAX_TABLE_ROWS) -> dict[str, Any]:
    """Return a plan, or what a request did, with at most `most` of its streams, and their count."""
    return {**found, "streams": found["streams"][:most], "stream_count": len(found["streams"])}


def write_plan(planned: dict[str, Any]) -> None:
    """Print a plan on stdout: the values of the whole load, a line per stream, and the first rejects of each class."""
    if planned.get("other_topics"):
        others = ", ".join(planned["other_topics"])
        output.write(output.shown(f"Bronze holds topics that kafka.topics does not name; no load decides them: {others}"))
    if planned["load_seq"] is not None:
        output.write(_of_load(planned))
    streams, left_out = planned["streams"], planned["stream_count"] - len(planned["streams"])
    if streams:
        output.write_rows(streams, hidden=(None, 0))
    if left_out:
        output.write(f"{left_out:,} streams more; --limit {planned['stream_count']} shows all.")
    if planned["kept_out"]:
        output.write_rows(planned["kept_out"], title="Kept out: the first of each class", hidden=(None,))
    for trip in planned["breaker"]:
        observed = f"{trip['where']}: {trip['observed']}, where {trip['expected']} would be let through"
        output.write(output.shown(f"The breaker would stop this load. {trip['what']} ({observed})"))
    if not streams and not planned["breaker"]:
        output.write("There is nothing to load.")


def _of_load(planned: dict[str, Any]) -> str:
    """Return what a planned load takes.

    >>> of_bronze = {"bronze_after_version": 3, "bronze_to_version": 5}
    >>> _of_load({"load_seq": 7, "is_repeat": False, "records": 1500, **of_bronze})
    'The next load is load 7: 1,500 records, of versions 4 to 5 of bronze_records.'
    >>> _of_load({"load_seq": 7, "is_repeat": True, "records": 1, **of_bronze})
    'Load 7 was claimed and not finished. The next run finishes it: 1 record, of versions 4 to 5 of bronze_records.'
    """
    number, first = planned["load_seq"], planned.get("bronze_after_version")
    began = f"Load {number} was claimed and not finished. The next run finishes it"
    begin = began if planned["is_repeat"] else f"The next load is load {number}"
    if first is None:  # the breaker opened before anything was read
        return f"{begin}."
    last = planned["bronze_to_version"]
    versions = f"version{'s' if first + 1 < last else ''} {_range(first + 1, last)}"
    return f"{begin}: {_records(planned['records'])}, of {versions} of bronze_records."


_DONE = {"release": "Released", "discard": "Discarded", "reset": "Reset", "erase": "Erased"}
_LEFT = {
    "no_sequence": "without a sequence that could be read, which Silver needs",
    "already_kept": "with a sequence that Silver holds already",
}
_UNDECIDED = (
    "Not erased: {} in bronze_records that no load has decided. Either kafka.topics does not name their topic: put it back. "
    "Or the breaker is open: `tidemark plan` says why. Then `tidemark run --stage silver`, and erase again."
)
_KEPT = (
    "Old versions of the tables hold the bytes until `tidemark maintain` removes them, from {old_versions} on, and Delta "
    "cleans their logs, from {log} on. `tidemark maintain --erase --key-file FILE` does both now, and proves it. "
    "Kafka and backups hold the bytes on terms of their own. A copy that is sent again lands in bronze_records: erase again."
)


def write_decided(done: dict[str, Any]) -> None:
    """Print on stdout what a release, discard, reset or erasure did, or would do."""
    verb = f"Would {done['kind']}" if done["is_dry_run"] else _DONE[done["kind"]]
    is_done = done["load_seq"] is not None
    output.write(f"{verb} {_what(done)}, as load {done['load_seq']}." if is_done else "There is nothing to do.")
    for why, records in done["left"].items():
        if why in _LEFT:
            output.write(f"Left in quarantine: {_records(records)} {_LEFT[why]}. `tidemark quarantine discard` gives them up.")
        else:
            output.write(_UNDECIDED.format(_records(records)))
    write_left_shadows(done.get("left_shadows"))
    if done["streams"]:
        output.write_rows(done["streams"])
    for name, title in (
        ("first_load", "Before the new epoch this would be loaded:"),
        ("next_load", "The next load would then be:"),
    ):
        if done.get(name):
            output.write(f"\n{title}")
            write_plan(with_first_streams(done[name]))
    if is_done and not done["is_dry_run"]:
        if done["kind"] == "release":
            output.write("The next `tidemark run` audits and publishes them.")
        if done["kind"] == "erase":
            output.write(_KEPT.format(**done["left_until"]))


def _what(done: dict[str, Any]) -> str:
    if done["kind"] == "reset":
        return "a watermark"
    if done["kind"] == "erase":
        given_up = f", {done['records']:,} of them given up from quarantine" if done["records"] else ""
        return f"what {_records(done['erased'])} held{given_up}"
    return f"{_records(done['records'])} ({summary(done['classes'])})"


def write_left_shadows(folder: str | None) -> None:
    """Print where a rebuild's shadows may be left, if any."""
    if folder:
        output.write(f"A rebuild that was not applied may have left tables in {folder}, with the key: remove that folder.")


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def summary(found: dict[str, Any]) -> str:
    """Return names and values in one line, without those that are null, zero or empty.

    >>> summary({"load_seq": 3, "records": 12000, "late": 0, "failed": [], "passed": True})
    'load seq 3, records 12,000, passed true'
    """
    return ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in found.items() if value or value is False)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return f"({summary(value)})"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(_short, value)) if isinstance(value, list) else output.shown(value)


def write_gate_run(found: dict[str, Any] | None) -> None:
    """Print a gate run on stdout: its verdict and decision, its expectations, and the rows behind those not met."""
    if found is None:
        output.write("The gate has not run yet: `tidemark run` does that.")
        return
    loads = f"loads {found['first_load_seq']} to {found['last_load_seq']}, Silver version {found['silver_version']}"
    verdict = "passed" if found["passed"] else "FAILED"
    output.write(f"Gate run {found['gate_run_id']} on {loads}, {output.moment(found['evaluated_at'])}: {verdict}.")
    if found["decision"]:
        output.write(f"It was {output.decided(found['decision'])}.")
    elif found["waits"] and not found["passed"]:
        output.write('It waits for you: `tidemark gate release --reason "..."` or `tidemark gate reject --reason "..."`.')
    output.write_rows(found["expectations"], ("severity", "outcome", "expectation", "column", "observed", "expected"))
    for result in found["expectations"]:
        name = " ".join(part for part in (result["expectation"], result["column"]) if part)
        for each in result["behind"]:
            output.write_rows(each["rows"], title=printable(f"{name}: {each['what']}"))
        if result["note"]:
            output.write(printable(f"\n{name}: {result['note']}"))


def write_gate_decision(done: dict[str, Any]) -> None:
    """Print on stdout what a release or rejection did, or would do."""
    would = "Would reject" if done["decision"] == REJECTED else "Would release"
    verb = would if done["is_dry_run"] else done["decision"].capitalize()
    loads = f"loads {done['first_load_seq']} to {done['last_load_seq']} of gate run {done['gate_run_id']}"
    output.write(f"{verb} {loads}, with {done['records']:,} records, although not met: {', '.join(done['expectations'])}.")
    if done["published"]:
        output.write(f"Published: {done['published']['records']:,} records are in gold_records.")
    if done["decision"] == REJECTED:
        output.write("Gold does not get them. Silver keeps them, and the next gate run audits what comes after them.")
