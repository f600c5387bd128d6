"""The commands that check and repair the tables: verify, restore, rebuild."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.requests import person
from jobs.process.context import open_job
from jobs.process.options import DEFAULT_CONFIG, AsJson, By, ConfigFile, DryRun, Overrides, Reason


def verify(
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file whole, and decide everything again.")] = False,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Prove the tables against each other, and name what is damaged."""
    from jobs.cli.verified import write_verified
    from pipelines import medallion

    with open_job(config, overrides) as job:
        found = medallion.verify(job, is_deep=deep)
    write_verified(found, as_json=as_json)


def restore(
    *,
    to: Annotated[int, typer.Option("--to", metavar="LOAD", min=1, help="The last load that stays.")],
    reason: Reason = "",
    by: By = None,
    dry_run: DryRun = False,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Take Silver, watermarks, rejects, the ledger and Gold back to a load, together.

    Bronze stays: the next run decides again what came after that load.
    """
    from jobs.cli.recovered import write_restored
    from pipelines import medallion

    with open_job(config, overrides) as job:
        done = medallion.restore(job, to=to, reason=reason, by=person(by), is_dry_run=dry_run)
    write_restored(done, as_json=as_json)


def rebuild(
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Put the result in place; else only show what changes.")] = False,
    reason: Reason = "",
    by: By = None,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Make Silver anew from Bronze under the config of today, and show each decision that changes.

    For a changed extractor, a changed policy, a damaged table. Gold follows with the next run.
    """
    from jobs.cli.recovered import write_rebuilt
    from pipelines import medallion

    with open_job(config, overrides) as job:
        done = medallion.rebuild(job, is_applied=apply, reason=reason, by=person(by))
    write_rebuilt(done, as_json=as_json)
