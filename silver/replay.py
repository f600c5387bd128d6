"""Decide Silver again: replay all loads of the ledger into a shadow of Silver's tables, and list what changes.

The loads are decided from Bronze, under the current rules. Consecutive loads of records become one, because decisions are by
offset and not by load. Operators' requests are repeated between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse.contracts.silver import ACCEPTED, CUTOVERS, DUPLICATE, IN_ORDER, PLACE, REJECTS, RELEASED, RETIRE, silver_records
from lakehouse.delta import small_tables, tables
from lakehouse.errors import UsageError
from lakehouse.spark import frames
from lakehouse.table import GOLD_REJECTS
from silver.load import planner as planning
from silver.load import steps as load
from silver.requests import planner
from silver.state.ledger import Plan, shared_columns
from silver.state.request import Request
from silver.state.watermarks import Watermarks

if TYPE_CHECKING:
    from lakehouse.contracts.contract import Contract
    from lakehouse.run.context import Run
    from lakehouse.settings.payload_schema import Type
    from silver.rules import Rules

Row = dict[str, Any]

_SAID = ("decision", "producer", "epoch", "sequence")
NOTHING = "nothing"


class Step(NamedTuple):
    """One load of the replay: the ledger's rows that it replays, and the operator's request, if it is one."""

    rows: Sequence[Row]
    request: Request | None = None

    @property
    def last_load(self) -> int:
        """The last load that the step replays."""
        return int(self.rows[-1]["load_seq"])


@dataclass
class Replayed:
    """The result of a replay: the number of loads in the shadow, and the state after the last of them.

    `repeated` counts the repeated requests; `not_repeated` lists the others with the reason. `erasures` are the plans of the
    repeated erasures, which did not change Bronze. `reached` has the shadow's last load after each replayed load of the ledger.
    """

    loads: int = 0
    watermarks: Watermarks = field(default_factory=lambda: Watermarks({}))
    bronze_version: int = -1
    repeated: int = 0
    not_repeated: list[str] = field(default_factory=list)
    erasures: list[Plan] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)

    def take(self, planned: Plan) -> None:
        """Record a load that was replayed."""
        self.loads = planned.load_seq
        self.watermarks = self.watermarks.after(planned.ledger)
        self.bronze_version = planned.range.to_version
        if planned.request is not None and planned.request.erase is not None:
            self.erasures.append(planned)

    def translate(self, request: Request, load_seq: int) -> Request:
        """Translate a request's load numbers to the shadow's; an erasure keeps the number that Bronze knows."""
        if request.erase is not None:
            return replace(request, erase=replace(request.erase, load_seq=request.erase.load_seq or load_seq))
        request = replace(request, published_to=None)  # the gate audits again what to keep out of Gold
        if request.up_to_load_seq is None:
            return request
        reached = [own for other, own in self.reached.items() if other <= request.up_to_load_seq]
        return replace(request, up_to_load_seq=max(reached, default=0))


def steps(ledger: Iterable[Row]) -> list[Step]:
    """Group the ledger's rows, with all columns and in the order of loads, into the steps of a replay."""
    loads = [list(rows) for _, rows in groupby(ledger, key=lambda row: row["load_seq"])]
    loads = [rows for rows in loads if rows[0]["kind"] not in (*CUTOVERS, RETIRE)]  # a retirement changes no decision
    requests = [Request.from_json(rows[0]["request"]) if rows[0]["request"] else None for rows in loads]
    named = {request.up_to_load_seq for request in requests if request is not None}
    found: list[Step] = []
    for rows, request in zip(loads, requests, strict=True):
        if found and found[-1].request is None and request is None and found[-1].last_load not in named:
            found[-1] = Step([*found[-1].rows, *rows])
        else:
            found.append(Step(rows, request))
    return found


def replay(spark: SparkSession, shadow: Run, rules: Rules, found: Iterable[Step]) -> Replayed:
    """Run the steps over the shadow's empty tables; commits to them, and raises, as any load does."""
    done = Replayed()
    for step in found:
        planned = (_plan_records if step.request is None else _plan_request)(spark, shadow, rules, done, step)
        if planned is not None and planned.ledger:
            load.claim(spark, shadow, planned)
            load.apply_claim(spark, shadow, planned)
            done.take(planned)
            shadow.report.event("rebuild.replayed", up_to_load_seq=step.last_load, load_seq=planned.load_seq)
        done.reached[step.last_load] = done.loads
    return done


def _plan_records(spark: SparkSession, shadow: Run, rules: Rules, done: Replayed, step: Step) -> Plan:
    claim = _claim(shadow, rules, done, step, step.rows[-1]["bronze_to_version"])
    return planning.replan_range(spark, shadow, done.watermarks, claim, rows=step.rows)


def _plan_request(spark: SparkSession, shadow: Run, rules: Rules, done: Replayed, step: Step) -> Plan | None:
    _report_gold(spark, shadow, done, step)
    claim = _claim(shadow, rules, done, step, done.bronze_version)
    try:
        planned = planner.plan_request(spark, shadow, done.watermarks, claim)
    except UsageError as error:
        done.not_repeated.append(f"load {step.last_load} ({claim['kind']}): {error.what}")
        return None
    done.repeated += 1
    return planned


