"""The commands for topics: list them, and accept a break."""

from __future__ import annotations

from jobs.cli.requests import named_reason
from jobs.cli.tools import Call, group, need_command
from jobs.process.options import By, DryRun, Reason, TopicArgument
from lakehouse.table import Lakehouse

topic_app = group("The topics that were read. Where one was created anew or lost records: going on with it.")
topic_app.callback(invoke_without_command=True)(need_command)


@topic_app.command("list")
def topic_list(*, call: Call) -> None:
    """List the topics as they were read first, and every break that was accepted."""
    from jobs.readers import topics

    settings = call.settings()
    found = topics.known(Lakehouse.of(settings))
    call.show(found, topics.write_known)


@topic_app.command("accept")
def topic_accept(
    topic: TopicArgument,
    *,
    reason: Reason,
    by: By = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Continue a topic that was recreated, or that lost records before they were read."""
    from jobs.readers import topics
    from pipelines import medallion
    from silver.state.request import RecordFilter, Request

    request = Request("accept", *named_reason(reason, by), wanted=RecordFilter(topic=topic))
    with call.job() as job:
        done = medallion.decide(job, request, is_dry_run=dry_run)
    call.show(done, topics.write_accepted)
