"""`tidemark why`: what became of one Kafka record, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.bronze import plain_topic
from lakehouse.contracts.gate import CRITICAL, REJECTED
from lakehouse.contracts.silver import ACCEPTED, COLLISION, DUPLICATE, INVALID, JUMP, LATE, RELEASED, WHY, problem_in_words
from lakehouse.errors import TidemarkError
from lakehouse.escape import printable
from lakehouse.settings.base import nearest
from silver.extract import one_record
from silver.rules import Rules
from tidemark.process import output
from tidemark.readers import database as query
from tidemark.readers import topics

if TYPE_CHECKING:
    from lakehouse.table import Lakehouse

    Row = dict[str, Any]

UNDECIDED = "undecided"
_MOST_TOPICS = 20

RULES = {**WHY, UNDECIDED: "Silver has not loaded it yet; the next run decides it"}
_NOT_FOUND: Row = {
    "class": UNDECIDED,
    **dict.fromkeys(("producer", "epoch", "sequence", "reason", "state", "arrival", "load_seq", "settled_load_seq")),
}

_AT = "topic = $topic AND partition = $partition"
_SAME = "producer IS NOT DISTINCT FROM $producer AND epoch = $epoch"
_HERE = f'{_AT} AND "offset" = $offset'
_RECORD = f"SELECT *, count(*) OVER () AS copies FROM bronze_records WHERE {_HERE} LIMIT 1"  # noqa: S608 -- our own conditions
_READ = 'SELECT topic, partition, max("offset") AS last_offset FROM bronze_records GROUP BY ALL ORDER BY topic, partition'
_ELSEWHERE = """
    SELECT DISTINCT topic FROM bronze_records
    WHERE list_contains($others, topic) AND partition = $partition AND "offset" = $offset ORDER BY topic
"""
_KEPT = f"SELECT * FROM silver_records WHERE {_HERE}"  # noqa: S608 -- as above
_PASSED_BY = f"""
    SELECT "offset", sequence FROM silver_records
    WHERE {_AT} AND {_SAME} AND load_seq = $load_seq AND "offset" < $offset AND sequence > $sequence
    ORDER BY sequence DESC LIMIT 1
"""  # noqa: S608 -- as above
_OUT = f"""
    SELECT producer, epoch, class, reason, first_sequence AS sequence, load_seq, state, settled_load_seq FROM silver_rejects
    WHERE {_AT} AND $offset BETWEEN first_offset AND last_offset
"""  # noqa: S608 -- as above
_LOAD = f"""
    SELECT load_seq, run_id, claimed_at, bronze_after_version, bronze_to_version, rules, producer, epoch_before,
        high_watermark_before, epoch_after, high_watermark_after
    FROM silver_loads WHERE {_AT} AND coalesce(last_offset_before, -1) < $offset AND last_offset >= $offset
    ORDER BY load_seq
"""  # noqa: S608 -- as above
_SETTLED = (
    "SELECT load_seq, kind, reason, requested_by, run_id, claimed_at FROM silver_loads WHERE load_seq = $load_seq LIMIT 1"
)
_FIRST = f"""
    SELECT topic, partition, "offset", "table", load_seq, timestamp FROM (
        SELECT topic, partition, "offset", 'silver_records' AS "table", load_seq, timestamp, '{LATE}' AS class
        FROM silver_records WHERE {{at}} AND {_SAME} AND sequence = $sequence
        UNION ALL
        SELECT topic, partition, first_offset, 'silver_rejects', load_seq, NULL, class
        FROM silver_rejects WHERE {{at}} AND {_SAME} AND first_sequence = $sequence AND {{is_known}}
    )
    -- A jump that waited was known to the loads of version 0.1 only.
    ORDER BY "table", class = '{JUMP}', load_seq, "offset" LIMIT 1
"""  # noqa: S608 -- as above
_WINNER = _FIRST.format(at=_AT, is_known=f"class IN ('{LATE}', '{JUMP}') AND first_offset < $offset")
_EARLIER_WINNER = _FIRST.format(at="list_contains($earlier, topic)", is_known=f"class = '{LATE}'")
_GATE = f"""
    SELECT gate_run_id, max(silver_version) AS silver_version, max(evaluated_at) AS evaluated_at,
        bool_and(success OR severity <> '{CRITICAL}') AS passed
    FROM gate_results WHERE first_load_seq <= $load_seq AND last_load_seq >= $load_seq
        AND ($gate_run_id IS NULL OR gate_run_id = $gate_run_id)
    GROUP BY gate_run_id ORDER BY evaluated_at DESC LIMIT 1
