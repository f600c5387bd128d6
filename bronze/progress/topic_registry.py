"""The table `bronze_topics`: a row when reading a topic starts, per accepted break, and when a run begins to skip it.

It survives a lost checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.bronze import BEGUN, GROWN, SAME, TOPICS, UNREADABLE, LostRange, plain_topic
from lakehouse.delta import small_tables, tables
from lakehouse.errors import TableMissingError
from lakehouse.spark import frames
from lakehouse.table import BRONZE_RECORDS, BRONZE_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.errors import SourceError
    from lakehouse.run.context import Run


@dataclass(frozen=True)
class Growth:
    """Partitions that a topic got while it was read: their number before and now, and when a run noticed it.

    `is_read` says whether all records from before the producers knew the new partitions are read.
    """

    before: int
    partitions: int
    noticed_at: datetime
    is_read: bool = False


@dataclass(frozen=True)
class Topic:
    """The current state of a topic.

    `checkpoint` is the first checkpoint that may continue it, `go_on_at` the offset after the last lost one. A partition that
    `starts` does not list started at 0, or Bronze had records of it when the row was written. `starts` is None for rows of
    0.2. `growth` is the last growth of the incarnation. `skipped` is None unless the last run skipped the topic; it has the
    corrupt batch if that was the reason.
    """

    name: str
    incarnation: int
    topic_id: str | None
    checkpoint: int
    go_on_at: Mapping[int, int]
    starts: Mapping[int, int] | None = None
    growth: Growth | None = None
    skipped: tuple[LostRange, ...] | None = None

    @property
    def stored_as(self) -> str:
        """The topic's name in all tables."""
        return _stored_as(self.name, self.incarnation)

    @property
    def is_resumed(self) -> bool:
        """Whether an operator accepted a break of the topic. The settings then no longer determine its start."""
        return self.incarnation > 1 or bool(self.go_on_at)

    def with_partitions(self, partitions: Iterable[int]) -> Topic:
        """Add new partitions, which start at 0. Returns the topic unchanged if its rows are of 0.2.

        >>> Topic("t", 1, None, 1, {}, {0: 7}).with_partitions([0, 1]).starts
        {0: 7, 1: 0}
        """
        return self if self.starts is None else replace(self, starts={**dict.fromkeys(sorted(partitions), 0), **self.starts})


def read(spark: SparkSession, run: Run) -> dict[str, Topic]:
    """Read the known topics, by name in Kafka. Raises a `TableMissingError` or a `ContractError`."""
    table = run.table(BRONZE_TOPICS)
    rows = tables.require_columns(spark, table, TOPICS)
    if rows is None:
        raise TableMissingError("The table does not exist.", where=str(table))
    return known(small_tables.read(spark, table, rows.columns))


def known(rows: Iterable[Mapping[str, Any]]) -> dict[str, Topic]:
    """Merge the table's rows: a topic's last row wins, the losses of its incarnation accumulate, and a start stays known.

    >>> row = {"topic": "t", "incarnation": 1, "checkpoint": 1, "known_since": 1, "topic_id": "a"}
    >>> lost = [[{"partition": partition, "last_offset": 4}] for partition in (0, 1)]
    >>> known({**row, "checkpoint": nth, "lost": each} for nth, each in enumerate(lost))["t"].go_on_at
    {0: 5, 1: 5}
    >>> known([{**row, "lost": None, "starting_offsets": [{"partition": 0, "offset": 7}]}, {**row, "lost": None}])["t"].starts
    {0: 7}
    >>> begun, again = ({**row, "known_since": at, "lost": None} for at in (1, 3))
    >>> skipped = {**row, "known_since": 2, "cause": UNREADABLE, "lost": None}
    >>> known([begun, skipped])["t"].skipped, known([begun, skipped, again])["t"].skipped
    ((), None)
    """
    return {topic.name: topic for topic in _incarnations(rows)}


def grown(rows: Iterable[Mapping[str, Any]]) -> dict[str, Growth]:
    """Return the last growth of each incarnation that got partitions while it was read, by its name in the tables.

    >>> row = {"topic": "t", "incarnation": 1, "topic_id": None, "checkpoint": 1, "lost": None}
    >>> starts = [[{"partition": each, "offset": 0} for each in range(partitions)] for partitions in (2, 4)]
    >>> rows = [{**row, "known_since": nth, "starting_offsets": each} for nth, each in enumerate(starts)]
    >>> grown(rows)
    {'t': Growth(before=2, partitions=4, noticed_at=1, is_read=False)}
    >>> grown([*rows, {**rows[-1], "known_since": 2, "cause": "grown"}])["t"].is_read
    True
    """
    return {topic.stored_as: topic.growth for topic in _incarnations(rows) if topic.growth}


