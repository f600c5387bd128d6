"""The commands for an operator's decisions: on quarantined records, watermarks, a key's records, gate runs and topics."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lakehouse.contracts.bronze import NEW, SAME
from lakehouse.contracts.gate import REJECTED, RELEASED, Decision
from lakehouse.contracts.silver import QUARANTINED, Quarantined
from lakehouse.errors import UsageError
from lakehouse.escape import printable
from lakehouse.table import Lakehouse
from silver.state.request import Erase, RecordFilter, Request, Reset
from tidemark.commands.tools import Call, group
from tidemark.process.options import By, DryRun, Key, KeyFile, KeyHex, Limit, Offset, Partition, Reason, Topic
from tidemark.process.output import MAX_TABLE_ROWS, cell, tell_left_out, write, write_json
from tidemark.process.requests import named_reason, to_filter
from tidemark.readers import quarantine, topics
from tidemark.runner.summary import with_first_streams, write_decided, write_gate_decision, write_gate_run

if TYPE_CHECKING:
    from bronze.progress.topic_breaks import Break
    from silver.state.request import Kind

QuarantineClass = Literal[Quarantined, "unmet"]
_CLASSES = f"One class only: {', '.join(QUARANTINED)}; unmet: kept out of Gold."
ClassOption = Annotated[QuarantineClass | None, typer.Option("--class", help=_CLASSES)]
TopicOption = Annotated[str | None, typer.Option("--topic", help="One topic only.")]
PartitionOption = Annotated[int | None, typer.Option("--partition", min=0, help="One partition only.")]
ProducerOption = Annotated[str | None, typer.Option("--producer", help="One producer only.")]
DaysOption = Annotated[float | None, typer.Option("--older-than", metavar="DAYS", min=0, help="Only records this old.")]
AllOption = Annotated[bool, typer.Option("--all", help="All records that wait; required if no filter is given.")]
RecordTopic = Annotated[str | None, typer.Argument(metavar="TOPIC", help="One record only: its topic, partition, offset.")]
RecordPartition = Annotated[int | None, typer.Argument(metavar="PARTITION", min=0, show_default=False)]
RecordOffset = Annotated[int | None, typer.Argument(metavar="OFFSET", min=0, show_default=False)]
_NUMBERING = "Whether a recreated topic has its old numbers."
GateRun = Annotated[str | None, typer.Option("--gate-run", metavar="ID", help="The gate run; refused if it is not the last.")]

watermark_app = group("watermark", "The watermarks: the highest accepted sequence of each stream.")
quarantine_app = group("quarantine", "Records that wait for a decision. Silver, or an expectation on Gold, kept them out.")
gate_app = group("gate", "The gate: what it found, and a decision where it failed.")
topic_app = group("topic", "The topics that were read. Continue one that was recreated, or that lost records.")


@watermark_app.command("show")
def watermark_show(*, limit: Limit = MAX_TABLE_ROWS, call: Call) -> None:
    """Show each stream's watermark: its highest accepted sequence."""
    from tidemark.readers.status import status, write_streams

    settings = call.settings()
    found = status(settings.pipeline, Lakehouse.of(settings), with_missing=False, most_streams=limit)
    if call.as_json:
        write_json(found["streams"])
        tell_left_out(len(found["streams"]), found["stream_count"], "streams")
    else:
        write_streams(found)


@quarantine_app.command("list")
def quarantine_list(
    *,
    kind: ClassOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    producer: ProducerOption = None,
    days: DaysOption = None,
    limit: Limit = MAX_TABLE_ROWS,
    call: Call,
) -> None:
    """List the records that wait, by class, stream and age."""
    wanted = RecordFilter(kind, topic, partition, None, producer, days)
    found, count = quarantine.held(Lakehouse.of(call.settings()), wanted, most=limit)
    call.show(found, lambda _: quarantine.write_held(found, count))
    tell_left_out(len(found), count, "records")


