"""`tidemark status`: what the tables say about streams, classes, the gate and Gold."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.bronze import UNREADABLE
from lakehouse.contracts.gate import CRITICAL, PASSED
from lakehouse.contracts.gold import UNMET
from lakehouse.contracts.silver import CLASSES, STREAM
from lakehouse.escape import printable
from silver.rules import Rules
from tidemark.process import output
from tidemark.readers import database as query
from tidemark.readers import topics as topics_read

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse
    from tidemark.readers.database import Rows, Tables

_SUMS = ", ".join(f'coalesce(sum("{name}"), 0)::BIGINT AS "{name}"' for name in ("records", *CLASSES))

_STREAMS = """
    SELECT topic, partition, producer, epoch, high_watermark, last_offset, load_seq, updated_at, rules_fingerprint
    FROM silver_watermarks ORDER BY topic, partition, producer NULLS FIRST LIMIT $most
"""
_PARTITIONS = """
    SELECT topic, partition, count(*) AS streams, max(high_watermark) AS high_watermark, max(last_offset) AS last_offset,
        max(load_seq) AS load_seq
    FROM silver_watermarks GROUP BY ALL ORDER BY topic, partition
"""
_TOTALS = f"SELECT {_SUMS} FROM silver_loads"  # noqa: S608 -- as above
_LAST_LOAD = f"""
    SELECT load_seq, any_value(run_id) AS run_id, max(claimed_at) AS claimed_at, {_SUMS}
    FROM silver_loads WHERE load_seq = (SELECT max(load_seq) FROM silver_loads) GROUP BY load_seq
"""  # noqa: S608 -- as above
_RULES = "SELECT any_value(rules) AS rules FROM silver_loads WHERE load_seq = (SELECT max(load_seq) FROM silver_loads)"
_REJECTS = """
    SELECT class, state, sum(records)::BIGINT AS records, count(*) AS "rows" FROM silver_rejects GROUP BY ALL ORDER BY 1, 2
"""
_KEPT_ASIDE = """
    SELECT state, count(*) AS records FROM gold_rejects SEMI JOIN gold_stream_health USING (load_seq, gate_run_id)
    GROUP BY state ORDER BY state
"""
_GATE = """
    SELECT gate_run_id, first_load_seq, last_load_seq, evaluated_at, expectation, "column", severity, outcome,
        observed, expected
    FROM gate_results
    WHERE gate_run_id = (SELECT gate_run_id FROM gate_results ORDER BY evaluated_at DESC, gate_run_id DESC LIMIT 1)
    ORDER BY severity, expectation, "column"
"""
_DECISIONS = "SELECT gate_run_id, decision, reason, decided_by, decided_at FROM gate_decisions"
_PUBLISHED = """
    SELECT load_seq, any_value(gate_run_id) AS gate_run_id, max(published_at) AS published_at
    FROM gold_stream_health WHERE load_seq = (SELECT max(load_seq) FROM gold_stream_health) GROUP BY load_seq
"""
_MISSING = f"""
    SELECT topic, partition, producer, least(sum(sequences), {2**63 - 1})::BIGINT AS sequences, count(*) AS ranges
    FROM silver_missing GROUP BY ALL ORDER BY topic, partition, producer NULLS FIRST LIMIT $most
"""  # noqa: S608 -- as above
_MISSING_COUNT = "SELECT count(DISTINCT (topic, partition, producer)) AS streams FROM silver_missing"
_SKIPPED = f"""
    SELECT topic, max_by(reason, known_since) AS reason, max(known_since) AS since
    FROM bronze_topics GROUP BY topic HAVING max_by(cause, known_since) = '{UNREADABLE}' ORDER BY topic