"""  # noqa: S608 -- as above
_DECISION = f"""
    SELECT gate_run_id, decision, reason, decided_by, decided_at FROM gate_decisions
    WHERE first_load_seq <= $load_seq AND last_load_seq >= $load_seq
    ORDER BY decision = '{REJECTED}' DESC, decided_at DESC LIMIT 1
"""  # noqa: S608 -- as above
_PUBLISHED = """
    SELECT any_value(gate_run_id) AS gate_run_id, max(published_at) AS published_at
    FROM gold_stream_health WHERE load_seq = $load_seq HAVING count(*) > 0
"""
_ASIDE = f"""
    SELECT reason, state, gate_run_id, settled_load_seq
    FROM gold_rejects SEMI JOIN gold_stream_health USING (load_seq, gate_run_id) WHERE {_HERE}
"""  # noqa: S608 -- as above


def why(lakehouse: Lakehouse, topic: str, partition: int, offset: int) -> dict[str, Any]:
    """Return what became of one record, without the record itself; see `why_with_record`."""
    fate = why_with_record(lakehouse, topic, partition, offset)
    del fate["record"]
    return fate


def why_with_record(lakehouse: Lakehouse, topic: str, partition: int, offset: int) -> dict[str, Any]:
    """Return the fields of `tidemark.answers.Fate`, None for those that do not apply; TidemarkError if Bronze lacks it."""
    at = {"topic": topic, "partition": partition, "offset": offset}
    with query.connect(lakehouse) as tables:

        def rows(sql: str, **more: Any) -> list[Row]:
            return tables.rows_if_any(sql, {**at, **more})

        def first(sql: str, **more: Any) -> Row | None:
            return next(iter(rows(sql, **more)), None)

        def settled_by(load_seq: int | None) -> Row | None:
            return None if load_seq is None else first(_SETTLED, load_seq=load_seq)

        record = first(_RECORD)
        known = [each for each in topics.incarnations(rows(topics.KNOWN)) if each["topic"] == plain_topic(topic)]
        others = [each["stored_as"] for each in known if each["stored_as"] != topic]
        elsewhere = [row["topic"] for row in rows(_ELSEWHERE, others=others)] if others else []
        if record is None:
            raise _not_there(topic, partition, offset, rows(_READ), elsewhere)
        loads = rows(_LOAD)
        kept = first(_KEPT)
        found = _found(kept, rows(_OUT), loads, record)
        load = next(
            (row for row in loads if (row["load_seq"], row["producer"]) == (found["load_seq"], found["producer"])), None
        )
        rules = Rules.from_json(load["rules"]) if load else None
        settled = settled_by(found["settled_load_seq"])
        winner, gate, decision, published, passed_by = None, None, None, None, None
        key = {name: found[name] for name in ("producer", "epoch", "sequence", "load_seq")}
        if found["class"] in {DUPLICATE, COLLISION}:
            winner = first(_WINNER, **key)
            earlier = list(dict(rules.continues).get(topic, ())) if rules else []
            if winner is None and earlier:
                winner = first(_EARLIER_WINNER, **key, earlier=earlier)
        if LATE in {found["class"], found["arrival"]}:
            passed_by = first(_PASSED_BY, **key)
        if load:
            brought = settled["load_seq"] if settled else load["load_seq"]
            decision = first(_DECISION, load_seq=brought)
            gate_run_id = decision and decision["gate_run_id"]
            gate = first(_GATE, load_seq=brought, gate_run_id=gate_run_id)
            published = first(_PUBLISHED, load_seq=brought)
        aside = first(_ASIDE)
        if aside:
            aside["settled"] = settled_by(aside.pop("settled_load_seq"))
    copies = record.pop("copies")
    is_undecodable = bool(kept and kept["value"] is not None and "payload" in kept and kept["payload"] is None)
    is_unread = is_undecodable or found["class"] == INVALID
    own = next((each for each in known if each["stored_as"] == topic), None)
    return {
        **at,
        "incarnation": own and {**own, "same_offset": elsewhere},
        "timestamp": record["timestamp"],
        "timestamp_ms": record.get("timestamp_ms"),  # a Bronze of version 0.1 has no such column until the next run
        **{name: found[name] for name in ("producer", "epoch", "sequence", "class")},
        "rule": (found["class"] == INVALID and problem_in_words(found["reason"] or "")) or RULES[found["class"]],
        **{name: found[name] for name in ("reason", "state", "arrival")},
        "copies": copies,
        "erased_load_seq": record["erased"] and record["erased"]["load_seq"],
        "is_undecodable": is_undecodable,
        "misfit": one_record.explain(rules, record, found["reason"]) if rules and is_unread else None,
        "load": load and {name: value for name, value in load.items() if name not in {"rules", "producer"}},
        "passed_by": passed_by,
        "settled": settled,
        "winner": winner,
        "gate": gate,
        "decision": decision,
        "published": published,
        "aside": aside,
        "record": record,
    }


def _not_there(topic: str, partition: int, offset: int, read: list[Row], elsewhere: list[str]) -> TidemarkError:
    """Explain why Bronze does not hold a record: who has its offset, or the last offset of each topic and partition."""
    error = partial(TidemarkError, where=f"topic {topic}, partition {partition}, offset {offset}")
    if elsewhere:
        what = "This incarnation of the topic has no such record; another one has."
        return error(what, observed=", ".join(elsewhere), next_step=_ask(elsewhere, partition, offset))
    topics = sorted({row["topic"] for row in read})
    last = {row["partition"]: row["last_offset"] for row in read if row["topic"] == topic}
    if not read:
        return error("Nothing was read yet.", observed="no records in Bronze", next_step="tidemark run")
    if not last:
        near = nearest(topic, topics)
        way_out = f"Did you mean {near}?" if near else "`tidemark topic list` shows what is read."
        known = ", ".join(topics[:_MOST_TOPICS])
        return error("Nothing was read of this topic.", expected=f"one of {known}", next_step=way_out)
    if partition not in last:
        return error("Nothing was read of this partition.", expected=f"one of {', '.join(map(str, last))}")
    if offset > last[partition]:
        observed = f"the last one that was read has offset {last[partition]}"
        return error("The record was not read yet.", observed=observed, next_step="If Kafka has it, `tidemark run` brings it.")
    return error(
        "Bronze holds no such record.",
        observed=f"Bronze has read this partition up to offset {last[partition]}",
        next_step="Kafka's offsets have gaps where a log was compacted or a transaction ended, and begin where "
        "kafka.starting_offsets says.",
    )


def write_why(found: Mapping[str, Any]) -> None:
    """Print the explanation as text on stdout."""
    place = f"Topic {printable(found['topic'])}, partition {found['partition']}, offset {found['offset']}"
    named = [f"{name} {output.shown(found[name])}" for name in ("producer", "epoch", "sequence") if found[name] is not None]
    output.write(f"{place} ({', '.join(named) or 'no sequence'}): {found['class']}.")
    why_not = f" ({printable(found['reason'])})" if found["reason"] else ""
    output.write(f"Because {found['rule']}{why_not}.")
    if found["misfit"]:
        what, _, why_so = found["misfit"].partition(": ")
        output.write(printable(f"Its value is {why_so}." if what == "the value" else f"Of its value, {found['misfit']}."))
    output.write("\n".join(_sentences(found)))


def _ask(names: list[str], partition: int, offset: int) -> str:
    return ", ".join(f"`tidemark why {printable(name)} {partition} {offset}`" for name in names)


def _sentences(found: Mapping[str, Any]) -> list[str]:
    lines = []
    settled, winner, own = found["settled"], found["winner"], found["incarnation"]
    if own:
        lines.append(f"The topic has several incarnations: this record is of {topics.in_words(own)}.")
        if own["same_offset"]:
            asked = _ask(own["same_offset"], found["partition"], found["offset"])
            lines.append(f"Another incarnation has that offset too: {asked}.")
    if winner:
        is_here = (winner["topic"], winner["partition"]) == (found["topic"], found["partition"])
        elsewhere = "" if is_here else f"topic {winner['topic']}, partition {winner['partition']}, "
        place = f"{elsewhere}offset {winner['offset']}, in {winner['table']}, load {winner['load_seq']}"
        lines.append(f"The record that was there first: {printable(place)}.")
    if found["erased_load_seq"] is not None:
        lines.append(f"Its key, value and headers were erased by load {found['erased_load_seq']}.")
    if found["state"] and found["state"] != RELEASED:
        lines.append(f"It is kept out of Silver; its state is {found['state']}. What is left of it is in bronze_records.")
    if settled:
        lines.append(f"It was {found['state']} {_by_whom(settled)}.")
    if found["arrival"] == LATE:
        lines.append("It is in silver_records, marked late.")
    if found["is_undecodable"]:
        lines.append("Its value is not of the format that `value` names: payload is null, and value holds the bytes.")
    if found["copies"] > 1:
        lines.append(f"Bronze holds it {found['copies']} times; all but one are replays.")
    return lines + _of_load(found) if found["load"] else lines


def _of_load(found: Mapping[str, Any]) -> list[str]:
    load, gate, decision, published, aside = (found[name] for name in ("load", "gate", "decision", "published", "aside"))
    before, after = (_mark(load, when) for when in ("before", "after"))
    versions = f"Bronze versions {load['bronze_after_version'] + 1} to {load['bronze_to_version']}"
    lines = [
        f"Load {load['load_seq']}, claimed {output.moment(load['claimed_at'])} by run {load['run_id']}, from {versions}.",
        f"Watermark before the load: {before}, after: {after}.",
    ]
    if passed := found["passed_by"]:
        lines.append(f"It came after offset {passed['offset']} of the same load, which had moved it to {passed['sequence']}.")
    if gate:
        verdict = "passed" if gate["passed"] else "FAILED"
        lines.append(f"Gate run {gate['gate_run_id']} on Silver version {gate['silver_version']}: {verdict}.")
    if decision:
        lines.append(f"The load was {output.decided(decision)}.")
    is_kept_out = found["state"] is not None and found["state"] != RELEASED
    said = "What its load accepted was published" if is_kept_out else "Published"
    lines.append(f"{said} by gate run {published['gate_run_id']}." if published else "The load is not published.")
    if aside:
        reason = printable(aside["reason"])
        lines.append(f"It was kept out of Gold: {reason} was not met. Its state there is {aside['state']}.")
        if aside["settled"]:
            lines.append(f"It was {aside['state']} {_by_whom(aside['settled'])}.")
    return lines


def _by_whom(settled: Mapping[str, Any]) -> str:
    who, why = (output.shown(settled[name]) for name in ("requested_by", "reason"))
    return f"by {who} in load {settled['load_seq']}, {output.moment(settled['claimed_at'])}: {why}"


def _mark(load: Mapping[str, Any], when: str) -> str:
    mark, epoch = load[f"high_watermark_{when}"], load[f"epoch_{when}"]
    return "none" if mark is None else f"{mark} (epoch {epoch})" if epoch else str(mark)


def _found(kept: Row | None, out: list[Row], loads: list[Row], record: Row) -> Row:
    """Return the record's row in Silver or the rejects, with its class, stream, epoch and sequence."""
    released = next((row for row in out if row["state"] == RELEASED), None)
    if released:
        return {**released, "arrival": LATE}
    if kept:
        name = LATE if kept["arrival"] == LATE else ACCEPTED
        return {**kept, "class": name, "reason": None, "state": None, "settled_load_seq": None}
    if not out:
        return _NOT_FOUND
    producer, epoch, sequence = one_record.key(Rules.from_json(loads[0]["rules"]), record) if loads else (None, None, None)
    # Producers share a partition's offsets, so the offset ranges of several may contain this one.
    row = next((row for row in out if row["producer"] == producer), out[0])
    if row["class"] == DUPLICATE:  # the row is a block, and holds its first sequence
        row["sequence"] = sequence
    return {**row, "epoch": row["epoch"] if row["epoch"] is not None else epoch, "arrival": None}
