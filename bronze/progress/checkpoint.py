"""Bronze's position before a run: its version, its topics, and the streaming query's checkpoint.

A checkpoint that was partly lost or restored is worse than none. Spark would reuse a batch number of the table, and Delta
skips such a batch silently. If a checkpoint does not match the table, the query continues in another folder.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from bronze.progress import topic_registry
from lakehouse.delta import tables
from lakehouse.errors import TableMissingError
from lakehouse.table import BRONZE_RECORDS, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bronze.kafka.source import Offsets
    from bronze.progress.topic_registry import Topic
    from lakehouse.delta.tables import Streamed
    from lakehouse.run.context import Run


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's folder: the numbers of planned batches (`offsets`) and finished ones, and where the last planned ends."""

    folder: str
    number: int
    query_id: str | None
    offsets: Collection[int]
    commits: Collection[int]
    planned: Offsets | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the checkpoint has planned a batch."""
        return bool(self.offsets)

    def damage(self, streamed: Streamed | None) -> str | None:
        """Return why a query must not use it, or None if it may. `streamed` is the last micro-batch in the table.

        >>> from lakehouse.delta.tables import Streamed
        >>> whole = Checkpoint("/c", 1, "q", offsets={0, 1}, commits={0}, planned={"t": {0: 5}})
        >>> whole.damage(Streamed("q", 1, is_undone=False)), whole.damage(Streamed("q", 0, is_undone=False))
        (None, None)
        >>> whole.damage(Streamed("q", 2, is_undone=False))
        'the table holds batch 2, and it knows of none after 1'
        """
        if not (self.offsets or self.commits or self.query_id):
            return None
        if self.query_id is None:
            return "its metadata is gone or cut off"
        planned, done = max(self.offsets, default=-1), max(self.commits, default=-1)
        if self.is_begun and self.planned is None:
            return "its last offsets are cut off"
        if done not in (planned, planned - 1):
            return f"it planned batches up to {planned} and finished {done}"
        return self._unlike(streamed, planned, done) if streamed is not None else None

    def _unlike(self, streamed: Streamed, planned: int, done: int) -> str | None:
        if streamed.query_id != self.query_id:
            return "another one has written the table since" if done >= 0 else None
        if streamed.batch > planned:
            return f"the table holds batch {streamed.batch}, and it knows of none after {planned}"
        if streamed.batch < done or streamed.is_undone:
            return f"it finished batch {done}, and the table was put back to an earlier one"
        return None


@dataclass(frozen=True)
class BronzePosition:
    """Bronze's position; `streamed` is the last micro-batch in the table, and `topics` are by name in Kafka."""

    version: int
    streamed: Streamed | None
    topics: Mapping[str, Topic]
    checkpoint: Checkpoint

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever committed to the table. Every micro-batch commits, even that of an empty topic."""
        return self.version == 0

    @property
    def renamed(self) -> dict[str, str]:
        """Map Kafka's name to the name in the tables, for topics whose names differ."""
        return {name: topic.stored_as for name, topic in self.topics.items() if topic.stored_as != name}


def read_position(spark: SparkSession, run: Run, *, is_dry_run: bool = False) -> BronzePosition:
    """Read Bronze's position. Creates `bronze_topics` if it does not exist, unless this is a dry run.

    A `bronze_records` that does not exist raises a `TableMissingError`; in a dry run it counts as one without a commit.
    """
    bronze = run.table(BRONZE_RECORDS)
    is_there = not is_dry_run or tables.exists(spark, bronze)
    version, streamed = tables.streamed(spark, bronze) if is_there else (0, None)
    try:
        known = topic_registry.read(spark, run)
    except TableMissingError:
        if not is_dry_run:
            topic_registry.create(spark, run)
        known = topic_registry.of_records(spark, run) if version else {}
    return choose(spark, run, version, streamed, known)


def choose(
    spark: SparkSession, run: Run, version: int, streamed: Streamed | None, topics: Mapping[str, Topic]
) -> BronzePosition:
    """Choose the checkpoint to continue with: the topics' last one, or the next that is intact or does not exist yet.

    If the log has no micro-batch, the position's last one is what the table's transactions name for this checkpoint. Deletes
    and moves nothing.
    """
    damaged: dict[str, object] = {}
    number = max((topic.checkpoint for topic in topics.values()), default=1)
    while True:
        found = _read(spark, _folder(run, number), number)
        last = streamed
        if last is None and version and found.query_id is not None:
            last = tables.last_batch(spark, run.table(BRONZE_RECORDS), found.query_id)
        if (damage := found.damage(last)) is None:
            break
        damaged = {"checkpoint": found.folder, "why": damage}
        number += 1
    if damaged and found.query_id is None:
        run.report.event("bronze.checkpoint_set_aside", **damaged, goes_on_in=found.folder)
    return BronzePosition(version, last, topics, found)


