"""The commands for topics: list them, and accept a break."""

from __future__ import annotations

from jobs.cli.requests import named_reason
from jobs.cli.tools import group, need_command
from jobs.process.context import load_settings, open_job
from jobs.process.options import DEFAULT_CONFIG, AsJson, By, ConfigFile, DryRun, Overrides, Reason, TopicArgument
from lakehouse.table import Lakehouse

topic_app = group("The topics that were read. Where one was created anew or lost records: going on with it.")
topic_app.callback(invoke_without_command=True)(need_command)


@topic_app.command("list")
def topic_list(*, config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """List the topics as they were read first, and every break that was accepted."""
    from jobs.process import output
    from jobs.readers import topics

    settings = load_settings(config, overrides)
    found = topics.known(Lakehouse.of(settings))
    output.write_json(found) if as_json else topics.write_known(found)


@topic_app.command("accept")
def topic_accept(
    topic: TopicArgument,
    *,
    reason: Reason,
    by: By = None,
    dry_run: DryRun = False,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a topic that was created anew, or lost records before they were read."""
    from jobs.process import output
    from jobs.readers import topics
    from pipelines import medallion
    from silver.state.request import RecordFilter, Request

    request = Request("accept", *named_reason(reason, by), wanted=RecordFilter(topic=topic))
    with open_job(config, overrides) as job:
        done = medallion.decide(job, request, is_dry_run=dry_run)
    output.write_json(done) if as_json else topics.write_accepted(done)
