"""The commands for the gate: show what it found, and decide a failed gate run."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.contracts.gate import REJECTED, RELEASED
from tidemark.commands.tools import Call, group, need_command
from tidemark.process.options import DryRun
from tidemark.process.requests import named_reason

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in gate_decisions.")]
By = Annotated[
    str | None, typer.Option("--by", help="Who decides; kept in gate_decisions. The user of this machine by default.")
]
GateRunOption = Annotated[
    str | None, typer.Option("--gate-run", metavar="ID", help="The gate run that is meant; refused where it is not the last.")
]

gate_app = group("The gate: what it found, and a decision where it failed.")
gate_app.callback(invoke_without_command=True)(need_command)


@gate_app.command("show")
def gate_show(
    *,
    rows: Annotated[int, typer.Option("--rows", min=1, max=200, help="How many rows to bring of each kind.")] = 20,
    call: Call,
) -> None:
    """Show the last gate run, and the rows behind what was not met."""
    from pipelines import medallion
    from tidemark.readers import gate

    with call.job() as job:
        found = medallion.show_gate(job, rows=rows)
    call.show(found, gate.write_gate_run)


def _add_decision(verb: str, decision: str, description: str) -> None:
    @gate_app.command(verb, help=description)
    def decide(*, reason: Reason, gate_run: GateRunOption = None, by: By = None, dry_run: DryRun = False, call: Call) -> None:
        from lakehouse.contracts.gate import Decision
        from pipelines import medallion
        from tidemark.readers import gate

        asked = Decision(decision, *named_reason(reason, by), gate_run_id=gate_run)
        with call.job() as job:
            done = medallion.decide_gate_run(job, asked, is_dry_run=dry_run)
        call.show(done, gate.write_gate_decision)


_add_decision(
    "release", RELEASED, "Publish the last gate run's loads although a budget or an expectation of yours was not met."
)
_add_decision(
    "reject", REJECTED, "Keep the last gate run's loads out of Gold for good; the gate goes on behind them. Silver keeps them."
)