@quarantine_app.command("show")
def quarantine_show(topic: Topic, partition: Partition, offset: Offset, *, call: Call) -> None:
    """Show a record's bytes as Bronze holds them, and why it is where it is."""
    from tidemark.readers.why import why_with_record, write_why

    fate = why_with_record(Lakehouse.of(call.settings()), topic, partition, offset)
    if call.as_json:
        write_json(fate, is_whole=True)
        return
    write_why(fate)
    write("\n".join(["", *(f"{name:<12} {printable(cell(value))}" for name, value in fate["record"].items())]))


def _add_settling(kind: Kind, description: str) -> None:
    """Add `quarantine release` or `quarantine discard`, which select records in the same way."""

    @quarantine_app.command(kind, help=description)
    def settle(
        of_topic: RecordTopic = None,
        of_partition: RecordPartition = None,
        offset: RecordOffset = None,
        *,
        reason: Reason,
        kind_of: ClassOption = None,
        topic: TopicOption = None,
        partition: PartitionOption = None,
        producer: ProducerOption = None,
        days: DaysOption = None,
        everything: AllOption = False,
        by: By = None,
        dry_run: DryRun = False,
        call: Call,
    ) -> None:
        filters = RecordFilter(kind_of, topic, partition, None, producer, days)
        record = RecordFilter(topic=of_topic, partition=of_partition, offset=offset)
        wanted = to_filter(record, filters, everything=everything)
        _decide(call, Request(kind, *named_reason(reason, by), wanted=wanted), is_dry_run=dry_run)


_add_settling("release", "Let records into Silver, marked late, or into Gold. The next run audits and publishes them.")
_add_settling("discard", "Give records up: they stay listed, and in Bronze, and wait no more.")