def ends(spark: SparkSession, checkpoint: Checkpoint, streamed: Streamed | None) -> Offsets:
    """Return where the next batch starts, by topic and partition: after the last one in the table. Empty before the first."""
    if streamed is None or streamed.query_id != checkpoint.query_id or streamed.batch not in checkpoint.offsets:
        return {}
    file = f"{checkpoint.folder}/offsets/{streamed.batch}"
    return _ends(_texts(spark, [file]).get(str(streamed.batch))) or {}


def reached(spark: SparkSession, run: Run, position: BronzePosition) -> Offsets:
    """Return where the last checkpoint in use ends, see `ends`, or where it started if none of its batches is in the table.

    Empty if no checkpoint has planned a batch, or if the table was restored or is new, and may lack what one has read.
    """
    last, streamed = position.checkpoint, position.streamed
    if streamed is not None and streamed.is_undone:
        return {}
    for number in range(last.number, last.number - 1 if position.is_new else 0, -1):
        found = last if number == last.number else _read(spark, _folder(run, number), number)
        if found.is_begun:
            return ends(spark, found, streamed) or beginning(spark, found.folder)
    return {}


def beginning(spark: SparkSession, folder: str) -> Offsets:
    """Return the offsets that a query started with; Spark writes a zero byte and a format line before them."""
    found = [file for file in _files(spark, f"{folder}/sources/0") if file.endswith("/0")]
    text = _texts(spark, found).get("0", "") if found else ""
    try:
        return _offsets(text[text.index("{") :])
    except ValueError:
        return {}


def _folder(run: Run, number: int) -> str:
    return run.lakehouse.folder(f"_checkpoints/{BRONZE_RECORDS}{f'-{number}' if number > 1 else ''}")


def _read(spark: SparkSession, folder: str, number: int) -> Checkpoint:
    files = [path.split("/")[-2:] for path in _files(spark, folder)]
    offsets = {int(name) for kind, name in files if kind == "offsets" and name.isdecimal()}
    commits = {int(name) for kind, name in files if kind == "commits" and name.isdecimal()}
    last = max(offsets, default=-1)
    wanted = [f"{folder}/metadata" for _, name in files if name == "metadata"]
    wanted += [f"{folder}/offsets/{last}"] if offsets else []
    texts = _texts(spark, wanted) if wanted else {}
    return Checkpoint(folder, number, _query_id(texts.get("metadata")), offsets, commits, _ends(texts.get(str(last))))


def _query_id(metadata: str | None) -> str | None:
    try:
        return str(json.loads(metadata or "")["id"])
    except (ValueError, KeyError, TypeError):  # cut off
        return None


def _ends(offsets: str | None) -> Offsets | None:
    """Parse the offsets in a batch's file: a format line, one line for the batch, one for each source."""
    try:
        return _offsets((offsets or "").splitlines()[2])
    except (ValueError, IndexError):  # cut off
        return None


def _offsets(text: str) -> Offsets:
    return {name: {int(each): at for each, at in partitions.items()} for name, partitions in json.loads(text).items()}


def _files(spark: SparkSession, folder: str) -> list[str]:
    """List the non-empty files below a folder, with Spark's reader if only the cluster may have access to it."""
    if (local := local_path(folder)) is not None and local.is_dir():
        return [path.as_posix() for path in local.rglob("[!._]*") if path.is_file() and path.stat().st_size]
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)
        return [row["path"] for row in files.select("path").collect()]
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise


def _texts(spark: SparkSession, files: list[str]) -> dict[str, str]:
    local = [path for path in map(local_path, files) if path is not None and path.is_file()]
    if len(local) == len(files):
        return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in local}
    rows = spark.read.format("binaryFile").load(files).select("path", "content").collect()
    return {row["path"].rpartition("/")[2]: bytes(row["content"]).decode(errors="replace") for row in rows}
