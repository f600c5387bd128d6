"""The planner of operators' requests: each request is a load, planned like any other. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.silver import REJECTS, RETIRE, silver_records, stream_of
from lakehouse.delta import tables
from lakehouse.protocol.gold_rejects import ROW
from lakehouse.table import BRONZE_RECORDS
from silver import model
from silver.extract.schemas import with_schemas
from silver.requests import accept_topic_break, erase_key, gold_rejects, quarantine, reset_watermark, retire_streams
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


@dataclass(frozen=True)
class Answer:
    """The result of planning a request.

    Attributes:
        plan: The load that executes it; None if there is nothing to do.
        left: Records asked for that cannot be settled, by reason; see `silver.requests.quarantine.Choice`.
    """

    plan: Plan | None
    left: Mapping[str, int]


def plan_request(spark: SparkSession, run: Run, watermarks: Watermarks, claim: Mapping[str, Any]) -> Answer:
    """Plan a claim's request. The same claim, watermarks, rejects and Silver always give the same plan.

    Raises:
        UsageError: A watermark to be moved does not exist, or must not move to the requested value.
    """
    load_seq, rules, request = claim["load_seq"], Rules.from_json(claim["rules"]), Request.from_json(claim["request"])
    silver = before_load(spark, run, silver_records(), load_seq)
    choice = quarantine.Choice(model.REJECT.empty_table(), {})
    met = Streams(spark, run, watermarks)
    aside = ROW.empty_table()
    if request.accepted is not None:
        loads = accept_topic_break.stream_loads(request.accepted, watermarks)
    elif request.kind == RETIRE:
        loads = retire_streams.stream_loads(request.up_to_load_seq or 0, watermarks)
    elif request.reset is not None:
        met.resolve([request.reset.stream])
        loads = reset_watermark.stream_loads(request.reset, met.watermarks, rules, silver)
    elif request.erase is not None:
        bronze = run.table(BRONZE_RECORDS)
        whole = tables.read(spark, bronze, version=tables.version(spark, bronze))
        meant = erase_key.records(whole, request.erase, watermarks, load_seq)
        choice = erase_key.choose(meant, before_load(spark, run, REJECTS, load_seq), load_seq)
        loads = erase_key.stream_loads(meant, choice, with_schemas(spark, run, meant, rules), met)
    else:
        choice = quarantine.select_rejects(spark, request, before_load(spark, run, REJECTS, load_seq), silver, load_seq)
        aside = gold_rejects.select_rejects(spark, run, request, load_seq)
        met.resolve({*model.streams_of(choice.rows), *model.streams_of(aside)})
        loads = quarantine.stream_loads(choice, request.kind, met.watermarks)
        for row in aside.to_pylist():
            loads.setdefault(stream_of(row), ledger.load_of(stream_of(row), met.watermarks))
    watermarks = met.watermarks
    if not loads:
        return Answer(None, choice.left)
    plan = Plan(
        load_seq=load_seq,
        rules=rules,
        watermarks=watermarks,
        range=nothing_of_bronze(watermarks, claim["bronze_to_version"]),
        ledger=ledger.rows(loads, watermarks, claim, rules),
        rejects=model.REJECT.empty_table(),
        settled=choice.rows,
        settled_aside=aside,
        request=request,
    )
    return Answer(plan, choice.left)