@watermark_app.command("reset")
def watermark_reset(
    topic: Topic,
    partition: Partition,
    *,
    reason: Reason,
    producer: ProducerOption = None,
    to: Annotated[int | None, typer.Option("--to", metavar="SEQUENCE", min=0, max=2**63 - 1, help="The new watermark.")] = None,
    new_epoch: Annotated[bool, typer.Option("--new-epoch", help="The producer's numbers start over from now on.")] = False,
    by: By = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Move a stream's watermark to a sequence, or start a new epoch of it."""
    if to is None and not new_epoch:
        raise UsageError("There is nothing to reset the watermark to.", where="watermark reset", expected="--to or --new-epoch")
    reset = Reset(topic, partition, producer, to, is_new_epoch=new_epoch)
    _decide(call, Request("reset", *named_reason(reason, by), reset=reset), is_dry_run=dry_run)


def erase(
    *,
    topic: Annotated[str, typer.Option("--topic", help="The Kafka topic, in all its incarnations.")],
    reason: Reason,
    key: Key = None,
    key_hex: KeyHex = None,
    key_file: KeyFile = None,
    by: By = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Erase the records of a key in all tables. Rows stay; their contents are removed."""
    erase = Erase.of(topic, named_key("erase", key, key_hex, key_file))
    _decide(call, Request("erase", *named_reason(reason, by), erase=erase), is_dry_run=dry_run)


@gate_app.command("show")
def gate_show(
    *,
    rows: Annotated[int, typer.Option("--rows", min=1, max=200, help="How many rows to bring of each kind.")] = 20,
    call: Call,
) -> None:
    """Show the last gate run, and the rows behind what was not met."""
    from expectations import failing_rows

    with call.job() as job:
        found = failing_rows.describe_last_gate_run(job.spark, job.new_run(), job.settings.gate, rows=rows)
    call.show(found and {"pipeline": job.settings.pipeline, **found}, write_gate_run)


def _add_decision(verb: str, decision: str, description: str) -> None:
    @gate_app.command(verb, help=description)
    def decide(*, reason: Reason, gate_run: GateRun = None, by: By = None, dry_run: DryRun = False, call: Call) -> None:
        from pipelines.operate import gate_decision

        decided = Decision(decision, *named_reason(reason, by), gate_run_id=gate_run)
        done = call.run_alone(partial(gate_decision.decide, decision=decided, is_dry_run=dry_run))
        call.show(done, write_gate_decision)


_add_decision("release", RELEASED, "Publish the last gate run's loads although a budget or expectation was not met.")
_add_decision("reject", REJECTED, "Keep the last gate run's loads out of Gold for good. Silver keeps them, and runs go on.")


@topic_app.command("list")
def topic_list(*, call: Call) -> None:
    """List the topics as they were read first, and every break that was accepted."""
    call.show(topics.known(Lakehouse.of(call.settings())), topics.write_known)


@topic_app.command("accept")
def topic_accept(
    topic: Topic,
    *,
    same_numbering: Annotated[bool | None, typer.Option("--same-numbering/--new-numbering", help=_NUMBERING)] = None,
    reason: Reason,
    by: By = None,
    dry_run: DryRun = False,
    call: Call,
) -> None:
    """Continue a topic that was recreated, or that lost records before they were read.

    A topic that was recreated, copied or cut needs --same-numbering or --new-numbering. With the same numbering it continues
    the old one: a record that was accepted before with the same key and value is a duplicate, with other content a collision.
    A number must then name one record of its producer in the whole topic. With a new numbering every record counts as new.
    """
    from pipelines import medallion

    ask = partial(_ask_numbering, as_json=call.as_json)
    numbering = ask if same_numbering is None else SAME if same_numbering else NEW
    request = Request("accept", *named_reason(reason, by), wanted=RecordFilter(topic=topic))
    with call.job() as job:
        done = medallion.decide(job, request, is_dry_run=dry_run, numbering=numbering)
    call.show(done, topics.write_accepted)


def _ask_numbering(found: Break, *, as_json: bool) -> str | None:
    """Ask on the terminal whether a moved topic has its old numbers; None if nobody can be asked."""
    from bronze.progress.topic_breaks import NUMBERINGS

    if as_json or not sys.stdin.isatty():
        return None
    typer.echo(f"{found.what} {NUMBERINGS}", err=True)
    return SAME if typer.confirm("Same numbering?", default=found.is_cut or None, err=True) else NEW


def named_key(command: str, text: str | None, hexadecimal: str | None, file: str | None) -> bytes:
    """Read the key that one of the options gives; UsageError if not exactly one does. Errors do not repeat the key."""
    if (text, hexadecimal, file).count(None) != 2:  # noqa: PLR2004 -- exactly one of the three is given
        raise UsageError("It is not clear which key is meant.", where=command, expected="--key-file, --key or --key-hex")
    try:
        if file is not None:
            key = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            key = key.removesuffix(b"\n").removesuffix(b"\r") if key.endswith(b"\n") else key
        else:
            key = text.encode(errors="surrogateescape") if text is not None else bytes.fromhex(hexadecimal or "")
    except ValueError:
        raise UsageError("The key is not in hexadecimal.", where="--key-hex", expected="two digits to a byte") from None
    except OSError as error:
        raise UsageError("The key's file cannot be read.", where=f"--key-file {file}", observed=error.strerror) from None
    if not key:
        next_step = "Records without a key, or with an empty one, cannot be erased by it."
        raise UsageError("The key is empty.", where=command, expected="the key's bytes", next_step=next_step)
    return key


def _decide(call: Call, request: Request, *, is_dry_run: bool) -> None:
    from pipelines import medallion
    from pipelines.operate.requests import UNDECIDED

    with call.job() as job:
        done: dict[str, Any] = medallion.decide(job, request, is_dry_run=is_dry_run)
    call.show(with_first_streams(done), write_decided)
    if UNDECIDED in done["left"]:
        raise typer.Exit(1)  # the erasure is not whole
