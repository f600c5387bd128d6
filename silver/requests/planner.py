"""The planner of operators' requests: each request is a load, planned like any other. Writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.contracts.silver import REJECTS, RETIRE, silver_records
from lakehouse.delta import tables
from lakehouse.table import BRONZE_RECORDS
from silver import model
from silver.extract.schemas import with_schemas
from silver.requests import erase_key, quarantine, watermark_changes
from silver.rules import Rules
from silver.state import ledger
from silver.state.plan import Plan, nothing_of_bronze
from silver.state.request import Request
from silver.state.streams import Streams
from silver.state.tables import before_load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from silver.state.watermarks import Watermarks


class Answer(NamedTuple):
    """The load that executes a request, None if there is nothing to do; `left`: see `quarantine.Choice`."""

    plan: Plan | None
    left: Mapping[str, int]


def plan_request(spark: SparkSession, run: Run, watermarks: Watermarks, claim: Mapping[str, Any]) -> Answer:
    """Plan a claim's request. The same claim, watermarks, rejects and Silver always give the same plan.

    Raises:
        UsageError: A watermark to be moved does not exist, or must not move to the requested value.
    """
    load_seq, rules, request = claim["load_seq"], Rules.from_json(claim["rules"]), Request.from_json(claim["request"])
    choice, streams = quarantine.Choice(), Streams(spark, run, watermarks)
    if request.accepted is not None:
        loads = watermark_changes.accept(request.accepted, watermarks)
    elif request.kind == RETIRE:
        loads = watermark_changes.retire(request.up_to_load_seq or 0, watermarks)
    elif request.reset is not None:
        silver = before_load(spark, run, silver_records(), load_seq)
        loads = watermark_changes.reset(request.reset, streams.resolve([request.reset.stream]), rules, silver)
    elif request.erase is not None:
        bronze = run.table(BRONZE_RECORDS)
        whole = tables.read(spark, bronze, version=tables.version(spark, bronze))
        meant = erase_key.records(whole, request.erase, watermarks, load_seq)
        choice = erase_key.select_rejects(meant, before_load(spark, run, REJECTS, load_seq), load_seq)
        loads = erase_key.stream_loads(meant, choice, with_schemas(spark, run, meant, rules), streams)
    else:
        choice = quarantine.select_rejects(spark, run, request, load_seq, rules)
        resolved = streams.resolve({*model.streams_of(choice.rows), *model.streams_of(choice.in_gold)})
        loads = quarantine.stream_loads(choice, request.kind, resolved)
    if not loads:
        return Answer(None, choice.left)
    plan = Plan(
        load_seq=load_seq,
        rules=rules,
        watermarks=streams.watermarks,
        range=nothing_of_bronze(streams.watermarks, claim["bronze_to_version"]),
        ledger=ledger.rows(loads, streams.watermarks, claim, rules),
        rejects=model.REJECT.empty_table(),
        settled=choice.rows,
        settled_in_gold=choice.in_gold,
        request=request,
    )
    return Answer(plan, choice.left)