def _incarnations(rows: Iterable[Mapping[str, Any]]) -> list[Topic]:
    found: dict[tuple[str, int], Topic] = {}
    for row in sorted(rows, key=lambda row: (row["incarnation"], row["checkpoint"], row["known_since"])):
        name, incarnation = row["topic"], row["incarnation"]
        known_topic = found.get((name, incarnation))
        if row.get("cause") == UNREADABLE:
            if known_topic:
                lost_batch = tuple(LostRange(**each) for each in row["lost"] or ())
                found[name, incarnation] = replace(known_topic, skipped=lost_batch)
            continue
        before = known_topic or Topic(name, incarnation, None, row["checkpoint"], {})
        lost = {each["partition"]: each["last_offset"] + 1 for each in row["lost"] or ()}
        listed, starts, growth = row.get("starting_offsets"), before.starts, before.growth
        if listed is not None:
            starts = {each["partition"]: each["offset"] for each in listed}
            if before.starts and len(starts) > len(before.starts):
                growth = Growth(len(before.starts), len(starts), row["known_since"])
        if growth and row.get("cause") == GROWN:
            growth = replace(growth, is_read=True)
        topic_id, go_on_at = row["topic_id"] or before.topic_id, {**before.go_on_at, **lost}
        found[name, incarnation] = Topic(name, incarnation, topic_id, row["checkpoint"], go_on_at, starts, growth)
    return list(found.values())


def continued(rows: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the incarnations that continue an earlier numbering, each with the earlier incarnations, by table name.

    >>> numbering = {1: None, 2: "same", 3: "same", 4: "new", 5: "same"}
    >>> continued({"topic": "t", "incarnation": number, "numbering": each} for number, each in numbering.items())
    (('t@2', ('t',)), ('t@3', ('t', 't@2')), ('t@5', ('t@4',)))
    """
    found: dict[str, tuple[str, ...]] = {}
    for row in sorted(rows, key=lambda row: (row["topic"], row["incarnation"])):
        if row["numbering"] == SAME:
            before = _stored_as(row["topic"], row["incarnation"] - 1)
            found[_stored_as(row["topic"], row["incarnation"])] = (*found.get(before, ()), before)
    return tuple(found.items())


def _stored_as(name: str, incarnation: int) -> str:
    return f"{name}@{incarnation}" if incarnation > 1 else name


def write_skipped(spark: SparkSession, run: Run, known: Mapping[str, Topic], errors: Mapping[str, SourceError]) -> None:
    """Append a row for each topic that is skipped, unless the last run skipped it for the same reason. At most one commit."""
    listed = small_tables.read(spark, run.table(BRONZE_TOPICS), ("topic", "cause", "reason", "known_since"))
    last = {row["topic"]: row for row in sorted(listed, key=lambda row: row["known_since"])}
    rows = []
    for name, error in errors.items():
        before = last.get(name, {"cause": None})
        if before["cause"] != UNREADABLE or not before["reason"].startswith(error.what):  # what it observed may grow
            row = _row(replace(known.get(name, Topic(name, 1, None, 1, {})), starts=None))
            lost = [vars(LostRange(*each)) for each in getattr(error, "lost", ())] or None
            rows.append({**row, "cause": UNREADABLE, "reason": error.reason, "lost": lost})
    _append(spark, run, rows)


def create(spark: SparkSession, run: Run) -> None:
    """Create the table, or add the columns that one of an earlier version lacks."""
    tables.create(spark, run.table(BRONZE_TOPICS), TOPICS)


def of_records(spark: SparkSession, run: Run) -> dict[str, Topic]:
    """Return the topics with the incarnations that Bronze's records show. Reads all of Bronze."""
    held = spark.read.table(run.table(BRONZE_RECORDS).sql).select("topic").distinct().collect()
    found = [Topic(plain_topic(each), int(each.partition("@")[2] or 1), None, 1, {}) for each in sorted(row[0] for row in held)]
    return {topic.name: topic for topic in sorted(found, key=lambda topic: topic.incarnation)}


def write_begun(spark: SparkSession, run: Run, topics: Iterable[Topic]) -> None:
    """Append a row for each topic whose reading starts, in one commit."""
    _append(spark, run, [{**_row(topic), "cause": BEGUN} for topic in topics])


def write_grown(spark: SparkSession, run: Run, topics: Iterable[Topic]) -> None:
    """Append a row per grown topic whose records from before the producers knew the new partitions are all read."""
    _append(spark, run, [{**_row(topic), "cause": GROWN} for topic in topics])


def write_accepted(
    spark: SparkSession, run: Run, topic: Topic, lost: Iterable[LostRange], decision: Mapping[str, object]
) -> None:
    """Append the row that lets the next run continue a topic after a break, in one commit.

    `topic` is the topic after the break. `decision` has cause, numbering, load_seq, reason and accepted_by.
    """
    _append(spark, run, [{**_row(topic), **decision, "lost": [vars(each) for each in lost] or None}])


def _row(topic: Topic) -> dict[str, object]:
    starts = None if topic.starts is None else sorted(topic.starts.items())
    return {
        "topic": topic.name,
        "incarnation": topic.incarnation,
        "stored_as": topic.stored_as,
        "topic_id": topic.topic_id,
        "checkpoint": topic.checkpoint,
        "known_since": datetime.now(UTC),
        "starting_offsets": starts and [{"partition": each, "offset": offset} for each, offset in starts],
    }


def _append(spark: SparkSession, run: Run, rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        create(spark, run)
        tables.append(frames.of_contract(spark, rows, TOPICS), run.table(BRONZE_TOPICS), TOPICS)