def _report_gold(spark: SparkSession, shadow: Run, done: Replayed, step: Step) -> None:
    """Report the request's records that an expectation kept out of Gold, which a shadow lacks."""
    table = shadow.table(GOLD_REJECTS)
    if step.request is None or step.request.published_to is None or not tables.exists(spark, table):
        return
    settled = small_tables.read(spark, table, ("settled_load_seq",), start=("settled_load_seq", step.last_load))
    if records := sum(row["settled_load_seq"] == step.last_load for row in settled):
        done.not_repeated.append(
            f"load {step.last_load} ({step.request.kind}): {records} records that an expectation had kept out of Gold; "
            "the gate audits them again"
        )


def _claim(shadow: Run, rules: Rules, done: Replayed, step: Step, to_version: int) -> dict[str, Any]:
    request = done.translate(step.request, step.last_load) if step.request else None
    claim = shared_columns(shadow, rules, (done.bronze_version, to_version), load_seq=done.loads + 1, request=request)
    return {**claim, "claimed_at": step.rows[-1]["claimed_at"]}


def changed_decisions(spark: SparkSession, live: Run, shadow: Run) -> DataFrame:
    """Return the records whose decision, producer, epoch or sequence differs.

    Grain: a Kafka record. Columns: topic, partition, offset; before and after (string: accepted, duplicate, class and state, or
    `nothing`); producer, epoch and sequence with `_before` and `_after`, null for a duplicate.
    """
    before, after = (_read(spark, run, REJECTS) for run in (live, shadow))
    old = _decided(_read(spark, live, silver_records()), before).withColumnsRenamed({name: f"{name}_before" for name in _SAID})
    new = _decided(_read(spark, shadow, silver_records()), after).withColumnsRenamed({name: f"{name}_after" for name in _SAID})
    said = [F.struct(*(f"{name}_{when}" for name in _SAID)) for when in ("before", "after")]
    rows = old.join(new, on=list(PLACE), how="full").where(~said[0].eqNullSafe(said[1]))
    rows = _with_blocks(_with_blocks(rows, before, "decision_before"), after, "decision_after")
    numbers = [f"{name}_{when}" for name in _SAID[1:] for when in ("before", "after")]
    return rows.select(*PLACE, F.col("decision_before").alias("before"), F.col("decision_after").alias("after"), *numbers)


def _read(spark: SparkSession, run: Run, contract: Contract) -> DataFrame:
    """Read a table; empty if it is lost."""
    found = tables.open_if_exists(spark, run.table(contract.name))
    return frames.of_contract(spark, [], contract) if found is None else found


def _decided(records: DataFrame, rejects: DataFrame) -> DataFrame:
    arrival = F.when(F.col("arrival") == IN_ORDER, F.lit(ACCEPTED)).otherwise(F.lit("late, kept"))
    kept = records.select(*PLACE, arrival.alias("decision"), *_SAID[1:])
    decision = F.concat_ws(", ", "class", "state").alias("decision")
    out = rejects.where((F.col("class") != DUPLICATE) & (F.col("state") != RELEASED))
    numbers = (F.col("first_offset").alias("offset"), decision, "producer", "epoch", F.col("first_sequence").alias("sequence"))
    return kept.unionByName(out.select("topic", "partition", *numbers))


def _with_blocks(rows: DataFrame, rejects: DataFrame, name: str) -> DataFrame:
    """Fill in null decisions: such a record is in a block of duplicates, or nowhere."""
    ends = F.col("first_offset").alias("offset"), F.col("last_offset").alias("block_end")
    blocks = rejects.where(F.col("class") == DUPLICATE).select("topic", "partition", *ends)
    up_to_here = Window.partitionBy("topic", "partition").orderBy("offset").rangeBetween(Window.unboundedPreceding, 0)
    is_in_block = F.max("block_end").over(up_to_here) >= F.col("offset")  # blocks may overlap
    decision = F.when(is_in_block, F.lit(DUPLICATE)).otherwise(F.lit(NOTHING))
    filled = rows.unionByName(blocks, allowMissingColumns=True).withColumn(name, F.coalesce(name, decision))
    return filled.where(F.col("block_end").isNull()).drop("block_end")


def changed_fields(before: Iterable[Rules], after: Rules) -> list[dict[str, str | None]]:
    """Return the payload's fields that earlier loads decoded differently: rows of field, and its types before and after.

    >>> from lakehouse.extract.sources import Source
    >>> from silver.rules import Payload, Rules
    >>> schemas = ("a INT", "a INT, b STRUCT<c: DATE>")
    >>> one, other = (Rules(Source("offset"), payload=Payload("json", schema)) for schema in schemas)
    >>> changed_fields([one, other], other), changed_fields([other], other)
    ([{'field': 'b.c', 'before': None, 'after': 'DATE'}], [])
    """
    earlier, now = [dict(_fields(rules.payload_type)) for rules in before], dict(_fields(after.payload_type))
    rows = []
    for name in sorted({name for fields in (*earlier, now) for name in fields}):
        others = {fields.get(name) for fields in earlier} - {now.get(name)}
        if others:
            types = None if None in others else ", ".join(sorted(map(str, others)))
            rows.append({"field": name, "before": types, "after": now.get(name)})
    return rows


def _fields(kind: Type | None, path: str = "") -> Iterator[tuple[str, str]]:
    if kind is None:
        return
    if kind.kind != "struct":
        yield path or "payload", kind.sql()
    for each in kind.fields:
        yield from _fields(each.type, f"{path}.{each.name}" if path else each.name)