"""  # noqa: S608 -- as above

_MOST_SENTENCES = 20


def status(
    pipeline: str,
    lakehouse: Lakehouse,
    *,
    topics: Collection[str] = (),
    with_missing: bool = True,
    most_streams: int | None = None,
) -> dict[str, Any]:
    """Return the fields of `tidemark.answers.Status`, without those of the lag; what does not exist yet is empty or None.

    Skipped topics are those of `topics`. `with_missing` finds the missing sequences of contiguous streams, which reads Silver's
    records. At most `most_streams` streams are listed; None lists all. TidemarkError if a table cannot be read.
    """
    with query.connect(lakehouse) as tables:
        last = next(iter(tables.rows_if_any(_LAST_LOAD)), None)  # before the watermarks: a load moves them last
        partitions = tables.rows_if_any(_PARTITIONS)
        advanced = max((row["load_seq"] for row in partitions), default=0)
        most = {"most": query.ALL if most_streams is None else most_streams}
        streams = tables.rows_if_any(_STREAMS, most) if most_streams != 0 else []
        for row in streams:
            accepted = {"epoch": row["epoch"], "sequence": row["high_watermark"]}
            row["last_accepted"] = None if row["high_watermark"] is None else accepted
        missing = tables.rows_if_any(_MISSING, most) if with_missing else []
        missing_count = tables.rows_if_any(_MISSING_COUNT) if with_missing else []
        skipped = tables.rows_if_any(_SKIPPED) if topics else []
        return {
            "pipeline": pipeline,
            "lakehouse": lakehouse.name,
            "streams": streams,
            "stream_count": sum(row["streams"] for row in partitions),
            "partitions": partitions,
            "incarnations": topics_read.incarnations(tables.rows_if_any(topics_read.KNOWN)),
            "missing": missing,
            "missing_count": missing_count[0]["streams"] if missing_count else 0,
            "totals": tables.rows(_TOTALS)[0] if last else None,
            "last_load": last,
            "unfinished_load": last["load_seq"] if last and last["load_seq"] > advanced else None,
            "grown": _grown(tables),
            "rejects": tables.rows_if_any(_REJECTS),
            "kept_aside": tables.rows_if_any(_KEPT_ASIDE),
            "gate": _gate(tables.rows_if_any(_GATE), tables.rows_if_any(_DECISIONS)),
            "published": next(iter(tables.rows_if_any(_PUBLISHED)), None),
            "skipped_topics": [row for row in skipped if row["topic"] in topics],
        }


def read_grown(lakehouse: Lakehouse) -> Rows:
    """Read the `grown` of a status alone, from the last claim in the ledger."""
    with query.connect(lakehouse) as tables:
        return _grown(tables)


def write_status(found: dict[str, Any]) -> None:
    """Print a status as text on stdout."""
    output.write(f"Pipeline {found['pipeline']} in {found['lakehouse']}")
    if found["last_load"]:
        write_streams(found)
        names = ["records", *(name for name in CLASSES if found["totals"][name])]
        rows = [{"": "last load", **found["last_load"]}, {"": "all loads", **found["totals"]}]
        output.write_rows(rows, ["", *names], title="Records by class")
        output.write("\n".join(["", *sentences(found)]))
    else:
        output.write("Silver holds no load yet: `tidemark run` brings the first.")
    for each in found["skipped_topics"]:
        output.write(f"Skipped: topic {each['topic']} since {output.moment(each['since'])}. {output.shown(each['reason'])}")
    if "lag" in found:
        from tidemark.readers.lag import write_lag

        write_lag(found)


def write_streams(found: dict[str, Any]) -> None:
    """Print the watermarks of a status as a table on stdout, and on stderr how many streams it leaves out."""
    output.write_rows(found["streams"], (*STREAM, "epoch", "high_watermark", "last_offset", "load_seq"), title="Streams")
    output.tell_left_out(len(found["streams"]), found["stream_count"], "streams")


def _grown(tables: Tables) -> Rows:
    """Return the topics that got partitions, until a load has decided all that was sent before."""
    found = [each for row in tables.rows_if_any(_RULES) if row["rules"] for each in Rules.from_json(row["rules"]).grown]
    return [{"topic": topic, **each.shown} for topic, each in found if each.mark is None]


def added(row: dict[str, Any]) -> str:
    """Say what is compared across the partitions of a topic that got some, of `grown` in a status."""
    return f"Topic {output.shown(row['topic'])} has {row['partitions']:,} partitions, once {row['before']:,}. {row['compared']}"


def _gate(results: Rows, decisions: Rows) -> dict[str, Any] | None:
    if not results:
        return None
    unmet = [result for result in results if result["outcome"] != PASSED]
    names = ("expectation", "column", "severity", "outcome", "observed", "expected")
    return {
        **{name: results[0][name] for name in ("gate_run_id", "first_load_seq", "last_load_seq")},
        "evaluated_at": max(result["evaluated_at"] for result in results),
        "passed": not any(result["severity"] == CRITICAL for result in unmet),
        "decision": next((row for row in decisions if row["gate_run_id"] == results[0]["gate_run_id"]), None),
        "expectations": len(results),
        "unmet": [{name: result[name] for name in names} for result in unmet],
    }


def sentences(found: dict[str, Any]) -> list[str]:
    """Return the rest of the status in sentences, for a pipeline that has a load."""
    last, gate, published = found["last_load"], found["gate"], found["published"]
    lines = [f"Last load: {last['load_seq']}, claimed {output.moment(last['claimed_at'])} by run {last['run_id']}."]
    if found["unfinished_load"]:
        lines.append(f"Load {found['unfinished_load']} was claimed and is not finished: the next run finishes it.")
    lines += [added(row) for row in found["grown"]]
    lines.append(f"Kept out: {_held(found['rejects']) or 'nothing'}.")
    if aside := found["kept_aside"]:
        lines.append(f"Kept out of Gold: {_held([{**row, 'class': UNMET} for row in aside])}.")
    current = {printable(each["topic"]): topics_read.in_words(each) for each in found["incarnations"]}
    moved = [f"Topic {topic} has several incarnations: now {now}." for topic, now in current.items()]
    lines += moved[:_MOST_SENTENCES]
    lacking = found["missing"][:_MOST_SENTENCES]
    lines += [f"Missing: {_missing(row)}; see silver_missing." for row in lacking]
    if (more := found["missing_count"] - len(lacking)) > 0:
        lines.append(f"Missing: sequences of {more:,} streams more; see silver_missing.")
    if gate is None:
        lines.append("Gate: has not run.")
    else:
        loads = f"loads {gate['first_load_seq']} to {gate['last_load_seq']}"
        verdict = "passed" if gate["passed"] else "FAILED"
        lines.append(f"Gate: {verdict} for {loads}, {gate['expectations']} expectations, {len(gate['unmet'])} not met.")
        lines += [f"  {each['severity']}: {_unmet(each)}" for each in gate["unmet"]]
        if gate["decision"]:
            lines.append(f"  It was {output.decided(gate['decision'])}.")
        elif not gate["passed"]:
            lines.append("  See `tidemark gate show`; `tidemark gate release` or `reject` decides.")
    lines.append(f"Gold: published up to load {published['load_seq']}." if published else "Gold: nothing is published.")
    return lines


def _held(rejects: Rows) -> str:
    return ", ".join(f"{row['records']:,} {row['class']} ({row['state']})" for row in rejects)


def _missing(row: dict[str, Any]) -> str:
    stream = "/".join(output.shown(row[name]) for name in STREAM if row[name] is not None)
    return f"{row['sequences']:,} sequences of {stream} in {row['ranges']:,} ranges"


def _unmet(result: dict[str, Any]) -> str:
    what = " ".join(part for part in (result["expectation"], result["column"]) if part)
    observed, expected = output.shown(result["observed"]), output.shown(result["expected"])
    return f"{output.shown(what)} {result['outcome']}; observed {observed}, expected {expected}"
